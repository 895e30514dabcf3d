"""Pruning and defaulting, as the API server does before it validates."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.api.crds import crds
from tgp.api.validation import default, prune, unknown_fields

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3},
                "name": {"type": "string"},
                "maybe": {"type": "string", "nullable": True},
                "inner": {
                    "type": "object",
                    "default": {},
                    "properties": {"mode": {"type": "string", "default": "Active"}},
                },
                "absent": {"type": "object", "properties": {"mode": {"type": "string", "default": "Active"}}},
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
                },
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "object", "properties": {}}},
                },
            },
        }
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcde"), inner, max_size=3),
    max_leaves=12,
)
OURS = [definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for definition in crds(legacy=True)]


def a(**spec):
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


def test_what_the_schema_does_not_know_is_removed_and_named():
    made = a(size=1, nonsense=1, inner={"mod": "x"}, list=[{"on": True}, {"of": 1}], map={"any": "key"})

    assert unknown_fields(SCHEMA, made) == ["spec.inner.mod", "spec.list[1].of", "spec.nonsense"]
    assert prune(SCHEMA, made) == a(size=1, inner={}, list=[{"on": True}, {}], map={"any": "key"})


def test_metadata_is_not_the_schemas_business_but_has_a_shape_of_its_own():
    made = {**a(), "metadata": {"name": "x", "labels": {"any": "thing"}, "nonsense": 1}}

    assert prune(SCHEMA, made) == {**a(), "metadata": {"name": "x", "labels": {"any": "thing"}}}
    assert unknown_fields(SCHEMA, made) == ["metadata.nonsense"]


def test_free_fields_are_kept_but_known_ones_inside_them_are_pruned():
    made = a(free={"any": {"thing": 1}, "known": {"thing": 1}})

    assert prune(SCHEMA, made) == a(free={"any": {"thing": 1}, "known": {}})
    assert unknown_fields(SCHEMA, made) == ["spec.free.known.thing"]


def test_defaults_are_filled_in_also_inside_objects_that_default_to_nothing():
    assert default(SCHEMA, a(list=[{}])) == a(size=3, inner={"mode": "Active"}, list=[{"on": True}])


def test_an_object_that_is_absent_and_has_no_default_stays_absent():
    assert "absent" not in default(SCHEMA, a())["spec"]
    assert default(SCHEMA, a(absent={}))["spec"]["absent"] == {"mode": "Active"}


def test_a_null_counts_as_absent_unless_it_is_allowed():
    filled = default(SCHEMA, a(size=None, name=None, maybe=None, map={"k": None}))

    assert filled["spec"]["size"] == 3
    assert "name" not in filled["spec"]
    assert filled["spec"]["maybe"] is None
    assert filled["spec"]["map"] == {}


def test_nothing_is_changed_in_place():
    made = a(nonsense=1, inner={"x": 1}, list=[{}], name=None)
    before = copy.deepcopy(made)
    prune(SCHEMA, made)
    default(SCHEMA, made)

    assert made == before
    first, second = default(SCHEMA, a()), default(SCHEMA, a())
    first["spec"]["inner"]["mode"] = "changed"
    assert second["spec"]["inner"]["mode"] == "Active"


@settings(deadline=None)  # the machine may be busy with other things
@given(st.sampled_from(OURS), JSON)
def test_pruning_and_defaulting_twice_is_the_same_as_once(schema, spec):
    made = {"spec": spec}
    once = default(schema, prune(schema, made))

    assert default(schema, prune(schema, once)) == once
    assert unknown_fields(schema, prune(schema, made)) == []
