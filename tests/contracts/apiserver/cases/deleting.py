"""The way out: graces, finalizers, preconditions, owners, whole collections and whole namespaces."""

from tests.contracts.apiserver.api import JSON_PATCH, Api, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, pod, widget
from tests.contracts.apiserver.normal import seconds_between
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, NAMESPACE, POD

HOLD = "contract.tgp.io/hold"
OTHER_HOLD = "contract.tgp.io/other-hold"


@case(Area.DELETION)
async def a_deletion_without_finalizers_is_at_once(api: Api) -> None:
    for resource, body in ((WIDGET, widget("one")), (CONFIG_MAP, config_map("one"))):
        made = await api.create(resource, body)
        answer = await api.delete(resource, "one")
        assert answer.status == 200
        assert answer["status"] == "Success"
        assert answer["details.uid"] == made.uid
        assert (await api.get(resource, "one")).status == 404


@case(Area.DELETION)
async def what_is_missing_cannot_be_deleted(api: Api) -> None:
    assert (await api.delete(WIDGET, "absent")).status == 404
    assert (await api.delete(POD, "absent")).status == 404


@case(Area.DELETION)
async def a_finalizer_holds_the_object_and_marks_it(api: Api) -> None:
    await api.create(WIDGET, widget("one", finalizers=[HOLD]))
    answer = await api.delete(WIDGET, "one")
    assert answer.status == 200
    assert answer.meta["deletionTimestamp"]
    assert answer.meta["deletionGracePeriodSeconds"] == 0
    assert answer.meta["generation"] == 2
    await api.get(WIDGET, "one")


@case(Area.DELETION)
async def a_second_deletion_changes_nothing(api: Api) -> None:
    await api.create(WIDGET, widget("one", finalizers=[HOLD]))
    first = await api.delete(WIDGET, "one")
    second = await api.delete(WIDGET, "one")
    assert second.status == 200
    assert second.meta["deletionTimestamp"] == first.meta["deletionTimestamp"]
    assert second.rv == first.rv


@case(Area.DELETION)
async def removing_the_last_finalizer_deletes(api: Api) -> None:
    made = await api.create(WIDGET, widget("one", finalizers=[HOLD, OTHER_HOLD]))
    async with api.watch(WIDGET, resourceVersion=made.rv) as events:
        await api.delete(WIDGET, "one")
        held = await api.patch(WIDGET, "one", {"metadata": {"finalizers": [OTHER_HOLD]}})
        assert held.status == 200
        assert (await api.get(WIDGET, "one")).status == 200
        last = await api.patch(WIDGET, "one", {"metadata": {"finalizers": None}})
        assert last.status == 200
        assert (await api.get(WIDGET, "one")).status == 404
        assert [event.type for event in await events.take(3)] == ["MODIFIED", "MODIFIED", "DELETED"]


