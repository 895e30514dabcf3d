"""Short histories that a careful operator survives: each aims at one part of the launch protocol.

    python -m tests.sim.mutants.histories lost-answer 1

Every invariant is watched; what a history adds of its own is an `assert`. Ends with 0 where every promise was kept,
with 1 and the promise where one was broken, and in any other way where something else went wrong.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_pool, create, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.account_histories import ACCOUNTS
from tests.sim.mutants.budget_histories import BUDGETS
from tests.sim.mutants.joining_histories import JOINING
from tests.sim.mutants.lying_histories import LYING
from tests.sim.mutants.moving_histories import MOVING
from tests.sim.mutants.pool_histories import POOLS
from tgp.adapters.clouds.simulated import FACTS
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, LEASE, NAMESPACE, NODE, POD
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.hold import HOLD
from tgp.core.model.provider_facts import Rate
from tgp.core.model.token import plain_uid
from tgp.core.pools.runaway import PAUSES
from tgp.sim.apiserver.storage import StorageSnapshot
from tgp.sim.checkers.money import NoEndWithoutReason, NoOrphan
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.checkers.recorded import RecordedOrder, Rented
from tgp.sim.checkers.recorder import Checker, Violation
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.faults import Fault, Faults
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.router import FREEZE_AT_EFFECT
from tgp.sim.world import KUBERNETES

PROMISE_BROKEN = 1
BUSY_FOR_AN_ORDER = 29.5  # seconds that a slow provider takes over an order: just within a client's patience
LATE = (9.0, 9.9)  # seconds until a launch is listed: just within what this provider is known for
ONE_ORDER_AT_A_TIME = replace(FACTS, rates={"launch": Rate(calls=1, per=timedelta(seconds=12))})
OTHER = "feedfacefeedfacefeedfacefeedface"  # an unused uid


def begin(env: SimEnv, replicas: int = 1, **spec: Any) -> None:
    """A class and an operator or two, settled."""
    a_class(env.world, "rented", **spec)
    for number in range(replicas):
        env.world.process(f"tgp-{number}", operator_main(shipped=True))
    env.world.run(minutes=1)


def is_ready(env: SimEnv, name: str = "train") -> Callable[[], bool]:
    return lambda: env.phase(name) == "Ready"


class AtOrders(Checker):
    """Does something at the moment an order leaves."""

    def __init__(self, env: SimEnv, deed: Callable[[RecordedOrder], None]) -> None:
        super().__init__(env.recorder)
        self._deed = deed
        self.orders: list[RecordedOrder] = []

    def ordered(self, order: RecordedOrder) -> None:
        self.orders.append(order)
        self._deed(order)


def at_first_order(env: SimEnv, deed: Callable[[], None], after: float = 0.0) -> AtOrders:
    def once(_order: RecordedOrder) -> None:
        if len(checker.orders) == 1:
            env.world.loop.call_later(after, deed)

    checker = env.recorder.add(AtOrders(env, once))
    return checker


def slow_orders(env: SimEnv, at_one: Callable[[], None] = lambda: None, takes: float = BUSY_FOR_AN_ORDER) -> None:
    """From now on the provider takes its time over an order, and lists what it made as late as it is known to.

    `at_one` is called when the next order arrives there.
    """
    simulator, next_one = env.simulator, [at_one]
    simulator.fleet.habits = replace(simulator.fleet.habits, list_lag=LATE)
    (place,) = [name for name in env.world.network.endpoints() if name != KUBERNETES]

    async def handle(call: Any) -> Any:
        if simulator.verb_of(call) is CloudVerb.LAUNCH:
            if next_one:
                next_one.pop()()
            await asyncio.sleep(takes)
        return await simulator.handle(call)

    env.world.mount(place, handle)


def crash(env: SimEnv, restart_after: float = 1.0) -> Callable[[], None]:
    return lambda: env.world.processes["tgp-0"].crash(restart_after=restart_after)


# -- the histories -----------------------------------------------------------------------------------------------------


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


def nothing_listed(seed: str) -> None:
    """For some minutes the provider answers well-formed lists of nothing; of one machine no Node has come yet."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants("one")
        env.wants("two")
        env.until(is_ready(env, "one"), minutes=20)
        env.until(is_ready(env, "two"), minutes=20)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants("three")
        env.until(lambda: env.phase("three") == "Booting", minutes=10)
        env.simulator.faults.chances[CloudFault.LIST_NOTHING] = 1.0
        env.world.run(minutes=8)
        env.simulator.faults.calm()
        env.world.run(minutes=3)

        assert (env.phase("one"), env.phase("two")) == ("Ready", "Ready")


