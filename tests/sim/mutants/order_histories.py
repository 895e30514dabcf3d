"""Orders whose answer is lost, late or doubled, and what kills or pauses the operator meanwhile."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from tests.sim.an_operator import NAMESPACE_NAME, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import LATE, AtOrders, at_first_order, begin, crash, is_ready, slow_orders, wipe
from tgp.api.resource import GPU_REQUEST, LEASE
from tgp.ports.http import Call, Reply
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.checkers.recorded import RecordedOrder
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.world import KUBERNETES


def whole_life(seed: str) -> None:
    """Apply, Ready, delete, gone."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        env.drops()
        env.until(lambda: env.request() is None, minutes=20)
        env.world.run(minutes=1)

        assert not loose_ends(env.recorder)


def lost_answer(seed: str) -> None:
    """The order is carried out, its buyer hears nothing, and sees nothing for as long as a list may be late."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.fleet.habits = replace(env.simulator.fleet.habits, list_lag=LATE)
        env.simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.wants()
        env.until(is_ready(env), minutes=20)

        assert len(env.simulator.fleet.machines) == 1


def paused_at_the_end(seed: str) -> None:
    """The leader stands still between deciding and termination, and wakes up when another leads."""
    with sim_env(seed, kubelets=QUICK, plan=FaultPlan("tgp-0", _number_of_the_end(seed), Act.PAUSE)) as env:
        _whole_life_under_two(env)
        env.world.run(minutes=6)


def _number_of_the_end(seed: str) -> int:
    with sim_env(seed, kubelets=QUICK) as env:
        _whole_life_under_two(env)
        env.until(lambda: not env.living(), minutes=5, step=1)
        return next(one.number for one in reversed(env.world.effects) if one.endpoint != KUBERNETES)


def _whole_life_under_two(env: SimEnv) -> None:
    begin(env, replicas=1)
    env.world.process("tgp-1", operator_main(shipped=True))
    env.wants()
    env.until(is_ready(env), minutes=20)
    env.drops()


def crash_while_it_is_ordered(seed: str) -> None:
    """The buyer dies with its order under way; the provider takes half a minute over it."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        slow_orders(env)
        at_first_order(env, crash(env), after=0.5)
        env.wants()
        env.until(is_ready(env), minutes=20)


def cut_off_while_it_orders(seed: str) -> None:
    """The leader loses the API server as its order arrives; another leads before the provider has carried it out.

    An older machine is terminated at that time, so that the provider is listed more often than for the order alone.
    """
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.world.process("tgp-1", operator_main(shipped=True))
        env.wants("older", idleTimeout="Never")
        env.until(is_ready(env, "older"), minutes=20)
        slow_orders(env, at_one=lambda: env.world.network.partition("tgp-0", KUBERNETES))
        env.wants()
        env.until(lambda: env.condition("Launched")[1] == "LaunchOutcomePending", minutes=2, step=0.1)
        env.drops("older")
        env.until(lambda: len(env.simulator.fleet.machines) > 1, minutes=5)
        env.world.network.heal_all()
        env.until(is_ready(env), minutes=20)


def crash_after_a_late_order(seed: str) -> None:
    """The same, of an order that left long after it was reserved: the provider could not be reached before."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        slow_orders(env)
        (place,) = [name for name in env.world.network.endpoints() if name != KUBERNETES]
        at_first_order(env, crash(env), after=0.5)
        env.wants()
        env.until(lambda: bool(env.attempts()), minutes=2, step=0.005)
        env.world.network.partition("tgp-0", place)
        env.world.run(seconds=95)
        env.world.network.heal_all()
        env.until(is_ready(env), minutes=20)

        assert len(env.simulator.fleet.machines) == 1


def made_twice(seed: str) -> None:
    """The provider makes two machines for one order."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.MADE_TWICE, CloudVerb.LAUNCH)
        env.wants()
        env.until(is_ready(env), minutes=20)
        env.world.run(minutes=8)

        assert len(env.living()) == 1


def lease_deleted(seed: str) -> None:
    """A user deletes the Lease, again and again, each time as an order leaves that takes three seconds."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, replicas=2)
        slow_orders(env, takes=3.0)

        def misfortune(_order: RecordedOrder) -> None:
            for lease in list(env.world.api.local_api.objects(LEASE, NAMESPACE_NAME)):
                env.world.api.local_api.delete(LEASE, NAMESPACE_NAME, lease["metadata"]["name"])

        env.recorder.add(AtOrders(env, misfortune))
        for number in range(6):
            env.wants(f"train-{number}")
            env.world.run(seconds=47)
        env.world.run(minutes=4)


def never_an_answer(seed: str) -> None:
    """No order is ever carried out, and no answer reports it."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.HANG_UP, CloudVerb.LAUNCH, times=30)
        env.wants()
        env.until(lambda: env.phase() == "Failed", minutes=60)


