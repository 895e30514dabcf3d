"""The judge itself: it must be able to say no, and to go on after it."""

import pytest

from tests.core.talos.a_plan import early_template
from tools.judge import Question
from tools.judge import judge as of_release
from tools.judge.paper import good, written

INSTALL_OPTIONAL_SINCE = 99  # of 1.x: the alpha of 1.14 still wants it


def test_it_accepts_what_is_good_and_refuses_what_is_not(judge, version):
    right = written(good(version))
    verdicts = judge.verdicts(
        [
            Question("right", right),
            Question("unknown key", right.replace("machine:\n", "machine:\n  gpu: yes\n", 1)),
            Question("not YAML", "\t{"),
            Question("no type", right.replace("  type: worker\n", "", 1)),
            Question("right again", right),
        ]
    )

    assert [one.verdict for one in verdicts] == ["accepted", "unreadable", "unreadable", "invalid", "accepted"]


def test_warnings_are_errors_only_where_it_is_strict(judge, version):
    text = written(good(version)).replace("  type: worker\n", "  type: join\n", 1)
    loose, strict = judge.verdicts([Question("loose", text, strict=False), Question("strict", text)])

    assert loose.accepted
    assert loose.warnings
    assert not strict.accepted


def test_metal_wants_to_know_where_to_install(judge, version):
    text = written(good(version))
    (verdict,) = judge.verdicts([Question("metal", text, mode="metal")])

    assert verdict.accepted == (judge.minor >= INSTALL_OPTIONAL_SINCE)


def test_the_early_template_cannot_boot(judge):
    """Which is why old templates are converted."""
    (verdict,) = judge.verdicts([Question("early", early_template())])

    assert verdict.verdict == "unreadable"


def test_a_missing_release_is_reported():
    with pytest.raises(LookupError, match=r"there is no judge of Talos 1\.9; at hand are 1\.13"):
        of_release("1.9")
