"""Pools in a whole world: pods ask, machines come, serve, and go when they are empty."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from tests.amounts import amount
from tests.core.pools.builders import NOW, an_offer
from tests.sim.an_operator import a_class, a_pool, create, writes
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.with_pools import TOLERATES, asks, begin, events_of, pod_of, pool_of, requests, runs
from tgp.adapters.kube.client import KubeCluster
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET, JOB, NAMESPACE, POD
from tgp.controllers.pools import build
from tgp.controllers.pools.memory import PoolMemory
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Refused
from tgp.sim.apiserver.discovery import VERSION
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.compute import InlineCompute
from tgp.sim.faults import swarm
from tgp.sim.node_bootstrap import NodeFault

T = TypeVar("T")


def done(env: SimEnv, job: str) -> bool:
    found = env.world.api.local_api.get(JOB, "default", job)
    return found is not None and found.get("status", {}).get("succeeded") == 1


def test_a_pod_gets_a_machine_which_goes_when_it_is_empty():
    with sim_env("pod") as env:
        begin(env)
        asks(env)
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        env.until(runs(env), minutes=20)
        (request,) = requests(env)
        assert request["metadata"]["ownerReferences"][0]["name"] == "pool-0"
        assert len(env.living()) == 1

        env.until(lambda: requests(env) == [], minutes=60)
        assert env.living() == []
        assert env.nodes() == []


def condition_of(env: SimEnv, kind: str, name: str = "pool-0") -> str:
    rows = pool_of(env, name).get("status", {}).get("conditions", [])
    return next((row["reason"] for row in rows if row["type"] == kind and row["status"] == "True"), "")


def test_the_pod_and_the_pool_tell_what_happens():
    with sim_env("told") as env:
        begin(env)
        asks(env)
        env.until(runs(env), minutes=20)
        env.world.run(minutes=1)

        status = pool_of(env)["status"]
        assert status["nodeCount"] == 1
        assert status["resources"]["nvidia.com/gpu"] == 1
        assert float(status["hourlyCost"]) > 0
        assert (status["lastPlan"]["orders"], status["lastPlan"]["unserved"]) == (1, 0)
        assert [reason for reason, _ in events_of(env)] == ["TriggeredScaleUp"]
        assert "Pool default/pool-0 orders 1x" in events_of(env)[0][1]


class StuckCompute(InlineCompute):
    """Work that has begun ends when it is freed, and not before."""

    def __init__(self) -> None:
        self.stuck = True
        self._freed = asyncio.Event()
        self.begun = 0

    def free(self) -> None:
        self.stuck = False
        self._freed.set()

    async def run(self, work: Callable[[], T]) -> T:
        self.begun += 1
        if self.stuck:
            await self._freed.wait()
        return work()


def test_pods_are_served_by_a_quick_plan_if_the_full_one_does_not_end():
    with sim_env("stuck") as env:
        compute = env.world.compute = StuckCompute()
        begin(env)
        asks(env)
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        env.until(runs(env), minutes=20)
        asks(env, "second")
        env.until(runs(env, "second"), minutes=20)
        assert [reason for reason, _ in events_of(env, "pool-0")].count("PlanCutShort") == 1
        assert len(requests(env)) == 2
        assert "gap" not in pool_of(env)["status"]["lastPlan"]

        compute.free()
        env.world.run(minutes=1)
        asks(env, "third")
        env.until(runs(env, "third"), minutes=20)
        assert pool_of(env)["status"]["lastPlan"]["gap"] == "0%"
        assert [reason for reason, _ in events_of(env, "pool-0")].count("PlanCutShort") == 1


@pytest.mark.parametrize("quick_too", [False, True])
def test_a_world_that_breaks_the_planner_stops_the_pods_of_its_namespace_alone(
    monkeypatch: pytest.MonkeyPatch, quick_too: bool
):
    """A quick plan first; if that raises as well, one for each namespace."""

    def breaks(truly):
        def plan(world):
            if any(pod.key.name == "broken" for pod in world.pods):
                raise ZeroDivisionError("no such number")
            return truly(world)

        return plan

    monkeypatch.setattr(build, "_plan", breaks(build._plan))
    if quick_too:
        monkeypatch.setattr(build, "_quick_plan", breaks(build._quick_plan))
    with sim_env(f"broken-{quick_too}") as env:
        begin(env)
        create(env.world, NAMESPACE, "other")
        env.world.run(minutes=1)
        asks(env, "broken")
        manifest = a_pod("fine", "other", gpus=1, restartPolicy="Never", tolerations=TOLERATES, run_for="3h")
        env.world.api.local_api.create(POD, manifest)
        fine = lambda: (env.world.api.local_api.get(POD, "other", "fine") or {})["status"].get("phase")  # noqa: E731
        env.until(lambda: fine() == "Running", minutes=20)

        if quick_too:
            (text,) = [text for reason, text in events_of(env, "broken") if reason == "NotTriggerScaleUp"]
            assert "The planner failed on the pods of namespace default" in text
            assert "ZeroDivisionError: no such number" in text
            assert all("default/" not in row["metadata"]["annotations"]["tgp.io/pods"] for row in requests(env))
        else:
            env.until(runs(env, "broken"), minutes=20)


def test_pods_that_come_together_are_planned_together():
    """No machine more than pods, and all of them in one plan."""
    with sim_env("together") as env:
        begin(env)
        for number in range(6):
            asks(env, f"train-{number}")
        env.until(lambda: all(runs(env, f"train-{number}")() for number in range(6)), minutes=30)

        made = {row["metadata"]["annotations"]["tgp.io/plan"] for row in requests(env)}
        assert len(made) == 1
        assert 1 <= len(requests(env)) <= 6


def test_a_pool_that_observes_says_what_it_would_buy_and_buys_nothing():
    with sim_env("observe") as env:
        begin(env, mode="Observe")
        asks(env)
        env.world.run(minutes=10)

        assert requests(env) == []
        (row,) = pool_of(env)["status"]["wouldBuy"]
        assert (row["provider"], row["count"]) == ("simulated", 1)
        assert condition_of(env, "Observing") == "Observing"
        ((reason, text),) = events_of(env)
        assert reason == "NotTriggerScaleUp"
        assert "launch nothing: default/pool-0" in text


def test_room_that_another_pod_takes_is_not_counted_again_for_a_pool_that_observes():
    """Once a machine is on its way to one pod, the other needs one of its own."""
    with sim_env("observe-room") as env:
        begin(env, limits={"resources": {"nodes": 1}})
        a_pool(env.world, "look", "rented", mode="Observe")
        asks(env, "train-0")
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        asks(env, "train-1")
        env.world.run(minutes=1)

        (row,) = pool_of(env, "look")["status"]["wouldBuy"]
        assert row["count"] == 1


def test_what_an_observing_pool_would_have_cost_is_added_up_and_survives_a_restart():
    """Counted while pods wait, in few writes; the next process goes on from the status."""
    with sim_env("observed cost") as env:
        begin(env, mode="Observe")
        asks(env)
        env.world.run(minutes=61)
        status = pool_of(env)["status"]
        cost = status["wouldHaveCost"]
        assert status["waitingPods"] == 1
        assert cost["hourlyCost"] == status["wouldBuy"][0]["hourlyPrice"]
        assert float(cost["totalCost"]) == pytest.approx(float(cost["hourlyCost"]), rel=0.02)
        assert len([each for each in writes(env.world) if "/gpunodepools/pool-0/status" in each]) < 12

        env.world.processes["operator-0"].crash(restart_after=5)
        env.world.run(minutes=60)
        later = pool_of(env)["status"]["wouldHaveCost"]
        assert later["since"] == cost["since"]
        assert float(later["totalCost"]) == pytest.approx(2 * float(cost["totalCost"]), rel=0.2)

        env.world.processes["operator-0"].crash(restart_after=60)
        env.world.api.local_api.delete(POD, "default", "train")
        env.world.run(minutes=5)
        status = pool_of(env)["status"]
        assert "wouldBuy" not in status
        assert (status.get("waitingPods", 0), status["lastPlan"]["unserved"]) == (0, 0)
        assert status["wouldHaveCost"]["hourlyCost"] == "0.00"
        env.world.run(minutes=60)
        assert pool_of(env)["status"] == status


def test_pods_wait_until_their_machine_is_there():
    with sim_env("waiting") as env:
        begin(env)
        asks(env)
        asks(env, "huge", gpus=1000)
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        env.world.run(minutes=1)
        status = pool_of(env)["status"]
        assert (status["waitingPods"], status["lastPlan"]["unserved"]) == (2, 1)

        env.until(runs(env), minutes=20)
        env.world.run(minutes=1)
        status = pool_of(env)["status"]
        assert (status["waitingPods"], status["lastPlan"]["unserved"]) == (1, 1)


def test_a_pod_that_no_pool_serves_counts_at_one_of_them():
    """At the one that came nearest: the other sells machines of another model only."""
    with sim_env("counted once") as env:
        begin(env)
        wants = {"key": "tgp.io/gpu-type", "operator": "In", "values": ["H100-80GB-SXM"]}
        a_pool(env.world, "a-large", "rented", template={"spec": {"requirements": [wants]}})
        asks(env, "huge", gpus=1000, nodeSelector={"tgp.io/gpu-type": "T4"})
        asks(env, "claimed", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])
        env.world.run(minutes=3)
        waiting = {name: pool_of(env, name)["status"].get("waitingPods", 0) for name in ("a-large", "pool-0")}
        assert waiting == {"a-large": 1, "pool-0": 1}
        assert pool_of(env)["status"]["lastPlan"]["unserved"] == 2

        env.world.api.local_api.delete(GPU_NODE_CLASS, "", "rented")
        env.world.run(minutes=1)
        assert pool_of(env)["status"].get("waitingPods", 0) == 0


def test_a_pool_without_its_class_buys_nothing_and_the_pod_is_told():
    with sim_env("classless") as env:
        begin(env, of_class=False)
        asks(env)
        env.world.run(minutes=5)

        assert requests(env) == []
        assert [text for _, text in events_of(env)] == [
            "No GPUNodePool can buy; kubectl get gpunodepools -A shows why."
        ]


def test_pools_with_replicas_order_no_more_than_their_class_allows():
    """Planned one after the other: what the first orders counts for the second before anything is reserved."""
    with sim_env("replicas within limits") as env:
        a_class(env.world, "rented", limits={"maxNodes": 3})
        a_pool(env.world, "pool-1", "rented", replicas=2)
        begin(env, of_class=False, replicas=2)
        env.until(lambda: len(env.living()) == 3, minutes=30)
        env.world.run(minutes=5)
        orders = [each.method for each in env.world.effects if "/gpurequests" in each.path]
        assert orders.count("POST") - orders.count("DELETE") == 3  # one more takes the place of one that was sold out


def test_a_pool_with_replicas_has_so_many_machines_used_or_not():
    with sim_env("replicas") as env:
        begin(env, replicas=2)
        env.until(lambda: [row.get("status", {}).get("phase") for row in requests(env)] == ["Ready"] * 2, minutes=30)
        env.world.run(hours=2)
        assert len(env.living()) == 2

        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-0", {"spec": {"replicas": 1}})
        env.until(lambda: len(requests(env)) == 1, minutes=20)
        env.world.run(hours=1)

        assert len(env.living()) == 1


def test_a_pool_is_deleted_after_its_machines():
    with sim_env("deleted") as env:
        begin(env)
        asks(env, run_for="20h")
        env.until(runs(env), minutes=20)
        env.world.api.local_api.delete(GPU_NODE_POOL, "default", "pool-0")
        env.world.run(seconds=20)

        ready = next(row for row in pool_of(env)["status"]["conditions"] if row["type"] == "Ready")
        assert ready["reason"] == "Deleting"
        assert "1 machine at $" in ready["message"]
        env.until(lambda: env.world.api.local_api.get(GPU_NODE_POOL, "default", "pool-0") is None, minutes=90)
        assert env.living() == []


def test_a_pod_that_no_machine_serves_is_told_once_and_costs_no_write():
    with sim_env("never") as env:
        begin(env)
        asks(env, gpus=64)
        env.world.run(minutes=10)
        assert [reason for reason, _ in events_of(env)] == ["NotTriggerScaleUp"]
        assert pool_of(env)["status"]["lastPlan"]["unserved"] == 1
        before = writes(env.world)

        env.world.run(hours=5)

        assert writes(env.world) == before
        assert requests(env) == []


def test_a_suspended_class_buys_nothing_and_its_machines_stay():
    with sim_env("suspended") as env:
        begin(env)
        asks(env, "first", run_for="5h")
        env.until(runs(env, "first"), minutes=20)
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": True}})
        asks(env, "second", gpus=1)
        env.world.run(minutes=30)

        assert len(env.living()) == 1
        assert events_of(env, "second")[0][0] == "NotTriggerScaleUp"
        assert "suspended" in events_of(env, "second")[0][1]


def test_a_machine_in_use_costs_no_write_while_nothing_changes():
    with sim_env("quiet-pool") as env:
        begin(env)
        asks(env, run_for="20h")
        env.until(runs(env), minutes=20)
        env.world.run(minutes=10)
        before = writes(env.world)

        env.world.run(hours=1)

        assert writes(env.world) == before


def test_what_a_user_annotates_keeps_no_machine_from_a_pod():
    """A request that only claims to be for a pod anchors nothing."""
    with sim_env("forged") as env:
        begin(env)
        asks(env)
        spec = {"gpuType": "H100", "maxHourlyPrice": "0.01"}
        meta = {"name": "forged", "namespace": "default", "annotations": {"tgp.io/for": pod_of(env)["metadata"]["uid"]}}
        env.world.api.local_api.create(GPU_REQUEST, {"metadata": meta, "spec": spec})
        env.until(runs(env), minutes=20)

        assert len(env.living()) == 1


def test_an_offer_that_is_sold_out_gives_way_to_another():
    """The request is deleted, its offer is left out of the next plan, and the pod gets a machine all the same."""
    with sim_env("sold-out") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH, times=1)
        asks(env)
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        (first,) = requests(env)
        env.until(runs(env), minutes=30)

        (second,) = requests(env)
        assert second["spec"]["offer"] != first["spec"]["offer"]
        assert len(env.living()) == 1


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Pools whose GPURequests an admission controller refuses."""
    refused, truly = set[str](), KubeCluster.create

    async def create(client, resource, manifest, **rest):
        owners = manifest["metadata"].get("ownerReferences", ())
        if resource is GPU_REQUEST and {each["name"] for each in owners} & refused:
            raise Refused(f"create gpurequests: 403 Forbidden: exceeded quota: objects {'x' * 2000}")
        return await truly(client, resource, manifest, **rest)

    monkeypatch.setattr(KubeCluster, "create", create)
    return refused