def another_account(seed: str) -> None:
    """The key comes to belong to another account while one machine serves and another has not joined yet."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants("another")
        env.until(lambda: env.phase("another") == "Booting", minutes=10)
        accounts = env.simulator.fleet.accounts
        mine = accounts.of("")
        assert mine is not None
        accounts.hand_over("", accounts.other_than(mine.id).id)
        env.world.run(minutes=8)
        accounts.hand_over("", mine.id)
        env.world.run(minutes=3)

        assert env.phase() == "Ready"


def another_machines_node(seed: str) -> None:
    """A Node of the reserved name is there already, and it is another request's."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants()
        env.until(lambda: bool((env.request() or {}).get("status", {}).get("nodeName")), minutes=3, step=0.5)
        name = env.request()["status"]["nodeName"]
        told = f"tgp://simulated/tgp-{env.recorder.cluster}-{OTHER}-1"
        create(env.world, NODE, name, spec={"providerID": told})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": None}
        amounts = {"cpu": "12", "memory": "48Gi", "nvidia.com/gpu": "1", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        env.world.api.local_api.merge_patch(NODE, "", name, {"status": status}, "status")
        env.world.api.local_api.merge_patch(NODE, "", name, {"spec": {"taints": None}})
        env.world.run(minutes=8)


def pods_for_another_machines_node(seed: str) -> None:
    """The same Node, where a pool has bought the machine for a pod, and another pod could take it."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        a_pool(env.world, "team", "rented")
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS, NodeFault.NEVER_REGISTERS)
        env.world.run(seconds=10)
        tolerations = [{"operator": "Exists"}]
        local = env.world.api.local_api
        local.create(POD, a_pod("any", gpus=1, tolerations=tolerations))
        local.create(POD, a_pod("large", gpus=1, tolerations=tolerations, nodeSelector={"tgp.io/gpu-memory": "80"}))
        reserved: list[dict[str, Any]] = []

        def both_reserved() -> bool:
            reserved[:] = [row for row in local.objects(GPU_REQUEST) if row.get("status", {}).get("nodeName")]
            return len(reserved) == 2

        env.until(both_reserved, minutes=3, step=0.5)
        for row in reserved:
            told = f"tgp://simulated/tgp-{env.recorder.cluster}-{OTHER}-1"
            create(env.world, NODE, row["status"]["nodeName"], spec={"providerID": told})
        env.world.run(minutes=2)

        pods = [local.get(POD, "default", name) for name in ("any", "large")]
        told_to = [pod["status"].get("nominatedNodeName") for pod in pods if pod is not None]
        assert told_to == [None, None], "a pod was nominated to another machine's Node"


def smaller_than_promised(seed: str) -> None:
    """Every machine that fits a pod by its offer comes up with less memory than the pod needs."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        a_pool(env.world, "team", "rented", disruption={"consolidateAfter": "2m"})
        env.world.run(seconds=10)
        pod = a_pod("train", gpus=1, tolerations=[{"operator": "Exists"}], nodeSelector={"tgp.io/gpu-type": "T4"})
        pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "14900Mi"  # of 16 GiB: 92 % are promised
        env.world.api.local_api.create(POD, pod)
        env.world.run(hours=2)

        assert len(env.simulator.fleet.machines) <= len(PAUSES), "a pod was bought one useless machine after another"


def wiped(seed: str) -> None:
    """A tool writes the request again and loses its status."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        wipe(env)
        env.world.run(minutes=10)
        env.until(is_ready(env), minutes=20)

        assert len(env.living()) == 1


def wiped_while_it_is_ordered(seed: str) -> None:
    """The same while an order is under way, and its buyer dies."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        slow_orders(env)

        def misfortune() -> None:
            crash(env)()
            wipe(env)

        at_first_order(env, misfortune, after=0.5)
        env.wants()
        env.world.run(minutes=5)
        env.until(is_ready(env), minutes=20)


def wipe(env: SimEnv, name: str = "train") -> None:
    nothing = dict.fromkeys((env.request(name) or {}).get("status", {}))
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": nothing}, "status")


FOUR = tuple(f"train-{number}" for number in range(4))


def all_ready(env: SimEnv, names: tuple[str, ...] = FOUR) -> Callable[[], bool]:
    return lambda: all(is_ready(env, name)() for name in names)


def four_wiped(seed: str) -> None:
    """Four statuses are wiped while their machines serve: every machine goes on under its own request."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 4})
        for name in FOUR:
            env.wants(name)
        env.until(all_ready(env), minutes=20)
        before = sorted(machine.id for machine in env.living())
        for name in FOUR:
            wipe(env, name)
        env.wants("fifth")  # there is no room for it, whatever the statuses say
        env.world.run(minutes=15)

        assert sorted(machine.id for machine in env.living()) == before, "a machine was ended or bought for a wipe"
        assert all(env.phase(name) == "Ready" for name in FOUR)


def four_wiped_while_they_are_ordered(seed: str) -> None:
    """Four statuses are wiped during their orders, and the buyer dies; then two of the requests are deleted."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        slow_orders(env)

        def misfortune() -> None:
            crash(env)()
            for name in FOUR:
                wipe(env, name)

        at_first_order(env, misfortune, after=2.0)
        for name in FOUR:
            env.wants(name)
        env.world.run(minutes=2)
        for name in FOUR[:2]:
            env.drops(name)
        env.until(all_ready(env, FOUR[2:]), minutes=20)
        env.until(lambda: not any(env.request(name) for name in FOUR[:2]), minutes=20)

        assert len(env.living()) == 2
        assert max(len(env.attempts(name)) for name in FOUR[2:]) <= 2


def declared_over(seed: str) -> None:
    """A user writes into four statuses that their attempts have ended, and the machines run on."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoEndWithoutReason)  # a person ended it, for no reason
    with sim_env(seed, kubelets=QUICK, invariants=kinds) as env:
        begin(env)
        for name in FOUR:
            env.wants(name, idleTimeout="Never")
        env.until(all_ready(env), minutes=20)
        for name in FOUR:
            *earlier, row = env.attempts(name)
            over = {"attempts": [*earlier, {**row, "outcome": "Failed", "endedAt": row["launchedAt"]}]}
            env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": over}, "status")
        env.world.run(minutes=10)
        env.until(all_ready(env), minutes=20)

        assert len(env.living()) == len(FOUR)


def rewound(seed: str) -> None:
    """etcd is restored to the moment before its machines were rented. No list is old; one request is deleted then."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        for name in FOUR:
            env.wants(name, idleTimeout="Never")
        env.until(lambda: all(_guarded(env, name) for name in FOUR), minutes=1, step=0.01)
        backup = env.world.api.snapshot()
        env.until(lambda: len(env.living()) == len(FOUR), minutes=5)
        env.world.run(minutes=2)
        env.world.api.restore(backup)
        env.drops(FOUR[0])
        env.until(lambda: env.request(FOUR[0]) is None, minutes=6)
        env.world.run(minutes=2)

        assert len(env.living()) == len(FOUR) - 1, "a machine was bought again, or lost its request"
        assert all(env.attempts(name)[-1]["outcome"] == "Launched" for name in FOUR[1:])


def rewound_and_carried_past(seed: str) -> None:
    """The same, where other writers have carried the revision beyond the old one before it could be read."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=20)
        backup = env.world.api.snapshot()
        env.world.run(minutes=10)
        old = env.world.api.store.revision
        env.world.api.restore(backup)
        env.drops()
        while env.world.api.store.revision <= old:
            change = {"metadata": {"annotations": {"written": str(env.world.api.store.revision)}}}
            env.world.api.local_api.merge_patch(NAMESPACE, "", "default", change)
        env.until(lambda: env.request() is None, minutes=5)

        assert env.living() == []


def rewound_to_a_reservation(seed: str) -> None:
    """The same, to the moment of an order that came to nothing: its reservation stands there again."""
    _rewound_to_an_order(seed, lambda env: "endedAt" in (*env.attempts(), {})[0])


def rewound_past_an_attempt(seed: str) -> None:
    """The same, once the attempt after that has its machine: the request goes on with that one."""
    _rewound_to_an_order(seed, lambda env: bool(env.living()))


def _rewound_to_an_order(seed: str, when: Callable[[SimEnv], bool]) -> None:
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.HANG_UP, CloudVerb.LAUNCH)
        backups = list[StorageSnapshot]()
        at_first_order(env, lambda: backups.append(env.world.api.snapshot()))
        env.wants()
        env.until(lambda: when(env), minutes=20, step=0.5)
        env.world.api.restore(backups[0])
        env.world.run(minutes=8)

        assert len(env.simulator.fleet.machines) == 1, "a machine was bought again"
        assert [row["outcome"] for row in env.attempts()] == ["NotCreated", "Launched"]


def _guarded(env: SimEnv, name: str) -> bool:
    return FINALIZER in (env.request(name) or {"metadata": {}})["metadata"].get("finalizers", ())


def restored_to_before(seed: str) -> None:
    """etcd is restored to a day on which none of its requests existed: four machines of four belong to none."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoOrphan)
    with sim_env(seed, kubelets=QUICK, invariants=kinds) as env:
        begin(env)
        backup = env.world.api.snapshot()
        for name in FOUR:
            env.wants(name, idleTimeout="Never")
        env.until(all_ready(env), minutes=20)
        env.recorder.forced.update(dict.fromkeys(env.recorder.claims))  # a restore releases all of them
        env.world.api.restore(backup)
        env.world.run(minutes=9)
        assert len(env.living()) == 4, "the collector ended everything there was, unasked"
        env.world.run(minutes=9)

        assert env.living() == [], "machines that belong to no request are paid for ever"


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


def restored(seed: str) -> None:
    """A copy from a backup: the old finalizer, the old uid, and no status."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        meta = {"finalizers": [FINALIZER], "annotations": {UID_ANNOTATION: "0b0b0b0b-0000-4000-8000-0b0b0b0b0b0b"}}
        obj = {"metadata": {"name": "train", "namespace": "default", **meta}, "spec": {"gpuType": "RTX4090"}}
        env.world.api.local_api.create(GPU_REQUEST, obj)
        env.world.run(minutes=6)

        assert not env.simulator.fleet.machines, "a restored copy bought a machine"


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


def all_finalizers_stripped(seed: str) -> None:
    """All requests are deleted by force at once: implausibly many machines become orphans."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoOrphan)
    with sim_env(seed, kubelets=QUICK, invariants=kinds) as env:
        begin(env)
        for number in range(4):
            env.wants(f"train-{number}")
        env.until(lambda: all(is_ready(env, f"train-{number}")() for number in range(4)), minutes=20)
        for number in range(4):
            force(env, f"train-{number}")
        env.world.run(minutes=6)

        assert len(env.living()) == 4, "the collector ended everything there was, unasked"


def no_request_shown(seed: str) -> None:
    """For a minute the API server lists no request at all, to a leader that has never heard of one."""
    put, blind = Store.replace, [False]

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        shown = {} if blind[0] and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    with patch.object(Store, "replace", replace_all), sim_env(seed, kubelets=QUICK) as env:
        a_class(env.world, "rented")
        operator = env.world.process("tgp-0", operator_main(shipped=True))
        env.world.run(minutes=1)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=20)
        blind[0] = True
        operator.crash(restart_after=5.0)
        env.world.run(seconds=70)
        blind[0] = False
        env.world.run(minutes=10)

        assert env.phase() == "Ready", "its request was there all the time"


