"""The whole operator, wire parsing included, in virtual time."""

import pytest

from tests.amounts import amount
from tests.sim.an_operator import (
    a_class,
    a_pool,
    a_secret,
    furnish,
    open_market,
    operator_main,
    ready,
    settle,
    writes,
)
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL
from tgp.sim.faults import swarm
from tgp.sim.world import World

FAULTY_MINUTES = amount(25, 60)


def test_a_quiet_hour_is_no_write_but_the_lease():
    """Nothing changes, so nothing is written: not a status, not an Event."""
    with World("quiet") as world:
        furnish(world)
        open_market(world, "simulated")
        for number in range(20):
            a_class(world, f"class-{number}")
            a_pool(world, f"pool-{number}", f"class-{number}")
        world.process("operator", operator_main())
        settle(world)
        before = writes(world)

        world.run(hours=1)

        assert ready(world, GPU_NODE_POOL, "pool-19", "default") == "Valid"
        assert writes(world) == before
        # 40 objects, a second write for pools judged before their class and classes judged before their providers
        assert len(before) < 200


def test_a_restart_writes_nothing_that_is_already_so():
    with World("restart") as world:
        furnish(world)
        open_market(world, "simulated")
        a_class(world, "cheap")
        a_pool(world, "pool", "cheap")
        process = world.process("operator", operator_main())
        settle(world)
        before = writes(world)

        process.crash(restart_after=5)
        world.run(minutes=5)

        assert process.starts == 2
        assert writes(world) == before


def test_a_secret_that_appears_makes_its_class_and_its_pools_ready():
    with World("secret") as world:
        furnish(world)
        a_class(world, "rented", providers=[{"name": "lambdalabs"}])
        a_pool(world, "pool", "rented")
        world.process("operator", operator_main())
        settle(world)
        assert ready(world, GPU_NODE_CLASS, "rented") == "CredentialsMissing"

        a_secret(world, "tgp-operator-secret", LAMBDA_LABS_API_KEY="x")
        settle(world)

        assert ready(world, GPU_NODE_CLASS, "rented") == "Valid"
        assert ready(world, GPU_NODE_POOL, "pool", "default") == "Valid"


def test_one_bad_object_does_not_keep_the_others_waiting():
    """A poisoned object costs itself only."""
    with World("poison") as world:
        furnish(world)
        a_class(world, "good")
        for number in range(50):
            a_pool(world, f"pool-{number}", "good")
        a_class(world, "broken", instanceRequirements={"gpuTypes": ["NoSuchCard"]})
        a_pool(world, "broken", "broken")
        world.process("operator", operator_main())
        settle(world)

        assert all(ready(world, GPU_NODE_POOL, f"pool-{number}", "default") == "Valid" for number in range(50))
        assert ready(world, GPU_NODE_CLASS, "broken") == "InvalidSpec"


@pytest.mark.parametrize("seed", range(amount(1, 12)))
def test_two_replicas_with_any_faults_come_to_the_right_conditions(seed):
    """Faults: safety. Calm: everything is judged rightly, and then nothing is written."""
    with World(f"replicas-{seed}", faults=swarm(f"replicas-{seed}")) as world:
        furnish(world)
        a_class(world, "cheap")
        a_class(world, "rented", providers=[{"name": "lambdalabs"}])
        for number in range(5):
            a_pool(world, f"pool-{number}", "cheap")
        a_pool(world, "waits", "rented")
        world.process("one", operator_main(shipped=True))
        world.process("two", operator_main(shipped=True))
        world.run(minutes=FAULTY_MINUTES)
        a_secret(world, "tgp-operator-secret", LAMBDA_LABS_API_KEY="x")
        world.run(minutes=FAULTY_MINUTES)

        world.calm()
        world.run(minutes=10)
        before = writes(world)
        world.run(minutes=amount(20, 60))

        assert all(ready(world, GPU_NODE_POOL, f"pool-{number}", "default") == "Valid" for number in range(5))
        assert ready(world, GPU_NODE_POOL, "waits", "default") == "Valid"
        assert writes(world) == before