def test_requests_that_the_api_server_refuses_are_told_on_pods_and_pool(quota: set[str]):
    with sim_env("quota") as env:
        quota.add("pool-0")
        begin(env)
        asks(env)
        env.world.run(minutes=3)
        (text,) = [text for reason, text in events_of(env) if reason == "NotTriggerScaleUp"]
        assert "the API server refuses GPURequests of this pool: create gpurequests: 403" in text
        assert len(text) < 1024
        assert condition_of(env, "Limited") == "RequestsRefused"
        before = len(writes(env.world))
        env.world.run(hours=1)
        assert len(writes(env.world)) - before < 10, "it is told once"

        quota.clear()
        env.until(runs(env), minutes=30)
        env.world.run(minutes=1)
        assert condition_of(env, "Limited") == ""


def test_what_is_refused_to_one_pool_is_as_good_as_before_for_the_others(quota: set[str]):
    """The pool of team A may create no request: pods get the very same offer by the pool of team B, at once."""
    with sim_env("quota-of-one") as env:
        begin(env)
        asks(env)
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        usual = requests(env)[0]["spec"]["offer"]
    with sim_env("quota-of-one") as env:
        quota.add("pool-0")
        a_pool(env.world, "pool-1", "rented")
        begin(env)
        asks(env)
        env.until(lambda: len(requests(env)) == 1, minutes=1)
        (request,) = requests(env)
        assert request["metadata"]["ownerReferences"][0]["name"] == "pool-1"
        assert request["spec"]["offer"] == usual


