"""The brake, the doctor, the bill and the end, beside the operator as it is, with every invariant watched."""

import json

import pytest

from tests.cli.money_world import Hall
from tests.sim.an_operator import a_class, operator_main
from tests.sim.lives.an_estate import POWER, lives
from tgp.sim.clouds.mishaps import Mishap, Verb

PROVIDERS = ("paperspace", "vultr", "simulated")  # by the hour twice, and by the second


def begin(stage, *providers: str, **settings: object) -> Hall:
    named = [{"name": name, **settings} for name in providers or ("simulated",)]
    a_class(stage.world, "rented", providers=named)
    stage.world.process("operator", operator_main())
    stage.world.run(minutes=2)
    return Hall(stage.world)


def test_held_nothing_is_bought_and_released_it_is():
    with lives("held") as stage:
        hall = begin(stage)
        assert hall.tgp("hold", "audit").exit_code == 0
        stage.wants()
        stage.world.run(minutes=30)
        assert stage.living() == []
        assert "request/default/train: waits for a machine" in hall.tgp("hold", "--status").output

        assert hall.tgp("release", "--yes").exit_code == 0
        stage.until(lambda: stage.phase() == "Ready", minutes=20)


def test_a_class_that_is_held_buys_nothing():
    with lives("held-class") as stage:
        hall = begin(stage)
        hall.tgp("hold", "class/rented")
        stage.wants()
        stage.world.run(minutes=30)
        assert stage.living() == []

        hall.tgp("release", "class/rented", "--yes")
        stage.until(lambda: stage.phase() == "Ready", minutes=20)


def test_a_machine_at_work_is_well_and_on_the_bill():
    with lives("at-work") as stage:
        hall = begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=20)
        stage.world.run(hours=1)
        doctor = hall.tgp("doctor", "-o", "json")
        cost = json.loads(hall.tgp("cost", "-o", "json").output)

        assert doctor.exit_code == 0, doctor.output
        assert len(json.loads(doctor.output)["machines"]) == 1
        assert cost["total"]["runningUsd"] == cost["total"]["usd"] > 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_down_gives_everything_back_and_what_it_cost_stays_on_record(provider):
    with lives(f"down-{provider}", provider) as stage:
        hall = begin(stage, provider)
        gpu = next(iter(stage.shop.fleet.stands.values())).shelf.gpu
        stage.wants("one", idleTimeout="Never", gpuType=gpu, provider=provider)
        stage.until(lambda: stage.phase("one") in {"Ready", "Joining", "Booting"}, minutes=60)
        stage.world.run(minutes=30)
        stage.wants("late", idleTimeout="Never", gpuType=gpu, provider=provider)
        result = hall.tgp("down", "--yes", "-o", "json")
        document = json.loads(result.stdout)

        assert result.exit_code == 0, document["message"]
        assert stage.living() == []
        stage.world.run(hours=1)
        assert stage.living() == [], "held, so nothing came after"
        assert hall.tgp("doctor").exit_code == 0
        cost = json.loads(hall.tgp("cost", "-o", "json").output)["total"]
        assert document["billUsd"] <= cost["usd"] <= 2 * document["billUsd"], "a machine counts until it is seen gone"
        assert cost["runningUsd"] == 0


def test_down_asks_again_where_an_end_was_lost():
    with lives("lost-end") as stage:
        hall = begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=20)
        stage.shop.mishaps.aim(Mishap.DELETE_IGNORED, Verb.TERMINATE, 2)

        assert hall.tgp("down", "--yes").exit_code == 0
        assert stage.living() == []


def test_down_switches_off_the_machines_you_own():
    with lives("own", "webhook") as stage:
        boxes = [stand.shelf for stand in stage.shop.fleet.stands.values()]
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
        hall = begin(stage, "webhook", settings={"machines": machines})
        stage.wants(idleTimeout="Never", gpuType=boxes[0].gpu, gpuCount=boxes[0].gpu_count)
        stage.until(lambda: stage.phase() == "Ready", minutes=30)
        result = hall.tgp("down", "--yes", "-o", "json")

        assert result.exit_code == 0, result.output
        assert stage.living() == []
