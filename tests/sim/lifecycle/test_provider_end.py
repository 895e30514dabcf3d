"""A provider that was told how long a machine may run: the last guard against a bill that no operator ends."""

from datetime import datetime, timedelta

from tests.sim.an_operator import ALONE, a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.test_lifecycle import SETTINGS, is_over, is_ready, nothing_left, offered
from tgp.api.resource import GPU_REQUEST

PROVIDER = "gcp"


def begin(env: SimEnv, **spec: str) -> None:
    a_class(env.world, "rented", providers=[{"name": PROVIDER, "settings": SETTINGS[PROVIDER]}])
    env.world.process("operator", operator_main(ALONE))
    env.world.run(minutes=3)
    env.wants(gpuType=offered(env.simulator), idleTimeout="Never", **spec)
    env.until(is_ready(env), minutes=60)


def ends_at(env: SimEnv) -> datetime:
    return datetime.fromisoformat(env.attempts()[-1]["providerEndsAt"])


def test_a_machine_whose_operator_is_gone_for_good_ends_by_itself():
    with sim_env("dead for good", PROVIDER) as env:
        begin(env, maxLifetime="2h", terminationGracePeriod="10m")
        (machine,) = env.living()
        env.world.processes["operator"].stop()

        env.world.run(minutes=150)
        assert env.living() == [machine], "not within its lifetime and the drain after it"
        env.world.run(minutes=60)
        assert env.living() == []
        assert ends_at(env) <= machine.ended_at <= ends_at(env) + timedelta(minutes=15)


def test_the_operator_that_comes_back_later_concludes_the_request():
    with sim_env("back again", PROVIDER) as env:
        begin(env, maxLifetime="2h", terminationGracePeriod="10m")
        env.world.processes["operator"].crash(restart_after=5 * 3_600)
        env.world.run(hours=5)
        assert env.living() == []
        env.until(is_over(env), minutes=60)
        nothing_left(env, after=90)


def test_an_operator_that_lives_is_always_earlier_than_the_provider():
    with sim_env("earlier", PROVIDER) as env:
        begin(env, maxLifetime="1h", terminationGracePeriod="10m")
        (machine,) = env.living()
        env.until(is_over(env), minutes=90)

        assert env.condition("Ended")[:2] == ("True", "Expired")
        assert machine.ended_at < ends_at(env) - timedelta(minutes=30)
        nothing_left(env)


def test_a_lifetime_extended_too_far_is_announced_and_ends_in_order():
    """The provider cannot be told a later end while the machine runs: the status says so from the moment on."""
    with sim_env("extended", PROVIDER) as env:
        begin(env, maxLifetime="1h", terminationGracePeriod="10m")
        (machine,) = env.living()
        longer = {"spec": {"maxLifetime": "12h"}}
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", longer)
        env.world.run(minutes=2)
        assert env.condition("ExpiresSoon")[:2] == ("True", "ProviderEndsMachine")

        env.until(is_over(env), minutes=150)
        assert env.condition("Ended")[:2] == ("True", "Expired")
        assert machine.ended_at < ends_at(env)
        nothing_left(env)