def force(env: SimEnv, name: str) -> None:
    """`kubectl patch … finalizers: null`, and delete."""
    found = env.request(name)
    assert found is not None
    env.recorder.forced[plain_uid(found["metadata"]["uid"])] = None
    env.drops(name)
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": None}})


HISTORIES: dict[str, Callable[[str], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        whole_life,
        lost_answer,
        paused_at_the_end,
        crash_while_it_is_ordered,
        cut_off_while_it_orders,
        crash_after_a_late_order,
        made_twice,
        at_once,
        at_once_for_a_pool,
        at_once_seen_late,
        nothing_listed,
        no_request_shown,
        another_account,
        another_machines_node,
        pods_for_another_machines_node,
        smaller_than_promised,
        wiped,
        wiped_while_it_is_ordered,
        four_wiped,
        four_wiped_while_they_are_ordered,
        declared_over,
        rewound,
        rewound_and_carried_past,
        rewound_to_a_reservation,
        rewound_past_an_attempt,
        restored_to_before,
        lease_deleted,
        outbid,
        restored,
        too_dear,
        dearer_when_ordered,
        containers_on_sale,
        never_an_answer,
        deleted_before_the_order,
        held,
        stopped_unheard,
        stopped_in_line,
        written_while_it_is_ordered,
        listed_very_late,
        another_day,
        tagged_like_ours,
        all_finalizers_stripped,
        *ACCOUNTS,
        *JOINING,
        *LYING,
        *POOLS,
        *MOVING,
        *BUDGETS,
    )
}


def main(name: str, seed: str) -> int:
    try:
        HISTORIES[name](seed)
    except Violation as error:
        print(str(error).splitlines()[0])
        return PROMISE_BROKEN
    except AssertionError as error:
        if type(error) is not AssertionError:
            raise  # a simulation that went wrong proves nothing about promises
        print(str(error).splitlines()[0] if str(error) else "what the history asks for did not come true")
        return PROMISE_BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
