"""A gang is served whole or not at all: machines that were bought for a part of it are terminated."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from tests.amounts import amount
from tests.sim.an_operator import a_class, a_pool, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.with_pools import begin, events_of, pod_of, requests, runs
from tgp.api.resource import NODE, POD
from tgp.app.settings import Settings
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.clouds.fleet import WantedMachine

SCHEDULER = "gang-scheduler"  # it binds pods once there is room for all of them: here, never
MAY_TAKE = 6  # minutes from the launch to a Node
RARE = "L4"


@contextmanager
def a_gang(seed: str) -> Iterator[tuple[SimEnv, list[float]]]:
    """Four pods, each on a machine of its own; the GPU of the fourth is offered, and always sold out.

    With the virtual minutes of all launches that succeeded.
    """
    with sim_env(seed) as env:
        fleet = env.simulator.fleet
        rent, launches = fleet.rent, list[float]()

        def sell(tenant: Any, wanted: WantedMachine, fault: CloudFault | None = None) -> Any:
            rare = fleet.stands[wanted.product].product.gpu == RARE
            machine = rent(tenant, wanted, CloudFault.SOLD_OUT if rare else fault)
            launches.append(env.world.loop.time() / 60)
            return machine

        fleet.rent = sell  # type: ignore[method-assign]
        a_class(env.world, "rented", timeouts={"launch": "5m", "boot": "3m", "join": "3m"})
        a_pool(env.world, "pool-0", "rented")
        settings = Settings(leader_elect=False, scheduler_names=("default-scheduler", SCHEDULER))
        env.world.process("operator-0", operator_main(settings))
        env.world.run(minutes=2)
        for number in range(4):
            waits(env, f"rank-{number}", RARE if number == 3 else "T4")
        yield env, launches


def waits(env: SimEnv, name: str, gpu: str) -> None:
    pod = a_pod(
        name,
        gpus=1,
        restartPolicy="Never",
        schedulerName=SCHEDULER,
        tolerations=[{"operator": "Exists"}],
        nodeSelector={"tgp.io/gpu-type": gpu},
    )
    pod["metadata"]["annotations"] = {"tgp.io/gang": "train", "tgp.io/gang-size": "4"}
    env.world.api.local_api.create(POD, pod)
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
    env.world.api.local_api.merge_patch(POD, "default", name, {"status": {"conditions": [refused]}}, "status")


def test_the_rest_of_a_gang_is_terminated_when_a_part_does_not_come():
    with a_gang("gang-torn") as (env, launches):
        env.until(lambda: len(launches) == 3, minutes=5)
        env.world.run(minutes=MAY_TAKE - 2)
        assert len(env.living()) == 3
        env.until(lambda: requests(env) == [] and env.living() == [], minutes=10)

        assert len(launches) == 3
        told = " ".join(text for reason, text in events_of(env, "rank-0") if reason == "NotTriggerScaleUp")
        assert "gang default/train could not be served whole within 6m" in told
        assert any(reason == "NotTriggerScaleUp" for reason, _ in events_of(env, "rank-3"))


def test_a_gang_is_bought_again_at_growing_distances_and_three_times_at_most_in_a_day():
    with a_gang("gang-again") as (env, launches):
        env.world.run(hours=amount(2, 23))  # all three within the first

        assert len(launches) <= 9
        rounds = launches[::3]
        gaps = [later - earlier for earlier, later in pairwise(rounds)]
        assert gaps == sorted(gaps)
        assert env.living() == []


def worker(env: SimEnv, name: str, *, gpus: int = 1) -> None:
    """As LeaderWorkerSet marks the pods of a group."""
    pod = a_pod(name, gpus=gpus, run_for="9h", restartPolicy="Never", tolerations=[{"operator": "Exists"}])
    pod["metadata"]["labels"] = {"leaderworkerset.sigs.k8s.io/group-key": "k1"}
    pod["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/size": "3"}
    if not gpus:
        pod["spec"]["nodeSelector"] = {"rack": "7"}
    env.world.api.local_api.create(POD, pod)


def test_a_gang_is_whole_though_some_of_its_pods_need_no_machine():
    """Its leader asks for no GPU; later one worker is created again, while the Node of the other is cordoned."""
    with sim_env("gang-leader") as env:
        begin(env)
        worker(env, "leader", gpus=0)
        worker(env, "worker-0")
        env.world.run(minutes=2)
        assert requests(env) == []
        worker(env, "worker-1")
        env.until(lambda: runs(env, "worker-0")() and runs(env, "worker-1")(), minutes=20)

        api = env.world.api.local_api
        api.merge_patch(NODE, "", pod_of(env, "worker-0")["spec"]["nodeName"], {"spec": {"unschedulable": True}})
        api.delete(POD, "default", "worker-1")
        worker(env, "worker-2")
        env.until(runs(env, "worker-2"), minutes=20)