def test_a_pool_that_observes_says_what_its_replicas_would_cost():
    with sim_env("observe-replicas") as env:
        begin(env, mode="Observe", replicas=3)
        env.world.run(minutes=10)
        status = pool_of(env)["status"]
        assert sum(row["count"] for row in status["wouldBuy"]) == 3
        assert float(status["wouldHaveCost"]["hourlyCost"]) > 0
        asks(env)  # it has room on one of them
        env.world.run(minutes=10)

        assert requests(env) == []
        assert sum(row["count"] for row in pool_of(env)["status"]["wouldBuy"]) == 3
        before = len(writes(env.world))
        env.world.run(hours=1)
        assert len(writes(env.world)) - before < 15


def test_many_replicas_are_ordered_together_and_once():
    with sim_env("many-replicas") as env:
        begin(env, replicas=20)
        env.until(lambda: len(requests(env)) == 20, minutes=2, step=1.0)
        env.world.run(minutes=10)
        anchors = [row["metadata"]["annotations"]["tgp.io/for"] for row in requests(env)]
        assert len(set(anchors)) == len(anchors) == 20


def test_a_limit_of_one_pool_leaves_its_offers_to_the_others():
    """A request that its pool's limit stops is withdrawn; the offer is as good as before for other pools."""
    memory, offer = PoolMemory(), an_offer()
    memory.leave_out_for(ObjectKey("a", "pool"), offer, "LimitReached", NOW)
    assert memory.cooldowns(Cooldowns()).offers == {}
    assert set(memory.left_out[ObjectKey("a", "pool")].offers) == {offer.key}


