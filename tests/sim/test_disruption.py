"""Disruption in a whole world: machines go within budgets, replaced first where pods need them."""

from typing import Any

from tests.sim.lives.a_world import SimEnv, sim_env
from tests.sim.test_pools import asks, begin, requests, runs
from tgp.api.resource import GPU_NODE_POOL, NODE


def set_pool(env: SimEnv, **spec: Any) -> None:
    env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-0", {"spec": spec})


def disrupted(env: SimEnv, request: dict[str, Any]) -> tuple[str, str, str]:
    rows = request.get("status", {}).get("conditions", [])
    found = [(row["status"], row["reason"], row["message"]) for row in rows if row["type"] == "Disrupted"]
    return found[0] if found else ("", "", "")


def taints(env: SimEnv) -> list[str]:
    every = (taint for node in env.world.api.local_api.objects(NODE) for taint in node["spec"].get("taints", ()))
    return [taint["effect"] for taint in every if taint["key"] == "tgp.io/disrupted"]


def several(env: SimEnv, count: int, **spec: Any) -> None:
    """A pool with some machines, each with a pod that takes it whole."""
    begin(env, **spec)
    for number in range(count):
        asks(env, f"train-{number}", run_for="20m")
    env.until(lambda: all(runs(env, f"train-{number}")() for number in range(count)), minutes=30)


def test_empty_machines_go_no_faster_than_the_budget_allows():
    with sim_env("budget") as env:
        begin(env, disruption={"consolidateAfter": "1m", "budgets": [{"nodes": 1}]}, replicas=4)
        env.until(lambda: len(env.nodes()) == 4, minutes=30)
        env.world.run(minutes=3)
        most = 0
        set_pool(env, replicas=None)
        for _ in range(240):
            env.world.run(seconds=10)
            leaving = [row for row in requests(env) if "deletionTimestamp" in row["metadata"]]
            most = max(most, len(leaving))
            if not requests(env):
                break

        assert requests(env) == []
        assert env.living() == []
        assert most == 1


def test_a_budget_of_zero_keeps_empty_machines_and_says_so():
    with sim_env("closed") as env:
        begin(env, disruption={"consolidateAfter": "1m", "budgets": [{"nodes": 0}]})
        asks(env, run_for="1m")
        env.until(lambda: len(env.nodes()) == 1, minutes=30)
        env.world.run(minutes=45)

        (request,) = requests(env)
        status, reason, message = disrupted(env, request)
        assert (status, reason) == ("False", "BudgetExhausted")
        assert "spec.disruption.budgets[0] (nodes: 0) allows no more disruption now" in message
        assert len(env.living()) == 1
        set_pool(env, disruption={"budgets": [{"nodes": 1}]})
        env.until(lambda: requests(env) == [], minutes=30)
