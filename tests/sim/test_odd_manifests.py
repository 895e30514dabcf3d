"""Manifests that are legal and senseless, beside one that is fine: that one is served, the others get a reason."""

from typing import Any

from tests.sim.an_operator import a_class, a_pool
from tests.sim.cluster.manifests import a_job, a_template
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.with_pools import asks, begin, events_of, pod_of, pool_of, requests, runs
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, JOB, POD
from tgp.controllers.pools.plan_reports import EVENTS_PER_OWNER

TERM = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["7"]}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def spread(key: str, **more: Any) -> list[dict[str, Any]]:
    row = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return [{**row, **more}]


ODD: dict[str, tuple[dict[str, Any], str]] = {
    "terms": ({"affinity": required(*(TERM,) * 1000)}, "node selector or affinity"),
    "empty-term": ({"affinity": required({})}, "node selector or affinity"),
    "spread": ({"topologySpreadConstraints": spread("rack")}, "rack: no machine has this label"),
    "claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}, "none does not exist"),
    "another": ({"schedulerName": "theirs"}, "scheduler theirs"),
    "selector": ({"nodeSelector": {"tgp.io/provider": "no-such"}}, "node selector or affinity"),
}
CONTRADICTION = [
    {"key": "tgp.io/gpu-type", "operator": "In", "values": ["T4"]},
    {"key": "tgp.io/gpu-type", "operator": "NotIn", "values": ["T4"]},
]


def test_odd_pods_and_pools_get_a_reason_and_keep_no_other_from_its_machine():
    with sim_env("odd") as env:
        begin(env)
        a_pool(env.world, "contradicts", "rented", template={"spec": {"requirements": CONTRADICTION}}, weight=100)
        a_pool(env.world, "pays-nothing", "rented", maxHourlyPrice="0", weight=100)
        a_pool(env.world, "no-class", "none", weight=100)
        for name, (spec, _) in ODD.items():
            asks(env, name, **spec)
        asks(env, "huge", gpus=2**31)
        asks(env, "said")
        said = {"tgp.io/max-price": "$4", "tgp.io/max-wait": "Never", "tgp.io/gang": "g", "tgp.io/gang-size": "0"}
        env.world.api.local_api.merge_patch(POD, "default", "said", {"metadata": {"annotations": said}})
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
        env.world.api.local_api.merge_patch(POD, "default", "another", {"status": {"conditions": [refused]}}, "status")
        env.until(runs(env, "said"), minutes=20)

        assert [len(row["metadata"]["ownerReferences"]) for row in requests(env)] == [1]
        assert {row["metadata"]["ownerReferences"][0]["name"] for row in requests(env)} == {"pool-0"}
        for name, (_, why) in (*ODD.items(), ("huge", ({}, "too small"))):
            told = dict(events_of(env, name)).get("NotTriggerScaleUp", "")
            assert why in told, (name, told)
        ignored = [text for reason, text in events_of(env, "said") if reason == "AnnotationIgnored"]
        assert sorted(text.split()[1] for text in ignored) == [
            "tgp.io/gang-size",
            "tgp.io/max-price",
            "tgp.io/max-wait",
        ]
        rows = pool_of(env, "contradicts")["status"]["conditions"]
        assert next(row["status"] for row in rows if row["type"] == "Unsatisfiable") == "True"


def test_a_class_that_is_deleted_buys_nothing_more_and_its_machines_serve_on():
    """It goes after them; a pool that is then given another class buys again."""
    with sim_env("class-deleted") as env:
        begin(env)
        asks(env, run_for="9h")
        env.until(runs(env), minutes=20)
        api = env.world.api.local_api
        api.delete(GPU_NODE_CLASS, "", "rented")
        asks(env, "later", run_for="9h")
        env.world.run(minutes=5)

        assert len(requests(env)) == 1
        assert pod_of(env)["status"]["phase"] == "Running"
        assert "is being deleted" in dict(events_of(env, "later"))["NotTriggerScaleUp"]
        a_class(env.world, "another")
        ref = {"spec": {"nodeClassRef": {"name": "another"}}}
        api.merge_patch(GPU_NODE_POOL, "default", "pool-0", ref)
        env.until(runs(env, "later"), minutes=20)
        assert {row["spec"]["nodeClassRef"]["name"] for row in requests(env)} >= {"another"}
        assert pod_of(env)["status"]["phase"] == "Running"


def test_of_the_pods_of_one_owner_ten_are_told_in_one_plan():
    with sim_env("ten told") as env:
        begin(env)
        template = a_template(gpus=1000, run_for="10m", restartPolicy="Never", tolerations=[{"operator": "Exists"}])
        env.world.api.local_api.create(JOB, a_job(template=template, parallelism=12, completions=12))
        env.world.run(minutes=3)

        names = [row["metadata"]["name"] for row in env.world.api.local_api.objects(POD)]
        assert len(names) == 12
        told = [name for name in names if "NotTriggerScaleUp" in dict(events_of(env, name))]
        assert len(told) == EVENTS_PER_OWNER == 10
