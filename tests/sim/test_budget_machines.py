"""A machine that is entered in the spend record runs no pods, whatever its Node says; and no other record ends one."""

from datetime import datetime
from typing import Any

import pytest

from tests.sim.an_operator import ALONE, a_class, create, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.test_lifecycle import offered, settings_of
from tgp.api.resource import CONFIG_MAP, GPU_WORKLOAD_BUDGET, NODE, POD
from tgp.core.model.spend import read_line
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

TEAM = {"team": "a"}


def a_pod_on_a_machine(
    env: SimEnv, cloud_fault: CloudFault | None = None, provider: str = "simulated", **pod_spec: Any
) -> str:
    """The name of its Node, which a finalizer of another controller holds."""
    a_class(env.world, "rented", providers=[{"name": provider, "settings": settings_of(provider)}])
    env.world.process("operator", operator_main(ALONE))
    spec = {"selector": {"matchLabels": TEAM}, "quota": {"gpuHours": 100, "windowHours": 24}}
    create(env.world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec={**spec, "enforcement": {"action": "AlertOnly"}})
    env.world.run(minutes=2)
    if cloud_fault is not None:
        env.simulator.faults.aim(cloud_fault, CloudVerb.LAUNCH)
    env.wants(gpuType=offered(env.simulator), idleTimeout="Never")
    env.until(lambda: env.phase() == "Ready", minutes=15)
    node = env.request()["status"]["nodeName"]
    env.world.api.local_api.merge_patch(NODE, "", node, {"metadata": {"finalizers": ["example.org/keep"]}})
    pod = a_pod("one", labels=TEAM, nodeName=node, tolerations=[{"operator": "Exists"}], **pod_spec)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    env.world.api.local_api.create(POD, pod)
    env.world.run(minutes=2)
    return node


def budget(env: SimEnv) -> dict[str, Any]:
    return env.world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", "team-a")["status"]


def entered_at(env: SimEnv) -> datetime:
    maps = env.world.api.local_api.objects(CONFIG_MAP, "tgp-system")
    pages = [found["data"] for found in maps if "tgp-spend" in found["metadata"]["name"]]
    (entry,) = [read_line(key, line) for page in pages for key, line in page.items()]
    assert entry is not None
    return entry.ended


def started_at(env: SimEnv) -> datetime:
    (row,) = env.world.api.local_api.get(POD, "default", "one")["status"]["containerStatuses"]
    return datetime.fromisoformat(row["state"]["running"]["startedAt"])


@pytest.mark.parametrize("restart", [False, True])
def test_a_pod_ends_once_its_machine_is_entered_in_the_spend_record(restart):
    """Its Node stays, silent, because another controller's finalizer holds it, and the pod stays with it."""
    with sim_env("machine entered") as env:
        node = a_pod_on_a_machine(env, CloudFault.PREEMPTED)
        if restart:
            env.until(lambda: env.spend_records() != "", minutes=60, step=0.2)
            env.world.processes["operator"].crash(restart_after=60)
        env.until(lambda: env.spend_records() != "", minutes=60)
        env.world.run(minutes=2)
        lasted = (entered_at(env) - started_at(env)).total_seconds()
        counted = float(budget(env)["consumedGpuHours"]) * 3600
        assert counted == pytest.approx(lasted, abs=3)
        assert budget(env)["gpusInUse"] == "0"
        assert 0 < float(budget(env)["uncertaintyGpuHours"]) * 3600 < lasted, "since the Node's last heartbeat"

        env.world.processes["operator"].crash(restart_after=60)
        env.world.run(hours=1)
        assert env.node(node) is not None
        assert env.world.api.local_api.get(POD, "default", "one") is not None
        assert budget(env)["gpusInUse"] == "0"
        assert float(budget(env)["consumedGpuHours"]) * 3600 == pytest.approx(counted, abs=1)


def a_pod_on_a_machine_that_is_off(env: SimEnv) -> tuple[str, datetime]:
    """Of one you own: its Node, and when the pod started, which ignores its drain."""
    node = a_pod_on_a_machine(env, provider="webhook", terminationGracePeriodSeconds=30 * 86_400)
    ignores = {"metadata": {"annotations": {"sim.tgp.io/stop-takes": "8760h"}}}
    env.world.api.local_api.merge_patch(POD, "default", "one", ignores)
    started = started_at(env)
    env.drops()
    env.until(lambda: env.request() is None, minutes=90)
    env.world.run(minutes=2)
    return node, started


def ready(env: SimEnv, node: str) -> dict[str, Any]:
    found = env.node(node)
    assert found is not None
    return next(row for row in found["status"]["conditions"] if row["type"] == "Ready")


def test_a_pod_that_ignores_its_drain_ends_with_the_machine_you_own():
    """The Node of a machine you own stays, silent, and with it a pod that nothing but its kubelet removes."""
    with sim_env("machine off", "webhook") as env:
        node, started = a_pod_on_a_machine_that_is_off(env)
        counted = float(budget(env)["consumedGpuHours"]) * 3600
        assert env.node(node) is not None
        assert env.world.api.local_api.get(POD, "default", "one") is not None
        assert budget(env)["gpusInUse"] == "0"
        assert counted == pytest.approx((entered_at(env) - started).total_seconds(), abs=20)
        env.world.run(hours=1)
        assert float(budget(env)["consumedGpuHours"]) * 3600 == counted


@pytest.mark.parametrize("away", ["never", "while it is off", "when it returns"])
def test_the_time_for_which_a_machine_you_own_was_off_does_not_count_whoever_leads(away):
    """Off in the evening with a pod that nothing removed, and on again in the morning."""
    with sim_env("machine off", "webhook") as env:
        node, _ = a_pod_on_a_machine_that_is_off(env)
        before = float(budget(env)["consumedGpuHours"]) * 3600
        if away == "while it is off":
            env.world.processes["operator"].crash(restart_after=60)
        env.world.run(hours=12)
        assert float(budget(env)["consumedGpuHours"]) * 3600 == before
        env.wants("again", gpuType=offered(env.simulator), idleTimeout="Never")
        env.until(lambda: ready(env, node)["status"] == "True", minutes=30, step=0.2)
        if away == "when it returns":
            env.world.processes["operator"].crash(restart_after=20)
        env.world.run(minutes=60)
        assert env.world.api.local_api.get(POD, "default", "one") is None, "its kubelet removed it soon"
        assert 0 < float(budget(env)["consumedGpuHours"]) * 3600 - before < 60
