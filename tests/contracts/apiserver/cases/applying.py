"""Server-side apply: who owns a field, what happens when two want it, and what goes when an owner lets go."""

from tests.contracts.apiserver.api import APPLY, Api, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, DEPLOYMENT


def _owners(answer: Json) -> dict[str, Json]:
    return {entry["manager"]: entry["fieldsV1"] for entry in answer["metadata"].get("managedFields", ())}


@case(Area.APPLY)
async def applying_what_is_not_there_creates_it(api: Api) -> None:
    answer = await api.apply(WIDGET, widget("one", {"size": 2}, labels={"a": "b"}), "ann")
    assert answer.status == 201
    (entry,) = answer.meta["managedFields"]
    assert entry["operation"] == "Apply"
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:size": {}}}


@case(Area.APPLY)
async def applying_the_same_again_changes_nothing(api: Api) -> None:
    for resource, body in ((WIDGET, widget("one")), (CONFIG_MAP, config_map("one"))):
        first = await api.apply(resource, body, "ann")
        again = await api.apply(resource, body, "ann")
        assert again.status == 200
        assert again.rv == first.rv


@case(Area.APPLY)
async def two_appliers_of_one_field_conflict(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "1"}), "ann")
    refused = await api.apply(CONFIG_MAP, config_map("one", {"a": "2", "c": "2"}), "bob")
    assert refused.status == 409
    assert refused.reason == "Conflict"
    assert [cause["field"] for cause in refused.causes] == [".data.a"]
    assert refused.causes[0]["reason"] == "FieldManagerConflict"


@case(Area.APPLY)
async def a_conflict_names_every_field_and_owner(api: Api) -> None:
    await api.apply(WIDGET, widget("one", {"size": 1, "mode": "a", "labels": {"x": "1"}}), "ann")
    await api.apply(WIDGET, widget("one", {"size": 1, "low": 3}), "carol")
    wanted: Json = {"size": 2, "mode": "b", "labels": {"x": "2"}, "low": 4}
    refused = await api.apply(WIDGET, widget("one", wanted), "bob")
    assert refused.status == 409
    assert len(refused.causes) == 5


@case(Area.APPLY)
async def force_takes_the_field_and_its_ownership(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "1"}), "ann")
    forced = await api.apply(CONFIG_MAP, config_map("one", {"a": "2"}), "bob", force="true")
    assert forced.status == 200
    assert forced["data"] == {"a": "2", "b": "1"}
    assert _owners(forced.body) == {"ann": {"f:data": {"f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}


@case(Area.APPLY)
async def letting_go_of_a_field_removes_it(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "1"}, labels={"x": "y"}), "ann")
    after = await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")
    assert after["data"] == {"a": "1"}
    assert "labels" not in after.meta


@case(Area.APPLY)
async def a_field_with_two_owners_stays_when_one_lets_go(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "1"}), "ann")
    shared = await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "bob")
    assert shared.status == 200
    after = await api.apply(CONFIG_MAP, config_map("one", {"b": "1"}), "ann")
    assert after["data"] == {"a": "1", "b": "1"}
    assert _owners(after.body) == {"ann": {"f:data": {"f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}


@case(Area.APPLY)
async def a_field_a_default_stands_behind_returns_to_it(api: Api) -> None:
    await api.apply(WIDGET, widget("one", {"size": 1, "color": "blue"}), "ann")
    after = await api.apply(WIDGET, widget("one", {"size": 1}), "ann")
    assert after["spec.color"] == "red"


@case(Area.APPLY)
async def an_update_takes_fields_without_asking(api: Api) -> None:
    """Ordinary writes never conflict; the next apply of what they took does, and says from when."""
    applied = await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "1"}), "ann")
    updated = await api.update(CONFIG_MAP, {**applied.body, "data": {"a": "2", "b": "1"}}, fieldManager="bob")
    assert _owners(updated.body)["bob"] == {"f:data": {"f:a": {}}}
    refused = await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "1"}), "ann")
    assert refused.status == 409
    assert 'conflict with "bob" using v1' in refused.message


@case(Area.APPLY)
async def a_patch_owns_what_it_changed(api: Api) -> None:
    await api.create(WIDGET, widget("one"), fieldManager="maker")
    after = await api.patch(WIDGET, "one", {"spec": {"size": 2, "color": "red"}}, fieldManager="patcher")
    assert _owners(after.body)["patcher"] == {"f:spec": {"f:size": {}}}


