"""A status write says the difference, and nothing when there is none."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tgp.adapters.kube.client import difference, same

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("xy", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=10
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, as written there."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merged(target.get(name), value)
    return target


@given(seen=DOCUMENTS, wanted=DOCUMENTS)
def test_the_server_gets_from_what_we_saw_to_what_we_want(seen: dict, wanted: dict):
    assert same(merged(seen, difference(seen, wanted)), wanted)


@given(seen=DOCUMENTS)
def test_the_same_says_nothing(seen: dict):
    assert difference(seen, dict(reversed(seen.items()))) == {}


@given(seen=DOCUMENTS, wanted=DOCUMENTS, theirs=st.dictionaries(st.sampled_from(["e", "f"]), VALUES))
def test_what_others_wrote_meanwhile_stays(seen: dict, wanted: dict, theirs: dict):
    """A field that neither document mentions is a newer replica's or another controller's."""
    assert merged({**seen, **theirs}, difference(seen, wanted)).items() >= theirs.items()


def test_only_what_changed_is_said():
    seen = {"phase": "Booting", "node": {"name": "a", "ready": False}, "since": "x"}
    wanted = {"phase": "Booting", "node": {"name": "a", "ready": True}}

    assert difference(seen, wanted) == {"node": {"ready": True}, "since": None}


def test_none_is_the_same_as_absent():
    assert difference({}, {"a": None, "b": {"c": None}}) == {"b": {}}
    assert difference({"a": None}, {}) == {}
    assert difference({"b": {}}, {"b": {"c": None}}) == {}


def test_a_boolean_is_no_number():
    assert difference({"a": 1}, {"a": True}) == {"a": True}
    assert difference({"a": 0}, {"a": False}) == {"a": False}
    assert difference({"a": 1}, {"a": 1.0}) == {}


def test_lists_are_replaced_whole():
    assert difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3, "c": None}]}) == {"a": [1, {"b": 3}]}
    assert difference({"a": [{"b": 1}]}, {"a": ({"b": 1, "c": None},)}) == {}
