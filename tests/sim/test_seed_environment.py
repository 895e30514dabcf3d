"""The environment of the ancestor, as it is: from variables to a pod that runs and a box that is off again."""

from typing import Any

from tests.sim.an_operator import operator_main
from tests.sim.lifecycle.a_world import POWER, SimEnv, sim_env
from tests.sim.test_power_pools import a_node, asks, is_on, switched_on
from tests.sim.with_pools import events_of, pod_of, requests, runs
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL
from tgp.app.settings import Settings, load
from tgp.sim.clouds.webhook.machines import build_of, name_of


def environment(*numbers: int) -> dict[str, str]:
    said: dict[str, str] = {}
    for number in numbers:
        name = name_of(number)
        said |= {
            f"GPU_NODE_{number}_NAME": name,
            f"GPU_NODE_{number}_GPU_COUNT": str(build_of(number).gpu_count),
            f"GPU_NODE_{number}_SCALE_UP_ENDPOINT": f"{POWER}/{name}/on",
            f"GPU_NODE_{number}_SCALE_DOWN_ENDPOINT": f"{POWER}/{name}/off",
        }
    return said


def begin(env: SimEnv, *numbers: int) -> None:
    for number in numbers:
        a_node(env, number)
    env.world.process("operator-0", operator_main(settings_of(*numbers)))
    env.world.run(minutes=2)


def begin_again(env: SimEnv, *numbers: int) -> None:
    """Another process, with another environment."""
    env.world.processes["operator-0"].crash(restart_after=1e9)
    env.world.process("operator-1", operator_main(settings_of(*numbers)))
    env.world.run(minutes=3)


def settings_of(*numbers: int) -> Settings:
    return load({}, environment(*numbers))


def the_class(env: SimEnv) -> dict[str, Any]:
    found = env.world.api.local_api.get(GPU_NODE_CLASS, "", "power-nodes")
    assert found is not None
    return found


def machines(env: SimEnv) -> list[str]:
    return [each["name"] for each in the_class(env)["spec"]["providers"][0]["settings"]["machines"]]


def soon_idle(env: SimEnv) -> None:
    env.world.api.local_api.merge_patch(
        GPU_NODE_POOL, "tgp-system", "power-nodes", {"spec": {"disruption": {"consolidateAfter": "2m"}}}
    )


def allow(env: SimEnv, nodes: int) -> None:
    """So many machines may go at the same time."""
    change = {"spec": {"disruption": {"budgets": [{"nodes": nodes}]}}}
    env.world.api.local_api.merge_patch(GPU_NODE_POOL, "tgp-system", "power-nodes", change)


def test_the_environment_of_the_ancestor_serves_a_pod_and_switches_the_box_off_again():
    """Its boxes have no status endpoint: their Nodes tell."""
    with sim_env("seed", "webhook") as env:
        begin(env, 0)
        soon_idle(env)
        asks(env, run_for="5m")
        env.until(runs(env), minutes=20)
        assert pod_of(env)["spec"]["nodeName"] == "cellar-1"
        env.until(lambda: not is_on(env), minutes=60)
        env.until(lambda: requests(env) == [], minutes=20)

        assert switched_on(env) == 1
        assert env.node("cellar-1") is not None


def test_without_prices_the_smallest_sufficient_box_goes_on_first_and_the_largest_idle_one_off_first():
    with sim_env("sizes", "webhook") as env:
        begin(env, 0, 1, 2)  # with 2, 4 and 1 GPUs
        soon_idle(env)
        asks(env, "two", gpus=2, run_for="30m")
        env.until(runs(env, "two"), minutes=20)
        assert [one.product.sku for one in env.living()] == ["cellar-1"]
        asks(env, "four", gpus=4, run_for="25m")
        env.until(runs(env, "four"), minutes=20)
        assert pod_of(env, "four")["spec"]["nodeName"] == "cellar-2"
        allow(env, 0)
        env.world.run(minutes=45)
        assert sorted(one.product.sku for one in env.living()) == ["cellar-1", "cellar-2"], "both are idle"
        allow(env, 1)
        env.until(lambda: len(env.living()) == 1, minutes=30)
        assert [one.product.sku for one in env.living()] == ["cellar-1"]


def test_a_change_of_the_environment_changes_the_class():
    with sim_env("step", "webhook") as env:
        begin(env, 0)
        assert machines(env) == ["cellar-1"]
        begin_again(env, 0, 1)

        assert machines(env) == ["cellar-1", "cellar-2"]


def test_objects_that_a_person_took_over_are_left_alone():
    with sim_env("taken", "webhook") as env:
        begin(env, 0)
        change = {"metadata": {"annotations": {"tgp.io/node-groups": None}}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "power-nodes", change)
        begin_again(env, 0, 1)

        assert machines(env) == ["cellar-1"]
        assert "tgp.io/node-groups" not in the_class(env)["metadata"].get("annotations", {})


def test_what_a_person_adds_to_a_machine_stays():
    with sim_env("added", "webhook") as env:
        begin(env, 0)
        added = {"statusEndpoint": f"{POWER}/cellar-1/status", "watts": 650}
        (machine,) = the_class(env)["spec"]["providers"][0]["settings"]["machines"]
        providers = [{"name": "webhook", "settings": {"machines": [machine | added]}}]
        person = env.world.api.local_api.as_manager("kubectl-edit")
        person.merge_patch(GPU_NODE_CLASS, "", "power-nodes", {"spec": {"providers": providers}})
        begin_again(env, 0, 1)

        first, second = the_class(env)["spec"]["providers"][0]["settings"]["machines"]
        assert first == machine | added
        assert second["name"] == "cellar-2"
        assert not set(added) & set(second)
        assert "tgp.io/node-groups" in the_class(env)["metadata"]["annotations"]


def the_pool(env: SimEnv) -> dict[str, Any]:
    found = env.world.api.local_api.get(GPU_NODE_POOL, "tgp-system", "power-nodes")
    assert found is not None
    return found


def test_without_variables_nothing_more_is_switched_until_they_are_back():
    with sim_env("removed", "webhook") as env:
        begin(env, 0, 1)
        soon_idle(env)
        asks(env, run_for="5m")
        env.until(runs(env), minutes=20)
        begin_again(env)
        assert machines(env) == ["cellar-1", "cellar-2"]
        assert the_class(env)["spec"]["suspend"] is True
        assert any("the operator has none any more" in message for _, message in events_of(env, "power-nodes"))
        asks(env, "large", gpus=4, run_for="5m")
        env.world.run(hours=1)
        assert [one.product.sku for one in env.living()] == ["cellar-1"], "neither the other on, nor this one off"
        assert len(requests(env)) == 1

        env.world.processes["operator-1"].crash(restart_after=1e9)
        env.world.process("operator-2", operator_main(settings_of(0, 1)))
        env.until(runs(env, "large"), minutes=30)
        assert the_class(env)["spec"]["suspend"] is False
        kept = the_pool(env)["spec"]["disruption"]
        assert (kept["consolidateAfter"], kept["consolidationPolicy"]) == ("2m", "WhenEmpty")
        env.until(lambda: not env.living(), minutes=90)


def test_an_operator_that_never_had_variables_writes_nothing():
    with sim_env("none", "webhook") as env:
        begin(env)

        assert env.world.api.local_api.get(GPU_NODE_CLASS, "", "power-nodes") is None
        assert env.world.api.local_api.get(GPU_NODE_POOL, "tgp-system", "power-nodes") is None
