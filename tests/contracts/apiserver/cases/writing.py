"""Creating and updating: who wins, what is refused, what a write may not touch."""

import asyncio
from typing import Any

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import PLAIN, WIDGET, config_map, pod, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, NODE, POD

RIVALS = 6
PATCHERS = 4  # the real server tries a patch five times before it gives up


@case(Area.PATCH)
async def a_stale_update_is_refused(api: Api) -> None:
    for resource, body in ((CONFIG_MAP, config_map("one")), (WIDGET, widget("one"))):
        old = await api.create(resource, body)
        await api.patch(resource, "one", {"metadata": {"labels": {"a": "b"}}})
        answer = await api.update(resource, old.body)
        assert answer.status == 409
        assert answer.reason == "Conflict"


@case(Area.PATCH)
async def an_update_with_the_current_version_succeeds(api: Api) -> None:
    old = await api.create(CONFIG_MAP, config_map("one"))
    new = await api.update(CONFIG_MAP, {**old.body, "data": {"k": "w"}})
    assert new.status == 200
    assert int(new.rv) > int(old.rv)
    assert new.uid == old.uid


@case(Area.PATCH)
async def a_custom_kind_refuses_an_update_without_a_version(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    answer = await api.update(WIDGET, widget("one", {"size": 2}))
    assert answer.status == 422
    assert answer.causes[0]["field"] == "metadata.resourceVersion"


@case(Area.PATCH)
async def a_built_in_kind_takes_an_update_without_a_version(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one", labels={"a": "b"}))
    answer = await api.update(CONFIG_MAP, config_map("one", {"other": "x"}))
    assert answer.status == 200
    assert answer["data"] == {"other": "x"}
    assert answer["metadata.labels"] is None


@case(Area.PATCH)
async def an_update_for_another_uid_is_refused(api: Api) -> None:
    other = await api.create(CONFIG_MAP, config_map("other"))
    for resource, body in ((CONFIG_MAP, config_map("one")), (WIDGET, widget("one"))):
        made = await api.create(resource, body)
        wrong = {**made.body, "metadata": {**made.meta, "uid": other.uid}}
        assert (await api.update(resource, wrong)).status == 409


@case(Area.PATCH)
async def a_body_must_agree_with_its_address(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    path = api.path(CONFIG_MAP, "one")
    assert (await api.call("PUT", path, {**_config_map("two")})).status == 400
    assert (await api.call("PUT", path, _config_map("one", namespace="elsewhere"))).status == 400
    assert (await api.call("PUT", path, _config_map(""))).status == 400
    assert (await api.call("POST", api.path(CONFIG_MAP), _config_map("x", namespace="elsewhere"))).status == 400
    wrong_kind = {**_config_map("one"), "kind": "Secret"}
    assert (await api.call("PUT", path, wrong_kind)).status == 400
    wrong_version = {**widget("w"), "apiVersion": "contract.tgp.io/v9", "kind": "Widget"}
    assert (await api.call("POST", api.path(WIDGET), wrong_version)).status == 400
    assert (await api.call("POST", api.path(WIDGET), {**widget("w"), "kind": "Widget"})).status == 400


def _config_map(name: str, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, **metadata)}


@case(Area.PATCH)
async def an_object_with_a_version_cannot_be_created(api: Api) -> None:
    assert not (await api.create(CONFIG_MAP, config_map("one", resourceVersion="5"))).body.get("data")
    assert not (await api.create(WIDGET, widget("one", resourceVersion="5"))).body.get("spec")


@case(Area.PATCH)
async def a_name_is_taken_once(api: Api) -> None:
    for resource, body in ((CONFIG_MAP, config_map("one")), (WIDGET, widget("one"))):
        await api.create(resource, body)
        again = await api.create(resource, body)
        assert again.status == 409
        assert again.reason == "AlreadyExists"


@case(Area.PATCH)
async def a_drawn_name_follows_its_prefix(api: Api) -> None:
    first = await api.create(CONFIG_MAP, {"metadata": {"generateName": "drawn-"}})
    second = await api.create(CONFIG_MAP, {"metadata": {"generateName": "drawn-"}})
    assert first.meta["name"].startswith("drawn-")
    assert len(first.meta["name"]) == len("drawn-") + 5
    assert first.meta["name"] != second.meta["name"]


@case(Area.PATCH)
async def a_nameless_object_is_refused(api: Api) -> None:
    assert (await api.create(CONFIG_MAP, {"metadata": {}})).status == 422
    assert (await api.create(WIDGET, {"metadata": {}, "spec": {"size": 1}})).status == 422


@case(Area.PATCH)
async def a_malformed_name_is_refused(api: Api) -> None:
    for name in ("Upper", "under_score", "-dash", "x" * 254):
        assert (await api.create(CONFIG_MAP, config_map(name))).status == 422, name
    assert (await api.create(WIDGET, widget("Upper"))).status == 422


@case(Area.PATCH)
async def malformed_labels_and_annotations_are_refused(api: Api) -> None:
    bad = {"labels": {"a b": "c", "ok": "not/ok", "example.org/long": "x" * 64}}
    for resource, body in ((CONFIG_MAP, config_map("one", **bad)), (WIDGET, widget("one", **bad))):
        answer = await api.create(resource, body)
        assert answer.status == 422
        assert {cause["field"] for cause in answer.causes} == {"metadata.labels"}
    assert (await api.create(CONFIG_MAP, config_map("one", annotations={"a b": "c"}))).status == 422


@case(Area.PATCH)
async def what_is_missing_cannot_be_updated_or_patched(api: Api) -> None:
    assert (await api.update(CONFIG_MAP, config_map("none"))).status == 404
    assert (await api.update(WIDGET, widget("none", resourceVersion="5"))).status == 404
    assert (await api.patch(CONFIG_MAP, "none", {"data": {"k": "w"}})).status == 404
    assert (await api.patch(WIDGET, "none", {"status": {"phase": "x"}}, "status")).status == 404


@case(Area.PATCH)
async def a_namespace_must_exist_before_its_objects(api: Api) -> None:
    answer = await api.call("POST", CONFIG_MAP.path("case-no-such-namespace"), _config_map("one"))
    assert answer.status == 404
    answer = await api.call(
        "POST",
        WIDGET.path("case-no-such-namespace"),
        {"apiVersion": WIDGET.api_version, "kind": "Widget", **widget("one")},
    )
    assert answer.status == 404


@case(Area.PATCH)
async def the_server_keeps_its_own_metadata(api: Api) -> None:
    """A client that writes uid-less, dated or numbered metadata does not change what the server knows."""
    made = await api.create(
        WIDGET,
        widget(
            "one", creationTimestamp="2001-01-01T00:00:00Z", generation=77, deletionTimestamp="2001-01-01T00:00:00Z"
        ),
    )
    assert made.meta["generation"] == 1
    assert "deletionTimestamp" not in made.meta
    forged = {**made.meta, "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99}
    del forged["uid"]
    after = await api.update(WIDGET, {**made.body, "metadata": forged})
    assert after.meta["creationTimestamp"] == made.meta["creationTimestamp"]
    assert after.meta["generation"] == 1
    assert after.uid == made.uid


@case(Area.PATCH)
async def an_update_that_changes_nothing_keeps_the_version(api: Api) -> None:
    for resource, body in ((CONFIG_MAP, config_map("one")), (WIDGET, widget("one"))):
        made = await api.create(resource, body)
        again = await api.update(resource, made.body)
        assert again.rv == made.rv


@case(Area.PATCH)
async def of_rival_updates_exactly_one_wins(api: Api) -> None:
    made = await api.create(WIDGET, widget("one"))
    rivals = [{**made.body, "spec": {"size": number + 2}} for number in range(RIVALS)]
    answers = await asyncio.gather(*(api.quiet.update(WIDGET, rival) for rival in rivals))
    api.note("statuses", sorted(answer.status for answer in answers))
    assert sorted(answer.status for answer in answers) == [200] + [409] * (RIVALS - 1)
    kept = await api.quiet.get(WIDGET, "one")
    winner = next(answer for answer in answers if answer.status == 200)
    assert kept["spec"] == winner["spec"]


@case(Area.PATCH)
async def rival_patches_without_a_version_all_land(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one", {}))
    patches = [{"data": {f"k{number}": "x"}} for number in range(PATCHERS)]
    answers = await asyncio.gather(*(api.quiet.patch(CONFIG_MAP, "one", patch) for patch in patches))
    assert {answer.status for answer in answers} == {200}
    kept = await api.quiet.get(CONFIG_MAP, "one")
    api.note("data", kept["data"])
    assert set(kept["data"]) == {f"k{number}" for number in range(PATCHERS)}


@case(Area.PATCH)
async def status_and_spec_are_written_apart(api: Api) -> None:
    made = await api.create(WIDGET, {**widget("one"), "status": {"phase": "Dropped"}})
    assert "status" not in made.body
    both = {**made.body, "spec": {"size": 9}, "status": {"phase": "Ready"}}
    main = await api.update(WIDGET, both)
    assert main["spec.size"] == 9
    assert main["status"] is None
    both = {**main.body, "spec": {"size": 50}, "status": {"phase": "Ready"}}
    status = await api.update(WIDGET, both, "status")
    assert status["spec.size"] == 9
    assert status["status.phase"] == "Ready"
    assert (await api.get(WIDGET, "one", "status"))["status.phase"] == "Ready"


@case(Area.PATCH)
async def a_patch_of_one_half_leaves_the_other(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    both = {"spec": {"size": 9}, "status": {"phase": "Ready"}}
    main = await api.patch(WIDGET, "one", both)
    assert (main["spec.size"], main["status"]) == (9, None)
    status = await api.patch(WIDGET, "one", {"spec": {"size": 50}, "status": {"phase": "Ready"}}, "status")
    assert (status["spec.size"], status["status.phase"]) == (9, "Ready")


@case(Area.PATCH)
async def a_status_write_of_a_custom_kind_leaves_its_metadata(api: Api) -> None:
    made = await api.create(WIDGET, widget("one", labels={"a": "b"}))
    changed = {**made.meta, "labels": {"a": "c"}, "annotations": {"x": "y"}, "finalizers": ["contract.tgp.io/f"]}
    after = await api.update(WIDGET, {**made.body, "metadata": changed, "status": {"phase": "Ready"}}, "status")
    assert after["metadata.labels"] == {"a": "b"}
    assert "finalizers" not in after.meta


@case(Area.PATCH)
async def a_stale_status_write_is_refused(api: Api) -> None:
    old = await api.create(WIDGET, widget("one"))
    await api.patch(WIDGET, "one", {"spec": {"size": 2}})
    assert (await api.update(WIDGET, {**old.body, "status": {"phase": "x"}}, "status")).status == 409


@case(Area.PATCH)
async def generation_counts_changes_of_the_spec_alone(api: Api) -> None:
    steps = [
        (await api.create(WIDGET, widget("one")), 1),
        (await api.patch(WIDGET, "one", {"spec": {"size": 2}}), 2),
        (await api.patch(WIDGET, "one", {"spec": {"size": 2}}), 2),
        (await api.patch(WIDGET, "one", {"metadata": {"labels": {"a": "b"}}}), 2),
        (await api.patch(WIDGET, "one", {"status": {"phase": "Ready"}}, "status"), 2),
        (await api.patch(WIDGET, "one", {"metadata": {"annotations": {"a": "b"}}, "spec": {"size": 3}}), 3),
    ]
    for answer, generation in steps:
        assert answer.meta["generation"] == generation


@case(Area.PATCH)
async def without_a_status_subresource_every_change_but_of_metadata_counts(api: Api) -> None:
    made = await api.create(PLAIN, {"metadata": {"name": "one"}, "spec": {"size": 1}, "status": {"phase": "x"}})
    assert made["status.phase"] == "x"
    assert (await api.patch(PLAIN, "one", {"status": {"phase": "y"}})).meta["generation"] == 2
    assert (await api.patch(PLAIN, "one", {"metadata": {"labels": {"a": "b"}}})).meta["generation"] == 2
    assert (await api.patch(PLAIN, "one", {"status": {"phase": "z"}}, "status")).status == 404


@case(Area.PATCH)
async def unknown_fields_are_refused_told_or_dropped_as_asked(api: Api) -> None:
    odd = widget("one", {"size": 1, "colour": "red"})
    strict = await api.create(WIDGET, odd, fieldValidation="Strict")
    assert strict.status == 400
    warned = await api.create(WIDGET, odd, fieldValidation="Warn")
    assert warned.status == 201
    assert len(warned.warnings) == 1
    ignored = await api.create(WIDGET, {**odd, "metadata": {"name": "two"}}, fieldValidation="Ignore")
    assert ignored.warnings == []
    assert "colour" not in ignored["spec"]
    assert (await api.create(WIDGET, odd, fieldValidation="Maybe")).status == 422


@case(Area.PATCH)
async def unknown_fields_of_a_built_in_kind_are_refused_told_or_dropped(api: Api) -> None:
    odd = {**config_map("one"), "dada": {"k": "v"}, "metadata": {"name": "one", "lables": {}}}
    assert (await api.create(CONFIG_MAP, odd, fieldValidation="Strict")).status == 400
    assert len((await api.create(CONFIG_MAP, odd)).warnings) >= 1
    twice = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two"},"data":{"k":"v","k":"w"}}'
    assert (await api.call("POST", api.path(CONFIG_MAP), twice, fieldValidation="Strict")).status == 400
    patched = await api.patch(CONFIG_MAP, "one", {"dada": "x"}, fieldValidation="Strict")
    assert patched.status == 422


@case(Area.PATCH)
async def a_dry_run_answers_and_keeps_nothing(api: Api) -> None:
    assert (await api.create(WIDGET, widget("one"), dryRun="All")).status == 201
    assert (await api.get(WIDGET, "one")).status == 404
    made = await api.create(WIDGET, widget("one"))
    patched = await api.patch(WIDGET, "one", {"spec": {"size": 5}}, dryRun="All")
    assert patched["spec.size"] == 5
    assert (await api.update(WIDGET, {**made.body, "spec": {"size": 6}}, dryRun="All")).status == 200
    assert (await api.delete(WIDGET, "one", dryRun="All")).status == 200
    assert (await api.get(WIDGET, "one")).rv == made.rv
    assert (await api.create(WIDGET, widget("two", {}), dryRun="All")).status == 422
    assert (await api.create(WIDGET, widget("two"), dryRun="Some")).status == 422


@case(Area.PATCH)
async def an_immutable_config_map_stays_as_it_is(api: Api) -> None:
    await api.create(CONFIG_MAP, {**config_map("one"), "immutable": True})
    assert (await api.patch(CONFIG_MAP, "one", {"data": {"k": "w"}})).status == 422
    assert (await api.patch(CONFIG_MAP, "one", {"immutable": False})).status == 422
    assert (await api.patch(CONFIG_MAP, "one", {"metadata": {"labels": {"a": "b"}}})).status == 200


@case(Area.PATCH)
async def a_pod_changes_its_image_and_little_else(api: Api) -> None:
    made = await api.create(POD, pod("p"))
    assert made.status == 201
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.org/main:2"}]
    assert (await api.patch(POD, "p", image, kind="application/json-patch+json")).status == 200
    refused = await api.quiet.patch(POD, "p", {"spec": {"nodeName": "n1"}})
    api.note("refusal", [refused.status, refused.reason, [cause["field"] for cause in refused.causes]])
    assert refused.status == 422
    tolerations = [*made["spec.tolerations"], {"key": "a", "operator": "Exists"}]
    assert (await api.patch(POD, "p", {"spec": {"tolerations": tolerations}})).status == 200


@case(Area.PATCH)
async def a_node_takes_taints_and_keeps_its_provider_id(api: Api) -> None:
    name = "case-node-taints"
    made = await api.create(NODE, {"metadata": {"name": name}, "spec": {"providerID": "tgp://simulated/one"}})
    assert made.status == 201
    tainted = await api.patch(NODE, name, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    assert tainted.status == 200
    assert (await api.patch(NODE, name, {"spec": {"unschedulable": True}}))["spec.unschedulable"] is True
    assert (await api.patch(NODE, name, {"spec": {"providerID": "tgp://simulated/two"}})).status == 422
    assert (await api.patch(NODE, name, {"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}})).status == 422
    await api.delete(NODE, name)


@case(Area.PATCH)
async def a_body_in_another_language_is_not_read(api: Api) -> None:
    assert (await api.call("POST", api.path(CONFIG_MAP), b"hello", "text/plain")).status == 415
    assert (await api.call("POST", api.path(WIDGET), b"hello", "text/plain")).status == 415
    assert (await api.call("POST", api.path(CONFIG_MAP), b'{"kind": "ConfigMap",')).status == 400
    assert (await api.call("POST", api.path(WIDGET), b'{"kind": "Widget",')).status == 400
    assert (await api.call("POST", api.path(CONFIG_MAP), b"[]")).status == 400


@case(Area.PATCH)
async def a_body_may_be_yaml(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  k: v\n"
    assert (await api.call("POST", api.path(CONFIG_MAP), text, "application/yaml")).status == 201