@case(Area.APPLY)
async def elements_of_a_keyed_list_have_owners_of_their_own(api: Api) -> None:
    ann = widget("one", {"size": 1, "parts": [{"name": "x", "count": 1}, {"name": "y"}]})
    bob = widget("one", {"size": 1, "parts": [{"name": "z", "count": 9}]})
    await api.apply(WIDGET, ann, "ann")
    both = await api.apply(WIDGET, bob, "bob")
    assert [part["name"] for part in both["spec.parts"]] == ["x", "y", "z"]
    conflict = await api.apply(WIDGET, widget("one", {"size": 1, "parts": [{"name": "x", "count": 2}]}), "bob")
    assert [cause["field"] for cause in conflict.causes] == ['.spec.parts[name="x"].count']
    after = await api.apply(WIDGET, widget("one", {"size": 1, "parts": [{"name": "x", "count": 1}]}), "ann")
    assert [part["name"] for part in after["spec.parts"]] == ["x", "z"]


@case(Area.APPLY)
async def containers_merge_by_name_and_ports_by_number(api: Api) -> None:
    ann = _deployment({"name": "main", "image": "m:1", "ports": [{"containerPort": 80}]})
    assert (await api.apply(DEPLOYMENT, ann, "ann")).status == 201
    bob = _deployment({"name": "main", "ports": [{"containerPort": 81}]}, {"name": "side", "image": "s:1"})
    both = await api.apply(DEPLOYMENT, bob, "bob")
    assert both.status == 200
    containers = both["spec.template.spec"]["containers"]
    assert [one["name"] for one in containers] == ["main", "side"]
    assert [one["containerPort"] for one in containers[0]["ports"]] == [80, 81]


def _deployment(*containers: Json) -> Json:
    labels = {"app": "one"}
    template: Json = {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}}
    return {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


@case(Area.APPLY)
async def values_of_a_set_have_owners_of_their_own(api: Api) -> None:
    await api.apply(WIDGET, widget("one", {"size": 1, "tags": ["aa", "bb"]}), "ann")
    both = await api.apply(WIDGET, widget("one", {"size": 1, "tags": ["bb", "cc"]}), "bob")
    assert sorted(both["spec.tags"]) == ["aa", "bb", "cc"]
    after = await api.apply(WIDGET, widget("one", {"size": 1}), "ann")
    assert sorted(after["spec.tags"]) == ["bb", "cc"]


@case(Area.APPLY)
async def an_atomic_list_has_one_owner(api: Api) -> None:
    await api.apply(WIDGET, widget("one", {"size": 1, "steps": ["a", "b"]}), "ann")
    refused = await api.apply(WIDGET, widget("one", {"size": 1, "steps": ["c"]}), "bob")
    assert [cause["field"] for cause in refused.causes] == [".spec.steps"]
    forced = await api.apply(WIDGET, widget("one", {"size": 1, "steps": ["c"]}), "bob", force="true")
    assert forced["spec.steps"] == ["c"]
    assert _owners(forced.body)["ann"] == {"f:spec": {"f:size": {}}}


@case(Area.APPLY)
async def a_key_given_twice_is_refused(api: Api) -> None:
    twice = widget("one", {"size": 1, "parts": [{"name": "x"}, {"name": "x"}]})
    assert (await api.apply(WIDGET, twice, "ann")).status >= 400
    nameless = widget("one", {"size": 1, "parts": [{"count": 2}]})
    assert (await api.apply(WIDGET, nameless, "ann")).status >= 400


@case(Area.APPLY)
async def status_is_applied_apart_and_owned_apart(api: Api) -> None:
    await api.apply(WIDGET, widget("one"), "ann")
    condition = {"type": "Ready", "status": "True"}
    status: Json = {
        "metadata": {"name": "one"},
        "spec": {"size": 50},
        "status": {"phase": "Ready", "conditions": [condition]},
    }
    after = await api.apply(WIDGET, status, "ann", "status")
    assert after.status == 200
    assert after["spec.size"] == 1
    assert after["status.phase"] == "Ready"
    assert sorted(entry.get("subresource", "") for entry in after.meta["managedFields"]) == ["", "status"]
    missing = await api.apply(WIDGET, {"metadata": {"name": "none"}, "status": {"phase": "x"}}, "ann", "status")
    assert missing.status == 404


@case(Area.APPLY)
async def conditions_of_two_controllers_live_side_by_side(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    for manager, kind in (("ann", "Ready"), ("bob", "Drained")):
        status: Json = {"metadata": {"name": "one"}, "status": {"conditions": [{"type": kind, "status": "True"}]}}
        await api.apply(WIDGET, status, manager, "status")
    after = await api.get(WIDGET, "one")
    assert [one["type"] for one in after["status.conditions"]] == ["Ready", "Drained"]
    gone = await api.apply(WIDGET, {"metadata": {"name": "one"}, "status": {}}, "ann", "status")
    assert [one["type"] for one in gone["status.conditions"]] == ["Drained"]


@case(Area.APPLY)
async def an_applier_must_say_who_it_is(api: Api) -> None:
    path = api.path(CONFIG_MAP, "one")
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("one")}
    assert (await api.call("PATCH", path, body, APPLY)).status == 422
    assert (await api.call("PATCH", path, body, APPLY, fieldManager="")).status == 422
    assert (await api.call("PATCH", path, body, APPLY, fieldManager="x" * 129)).status == 422
    assert (await api.patch(CONFIG_MAP, "one", {"data": {"k": "w"}}, force="true")).status == 422


@case(Area.APPLY)
async def an_apply_must_name_what_it_applies(api: Api) -> None:
    path = api.path(CONFIG_MAP, "one")
    kindless: Json = config_map("one")
    assert (await api.call("PATCH", path, kindless, APPLY, fieldManager="ann")).status == 400
    other: Json = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("two")}
    assert (await api.call("PATCH", path, other, APPLY, fieldManager="ann")).status == 400


