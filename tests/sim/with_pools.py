"""Builders for simulations with pools: pods that ask for GPUs, and what becomes of them."""

from collections.abc import Callable
from typing import Any

from tests.sim.an_operator import ALONE, a_class, a_pool, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import SimEnv
from tgp.adapters.kube.events import CORE_EVENT as EVENT
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST, POD
from tgp.app.settings import Settings

TOLERATES = [{"operator": "Exists"}]


def begin(
    env: SimEnv, *, of_class: bool = True, replicas_of_operator: int = 1, settings: Settings = ALONE, **spec: Any
) -> None:
    """A class, a pool and an operator, settled. `settings`: of an operator that is alone."""
    if of_class:
        a_class(env.world, "rented")
    a_pool(env.world, "pool-0", "rented", **spec)
    for number in range(replicas_of_operator):
        env.world.process(f"operator-{number}", operator_main(settings if replicas_of_operator == 1 else None))
    env.world.run(minutes=2)


def asks(env: SimEnv, name: str = "train", *, gpus: int = 1, run_for: str = "20m", **spec: Any) -> None:
    wanted = {"restartPolicy": "Never", "tolerations": TOLERATES, **spec}
    env.world.api.local_api.create(POD, a_pod(name, gpus=gpus, run_for=run_for, **wanted))


def requests(env: SimEnv) -> list[dict[str, Any]]:
    return list(env.world.api.local_api.objects(GPU_REQUEST))


def pod_of(env: SimEnv, name: str = "train") -> dict[str, Any]:
    found = env.world.api.local_api.get(POD, "default", name)
    assert found is not None
    return found


def pool_of(env: SimEnv, name: str = "pool-0") -> dict[str, Any]:
    found = env.world.api.local_api.get(GPU_NODE_POOL, "default", name)
    assert found is not None
    return found


def runs(env: SimEnv, name: str = "train") -> Callable[[], bool]:
    return lambda: pod_of(env, name)["status"].get("phase") == "Running"


def events_of(env: SimEnv, name: str = "train") -> list[tuple[str, str]]:
    """Reason and message of our Events about a pod."""
    found = env.world.api.local_api.objects(EVENT)
    ours = [row for row in found if row["source"].get("component") == "tgp-operator"]
    return [(row["reason"], row["message"]) for row in ours if row["involvedObject"]["name"] == name]