@case(Area.DELETION)
async def the_last_finalizer_can_go_by_update_or_json_patch(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one", finalizers=[HOLD]))
    marked = await api.delete(CONFIG_MAP, "one")
    without = {name: value for name, value in marked.meta.items() if name != "finalizers"}
    assert (await api.update(CONFIG_MAP, {**marked.body, "metadata": without})).status == 200
    assert (await api.get(CONFIG_MAP, "one")).status == 404
    await api.create(CONFIG_MAP, config_map("two", finalizers=[HOLD]))
    await api.delete(CONFIG_MAP, "two")
    patch: list[Json] = [
        {"op": "test", "path": "/metadata/finalizers/0", "value": HOLD},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    assert (await api.patch(CONFIG_MAP, "two", patch, kind=JSON_PATCH)).status == 200
    assert (await api.get(CONFIG_MAP, "two")).status == 404


@case(Area.DELETION)
async def removing_finalizers_of_a_living_object_does_not_delete_it(api: Api) -> None:
    await api.create(WIDGET, widget("one", finalizers=[HOLD]))
    await api.patch(WIDGET, "one", {"metadata": {"finalizers": []}})
    assert (await api.get(WIDGET, "one")).status == 200


@case(Area.DELETION)
async def no_finalizer_may_be_added_to_what_is_going(api: Api) -> None:
    for resource, body in (
        (WIDGET, widget("one", finalizers=[HOLD])),
        (CONFIG_MAP, config_map("one", finalizers=[HOLD])),
    ):
        await api.create(resource, body)
        await api.delete(resource, "one")
        refused = await api.patch(resource, "one", {"metadata": {"finalizers": [HOLD, OTHER_HOLD]}})
        assert refused.status == 422
        assert refused.causes[0]["field"] == "metadata.finalizers"
        swapped = await api.patch(resource, "one", {"metadata": {"finalizers": [OTHER_HOLD]}})
        assert swapped.status == 422


@case(Area.DELETION)
async def what_is_going_can_still_be_written(api: Api) -> None:
    await api.create(WIDGET, widget("one", finalizers=[HOLD]))
    await api.delete(WIDGET, "one")
    assert (await api.patch(WIDGET, "one", {"spec": {"size": 5}}))["spec.size"] == 5
    assert (await api.patch(WIDGET, "one", {"status": {"phase": "Going"}}, "status"))["status.phase"] == "Going"
    undone = await api.patch(WIDGET, "one", {"metadata": {"deletionTimestamp": None}})
    assert undone.meta["deletionTimestamp"]


@case(Area.DELETION)
async def a_deletion_may_be_bound_to_a_uid_and_a_version(api: Api) -> None:
    for resource, body in ((WIDGET, widget("one")), (CONFIG_MAP, config_map("one"))):
        other = await api.create(resource, {**body, "metadata": {"name": "other"}})
        made = await api.create(resource, body)
        wrong_uid = await api.delete(resource, "one", {"preconditions": {"uid": other.uid}})
        assert wrong_uid.status == 409
        wrong_version = await api.delete(resource, "one", {"preconditions": {"resourceVersion": other.rv}})
        assert wrong_version.status == 409
        right = await api.delete(resource, "one", {"preconditions": {"uid": made.uid, "resourceVersion": made.rv}})
        assert right.status == 200


@case(Area.DELETION)
async def a_name_used_again_is_another_object(api: Api) -> None:
    first = await api.create(WIDGET, widget("one"))
    await api.delete(WIDGET, "one")
    second = await api.create(WIDGET, widget("one"))
    assert second.uid != first.uid
    assert second.meta["generation"] == 1
    assert (await api.update(WIDGET, first.body)).status == 409


@case(Area.DELETION)
async def a_name_is_taken_until_its_owner_is_gone(api: Api) -> None:
    for resource, body in ((WIDGET, widget("one")), (CONFIG_MAP, config_map("one"))):
        await api.create(resource, {**body, "metadata": {"name": "one", "finalizers": [HOLD]}})
        await api.delete(resource, "one")
        taken = await api.create(resource, body)
        assert taken.status == 409
        assert taken.message.startswith("object is being deleted: ")


@case(Area.DELETION)
async def a_bound_pod_has_its_grace(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1"}))
    answer = await api.delete(POD, "p")
    assert answer.status == 200
    assert answer.meta["deletionGracePeriodSeconds"] == 30
    ahead = seconds_between(answer.meta["creationTimestamp"], answer.meta["deletionTimestamp"])
    assert 30 <= ahead <= 50
    assert (await api.get(POD, "p")).status == 200
    assert (await api.delete(POD, "p", {"gracePeriodSeconds": 0})).status == 200
    assert (await api.get(POD, "p")).status == 404


@case(Area.DELETION)
async def a_pod_says_how_long_its_grace_is(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1", "terminationGracePeriodSeconds": 7}))
    assert (await api.delete(POD, "p")).meta["deletionGracePeriodSeconds"] == 7


@case(Area.DELETION)
async def a_grace_can_be_shortened_and_never_lengthened(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1"}))
    assert (await api.delete(POD, "p", gracePeriodSeconds=20)).meta["deletionGracePeriodSeconds"] == 20
    assert (await api.delete(POD, "p", gracePeriodSeconds=5)).meta["deletionGracePeriodSeconds"] == 5
    assert (await api.delete(POD, "p", gracePeriodSeconds=60)).meta["deletionGracePeriodSeconds"] == 5


@case(Area.DELETION)
async def an_unbound_pod_goes_at_once(api: Api) -> None:
    await api.quiet.create(POD, pod("p"))
    assert (await api.delete(POD, "p")).meta["deletionGracePeriodSeconds"] == 0
    assert (await api.get(POD, "p")).status == 404


@case(Area.DELETION)
async def a_finished_pod_goes_at_once(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1"}))
    await api.quiet.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "status")
    assert (await api.delete(POD, "p")).status == 200
    assert (await api.get(POD, "p")).status == 404


@case(Area.DELETION)
async def a_forced_deletion_of_a_pod_waits_for_its_finalizers(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1"}, finalizers=[HOLD]))
    assert (await api.delete(POD, "p", gracePeriodSeconds=0)).status == 200
    assert (await api.get(POD, "p")).meta["deletionGracePeriodSeconds"] == 0
    await api.patch(POD, "p", {"metadata": {"finalizers": None}})
    assert (await api.get(POD, "p")).status == 404


@case(Area.DELETION)
async def how_dependants_are_treated_becomes_a_finalizer(api: Api) -> None:
    """The collector that would act on it is another program; the API server only notes the wish."""
    for name, policy, finalizers in (
        ("fore", "Foreground", ["foregroundDeletion"]),
        ("orphan", "Orphan", ["orphan"]),
    ):
        await api.create(WIDGET, widget(name))
        answer = await api.delete(WIDGET, name, {"propagationPolicy": policy})
        assert answer.meta["finalizers"] == finalizers
        assert answer.meta["deletionTimestamp"]
    await api.create(WIDGET, widget("back"))
    await api.delete(WIDGET, "back", propagationPolicy="Background")
    assert (await api.get(WIDGET, "back")).status == 404


@case(Area.DELETION)
async def contradictory_wishes_about_dependants_are_refused(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    both: Json = {"propagationPolicy": "Orphan", "orphanDependents": True}
    assert (await api.delete(WIDGET, "one", both)).status == 422
    assert (await api.delete(WIDGET, "one", {"propagationPolicy": "Sideways"})).status == 422
    assert (await api.delete(WIDGET, "one", {"dryRun": ["Some"]})).status == 422


@case(Area.DELETION)
async def a_collection_is_deleted_through_a_selector(api: Api) -> None:
    start = await api.create(WIDGET, widget("stays", labels={"go": "no"}))
    await api.create(WIDGET, widget("goes", labels={"go": "yes"}))
    await api.create(WIDGET, widget("held", labels={"go": "yes"}, finalizers=[HOLD]))
    async with api.watch(WIDGET, resourceVersion=start.rv, labelSelector="go=yes") as events:
        await events.take(2)
        quiet = await api.quiet.call("DELETE", api.path(WIDGET), labelSelector="go=yes")
        assert quiet.status == 200
        told = sorted((event.type, event.name) for event in await events.take(2))
    assert told == [("DELETED", "goes"), ("MODIFIED", "held")]
    assert (await api.list(WIDGET)).names == ["held", "stays"]


@case(Area.DELETION)
async def a_collection_of_pods_is_deleted_with_their_graces(api: Api) -> None:
    for name, spec in (("bound", {"nodeName": "n1"}), ("loose", {})):
        await api.quiet.create(POD, pod(name, spec))
    answer = await api.quiet.call("DELETE", api.path(POD))
    api.note("the answer", [answer.status, answer.body["kind"], answer.names])
    assert (await api.quiet.list(POD)).names == ["bound"]


@case(Area.DELETION)
async def an_empty_collection_is_deleted_without_complaint(api: Api) -> None:
    assert (await api.call("DELETE", api.path(CONFIG_MAP), labelSelector="none=such")).status == 200


@case(Area.DELETION)
async def owner_references_are_kept(api: Api) -> None:
    owner = await api.create(WIDGET, widget("owner"))
    reference: Json = {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "name": "owner",
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made = await api.create(CONFIG_MAP, config_map("owned", ownerReferences=[reference]))
    assert made.meta["ownerReferences"] == [reference]
    await api.delete(WIDGET, "owner")
    assert (await api.get(CONFIG_MAP, "owned")).status == 200


@case(Area.DELETION)
async def malformed_owner_references_are_refused(api: Api) -> None:
    owner = await api.create(WIDGET, widget("owner"))
    good: Json = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": owner.uid, "controller": True}
    for references in (
        [good, {**good, "name": "y"}],
        [{**good, "uid": ""}],
        [{**good, "name": ""}],
        [{**good, "kind": ""}],
        [{**good, "apiVersion": ""}],
    ):
        assert (await api.create(CONFIG_MAP, config_map("owned", ownerReferences=references))).status == 422, references


@case(Area.DELETION)
async def a_malformed_finalizer_is_refused(api: Api) -> None:
    for resource, body in (
        (CONFIG_MAP, config_map("one", finalizers=["a b"])),
        (WIDGET, widget("one", finalizers=["a b"])),
    ):
        assert (await api.create(resource, body)).status == 422


@case(Area.DELETION)
async def a_namespace_that_is_going_takes_nothing_new(api: Api) -> None:
    name = f"{api.namespace[:50]}-going"
    await api.create(NAMESPACE, {"metadata": {"name": name}})
    existing = CONFIG_MAP.path(name)
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("old")}
    await api.call("POST", existing, body)
    going = await api.delete(NAMESPACE, name)
    assert going["status.phase"] == "Terminating"
    refused = await api.call("POST", existing, {**body, "metadata": {"name": "new"}})
    assert refused.status == 403
    assert refused.causes[0]["reason"] == "NamespaceTerminating"
    custom: Json = {"apiVersion": WIDGET.api_version, "kind": "Widget", **widget("new")}
    assert (await api.call("POST", WIDGET.path(name), custom)).status == 403
    patched = await api.call("PATCH", f"{existing}/old", {"data": {"k": "w"}}, "application/merge-patch+json")
    assert patched.status == 200
    assert (await api.call("DELETE", f"{existing}/old")).status == 200


@case(Area.DELETION)
async def a_namespace_goes_when_its_own_finalizer_is_taken_off(api: Api) -> None:
    name = f"{api.namespace[:50]}-going"
    made = await api.create(NAMESPACE, {"metadata": {"name": name}})
    assert made["spec.finalizers"] == ["kubernetes"]
    assert made["status.phase"] == "Active"
    assert made["metadata.labels"] == {"kubernetes.io/metadata.name": name}
    going = await api.delete(NAMESPACE, name)
    kept = await api.get(NAMESPACE, name)
    assert kept["status.phase"] == "Terminating"
    last: Json = {**going.body, "spec": {"finalizers": []}}
    assert (await api.call("PUT", NAMESPACE.path("", name, "finalize"), last)).status == 200
    assert (await api.get(NAMESPACE, name)).status == 404
