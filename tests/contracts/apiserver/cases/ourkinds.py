"""The operator's own kinds, from the definitions it ships: defaults, refusals, what may change, and what is shown."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET, Resource

LEGACY = Resource("budget.zxuhan.dev", "v1alpha1", "gpuworkloadbudgets", "GPUWorkloadBudget", namespaced=True)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
POOL_SPEC: Json = {
    "nodeClassRef": {"kind": "GPUNodeClass", "name": "standard-gpu-class"},
    "template": {
        "spec": {
            "requirements": [{"key": "tgp.io/gpu-type", "operator": "In", "values": ["RTX4090"]}],
            "taints": [{"key": "gpu-node", "value": "true", "effect": "NoSchedule"}],
        }
    },
    "maxHourlyPrice": "2.0",
    "weight": 10,
}
BUDGET_SPEC: Json = {
    "selector": {"matchLabels": {"team": "a"}},
    "quota": {"gpuHours": "100", "windowHours": 24},
    "enforcement": {"action": "AlertOnly", "gracePeriodSeconds": 60},
}
CLASS_SPEC: Json = {"providers": [{"name": "runpod"}, {"name": "simulated", "enabled": False, "priority": 2}]}


def _named(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


async def _refused(api: Api, resource: Resource, spec: Json, field: str) -> None:
    answer = await api.create(resource, _named("refused", spec))
    assert answer.status == 422, (spec, answer.body)
    assert field in {cause["field"] for cause in answer.causes}, answer.causes


@case(Area.OURS)
async def a_request_is_given_its_defaults(api: Api) -> None:
    made = await api.create(GPU_REQUEST, _named("one", {"gpuType": "A100"}))
    assert made.status == 201, made.body
    assert made["spec.gpuCount"] == 1
    assert made["spec.idleTimeout"] == "30m"


@case(Area.OURS)
async def a_malformed_request_is_refused_at_its_field(api: Api) -> None:
    good: Json = {"gpuType": "A100"}
    await _refused(api, GPU_REQUEST, {**good, "gpuCount": 0}, "spec.gpuCount")
    await _refused(api, GPU_REQUEST, {**good, "maxHourlyPrice": "cheap"}, "spec.maxHourlyPrice")
    await _refused(api, GPU_REQUEST, {**good, "maxLifetime": "tomorrow"}, "spec.maxLifetime")
    await _refused(api, GPU_REQUEST, {**good, "restartPolicy": "Perhaps"}, "spec.restartPolicy")
    await _refused(api, GPU_REQUEST, {**good, "regions": ["a", "a"]}, "spec.regions[1]")


@case(Area.OURS)
async def a_request_changes_only_what_it_may(api: Api) -> None:
    await api.create(GPU_REQUEST, _named("one", {"gpuType": "A100"}))
    assert (await api.patch(GPU_REQUEST, "one", {"spec": {"gpuType": "H100"}})).status == 422
    assert (await api.patch(GPU_REQUEST, "one", {"spec": {"spot": True}})).status == 422
    assert (await api.patch(GPU_REQUEST, "one", {"spec": {"idleTimeout": "1h"}})).status == 200
    assert (await api.patch(GPU_REQUEST, "one", {"spec": {"labels": {"a": "b"}}})).status == 200


@case(Area.OURS)
async def a_request_is_followed_through_its_status(api: Api) -> None:
    await api.create(GPU_REQUEST, _named("one", {"gpuType": "A100"}))
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Booting",
        "message": "",
        "lastTransitionTime": "2001-02-03T04:05:06Z",
    }
    status: Json = {"phase": "Booting", "conditions": [condition], "selectedProvider": "simulated"}
    after = await api.patch(GPU_REQUEST, "one", {"status": status}, "status")
    assert after.status == 200, after.body
    assert after.meta["generation"] == 1
    assert (await api.patch(GPU_REQUEST, "one", {"status": {"phase": "Dancing"}}, "status")).status == 422


@case(Area.OURS)
async def a_pool_of_an_early_manifest_applies(api: Api) -> None:
    made = await api.apply(GPU_NODE_POOL, _named("ml-workload-pool", POOL_SPEC), "kubectl")
    assert made.status == 201, made.body
    again = await api.apply(GPU_NODE_POOL, _named("ml-workload-pool", POOL_SPEC), "kubectl")
    assert again.rv == made.rv


@case(Area.OURS)
async def a_malformed_pool_is_refused_at_its_field(api: Api) -> None:
    requirements = "spec.template.spec.requirements"
    for odd in (
        {"key": "tgp.io/gpu-type", "operator": "In"},
        {"key": "tgp.io/gpu-memory", "operator": "Gt", "values": ["many"]},
    ):
        template: Json = {"spec": {"requirements": [odd]}}
        await _refused(api, GPU_NODE_POOL, {**POOL_SPEC, "template": template}, f"{requirements}[0].values")
    labels: Json = {"metadata": {"labels": {"kubernetes.io/hostname": "mine"}}}
    await _refused(api, GPU_NODE_POOL, {**POOL_SPEC, "template": labels}, "spec.template.metadata.labels")
    await _refused(api, GPU_NODE_POOL, {**POOL_SPEC, "weight": 101}, "spec.weight")
    budget: Json = {"disruption": {"budgets": [{"nodes": "1", "schedule": "0 8 * * 1-5"}]}}
    await _refused(api, GPU_NODE_POOL, {**POOL_SPEC, **budget}, "spec.disruption.budgets[0].schedule")


@case(Area.OURS)
async def a_class_is_given_its_defaults(api: Api) -> None:
    name = "case-class-defaults"
    made = await api.create(GPU_NODE_CLASS, _named(name, CLASS_SPEC))
    assert made.status == 201, made.body
    assert made.meta["generation"] == 1
    await api.delete(GPU_NODE_CLASS, name)


@case(Area.OURS)
async def a_malformed_class_is_refused(api: Api) -> None:
    for spec in (
        {"providers": []},
        {"providers": [{"name": "absent"}]},
        {"providers": [{"name": "runpod", "enabled": False}]},
        {"providers": [{"name": "runpod"}, {"name": "runpod"}]},
        {**CLASS_SPEC, "limits": {"maxNodes": 0}},
        {**CLASS_SPEC, "tailscaleConfig": {"tags": ["gpu"]}},
        {**CLASS_SPEC, "selection": "Luck"},
    ):
        assert (await api.create(GPU_NODE_CLASS, _named("case-class-refused", spec))).status == 422, spec


@case(Area.OURS)
async def a_budget_of_an_early_manifest_applies_in_both_groups(api: Api) -> None:
    for resource in (GPU_WORKLOAD_BUDGET, LEGACY):
        made = await api.create(resource, _named("team-a", BUDGET_SPEC))
        assert made.status == 201, made.body
        assert made["spec.quota.windowHours"] == 24


@case(Area.OURS)
async def a_malformed_budget_is_refused(api: Api) -> None:
    """Each with the name of the field."""
    until = {"until": "2026-11-20T18:00:00Z"}
    rows: tuple[tuple[Json, str], ...] = (
        ({"selector": {}}, "spec.selector"),
        ({"selector": {"matchLabels": {"team": "-a-"}}}, "spec.selector.matchLabels[team]"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "spec.selector.matchExpressions[0].operator",
        ),
        ({"quota": {"gpuHours": "0", "windowHours": 24}}, "spec.quota.gpuHours"),
        ({"quota": {"gpuHours": -1, "windowHours": 24}}, "spec.quota.gpuHours"),
        ({"quota": {"gpuHours": "1n", "windowHours": 24}}, "spec.quota.gpuHours"),
        ({"quota": {"gpuHours": "many", "windowHours": 24}}, "spec.quota.gpuHours"),
        ({"quota": {"gpuHours": 1, "windowHours": 0}}, "spec.quota.windowHours"),
        ({"quota": {"gpuHours": 1, "windowHours": -1}}, "spec.quota.windowHours"),
        ({"quota": {"gpuHours": 1, "windowHours": 8785}}, "spec.quota.windowHours"),
        ({"quota": {"gpuHours": 1}}, "spec.quota.windowHours"),
        ({"quota": {"gpuHours": 1, "windowHours": 24, "calendar": "Day"}}, "spec.quota.windowHours"),
        ({"quota": {"gpuHours": 1, "calendar": "Year"}}, "spec.quota.calendar"),
        ({"quota": {"gpuHours": 1, "windowHours": 24, "timeZone": "UTC"}}, "spec.quota.timeZone"),
        (
            {"quota": {"gpuHours": 1, "windowHours": 24, "extra": [{"gpuHours": 1, "until": "friday"}]}},
            "spec.quota.extra[0].until",
        ),
        (
            {"quota": {"gpuHours": 1, "windowHours": 24, "extra": [{"gpuHours": "0", **until}]}},
            "spec.quota.extra[0].gpuHours",
        ),
        ({"weights": [{"gpuType": "H100", "weight": 0}]}, "spec.weights[0].weight"),
        ({"weights": [{"gpuType": "H100", "weight": "-2"}]}, "spec.weights[0].weight"),
        ({"weights": [{"gpuType": "H100", "resource": "a.b/c", "weight": 2}]}, "spec.weights[0].resource"),
        ({"enforcement": {"action": "Shout"}}, "spec.enforcement.action"),
        ({"enforcement": {"action": "Evict", "admission": "Maybe"}}, "spec.enforcement.admission"),
        ({"alerts": [80, "soon"]}, "spec.alerts[1]"),
        ({"alerts": [0]}, "spec.alerts[0]"),
    )
    for change, field in rows:
        await _refused(api, GPU_WORKLOAD_BUDGET, {**BUDGET_SPEC, **change}, field)


@case(Area.OURS)
async def a_budget_keeps_its_resource(api: Api) -> None:
    await api.create(GPU_WORKLOAD_BUDGET, _named("kept", BUDGET_SPEC))
    change = {"spec": {"gpuResourceName": "cpu"}}
    answer = await api.patch(GPU_WORKLOAD_BUDGET, "kept", change)
    assert answer.status == 422, answer.body
    assert {cause["field"] for cause in answer.causes} == {"spec.gpuResourceName"}


@case(Area.OURS)
async def a_name_longer_than_a_label_is_refused(api: Api) -> None:
    assert (await api.create(GPU_REQUEST, _named("n" * 64, {"gpuType": "A100"}))).status == 422
    assert (await api.create(GPU_REQUEST, _named("n" * 63, {"gpuType": "A100"}))).status == 201


@case(Area.OURS)
async def each_kind_is_shown_with_its_columns(api: Api) -> None:
    name = "case-class-table"
    await api.quiet.create(
        GPU_NODE_CLASS, {**_named(name, CLASS_SPEC), "metadata": {"name": name, "labels": {"t": name}}}
    )
    await api.quiet.create(GPU_NODE_POOL, _named("one", POOL_SPEC))
    await api.quiet.create(GPU_REQUEST, _named("one", {"gpuType": "A100"}))
    await api.quiet.create(GPU_WORKLOAD_BUDGET, _named("one", BUDGET_SPEC))
    for resource in (GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET):
        query = {"labelSelector": f"t={name}"} if resource is GPU_NODE_CLASS else {}
        table = await api.quiet.call("GET", api.path(resource), accept=TABLE, **query)
        columns = table.body["columnDefinitions"]
        kept = [place for place, column in enumerate(columns) if column["type"] != "date"]
        rows = [[row["cells"][place] for place in kept] for row in table.body["rows"]]
        api.note(resource.plural, {"columnDefinitions": columns})
        api.note(f"rows of {resource.plural}", rows)
        assert len(rows) == 1
    await api.quiet.delete(GPU_NODE_CLASS, name)


@case(Area.OURS)
async def our_kinds_are_found_by_category_and_short_name(api: Api) -> None:
    async def told(quiet: Api) -> bool:
        answer = await quiet.call("GET", "/apis/tgp.io/v1")
        return answer.status == 200 and len(answer.body["resources"]) == 8

    await api.eventually(told)
    answer = await api.call("GET", "/apis/tgp.io/v1")
    kinds = {one["name"]: one for one in answer.body["resources"] if "/" not in one["name"]}
    assert {name for name, one in kinds.items() if "tgp" in one["categories"]} == set(kinds)
    assert kinds["gpurequests"]["shortNames"] == ["gr"]


@case(Area.OURS)
async def the_owners_of_spec_and_status_do_not_meet(api: Api) -> None:
    await api.apply(GPU_REQUEST, _named("one", {"gpuType": "A100"}), "pool")
    status: Json = {"metadata": {"name": "one"}, "status": {"phase": "Pending", "message": "no offer"}}
    assert (await api.apply(GPU_REQUEST, status, "operator", "status")).status == 200
    after = await api.apply(GPU_REQUEST, _named("one", {"gpuType": "A100", "labels": {"a": "b"}}), "pool")
    assert after.status == 200
    assert after["status.message"] == "no offer"
