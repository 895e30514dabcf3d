"""JSON, merge and strategic merge patches, as pure functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.sim.apiserver import schemas
from tgp.sim.apiserver.patch.json_patch import PatchFailed, json_patched
from tgp.sim.apiserver.patch.merge import merge_patched
from tgp.sim.apiserver.patch.strategic import strategic_patched
from tgp.sim.apiserver.status_errors import Failure

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # the table of RFC 7386
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_follows_the_rfc(target, patch, result):
    assert merge_patched(target, patch) == result


@given(target=PLAIN, patch=PLAIN)
def test_a_merge_patch_applied_twice_is_applied_once(target, patch):
    once = merge_patched(target, patch)
    assert merge_patched(once, patch) == once


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/c", "value": 3}], {"a": [1, 2], "b": {"x/y": 1}, "c": 3}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3], "b": {"x/y": 1}}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2], "b": {"x/y": 1}}),
        ([{"op": "remove", "path": "/a/1"}], {"a": [1], "b": {"x/y": 1}}),
        ([{"op": "replace", "path": "/b/x~1y", "value": 2}], {"a": [1, 2], "b": {"x/y": 2}}),
        ([{"op": "replace", "path": "/new", "value": 2}], {"a": [1, 2], "b": {"x/y": 1}, "new": 2}),
        ([{"op": "move", "from": "/a", "path": "/c"}], {"b": {"x/y": 1}, "c": [1, 2]}),
        ([{"op": "copy", "from": "/a/0", "path": "/c"}], {"a": [1, 2], "b": {"x/y": 1}, "c": 1}),
        ([{"op": "test", "path": "/a", "value": [1, 2]}], {"a": [1, 2], "b": {"x/y": 1}}),
        ([{"op": "test", "path": "/none", "value": None}], {"a": [1, 2], "b": {"x/y": 1}}),
        ([{"op": "add", "path": "", "value": {}}], {}),
    ],
)
def test_a_json_patch_does_its_operations_in_order(operations, result):
    target = {"a": [1, 2], "b": {"x/y": 1}}
    assert json_patched(target, operations) == result
    assert target == {"a": [1, 2], "b": {"x/y": 1}}, "the stored object is never changed in place"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "test", "path": "/none", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/a/7"},
        {"op": "replace", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "move", "from": "/none", "path": "/b"},
        {"op": "dance", "path": "/a"},
        {"op": "add", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_an_operation_that_does_not_apply_fails_the_whole_patch(operation):
    with pytest.raises(PatchFailed):
        json_patched({"a": [1, 2]}, [{"op": "add", "path": "/b", "value": 1}, operation])


def test_a_true_is_not_a_one():
    with pytest.raises(PatchFailed):
        json_patched({"a": True}, [{"op": "test", "path": "/a", "value": 1}])


# Strategic merge


def _pod(*containers, **spec):
    return {"spec": {"containers": list(containers), **spec}}


def _strategic(live, patch):
    return strategic_patched(schemas.schema_for("", "v1", "Pod"), live, patch)


def test_containers_merge_by_name_and_keep_the_rest():
    live = _pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    changed = _strategic(live, _pod({"name": "b", "image": "2"}))

    assert {row["name"]: row["image"] for row in changed["spec"]["containers"]} == {"a": "1", "b": "2"}


def test_a_directive_deletes_one_item_or_replaces_all():
    live = _pod({"name": "a"}, {"name": "b"})

    assert _strategic(live, _pod({"name": "a", "$patch": "delete"})) == _pod({"name": "b"})
    assert _strategic(live, _pod({"name": "c"}, {"$patch": "replace"})) == _pod({"name": "c"})
    assert _strategic(live, {"spec": {"$patch": "replace", "hostNetwork": True}}) == {"spec": {"hostNetwork": True}}


def test_the_order_a_patch_asks_for_is_kept():
    live = _pod({"name": "a"}, {"name": "b"}, {"name": "c"})
    patch = {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}}

    assert [row["name"] for row in _strategic(live, patch)["spec"]["containers"]] == ["c", "a", "b"]


def test_primitive_lists_merge_as_sets_and_lose_items_by_name():
    live = {"metadata": {"finalizers": ["x/a", "x/b"]}}

    added = _strategic(live, {"metadata": {"finalizers": ["x/c"]}})
    assert sorted(added["metadata"]["finalizers"]) == ["x/a", "x/b", "x/c"]
    removed = _strategic(live, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}})
    assert removed["metadata"]["finalizers"] == ["x/b"]


def test_atomic_lists_are_replaced():
    live = _pod({"name": "a"}, tolerations=[{"key": "x"}])

    assert _strategic(live, {"spec": {"tolerations": [{"key": "y"}]}})["spec"]["tolerations"] == [{"key": "y"}]


def test_retained_keys_are_all_that_stays():
    schema = schemas.schema_for("apps", "v1", "Deployment")
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    assert strategic_patched(schema, live, patch) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_null_removes_a_field():
    assert _strategic({"spec": {"a": 1, "b": 2}}, {"spec": {"a": None}}) == {"spec": {"b": 2}}


@pytest.mark.parametrize("patch", [_pod({"image": "x"}), {"spec": {"$patch": "shuffle"}}])
def test_a_patch_that_names_no_item_or_an_unknown_directive_is_refused(patch):
    with pytest.raises(Failure):
        _strategic(_pod({"name": "a"}), patch)
