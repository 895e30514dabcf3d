"""An operator with `--observe` plans for every pool, and changes nothing."""

import pytest

from tests.sim.an_operator import a_class, a_pool
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.test_leadership_status import Replica
from tests.sim.test_pools import asks, requests
from tgp.app.settings import Settings
from tgp.core.model.object_key import ObjectKey

POOL = ObjectKey("default", "pool-0")


def observing(env: SimEnv, **spec: object) -> Replica:
    a_class(env.world, "rented")
    a_pool(env.world, "pool-0", "rented", **spec)
    replica = Replica(env.world, "one", Settings(observe=True))
    env.world.run(minutes=2)
    return replica


def test_it_knows_what_its_pools_would_buy_and_writes_nothing():
    with sim_env("watches") as env:
        replica = observing(env)
        asks(env)
        env.world.run(minutes=10)

        status = replica.operator.stores.pools.get(POOL).status
        (row,) = status["wouldBuy"]
        assert (row["provider"], row["count"]) == ("simulated", 1)
        assert status["lastPlan"]["orders"] == 0
        assert requests(env) == []
        assert env.simulator.fleet.machines == {}
        assert env.world.effects == []


def test_what_they_would_have_cost_is_added_up_without_a_write():
    with sim_env("watches cost") as env:
        replica = observing(env)
        asks(env)
        env.world.run(minutes=61)

        pool = replica.operator.stores.pools.get(POOL)
        cost = pool.value.status.would_have_cost
        assert cost is not None
        assert float(cost.total_cost) == pytest.approx(float(cost.hourly_cost), rel=0.2)
        assert pool.status["wouldHaveCost"]["totalCost"] == cost.total_cost
        assert pool.value.status.last_plan is not None
        assert env.world.effects == []


def test_replicas_are_not_filled():
    with sim_env("watches replicas") as env:
        observing(env, replicas=2)
        asks(env)
        env.world.run(minutes=10)

        assert env.world.effects == []
