"""Many orders at an account that takes few: they wait for their turn, and nothing else waits for them."""

from dataclasses import replace
from datetime import timedelta

from tests.sim.an_operator import LONE, a_class, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.clouds.simulated.facts import FACTS
from tgp.core.model.provider_facts import Rate

ORDERS = 40  # more than a controller has workers


def test_orders_in_line_keep_their_offer_and_hold_up_no_termination(monkeypatch):
    slow = {"launch": Rate(calls=1, per=timedelta(seconds=12))}
    monkeypatch.setattr(SimulatedCloud, "facts", replace(FACTS, rates=slow))
    with sim_env("a line of orders") as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(LONE))
        _stock(env)
        env.wants("first", idleTimeout="Never")
        env.until(lambda: env.phase("first") == "Ready", minutes=10)
        for number in range(ORDERS):
            env.wants(f"train-{number:02}", idleTimeout="Never")
        env.world.run(seconds=30)
        queued = [env.condition("Launched", f"train-{number:02}")[1] for number in range(ORDERS)]
        env.drops("first")
        env.until(lambda: env.request("first") is None, minutes=2)
        env.world.run(minutes=12)

        assert "ProviderBusy" not in queued
        attempts = [env.attempts(f"train-{number:02}") for number in range(ORDERS)]
        assert [len(each) for each in attempts] == [1] * ORDERS  # none gave its offer up
        assert len(env.simulator.fleet.machines) == ORDERS + 1


def test_a_fast_provider_gets_several_orders_at_once():
    with sim_env("several orders") as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(LONE))
        _stock(env)
        env.world.run(minutes=1)
        for number in range(8):
            env.wants(f"train-{number}", idleTimeout="Never")
        env.world.run(seconds=20)

        assert len(env.simulator.fleet.machines) == 8


def _stock(env):
    for stand in env.simulator.fleet.stands.values():
        stand.stock = 2 * ORDERS
