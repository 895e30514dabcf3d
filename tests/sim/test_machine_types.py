"""What machines of a type really had is remembered, over a restart too; owned machines are planned by their Nodes."""

import logging

import msgspec

from tests.sim.an_operator import a_class, writes
from tests.sim.lifecycle.a_world import POWER, SimEnv, sim_env
from tests.sim.test_pools import asks, begin, requests, runs
from tgp.api.resource import CONFIG_MAP, NODE, POD
from tgp.core.pools.machine_types import SHAPES
from tgp.sim.clouds.webhook import settings_at
from tgp.sim.clouds.webhook.machines import build_of, name_of

# Offers of 16 GiB promise 14.8 to pods; the Nodes of the simulation have 14.4.
TOO_SMALL, ENOUGH = "14900Mi", "8Gi"
ONE_PLACE = {
    "spec": {
        "requirements": [
            {"key": "tgp.io/region", "operator": "In", "values": ["us-west"]},
            {"key": "tgp.io/capacity-type", "operator": "In", "values": ["on-demand"]},
        ]
    }
}


def asks_for_memory(env: SimEnv, name: str, memory: str, run_for: str = "20m") -> None:
    limits = {"cpu": "1", "memory": memory, "nvidia.com/gpu": "1"}
    asks(env, name, run_for=run_for, containers=[{"name": "main", "image": "train:1", "resources": {"limits": limits}}])


def bought(env: SimEnv) -> list[str]:
    return [machine.product.sku for machine in env.simulator.fleet.machines.values()]


def lines(env: SimEnv) -> dict[str, str]:
    found = env.world.api.local_api.get(CONFIG_MAP, "tgp-system", SHAPES)
    return (found or {}).get("data") or {}


def test_a_type_that_came_up_smaller_is_not_bought_again_after_a_restart():
    with sim_env("smaller") as env:
        begin(env, template=ONE_PLACE)
        asks_for_memory(env, "first", TOO_SMALL)
        env.until(runs(env, "first"), minutes=40)
        first, *others = bought(env)
        assert first.startswith("t4.1")
        assert len(others) == 1
        env.until(lambda: requests(env) == [], minutes=90)

        env.world.processes["operator-0"].crash(restart_after=5)
        env.world.run(minutes=2)
        asks_for_memory(env, "second", TOO_SMALL)
        env.until(runs(env, "second"), minutes=40)

        assert bought(env)[2:] == others


def test_a_table_that_tells_the_same_is_not_written():
    with sim_env("same") as env:
        begin(env, template=ONE_PLACE)
        asks_for_memory(env, "first", ENOUGH)
        env.until(runs(env, "first"), minutes=20)
        env.until(lambda: requests(env) == [], minutes=90)
        (before,) = lines(env).values()
        told = msgspec.json.decode(before)
        assert told["others"]["nvidia.com/gpu"] == 1
        assert 45 <= told["bootSeconds"] <= 600

        env.world.processes["operator-0"].crash(restart_after=5)
        asks_for_memory(env, "second", ENOUGH, run_for="20h")
        env.until(runs(env, "second"), minutes=20)
        env.world.run(minutes=10)
        quiet = writes(env.world)
        env.world.processes["operator-0"].crash(restart_after=5)
        env.world.run(hours=1)

        assert writes(env.world) == quiet
        assert len(lines(env)) == 1


def test_a_malformed_table_counts_as_empty_and_is_said_once(caplog):
    caplog.set_level(logging.WARNING, "tgp")
    with sim_env("malformed") as env:
        meta = {"name": SHAPES, "namespace": "tgp-system"}
        env.world.api.local_api.create(CONFIG_MAP, {"metadata": meta, "data": {"a": "x", "b": "{}"}})
        begin(env, template=ONE_PLACE)
        asks_for_memory(env, "first", ENOUGH)
        env.until(runs(env, "first"), minutes=20)
        env.world.run(minutes=1)

        assert len(lines(env)) == 3
        said = [row for row in caplog.records if row.getMessage() == "TableFailing"]
        assert [row.why for row in said] == ["2 of its lines are malformed"]


def test_an_owned_machine_that_is_off_has_what_its_node_reported():
    """Its class tells neither CPU nor memory."""
    with sim_env("owned", "webhook") as env:
        name, build = name_of(0), build_of(0)
        owned = msgspec.json.decode(msgspec.json.encode(settings_at(POWER, [0])))
        for machine in owned["machines"]:
            del machine["cpu"], machine["memory"]
        has = {"cpu": str(build.vcpus), "memory": f"{build.memory_gib}Gi", "pods": "110"}
        status = {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": "Unknown"}]}
        env.world.api.local_api.create(NODE, {"metadata": {"name": name}, "status": status})
        a_class(env.world, "rented", providers=[{"name": "webhook", "settings": owned}])
        begin(env, of_class=False)
        asks_for_memory(env, "train", "4Gi")
        env.until(runs(env), minutes=30)

        assert env.world.api.local_api.get(POD, "default", "train")["spec"]["nodeName"] == name
