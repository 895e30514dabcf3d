"""Pools in a whole world: pods ask, machines come, serve, and go when they are empty."""

from typing import Any

from tests.sim.an_operator import a_class, a_pool, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.lives.a_world import SimEnv, sim_env
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST, POD

TOLERATES = [{"operator": "Exists"}]


def begin(env: SimEnv, *, pools: int = 1, **spec: Any) -> None:
    a_class(env.world, "rented")
    for number in range(pools):
        a_pool(env.world, f"pool-{number}", "rented", **spec)
    env.world.process("operator", operator_main())
    env.world.run(minutes=2)


def asks(env: SimEnv, name: str = "train", *, gpus: int = 1, run_for: str = "20m", **spec: Any) -> None:
    pod = a_pod(name, gpus=gpus, run_for=run_for, restartPolicy="Never", tolerations=TOLERATES, **spec)
    env.world.api.local_api.create(POD, pod)


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


def runs(env: SimEnv, name: str = "train"):
    return lambda: pod_of(env, name)["status"].get("phase") == "Running"


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
