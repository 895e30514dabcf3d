import pytest

from tests.core.terminal.snapshots import an_object
from tgp.interfaces.terminal.keys import LONGEST_FILTER, Glance, keys_in


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        ("\x1b[5~\x1b[6~", ["page up", "page down"]),
        ("\x1b", ["esc"]),
        ("/ml\r", ["/", "m", "l", "enter"]),
        ("\x1b[1;5Cq", ["q"]),  # Ctrl-Right means nothing here
        ("\x1b[", []),
        ("é\x7f", ["é", "back"]),
    ],
)
def test_bytes_of_a_terminal_are_keys(typed, keys):
    assert keys_in(typed) == keys


def after(*keys: str) -> Glance:
    glance = Glance()
    for key in keys:
        glance = glance.after(key)
    return glance


@pytest.mark.parametrize(
    ("keys", "glance"),
    [
        (["q"], Glance(ends=True)),
        (["/", "q"], Glance(filter="q", typing=True)),
        (["/", "m", "l", "back", "enter"], Glance(filter="m")),
        (["/", "m", "enter", "esc"], Glance()),
        (["/", "m", "esc"], Glance()),
        (["down", "down", "up"], Glance(scroll=1)),
        (["up"], Glance()),
        (["page down", "/", "m"], Glance(filter="m", typing=True)),  # a shorter list begins at its top
        (["?"], Glance(help=True)),
        (["?", "?"], Glance()),
        (["x"], Glance()),
        (["/", *"a" * 100], Glance(filter="a" * LONGEST_FILTER, typing=True)),
        (["/", "up"], Glance(typing=True)),
    ],
)
def test_keys_change_how_one_looks(keys, glance):
    assert after(*keys) == glance


def test_one_cannot_scroll_beyond_the_last_object():
    objects = (an_object("ml/a"), an_object("ml/b"), an_object("web/c"))

    assert Glance(scroll=9).within(objects).scroll == 2
    assert Glance(filter="ml/", scroll=9).within(objects).scroll == 1
    assert Glance(scroll=1).within(()).scroll == 0
