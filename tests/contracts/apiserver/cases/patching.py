"""The three patches: merge, JSON and strategic."""

from tests.contracts.apiserver.api import JSON_PATCH, MERGE, STRATEGIC, Api, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, DEPLOYMENT


@case(Area.PATCH)
async def a_merge_patch_removes_by_null_and_replaces_lists(api: Api) -> None:
    spec: Json = {"size": 1, "tags": ["aa", "bb"], "labels": {"a": "1", "b": "2"}, "free": {"x": {"y": 1, "z": 2}}}
    await api.create(WIDGET, widget("one", spec, labels={"keep": "1", "drop": "2"}))
    patch: Json = {
        "metadata": {"labels": {"drop": None, "new": "3", "never": None}},
        "spec": {"tags": ["cc"], "labels": {"a": None, "c": "3"}, "free": {"x": {"y": None}, "w": {"deep": None}}},
    }
    after = await api.patch(WIDGET, "one", patch)
    assert after["metadata.labels"] == {"keep": "1", "new": "3"}
    assert after["spec.tags"] == ["cc"]
    assert after["spec.labels"] == {"b": "2", "c": "3"}
    assert after["spec.free"] == {"x": {"z": 2}, "w": {}}


@case(Area.PATCH)
async def a_merge_patch_of_null_removes_a_whole_map(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one", {"a": "1"}, labels={"x": "y"}))
    after = await api.patch(CONFIG_MAP, "one", {"data": None, "metadata": {"labels": None}})
    assert "data" not in after.body
    assert "labels" not in after.meta


@case(Area.PATCH)
async def a_patch_that_changes_nothing_keeps_the_version(api: Api) -> None:
    made = await api.create(CONFIG_MAP, config_map("one"))
    for patch, kind in (
        ({"data": {"k": "v"}}, MERGE),
        ({}, MERGE),
        ({"data": {"absent": None}}, MERGE),
        ([{"op": "replace", "path": "/data/k", "value": "v"}], JSON_PATCH),
        ([], JSON_PATCH),
        ({"data": {"k": "v"}}, STRATEGIC),
    ):
        assert (await api.patch(CONFIG_MAP, "one", patch, kind=kind)).rv == made.rv


@case(Area.PATCH)
async def a_patch_that_names_a_version_is_bound_to_it(api: Api) -> None:
    for resource, body in ((CONFIG_MAP, config_map("one")), (WIDGET, widget("one"))):
        old = await api.create(resource, body)
        label: Json = {"labels": {"a": "b"}, "resourceVersion": old.rv}
        assert (await api.patch(resource, "one", {"metadata": label})).status == 200
        label = {"labels": {"a": "c"}, "resourceVersion": old.rv}
        stale = await api.patch(resource, "one", {"metadata": label})
        assert stale.status == 409
        assert stale.reason == "Conflict"


@case(Area.PATCH)
async def a_patch_that_names_another_uid_is_refused(api: Api) -> None:
    other = await api.create(CONFIG_MAP, config_map("other"))
    for resource, body in ((CONFIG_MAP, config_map("one")), (WIDGET, widget("one"))):
        await api.create(resource, body)
        patch: Json = {"metadata": {"uid": other.uid, "labels": {"a": "b"}}}
        refused = await api.patch(resource, "one", patch)
        assert refused.status in {409, 422}
        assert (await api.get(resource, "one"))["metadata.labels"] is None


@case(Area.PATCH)
async def a_patch_cannot_rename_or_move(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    assert (await api.patch(CONFIG_MAP, "one", {"metadata": {"name": "two"}})).status == 400
    assert (await api.patch(CONFIG_MAP, "one", {"metadata": {"namespace": "elsewhere"}})).status == 400
    assert (await api.patch(CONFIG_MAP, "one", {"kind": "Secret"})).status == 422


@case(Area.PATCH)
async def a_json_patch_knows_its_six_operations(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one", {"a": "1", "b": "2", "c": "3"}, annotations={"x/y": "4"}))
    patch: list[Json] = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/new", "value": "n"},
        {"op": "replace", "path": "/data/a", "value": "10"},
        {"op": "remove", "path": "/data/b"},
        {"op": "copy", "from": "/data/c", "path": "/data/copied"},
        {"op": "move", "from": "/data/c", "path": "/data/moved"},
        {"op": "replace", "path": "/metadata/annotations/x~1y", "value": "40"},
    ]
    after = await api.patch(CONFIG_MAP, "one", patch, kind=JSON_PATCH)
    assert after["data"] == {"a": "10", "new": "n", "copied": "3", "moved": "3"}
    assert after["metadata.annotations"] == {"x/y": "40"}


@case(Area.PATCH)
async def a_json_patch_finds_its_way_in_lists(api: Api) -> None:
    await api.create(WIDGET, widget("one", {"size": 1, "steps": ["one", "two"]}))
    patch: list[Json] = [
        {"op": "add", "path": "/spec/steps/-", "value": "last"},
        {"op": "remove", "path": "/spec/steps/0"},
        {"op": "add", "path": "/spec/steps/0", "value": "first"},
        {"op": "replace", "path": "/spec/steps/1", "value": "middle"},
    ]
    after = await api.patch(WIDGET, "one", patch, kind=JSON_PATCH)
    assert after["spec.steps"] == ["first", "middle", "last"]


@case(Area.PATCH)
async def a_json_patch_whose_test_fails_changes_nothing(api: Api) -> None:
    made = await api.create(CONFIG_MAP, config_map("one"))
    patch: list[Json] = [
        {"op": "replace", "path": "/data/k", "value": "w"},
        {"op": "test", "path": "/data/k", "value": "other"},
    ]
    refused = await api.patch(CONFIG_MAP, "one", patch, kind=JSON_PATCH)
    assert refused.status == 422
    assert (await api.get(CONFIG_MAP, "one")).rv == made.rv


@case(Area.PATCH)
async def a_json_patch_to_nowhere_is_refused(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    for operation in (
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/deep", "value": "x"},
        {"op": "test", "path": "/metadata/labels/none", "value": "x"},
    ):
        assert (await api.patch(CONFIG_MAP, "one", [operation], kind=JSON_PATCH)).status == 422, operation


@case(Area.PATCH)
async def a_json_patch_replaces_a_key_that_was_not_there(api: Api) -> None:
    """RFC 6902 says it must not; the server's library does, and clients have come to rely on it."""
    await api.create(CONFIG_MAP, config_map("one"))
    patch = [{"op": "replace", "path": "/data/none", "value": "x"}]
    assert (await api.patch(CONFIG_MAP, "one", patch, kind=JSON_PATCH))["data"] == {"k": "v", "none": "x"}


@case(Area.PATCH)
async def a_json_patch_that_is_none_is_refused(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    for body in (b"{}", b"nonsense", b'[{"op": "shuffle", "path": "/data"}]'):
        answer = await api.patch(CONFIG_MAP, "one", body, kind=JSON_PATCH)
        assert answer.status in {400, 422}, body


@case(Area.PATCH)
async def a_patch_whose_result_is_invalid_is_refused(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    assert (await api.patch(WIDGET, "one", {"spec": {"size": 1000}})).status == 422
    assert (await api.patch(WIDGET, "one", {"spec": {"size": "large"}})).status == 422
    await api.create(CONFIG_MAP, config_map("one"))
    assert (await api.patch(CONFIG_MAP, "one", {"data": {"k": 5}})).status == 422


@case(Area.PATCH)
async def a_patch_of_an_unknown_kind_is_not_read(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    await api.create(WIDGET, widget("one"))
    assert (await api.patch(CONFIG_MAP, "one", {"data": {}}, kind="application/json")).status == 415
    assert (await api.patch(CONFIG_MAP, "one", {"data": {}}, kind="")).status == 415
    assert (await api.patch(WIDGET, "one", {"spec": {}}, kind=STRATEGIC)).status == 415


def _deployment(**spec: object) -> Json:
    """A template of pods that no controller will touch."""
    pod_spec: Json = {
        "containers": [
            {
                "name": "main",
                "image": "example.org/main:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "web"}],
            },
            {"name": "side", "image": "example.org/side:1"},
        ],
        "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
        "nodeSelector": {"x": "1", "y": "2"},
        **spec,
    }
    labels = {"app": "one"}
    return {
        "metadata": {"name": "one", "finalizers": ["contract.tgp.io/a", "contract.tgp.io/b"]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
        },
    }


def _template(**spec: object) -> Json:
    return {"spec": {"template": {"spec": spec}}}


async def _patched(api: Api, patch: Json) -> Json:
    answer = await api.patch(DEPLOYMENT, "one", patch, kind=STRATEGIC)
    assert answer.status == 200, answer.body
    spec: Json = answer["spec.template.spec"]
    return spec


@case(Area.PATCH)
async def a_strategic_patch_merges_containers_by_name(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    patch = _template(containers=[{"name": "side", "image": "example.org/side:2"}, {"name": "new", "image": "n:1"}])
    spec = await _patched(api, patch)
    images = {one["name"]: one["image"] for one in spec["containers"]}
    assert images == {"main": "example.org/main:1", "side": "example.org/side:2", "new": "n:1"}


@case(Area.PATCH)
async def a_strategic_patch_merges_environment_by_name_and_ports_by_number(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    container: Json = {
        "name": "main",
        "env": [{"name": "B", "value": "20"}, {"name": "C", "value": "3"}],
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}],
    }
    spec = await _patched(api, _template(containers=[container]))
    main = next(one for one in spec["containers"] if one["name"] == "main")
    assert {one["name"]: one["value"] for one in main["env"]} == {"A": "1", "B": "20", "C": "3"}
    assert sorted(one["containerPort"] for one in main["ports"]) == [80, 81]


@case(Area.PATCH)
async def a_strategic_patch_removes_an_element_by_directive(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    gone: list[Json] = [
        {"name": "side", "$patch": "delete"},
        {"name": "main", "env": [{"name": "A", "$patch": "delete"}]},
    ]
    spec = await _patched(api, _template(containers=gone))
    assert [one["name"] for one in spec["containers"]] == ["main"]
    assert [one["name"] for one in spec["containers"][0]["env"]] == ["B"]


@case(Area.PATCH)
async def a_strategic_patch_replaces_lists_without_a_key(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    spec = await _patched(api, _template(tolerations=[{"key": "c", "operator": "Exists"}]))
    assert [one["key"] for one in spec["tolerations"]] == ["c"]


@case(Area.PATCH)
async def a_strategic_patch_replaces_what_it_is_told_to_replace(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    spec = await _patched(api, _template(nodeSelector={"z": "3", "$patch": "replace"}))
    assert spec["nodeSelector"] == {"z": "3"}
    spec = await _patched(api, _template(containers=[{"name": "only", "image": "o:1"}, {"$patch": "replace"}]))
    assert [one["name"] for one in spec["containers"]] == ["only"]


@case(Area.PATCH)
async def a_strategic_patch_removes_by_null(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    spec = await _patched(api, _template(tolerations=None, nodeSelector={"x": None}))
    assert "tolerations" not in spec
    assert spec["nodeSelector"] == {"y": "2"}


@case(Area.PATCH)
async def a_strategic_patch_merges_finalizers_as_a_set(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    more = {"metadata": {"finalizers": ["contract.tgp.io/c", "contract.tgp.io/a"]}}
    after = await api.patch(DEPLOYMENT, "one", more, kind=STRATEGIC)
    assert set(after.meta["finalizers"]) == {"contract.tgp.io/a", "contract.tgp.io/b", "contract.tgp.io/c"}
    fewer = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["contract.tgp.io/a", "contract.tgp.io/c"]}}
    after = await api.patch(DEPLOYMENT, "one", fewer, kind=STRATEGIC)
    assert after.meta["finalizers"] == ["contract.tgp.io/b"]


@case(Area.PATCH)
async def a_strategic_patch_orders_a_list_as_told(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    patch = _template(
        containers=[{"name": "new", "image": "n:1"}],
        **{"$setElementOrder/containers": [{"name": "new"}, {"name": "side"}, {"name": "main"}]},
    )
    spec = await _patched(api, patch)
    assert [one["name"] for one in spec["containers"]] == ["new", "side", "main"]


@case(Area.PATCH)
async def a_strategic_patch_retains_only_the_keys_it_names(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    recreate: Json = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    after = await api.patch(DEPLOYMENT, "one", recreate, kind=STRATEGIC)
    assert after["spec.strategy"] == {"type": "Recreate"}


@case(Area.PATCH)
async def a_strategic_patch_with_an_unknown_directive_is_refused(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    odd = await api.patch(DEPLOYMENT, "one", _template(nodeSelector={"$patch": "shuffle"}), kind=STRATEGIC)
    assert odd.status >= 400
    keyless = await api.patch(DEPLOYMENT, "one", _template(containers=[{"image": "x"}]), kind=STRATEGIC)
    assert keyless.status >= 400
