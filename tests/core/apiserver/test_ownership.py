"""Server-side apply on plain values: who owns what, who loses what, and what goes when no manager wants it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.api.resource import Resource
from tgp.sim.apiserver.field_manager import ManagedFields, Manager, read_claims, taken
from tgp.sim.apiserver.patch.apply import Application
from tgp.sim.apiserver.patch.fields import read_fields, shown_path, written
from tgp.sim.apiserver.patch.typed import Difference, differ, fields_of, merged
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Failure

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "order": {"type": "array", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "count": {"type": "integer"},
                            "note": {"type": "string"},
                        },
                    },
                },
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
            },
        }
    },
}
WIDGET = Served(
    Resource("x.io", "v1", "widgets", "Widget", namespaced=True), "widget", crd={"spec": {}}, schema=SCHEMA, storage="w"
)
NOW = "2026-01-05T09:00:00Z"


def _apply(live, who, force=False, **spec):
    config = {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": spec}
    if not spec:
        del config["spec"]
    return Application(WIDGET, who, "", NOW, force=force).onto(live, config)


def _owners(obj, path):
    return sorted(claim.manager.name for claim in read_claims(obj) if path in claim.fields)


SIZE = ("f:spec", "f:size")


def test_the_first_to_apply_owns_what_it_applied():
    obj = _apply(None, "ann", size=1, labels={"a": "b"})

    assert obj["spec"] == {"size": 1, "labels": {"a": "b"}}
    assert _owners(obj, SIZE) == ["ann"]
    assert _owners(obj, ("f:spec", "f:labels", "f:a")) == ["ann"]


def test_another_value_is_refused_and_names_the_owner():
    obj = _apply(None, "ann", size=1)
    with pytest.raises(Failure) as refused:
        _apply(obj, "bob", size=2)

    assert refused.value.code == 409
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "ann": .spec.size'
    assert refused.value.details["causes"][0]["field"] == ".spec.size"


def test_force_takes_the_field_from_its_owner():
    obj = _apply(_apply(None, "ann", size=1), "bob", force=True, size=2)

    assert obj["spec"]["size"] == 2
    assert _owners(obj, SIZE) == ["bob"]


def test_the_same_value_is_shared_and_stays_until_the_last_lets_go():
    obj = _apply(_apply(None, "ann", size=1, labels={"a": "b"}), "bob", size=1)
    assert _owners(obj, SIZE) == ["ann", "bob"]
    obj = _apply(obj, "ann", labels={"a": "b"})
    assert obj["spec"]["size"] == 1
    obj = _apply(obj, "bob", labels={"a": "b"})
    assert "size" not in obj["spec"]


def test_items_of_a_keyed_list_have_owners_of_their_own():
    obj = _apply(None, "ann", parts=[{"name": "x", "count": 1}])
    obj = _apply(obj, "bob", parts=[{"name": "y", "count": 2}, {"name": "x", "note": "n"}])
    assert {row["name"]: row for row in obj["spec"]["parts"]} == {
        "x": {"name": "x", "count": 1, "note": "n"},
        "y": {"name": "y", "count": 2},
    }
    obj = _apply(obj, "ann", labels={"a": "b"})
    assert {row["name"]: row for row in obj["spec"]["parts"]} == {
        "x": {"name": "x", "note": "n"},
        "y": {"name": "y", "count": 2},
    }


def test_sets_unite_and_atomic_lists_do_not():
    obj = _apply(None, "ann", tags=["a"], order=["1"])
    obj = _apply(obj, "bob", tags=["b"])
    assert obj["spec"]["tags"] == ["a", "b"]
    with pytest.raises(Failure):
        _apply(obj, "bob", order=["2"])
    obj = _apply(obj, "bob", labels={"x": "y"})
    assert obj["spec"]["tags"] == ["a"]


def test_an_atomic_map_has_one_owner():
    obj = _apply(None, "ann", whole={"a": "1"})
    with pytest.raises(Failure) as refused:
        _apply(obj, "bob", whole={"b": "1"})
    assert refused.value.details["causes"][0]["field"] == ".spec.whole"


def test_an_object_without_managers_belongs_to_its_past():
    live = {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 1}}
    with pytest.raises(Failure) as refused:
        _apply(live, "ann", size=2)
    assert '"before-first-apply" using x.io/v1' in refused.value.message


def test_kubectl_may_take_over_what_its_own_client_side_apply_set():
    last = '{"apiVersion":"x.io/v1","kind":"Widget","metadata":{"name":"one"},"spec":{"size":1}}'
    live = {
        "apiVersion": "x.io/v1",
        "kind": "Widget",
        "metadata": {
            "name": "one",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last},
            "managedFields": [
                {
                    "manager": "kubectl-client-side-apply",
                    "operation": "Update",
                    "apiVersion": "x.io/v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {".": {}, "f:size": {}}},
                }
            ],
        },
        "spec": {"size": 1},
    }

    assert _apply(live, "kubectl", size=2)["spec"]["size"] == 2
    with pytest.raises(Failure):
        _apply(live, "stranger", size=2)


def test_a_claim_sent_by_the_applier_is_refused():
    config = {
        "apiVersion": "x.io/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "managedFields": [{"manager": "x"}]},
    }
    with pytest.raises(Failure) as refused:
        Application(WIDGET, "ann", "", NOW).onto(None, config)
    assert refused.value.code == 400


def test_an_update_takes_what_it_changes_and_others_lose_it():
    ann = ManagedFields(Manager("ann", "Apply", "v1"), frozenset({SIZE, ("f:spec", "f:order")}), NOW)
    change = Difference(modified={SIZE})
    after = {claim.manager.name: claim.fields for claim in taken([ann], Manager("bob", "Update", "v1"), change, NOW)}

    assert after == {"ann": frozenset({("f:spec", "f:order")}), "bob": frozenset({SIZE})}


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), min_size=1),
        "tags": st.lists(st.sampled_from("pq"), unique=True, min_size=1),
        "parts": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("mn")}, optional={"count": st.integers(0, 2)}),
            unique_by=lambda part: part["name"],
            min_size=1,
        ),
    },
)


@given(first=SPECS, second=SPECS)
def test_what_one_manager_applied_last_is_all_that_stays_of_it(first, second):
    """Alone on an object, a manager's object is its configuration."""
    obj = _apply(_apply(None, "ann", **first), "ann", **second)
    left = obj.get("spec", {})

    assert {key: value for key, value in left.items() if value not in ({}, [])} == second


@given(first=SPECS, second=SPECS)
def test_applying_twice_is_applying_once(first, second):
    live = _apply(None, "ann", **first)
    once = _apply(live, "bob", force=True, **second)

    assert _apply(once, "bob", **second) == once


@given(one=SPECS, other=SPECS)
def test_a_merge_holds_everything_the_applied_side_says(one, other):
    both = merged(SCHEMA, {"spec": one}, {"spec": other})
    assert not differ(SCHEMA, merged(SCHEMA, both, {"spec": other}), both).modified


@given(spec=SPECS)
def test_a_set_of_fields_reads_back_as_it_was_written(spec):
    fields = fields_of(SCHEMA, {"spec": spec})
    assert read_fields(written(fields)) == fields


def test_a_conflict_names_list_items_by_their_keys():
    path = ("f:spec", "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name")
    assert shown_path(path) == '.spec.ports[containerPort=80,protocol="TCP"].name'
    assert shown_path(("f:metadata", "f:finalizers", 'v:"x/y"')) == '.metadata.finalizers[="x/y"]'