def test_a_pod_that_is_replaced_in_place_buys_no_second_machine():
    """The old pod leaves within its grace: its room is the new one's."""
    with sim_env("replaced") as env:
        begin(env)
        asks(env, "old", run_for="20h")
        env.until(runs(env, "old"), minutes=20)
        env.world.api.local_api.delete(POD, "default", "old")
        asks(env, "new", run_for="20h")
        env.until(runs(env, "new"), minutes=5)

        assert len(env.simulator.fleet.machines) == 1


def test_a_pool_that_is_deleted_without_its_machines_leaves_them():
    """As `kubectl delete gnp pool-0 --cascade=orphan` does it."""
    with sim_env("cascade") as env:
        begin(env, disruption={"consolidationPolicy": "Never"})
        for number in range(3):
            asks(env, f"train-{number}", run_for="20h")
        env.until(lambda: all(runs(env, f"train-{number}")() for number in range(3)), minutes=20)
        before = len(env.living())
        env.world.api.local_api.delete(GPU_NODE_POOL, "default", "pool-0", propagation="Orphan")
        env.world.run(minutes=30)

        assert env.world.api.local_api.get(GPU_NODE_POOL, "default", "pool-0") is None
        assert len(env.living()) == before
        assert all(runs(env, f"train-{number}")() for number in range(3))


