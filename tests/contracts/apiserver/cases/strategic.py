"""More of the strategic merge patch: the lists kubectl and kubelets touch, each with its own key."""

from tests.contracts.apiserver.api import STRATEGIC, Api, Json
from tests.contracts.apiserver.kinds import config_map
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, DEPLOYMENT, NODE, SECRET, SERVICE_ACCOUNT


def _deployment() -> Json:
    labels = {"app": "one"}
    spec: Json = {
        "initContainers": [{"name": "init", "image": "i:1"}],
        "containers": [
            {
                "name": "main",
                "image": "m:1",
                "volumeMounts": [{"name": "v1", "mountPath": "/a"}, {"name": "v2", "mountPath": "/b"}],
                "args": ["one", "two"],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
        "volumes": [{"name": "v1", "emptyDir": {}}, {"name": "v2", "configMap": {"name": "c"}}],
        "imagePullSecrets": [{"name": "s1"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
    }
    template: Json = {"metadata": {"labels": labels, "annotations": {"x": "y"}}, "spec": spec}
    return {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


async def _after(api: Api, **spec: object) -> Json:
    patch: Json = {"spec": {"template": {"spec": spec}}}
    answer = await api.patch(DEPLOYMENT, "one", patch, kind=STRATEGIC)
    assert answer.status == 200, answer.body
    found: Json = answer["spec.template.spec"]
    return found


@case(Area.PATCH)
async def volumes_and_mounts_merge_by_their_keys(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    mounts: list[Json] = [{"mountPath": "/b", "name": "v1"}, {"mountPath": "/c", "name": "v1"}]
    after = await _after(api, containers=[{"name": "main", "volumeMounts": mounts}])
    shown = {one["mountPath"]: one["name"] for one in after["containers"][0]["volumeMounts"]}
    assert shown == {"/a": "v1", "/b": "v1", "/c": "v1"}
    after = await _after(api, volumes=[{"name": "v2", "emptyDir": {}, "$retainKeys": ["name", "emptyDir"]}])
    assert {"name": "v2", "emptyDir": {}} in after["volumes"]


@case(Area.PATCH)
async def init_containers_pull_secrets_and_aliases_merge_by_their_keys(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    after = await _after(
        api,
        initContainers=[{"name": "init", "image": "i:2"}, {"name": "more", "image": "n:1"}],
        imagePullSecrets=[{"name": "s2"}],
        hostAliases=[{"ip": "10.0.0.2", "hostnames": ["b"]}],
    )
    assert {one["name"]: one["image"] for one in after["initContainers"]} == {"init": "i:2", "more": "n:1"}
    assert {one["name"] for one in after["imagePullSecrets"]} == {"s1", "s2"}
    assert {one["ip"] for one in after["hostAliases"]} == {"10.0.0.1", "10.0.0.2"}


@case(Area.PATCH)
async def arguments_are_replaced_and_resources_merged(api: Api) -> None:
    await api.create(DEPLOYMENT, _deployment())
    container: Json = {"name": "main", "args": ["three"], "resources": {"limits": {"cpu": "2", "memory": None}}}
    after = await _after(api, containers=[container])
    assert after["containers"][0]["args"] == ["three"]
    assert after["containers"][0]["resources"]["limits"] == {"cpu": "2"}


@case(Area.PATCH)
async def a_node_s_conditions_merge_by_type_and_its_taints_are_replaced(api: Api) -> None:
    name = "case-node-strategic"
    await api.quiet.create(NODE, {"metadata": {"name": name}})
    ready: Json = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    await api.patch(NODE, name, {"status": {"conditions": [ready]}}, "status", kind=STRATEGIC)
    pressure: Json = {"type": "DiskPressure", "status": "False"}
    after = await api.patch(NODE, name, {"status": {"conditions": [pressure]}}, "status", kind=STRATEGIC)
    assert {one["type"] for one in after["status.conditions"]} == {"Ready", "DiskPressure"}
    tainted = await api.patch(NODE, name, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, kind=STRATEGIC)
    more = await api.patch(NODE, name, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, kind=STRATEGIC)
    api.note("taints", [tainted["spec.taints"], more["spec.taints"]])
    await api.quiet.delete(NODE, name)


@case(Area.PATCH)
async def maps_merge_and_lose_keys_by_null(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one", {"a": "1", "b": "2"}, labels={"x": "y"}))
    patch: Json = {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"x": None}, "annotations": {"n": "1"}}}
    after = await api.patch(CONFIG_MAP, "one", patch, kind=STRATEGIC)
    assert after["data"] == {"b": "2", "c": "3"}
    assert after["metadata.annotations"] == {"n": "1"}
    emptied = await api.patch(CONFIG_MAP, "one", {"data": {"$patch": "delete"}}, kind=STRATEGIC)
    assert not emptied["data"]


@case(Area.PATCH)
async def owner_references_merge_by_uid(api: Api) -> None:
    owners = [await api.create(CONFIG_MAP, config_map(name)) for name in ("x", "y")]
    references: list[Json] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": one.meta["name"], "uid": one.uid} for one in owners
    ]
    await api.create(CONFIG_MAP, config_map("one", ownerReferences=references[:1]))
    added = await api.patch(CONFIG_MAP, "one", {"metadata": {"ownerReferences": references[1:]}}, kind=STRATEGIC)
    assert {one["name"] for one in added.meta["ownerReferences"]} == {"x", "y"}
    gone: Json = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owners[0].uid}]}}
    after = await api.patch(CONFIG_MAP, "one", gone, kind=STRATEGIC)
    assert [one["name"] for one in after.meta["ownerReferences"]] == ["y"]


@case(Area.PATCH)
async def secrets_and_accounts_take_strategic_patches(api: Api) -> None:
    await api.create(SECRET, {"metadata": {"name": "one"}, "stringData": {"a": "b"}})
    after = await api.patch(SECRET, "one", {"data": {"c": "ZA=="}}, kind=STRATEGIC)
    assert after["data"] == {"a": "Yg==", "c": "ZA=="}
    await api.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}, "imagePullSecrets": [{"name": "one"}]})
    patch: Json = {"imagePullSecrets": [{"name": "two"}]}
    account = await api.patch(SERVICE_ACCOUNT, "robot", patch, kind=STRATEGIC)
    assert account["imagePullSecrets"] == [{"name": "two"}]  # a pod's merge by name, an account's do not


@case(Area.PATCH)
async def a_strategic_patch_bound_to_a_version_is_refused_when_stale(api: Api) -> None:
    old = await api.create(CONFIG_MAP, config_map("one"))
    await api.patch(CONFIG_MAP, "one", {"data": {"k": "w"}}, kind=STRATEGIC)
    stale: Json = {"metadata": {"resourceVersion": old.rv}, "data": {"k": "x"}}
    assert (await api.patch(CONFIG_MAP, "one", stale, kind=STRATEGIC)).status == 409
