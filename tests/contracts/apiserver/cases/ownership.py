"""Server-side apply where it gets subtle: the same name twice, letting go of maps, moving between managers."""

from tests.contracts.apiserver.api import MERGE, Api, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, pod, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, NODE, POD, SECRET


@case(Area.APPLY)
async def applying_and_updating_under_one_name_are_two_managers(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")
    after = await api.patch(CONFIG_MAP, "one", {"data": {"b": "1"}}, fieldManager="ann")
    assert [entry["operation"] for entry in after.meta["managedFields"]] == ["Apply", "Update"]
    refused = await api.apply(CONFIG_MAP, config_map("one", {"a": "1", "b": "2"}), "ann")
    assert refused.status == 409


@case(Area.APPLY)
async def letting_go_of_a_whole_map_leaves_what_others_put_there(api: Api) -> None:
    await api.apply(WIDGET, widget("one", {"size": 1, "labels": {"a": "1"}, "window": {"from": "x"}}), "ann")
    await api.apply(WIDGET, widget("one", {"size": 1, "labels": {"b": "1"}}), "bob")
    after = await api.apply(WIDGET, widget("one", {"size": 1}), "ann")
    assert after["spec.labels"] == {"b": "1"}
    assert after["spec.window"] is None


@case(Area.APPLY)
async def a_value_taken_by_force_can_be_had_again_once_it_is_let_go(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")
    await api.apply(CONFIG_MAP, config_map("one", {"a": "2"}), "bob", force="true")
    gone = await api.apply(CONFIG_MAP, config_map("one", {"b": "2"}), "bob")
    assert gone["data"] == {"b": "2"}
    back = await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")
    assert back["data"] == {"a": "1", "b": "2"}


@case(Area.APPLY)
async def an_empty_map_is_a_wish_about_the_whole_map(api: Api) -> None:
    await api.apply(CONFIG_MAP, config_map("one", {}), "ann")
    refused = await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "bob")
    assert [cause["field"] for cause in refused.causes] == [".data"]


@case(Area.APPLY)
async def letting_go_of_the_last_member_leaves_a_null(api: Api) -> None:
    """Where a custom kind says "object", that null is refused: a status is not emptied by applying an empty one."""
    await api.apply(WIDGET, widget("one", {"size": 1, "free": {"x": {"y": 1}}}), "ann")
    after = await api.apply(WIDGET, widget("one", {"size": 1, "free": {"x": {}}}), "ann")
    assert after["spec.free"] == {"x": None}
    await api.apply(WIDGET, {"metadata": {"name": "one"}, "status": {"phase": "on"}}, "ann", "status")
    emptied = await api.apply(WIDGET, {"metadata": {"name": "one"}, "status": {}}, "ann", "status")
    assert emptied.status == 422


@case(Area.APPLY)
async def a_null_or_empty_wish_is_answered_alike(api: Api) -> None:
    await api.apply(WIDGET, widget("one", {"size": 1, "mode": None, "labels": {}, "tags": []}), "ann")
    await api.apply(CONFIG_MAP, {"metadata": {"name": "one", "labels": {}}, "data": None}, "ann")


@case(Area.APPLY)
async def a_pod_s_environment_and_ports_are_owned_by_key(api: Api) -> None:
    def with_env(name: str) -> Json:
        container: Json = {
            "name": "main",
            "image": "x:1",
            "env": [{"name": name, "value": "1"}],
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
        }
        return pod("p", {"containers": [container]})

    assert (await api.apply(POD, with_env("A"), "ann")).status == 201
    refused = await api.quiet.apply(POD, with_env("B"), "bob")
    api.note("refusal", [refused.status, refused.reason])
    assert refused.status == 422  # what the merge asks for may not change in a pod


@case(Area.APPLY)
async def a_node_s_labels_are_shared_and_its_taints_are_one_thing(api: Api) -> None:
    name = "case-node-applied"
    taint = {"key": "a", "effect": "NoSchedule"}
    body: Json = {"metadata": {"name": name, "labels": {"tgp.io/x": "1"}}, "spec": {"taints": [taint]}}
    await api.apply(NODE, body, "ann")
    labels: Json = {"metadata": {"name": name, "labels": {"tgp.io/y": "1"}}}
    assert (await api.apply(NODE, labels, "bob")).status == 200
    other: Json = {"metadata": {"name": name}, "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    refused = await api.apply(NODE, other, "bob")
    assert refused.status == 409
    assert [cause["field"] for cause in refused.causes] == [".spec.taints"]
    await api.quiet.delete(NODE, name)


@case(Area.APPLY)
async def a_secret_is_applied_plainly_or_encoded(api: Api) -> None:
    plain = await api.apply(SECRET, {"metadata": {"name": "one"}, "stringData": {"a": "b"}}, "ann")
    assert plain.status == 201
    assert plain["data"] == {"a": "Yg=="}
    encoded = await api.apply(SECRET, {"metadata": {"name": "two"}, "data": {"a": "Yg=="}}, "ann")
    assert encoded["data"] == {"a": "Yg=="}


@case(Area.APPLY)
async def owner_references_are_applied_by_uid(api: Api) -> None:
    owners = [await api.create(WIDGET, widget(name)) for name in ("x", "y")]
    references: list[Json] = [
        {"apiVersion": WIDGET.api_version, "kind": "Widget", "name": one.meta["name"], "uid": one.uid} for one in owners
    ]
    await api.apply(CONFIG_MAP, {"metadata": {"name": "one", "ownerReferences": references[:1]}}, "ann")
    both = await api.apply(CONFIG_MAP, {"metadata": {"name": "one", "ownerReferences": references[1:]}}, "bob")
    assert both.meta["ownerReferences"] == references
    after = await api.apply(CONFIG_MAP, {"metadata": {"name": "one"}}, "ann")
    assert after.meta["ownerReferences"] == references[1:]


@case(Area.APPLY)
async def the_first_apply_to_an_unowned_object_finds_an_owner(api: Api) -> None:
    """An object from before ownership was kept belongs to a manager of its own making."""
    await api.create(CONFIG_MAP, config_map("one", {"a": "1"}))
    await api.patch(CONFIG_MAP, "one", {"metadata": {"managedFields": [{}]}})
    refused = await api.apply(CONFIG_MAP, config_map("one", {"a": "2"}), "ann")
    assert refused.status == 409
    assert "before-first-apply" in refused.message
    assert (await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")).status == 200


@case(Area.APPLY)
async def an_apply_of_an_invalid_result_is_refused(api: Api) -> None:
    refused = await api.apply(WIDGET, widget("one", {"size": 500}), "ann")
    assert refused.status == 422
    await api.apply(WIDGET, widget("one", {"size": 1, "low": 5}), "ann")
    broken = await api.apply(WIDGET, widget("one", {"size": 1, "high": 1}), "bob")
    assert broken.status == 422


@case(Area.APPLY)
async def an_apply_while_the_object_is_going_adds_no_finalizer(api: Api) -> None:
    await api.apply(WIDGET, widget("one", finalizers=["contract.tgp.io/a"]), "ann")
    await api.delete(WIDGET, "one")
    assert (await api.apply(WIDGET, widget("one", finalizers=["contract.tgp.io/b"]), "bob")).status == 422
    last = await api.apply(WIDGET, widget("one"), "ann")
    assert last.status == 200
    assert (await api.get(WIDGET, "one")).status == 404


@case(Area.APPLY)
async def managed_fields_that_were_tampered_with_are_answered_alike(api: Api) -> None:
    made = await api.apply(CONFIG_MAP, config_map("one", {"a": "1"}), "ann")
    (entry,) = made.meta["managedFields"]
    renamed = await api.patch(
        CONFIG_MAP, "one", {"metadata": {"managedFields": [{**entry, "manager": "bob"}]}}, kind=MERGE
    )
    assert [one["manager"] for one in renamed.meta["managedFields"]] == ["bob"]
    broken = await api.patch(CONFIG_MAP, "one", {"metadata": {"managedFields": [{**entry, "operation": "Guess"}]}})
    assert broken.rv == renamed.rv  # nonsense is passed over in silence
