"""Limits and prices while many requests buy at once, and what stops every purchase."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from unittest.mock import patch

from tests.sim.an_operator import NAMESPACE_NAME, a_pool
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import at_first_order, begin, is_ready
from tgp.adapters.clouds.simulated import FACTS
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.api.resource import GPU_NODE_CLASS, NAMESPACE
from tgp.core.model.hold import HOLD
from tgp.core.model.provider_facts import Rate
from tgp.sim.checkers.recorded import Rented
from tgp.sim.checkers.recorder import Checker
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.faults import Fault, Faults
from tgp.sim.router import FREEZE_AT_EFFECT

ONE_ORDER_AT_A_TIME = replace(FACTS, rates={"launch": Rate(calls=1, per=timedelta(seconds=4))})


def at_once(seed: str) -> None:
    """Many requests at the same moment, and room for three."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 3})
        for number in range(12):
            env.wants(f"train-{number}")
        env.world.run(minutes=2)

        assert len(env.living()) == 3


def at_once_for_a_pool(seed: str) -> None:
    """The same for the requests of a pool that has room for two."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        a_pool(env.world, "team", "rented", limits={"resources": {"nodes": 2}})
        env.world.run(seconds=10)
        for number in range(8):
            env.pool_wants("team", f"train-{number}")
        env.world.run(minutes=2)

        assert len(env.living()) == 2


def at_once_seen_late(seed: str) -> None:
    """The same, where the operator sees what it wrote only after a while."""
    with sim_env(seed, kubelets=QUICK, faults=Faults({Fault.WATCH_LAG: 1.0})) as env:
        begin(env, limits={"maxNodes": 3})
        for number in range(12):
            env.wants(f"train-{number}")
        env.world.run(minutes=3)


def outbid(seed: str) -> None:
    """A spot machine is stopped; its disk stays, and costs."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, instanceRequirements={"spotAllowed": True})
        env.wants(spot=True)
        env.until(is_ready(env), minutes=20)
        (machine,) = env.living()
        env.simulator.fleet.interrupt(machine, env.simulator.fleet.advance())
        env.until(lambda: env.phase() == "Failed", minutes=20)

        assert env.living() == []


def too_dear(seed: str) -> None:
    """Nothing on sale is within the owner's price."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants(maxHourlyPrice="0.10")
        env.world.run(minutes=3)

        assert not env.simulator.fleet.machines


def dearer_when_ordered(seed: str) -> None:
    """Prices rise by a fifth between listing and order; the class has room for two at the old price."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, limits={"maxHourlyCost": "1.00"})
        fleet, most = env.simulator.fleet, 1_000_000

        class Counted(Checker):
            def made(self, rented: Rented) -> None:
                cost = sum(machine.rate_microusd for machine in env.living())
                if cost > most:
                    self.recorder.accuse(f"the class costs ${cost / 1e6:.2f} an hour, at most $1.00: {rented}")

        env.recorder.call(Counted)
        for stand in list(fleet.selling()):
            fleet.reprice(stand.product.id, stand.hourly_microusd * 6 // 5)
        for number in range(3):
            env.wants(f"train-{number}", idleTimeout="Never")
        env.world.run(minutes=1)

        assert env.living(), "nothing was rented, although there was room"


def containers_on_sale(seed: str) -> None:
    """A class allows every way to boot, and its only provider starts containers: nothing is reserved or ordered."""
    with sim_env(seed, "runpod") as env:
        begin(env, providers=[{"name": "runpod"}], bootPolicy="Any")
        env.wants()
        env.world.run(minutes=10)
        assert not env.attempts(), "a container was reserved to boot Talos"
        assert not env.simulator.calls[CloudVerb.LAUNCH], "a container was ordered to boot Talos"


def held(seed: str) -> None:
    """A user set a hold, in the middle and beforehand."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.BUSY_TEXT, CloudVerb.LAUNCH)
        at_first_order(env, lambda: hold(env), after=2.0)
        env.wants()
        env.world.run(minutes=2)
        env.wants("later")
        env.world.run(minutes=3)

        assert not env.simulator.fleet.machines, "a machine was rented while every purchase was stopped"


def hold(env: SimEnv) -> None:
    change = {"metadata": {"annotations": {HOLD: "on purpose"}}}
    env.world.api.local_api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, change)


def stopped_unheard(seed: str) -> None:
    """A user sets a hold, suspends the class or deletes the request while every watch is silent."""
    for stop in (hold, suspend, SimEnv.drops):
        with sim_env(seed, kubelets=QUICK) as env:
            begin(env)
            env.simulator.faults.aim(CloudFault.BUSY_TEXT, CloudVerb.LAUNCH)
            at_first_order(env, partial(_stop_unheard, env, stop), after=2.0)
            env.wants()
            env.world.run(minutes=4)

            assert not env.simulator.fleet.machines, f"a machine was rented after it was stopped ({stop.__name__})"


def _stop_unheard(env: SimEnv, stop: Callable[[SimEnv], None]) -> None:
    host = env.world.processes["tgp-0"].host
    assert host is not None, "it is running"
    host.frozen_until = env.world.loop.time() + FREEZE_AT_EFFECT
    stop(env)


def suspend(env: SimEnv) -> None:
    env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": True}})


def stopped_in_line(seed: str) -> None:
    """A user sets a hold, suspends the class or deletes the requests while two orders wait for their turn."""
    for stop in (hold, suspend, _drop_all):
        with patch.object(SimulatedCloud, "facts", ONE_ORDER_AT_A_TIME), sim_env(seed, kubelets=QUICK) as env:
            begin(env)
            orders = at_first_order(env, partial(stop, env), after=1.0)
            for number in range(3):
                env.wants(f"train-{number}")
            env.world.run(minutes=4)

            assert len(orders.orders) == 1, f"an order left after it was stopped ({stop.__name__})"


def _drop_all(env: SimEnv) -> None:
    for number in range(3):
        env.drops(f"train-{number}")


LIMITS = (
    at_once,
    at_once_for_a_pool,
    at_once_seen_late,
    outbid,
    too_dear,
    dearer_when_ordered,
    containers_on_sale,
    held,
    stopped_unheard,
    stopped_in_line,
)