def deleted_before_the_order(seed: str) -> None:
    """The owner thinks better of it while the provider asks for a pause."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.BUSY_TEXT, CloudVerb.LAUNCH)
        at_first_order(env, env.drops, after=2.0)
        env.wants()
        env.world.run(minutes=4)

        assert not env.simulator.fleet.machines, "a machine was rented for a request that was being deleted"
        assert env.request() is None


def written_while_it_is_ordered(seed: str) -> None:
    """Another client writes the request, or loses its status, between the order and its answer; lists are late."""
    for deed in (_annotate, wipe):
        with sim_env(seed, kubelets=QUICK) as env:
            begin(env)
            at_first_order(env, partial(deed, env))
            env.simulator.faults.chances[CloudFault.LIST_NOTHING] = 1.0
            env.wants()
            env.world.run(minutes=4)
            env.simulator.faults.calm()
            env.until(is_ready(env), minutes=20)

            assert len(env.simulator.fleet.machines) == 1, f"a second machine was rented ({deed.__name__})"


def listed_very_late(seed: str) -> None:
    """The provider names the machine that it made, and hides it far longer than it ever does."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.LIST_LAGS, CloudVerb.LAUNCH)
        env.wants()
        env.until(is_ready(env), minutes=20)

        assert len(env.simulator.fleet.machines) == 1, "a second machine was rented while the first one was hidden"


def answered_with_another(seed: str) -> None:
    """The answer to an order is that of another order: it names a machine that serves, and nothing was made."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants("served", idleTimeout="Never")
        env.until(is_ready(env, "served"), minutes=20)
        (serving,) = env.living()
        _answer_next_order_with(env, serving)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=40)

        assert serving in env.living(), "the machine of another request was terminated"
        assert env.phase("served") == "Ready"
        assert [each["outcome"] for each in env.attempts()] == ["Failed", "Launched"]


def answered_with_a_strangers(seed: str) -> None:
    """The same, of a machine in the account that is not ours: it is not touched, and the request says why."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        fleet = env.simulator.fleet
        fleet.add_foreign(next(iter(fleet.accounts)), 1)
        (web,) = fleet.living()
        _answer_next_order_with(env, web)
        env.wants()
        env.until(lambda: env.condition("Terminating")[1] == "NeverJoined", minutes=40)
        env.world.run(minutes=10)

        assert web in fleet.living(), "a stranger's machine was terminated"
        assert "does not carry the token" in env.condition("ProviderReachable")[2]


def _answer_next_order_with(env: SimEnv, machine: SimulatedMachine) -> None:
    simulator, next_one = env.simulator, [machine]
    (place,) = [name for name in env.world.network.endpoints() if name != KUBERNETES]

    async def handle(call: Call) -> Reply:
        reply = await simulator.handle(call)
        if simulator.verb_of(call) is not CloudVerb.LAUNCH or not next_one:
            return reply
        made = list(simulator.fleet.machines.values())[-1]
        simulator.fleet.vanish(made)
        return Reply(reply.status, reply.content.replace(made.id.encode(), next_one.pop().id.encode()), reply.headers)

    env.world.mount(place, handle)


def _annotate(env: SimEnv) -> None:
    change = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", change)


def another_day(seed: str) -> None:
    """The wall clock of the operator's host jumps by a day."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants(maxLifetime="10h", idleTimeout="Never")
        env.until(is_ready(env), minutes=20)
        env.world.processes["tgp-0"].clock.jump(timedelta(days=1))
        env.world.run(hours=2)  # a quiet request is looked at once an hour

        assert env.phase() == "Ready"


def tagged_like_ours(seed: str) -> None:
    """A class's own tags bear the names of ours."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, tags={"name": "mine", "Name": "mine"})
        env.wants()
        env.until(is_ready(env), minutes=20)


ORDERS = (
    whole_life,
    lost_answer,
    paused_at_the_end,
    crash_while_it_is_ordered,
    cut_off_while_it_orders,
    crash_after_a_late_order,
    made_twice,
    lease_deleted,
    never_an_answer,
    deleted_before_the_order,
    written_while_it_is_ordered,
    listed_very_late,
    answered_with_another,
    answered_with_a_strangers,
    another_day,
    tagged_like_ours,
)