def test_requests_of_a_pool_that_was_orphaned_end_by_themselves():
    with sim_env("orphaned") as env:
        begin(env, disruption={"consolidationPolicy": "Never"})
        asks(env, run_for="5m")
        env.until(runs(env), minutes=20)
        env.world.run(hours=2)
        assert len(env.living()) == 1  # the pool keeps it

        (request,) = requests(env)
        freed = {"metadata": {"ownerReferences": []}}
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", request["metadata"]["name"], freed)
        env.until(lambda: env.living() == [], minutes=60)


def gpu_memory_of(env: SimEnv, name: str) -> int:
    """Of the machine that the pod runs on; 0: it does not run."""
    node = env.node(pod_of(env, name)["spec"].get("nodeName", ""))
    return int(node["metadata"]["labels"]["tgp.io/gpu-memory"]) if node is not None else 0


@contextmanager
def two_machines(seed: str, meanwhile: Callable[[SimEnv], None] = lambda _env: None) -> Iterator[SimEnv]:
    """45 minutes after a pod that takes any GPU and one that needs 80 GB; the machine with 80 GB was ready first."""
    with sim_env(seed) as env:
        a_class(env.world, "rented", timeouts={"launch": "5m", "boot": "1h", "join": "1h"})
        begin(env, of_class=False)
        asks(env, "any", run_for="20h")
        large = {"key": "tgp.io/gpu-memory", "operator": "Gt", "values": ["60"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [large]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        asks(env, "large", run_for="20h", affinity=affinity)
        env.until(lambda: len(requests(env)) == 2, minutes=1, step=1.0)
        cheap = min(requests(env), key=lambda row: float(row["spec"]["maxHourlyPrice"]))
        env.node_bootstrap.node_faults.named[cheap["metadata"]["name"]] = [NodeFault.REGISTERS_LATE]
        meanwhile(env)
        env.world.run(minutes=45)  # Events are kept for an hour
        yield env


@pytest.mark.parametrize("seed", range(5))
def test_a_pod_gets_the_machine_that_was_bought_for_it_though_another_pod_could_take_it(seed):
    with two_machines(f"nominated-{seed}") as env:
        assert 0 < gpu_memory_of(env, "any") < 60 < gpu_memory_of(env, "large")
        assert len(env.simulator.fleet.machines) == 2
        told = {name: sorted(reason for reason, _ in events_of(env, name)) for name in ("any", "large")}
        assert told == {"any": ["TriggeredScaleUp"], "large": ["Nominated", "TriggeredScaleUp"]}


def test_a_new_process_knows_which_pods_a_machine_was_bought_for():
    """The operator is killed once both machines are ordered."""
    with two_machines("nominated-0", lambda env: env.world.processes["operator-0"].crash(restart_after=5)) as env:
        assert 0 < gpu_memory_of(env, "any") < 60 < gpu_memory_of(env, "large")
        assert len(env.simulator.fleet.machines) == 2


def test_without_nominations_the_expensive_machine_goes_to_the_wrong_pod(monkeypatch):
    """The scheduler by itself gives the first machine to the first pod: the other pod needs a second expensive one."""
    monkeypatch.setattr("tgp.controllers.pools.nominator.nominations", lambda _waiting, _machines, _nodes: [])

    with two_machines("nominated-0") as env:
        assert (gpu_memory_of(env, "any"), gpu_memory_of(env, "large")) == (80, 80)
        assert len(env.simulator.fleet.machines) == 3


def test_a_nomination_that_is_written_once_does_not_last(monkeypatch):
    """The scheduler removes it when it tries the pod on the new Node, before that has GPUs."""
    monkeypatch.setattr("tgp.core.pools.nominations.RenominationPace.due", 1e9)

    with two_machines("nominated-0") as env:
        assert (gpu_memory_of(env, "any"), gpu_memory_of(env, "large")) == (80, 80)


def test_an_older_kubernetes_is_told_nothing_and_the_pool_says_so_once(monkeypatch):
    monkeypatch.setitem(VERSION, "gitVersion", "v1.34.2")

    with two_machines("nominated-0") as env:
        assert "nominatedNodeName" not in pod_of(env, "large")["status"]
        ((_, text),) = [row for row in events_of(env, "pool-0") if row[0] == "NominationUnsupported"]
        assert "Kubernetes is v1.34.2" in text
        assert "Nominated" not in [reason for reason, _ in events_of(env, "large")]


@pytest.mark.parametrize("seed", range(amount(1, 20)))
def test_with_any_faults_every_pod_runs_and_nothing_is_left(seed):
    """Two replicas, crashes, lost writes, lagging watches: at no time more machines than pods that asked."""
    name = f"pools-{seed}"
    with sim_env(name, faults=swarm(name)) as env:
        begin(env, replicas_of_operator=2)
        for number in range(4):
            env.works(f"job-{number}", run_for="30m")
            env.world.run(minutes=7)
        env.world.run(minutes=amount(15, 60))
        env.world.calm()
        env.simulator.faults.calm()
        env.until(lambda: all(done(env, f"job-{number}") for number in range(4)), minutes=240)
        env.until(lambda: env.living() == [], minutes=120)

        env.world.run(minutes=amount(30, 90))
        assert requests(env) == []
        assert env.nodes() == []


def test_a_later_pod_that_takes_the_machine_of_another_makes_it_get_one_at_once():
    """The plan puts the choosy pod on the machine that is on its way, and the first pod on a new one.

    The first pod anchors the machine on its way: the new one is ordered all the same, before that has booted.
    """
    with sim_env("swapped") as env:
        begin(env)
        asks(env, "anything")
        env.until(lambda: len(requests(env)) == 1, minutes=2)
        (first,) = requests(env)
        model = first["spec"]["gpuType"]
        for stand in env.simulator.fleet.stands.values():
            if stand.product.gpu == model:
                stand.stock = 0
        env.world.run(minutes=1)  # the price book learns it
        asks(env, "choosy", nodeSelector={"tgp.io/gpu-type": model})
        env.world.run(seconds=20)
        assert len(requests(env)) == 2
        env.until(lambda: runs(env, "anything")() and runs(env, "choosy")(), minutes=30)
        assert len(requests(env)) == 2


def lose_creates(env, times: int = 1) -> None:
    """The API server answers that something failed inside, and nothing was written."""
    creates = ("gpurequests", "create")
    env.world.api.faults.on(
        "error-before", times=times, where=lambda hit: (hit.route.plural, hit.route.verb) == creates
    )


def test_a_request_that_was_never_created_is_ordered_again_though_nothing_else_changes():
    with sim_env("lost-create") as env:
        begin(env)
        lose_creates(env)
        asks(env)
        env.until(runs(env), minutes=20)

        assert len(env.living()) == 1


def test_a_pool_goes_although_a_request_of_it_was_never_created():
    with sim_env("lost-create-pool") as env:
        begin(env)
        lose_creates(env)
        asks(env)
        env.world.run(seconds=20)
        env.world.api.local_api.delete(POD, "default", "train")
        env.world.api.local_api.delete(GPU_NODE_POOL, "default", "pool-0")
        env.until(lambda: not list(env.world.api.local_api.objects(GPU_NODE_POOL)), minutes=10)


EVERY_POD = {"matchExpressions": [{"key": "no-such-label", "operator": "DoesNotExist"}]}


@pytest.mark.parametrize("rules", [{"action": "Evict"}, {"action": "AlertOnly", "admission": "Deny"}])
def test_pods_of_a_budget_that_is_used_up_drive_no_purchase_until_hours_are_back(rules):
    """Without the policies: with them the pod would not be created at all, or wait behind a gate."""
    with sim_env("used up") as env:
        begin(env)
        quota = {"gpuHours": "0.2", "windowHours": 1}
        spec = {"selector": EVERY_POD, "quota": quota, "enforcement": {"gracePeriodSeconds": 0, **rules}}
        create(env.world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
        asks(env, run_for="20m")
        env.until(lambda: closed(env), minutes=30)
        asks(env, "next", gpus=4)
        env.world.run(minutes=5)
        assert len(requests(env)) == 1, "nothing is bought for what would be stopped"
        ((reason, text),) = events_of(env, "next")
        assert reason == "NotTriggerScaleUp"
        assert re.match(
            r"Budget default/team-a is used up \(0.2.* of 0.2 GPU-hours\): (no )?GPU-hours become available ", text
        )
        env.until(lambda: not closed(env), minutes=90)
        env.until(lambda: "TriggeredScaleUp" in dict(events_of(env, "next")), minutes=2)


def test_a_budget_that_only_alerts_holds_no_purchase():
    with sim_env("only alerts") as env:
        begin(env)
        spec = {
            "selector": EVERY_POD,
            "quota": {"gpuHours": "0.1", "windowHours": 1},
            "enforcement": {"action": "AlertOnly"},
        }
        create(env.world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
        asks(env, run_for="20m")
        env.until(lambda: closed(env), minutes=30)
        asks(env, "next", gpus=4)
        env.until(lambda: "TriggeredScaleUp" in dict(events_of(env, "next")), minutes=2)


def closed(env: SimEnv) -> bool:
    budget = env.world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", "team-a")
    return budget is not None and "exceededAt" in budget.get("status", {})
