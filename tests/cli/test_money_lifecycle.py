"""hold, doctor, cost and down beside the running operator, with every invariant checked."""

import json

import pytest

from tests.cli.money_world import WorldServices
from tests.sim.an_operator import LONE, a_class, operator_main
from tests.sim.lifecycle.a_world import POWER, sim_env
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

PROVIDERS = ("paperspace", "vultr", "simulated")  # by the hour twice, and by the second


def begin(env, *providers: str, **settings: object) -> WorldServices:
    named = [{"name": name, **settings} for name in providers or ("simulated",)]
    a_class(env.world, "rented", providers=named)
    env.world.process("operator", operator_main(LONE))
    env.world.run(minutes=2)
    return WorldServices(env.world)


def test_held_nothing_is_bought_and_released_it_is():
    with sim_env("held") as env:
        services = begin(env)
        assert services.tgp("hold", "audit").exit_code == 0
        env.wants()
        env.world.run(minutes=30)
        assert env.living() == []
        assert "request/default/train: waits for a machine" in services.tgp("hold", "--status").output

        assert services.tgp("release", "--yes").exit_code == 0
        env.until(lambda: env.phase() == "Ready", minutes=20)


def test_a_class_that_is_held_buys_nothing():
    with sim_env("held-class") as env:
        services = begin(env)
        services.tgp("hold", "class/rented")
        env.wants()
        env.world.run(minutes=30)
        assert env.living() == []

        services.tgp("release", "class/rented", "--yes")
        env.until(lambda: env.phase() == "Ready", minutes=20)


def test_a_machine_at_work_is_well_and_on_the_bill():
    with sim_env("at-work") as env:
        services = begin(env)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=20)
        env.world.run(hours=1)
        doctor = services.tgp("doctor", "-o", "json")
        cost = json.loads(services.tgp("cost", "-o", "json").output)

        assert doctor.exit_code == 0, doctor.output
        assert len(json.loads(doctor.output)["machines"]) == 1
        assert cost["total"]["runningUsd"] == cost["total"]["usd"] > 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_down_gives_everything_back_and_what_it_cost_stays_on_record(provider):
    with sim_env(f"down-{provider}", provider) as env:
        services = begin(env, provider)
        gpu = next(iter(env.simulator.fleet.stands.values())).product.gpu
        env.wants("one", idleTimeout="Never", gpuType=gpu, provider=provider)
        env.until(lambda: env.phase("one") in {"Ready", "Joining", "Booting"}, minutes=60)
        env.world.run(minutes=30)
        env.wants("late", idleTimeout="Never", gpuType=gpu, provider=provider)
        result = services.tgp("down", "--yes", "-o", "json")
        document = json.loads(result.stdout)

        assert result.exit_code == 0, document["message"]
        assert env.living() == []
        env.world.run(hours=1)
        assert env.living() == [], "held, so nothing came after"
        assert services.tgp("doctor").exit_code == 0
        cost = json.loads(services.tgp("cost", "-o", "json").output)["total"]
        assert document["billUsd"] <= cost["usd"] <= 2 * document["billUsd"], "a machine counts until it is seen gone"
        assert cost["runningUsd"] == 0


def test_down_asks_again_where_an_end_was_lost():
    with sim_env("lost-end") as env:
        services = begin(env)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=20)
        env.simulator.faults.aim(CloudFault.DELETE_IGNORED, CloudVerb.TERMINATE, 2)

        assert services.tgp("down", "--yes").exit_code == 0
        assert env.living() == []


def test_down_switches_off_the_machines_you_own():
    with sim_env("own", "webhook") as env:
        boxes = [stand.product for stand in env.simulator.fleet.stands.values()]
        machines = [
            {
                "name": box.sku,
                "gpuCount": box.gpu_count,
                "gpuType": box.gpu,
                "scaleUpEndpoint": f"{POWER}/{box.sku}/on",
                "scaleDownEndpoint": f"{POWER}/{box.sku}/off",
                "statusEndpoint": f"{POWER}/{box.sku}/status",
            }
            for box in boxes
        ]
        services = begin(env, "webhook", settings={"machines": machines})
        env.wants(idleTimeout="Never", gpuType=boxes[0].gpu, gpuCount=boxes[0].gpu_count)
        env.until(lambda: env.phase() == "Ready", minutes=30)
        result = services.tgp("down", "--yes", "-o", "json")

        assert result.exit_code == 0, result.output
        assert env.living() == []