@case(Area.APPLY)
async def an_apply_bound_to_a_version_is_refused_when_stale(api: Api) -> None:
    first = await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")
    await api.patch(CONFIG_MAP, "one", {"data": {"b": "1"}})
    stale = config_map("one", {"a": "2"}, resourceVersion=first.rv)
    refused = await api.apply(CONFIG_MAP, stale, "ann")
    assert refused.status == 409
    absent = config_map("absent", {"a": "2"}, resourceVersion=first.rv)
    assert (await api.apply(CONFIG_MAP, absent, "ann")).status == 201
    of_another_uid = config_map("none", {"a": "2"}, uid=first.uid)
    assert (await api.apply(CONFIG_MAP, of_another_uid, "ann")).status == 409


@case(Area.APPLY)
async def an_apply_carries_no_managed_fields(api: Api) -> None:
    first = await api.apply(CONFIG_MAP, config_map("one"), "ann")
    refused = await api.apply(CONFIG_MAP, first.body, "ann")
    assert refused.status == 400


@case(Area.APPLY)
async def managed_fields_can_be_wiped(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one"), "ann")
    wiped = await api.patch(CONFIG_MAP, "one", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in wiped.meta


@case(Area.APPLY)
async def an_undeclared_field_cannot_be_applied(api: Api) -> None:
    odd = widget("one", {"size": 1, "colour": "red"})
    assert (await api.apply(WIDGET, odd, "ann")).status >= 400
    odd_map: Json = {**config_map("one"), "dada": {}}
    assert (await api.apply(CONFIG_MAP, odd_map, "ann")).status >= 400


@case(Area.APPLY)
async def a_dry_apply_shows_the_result_and_keeps_nothing(api: Api) -> None:
    assert (await api.apply(WIDGET, widget("one"), "ann", dryRun="All")).status == 201
    assert (await api.get(WIDGET, "one")).status == 404
    first = await api.apply(WIDGET, widget("one"), "ann")
    shown = await api.apply(WIDGET, widget("one", {"size": 9}), "ann", dryRun="All")
    assert shown["spec.size"] == 9
    assert (await api.get(WIDGET, "one")).rv == first.rv


@case(Area.APPLY)
async def an_apply_may_be_written_in_yaml(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  k: 'yes'\n"
    answer = await api.call("PATCH", api.path(CONFIG_MAP, "one"), text, APPLY, fieldManager="ann")
    assert answer.status == 201
    assert answer["data"] == {"k": "yes"}


@case(Area.APPLY)
async def an_applied_finalizer_goes_when_it_is_no_longer_applied(api: Api) -> None:
    held = widget("one", finalizers=["contract.tgp.io/a"])
    await api.apply(WIDGET, held, "ann")
    await api.apply(WIDGET, widget("one", finalizers=["contract.tgp.io/b"]), "bob")
    after = await api.apply(WIDGET, widget("one"), "ann")
    assert after.meta["finalizers"] == ["contract.tgp.io/b"]
