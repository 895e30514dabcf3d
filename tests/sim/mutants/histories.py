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

from tests.sim.an_operator import NAMESPACE_NAME, a_class, create, operator_main
from tests.sim.lives.an_estate import Lives, lives
from tests.sim.lives.reference import QUICK
from tests.sim.mutants.account_histories import ACCOUNTS
from tests.sim.mutants.joining_histories import JOINING
from tests.sim.mutants.lying_histories import LYING
from tgp.adapters.clouds.simulated import FACTS
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, LEASE, NAMESPACE, NODE
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.hold import HOLD
from tgp.core.model.token import plain_uid
from tgp.ports.cloud import Rate
from tgp.sim.apiserver.storage import Snapshot
from tgp.sim.checkers.everyone import INVARIANTS
from tgp.sim.checkers.money import NoEndWithoutReason, NoOrphan
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.checkers.seen import Order, Rented
from tgp.sim.checkers.witness import Checker, Violation
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.estate import Ailment
from tgp.sim.faults import Fault, Faults
from tgp.sim.plans import Act, Plan
from tgp.sim.router import FREEZE_AT_EFFECT
from tgp.sim.world import KUBERNETES

PROMISE_BROKEN = 1
BUSY_FOR_AN_ORDER = 29.5  # seconds that a slow provider takes over an order: just within a client's patience
LATE = (9.0, 9.9)  # seconds until a launch is listed: just within what this provider is known for
ONE_ORDER_AT_A_TIME = replace(FACTS, rates={"launch": Rate(calls=1, per=timedelta(seconds=12))})
OTHER = "feedfacefeedfacefeedfacefeedface"  # a uid of nobody here


def begin(stage: Lives, replicas: int = 1, **spec: Any) -> None:
    """A class and an operator or two, settled."""
    a_class(stage.world, "rented", **spec)
    for number in range(replicas):
        stage.world.process(f"tgp-{number}", operator_main())
    stage.world.run(minutes=1)


def is_ready(stage: Lives, name: str = "train") -> Callable[[], bool]:
    return lambda: stage.phase(name) == "Ready"


class AtOrders(Checker):
    """Does something at the moment an order leaves."""

    def __init__(self, stage: Lives, deed: Callable[[Order], None]) -> None:
        super().__init__(stage.witness)
        self._deed = deed
        self.orders: list[Order] = []

    def ordered(self, order: Order) -> None:
        self.orders.append(order)
        self._deed(order)


def at_first_order(stage: Lives, deed: Callable[[], None], after: float = 0.0) -> AtOrders:
    def once(_order: Order) -> None:
        if len(checker.orders) == 1:
            stage.world.loop.call_later(after, deed)

    checker = stage.witness.add(AtOrders(stage, once))
    return checker


def slow_orders(stage: Lives, at_one: Callable[[], None] = lambda: None, takes: float = BUSY_FOR_AN_ORDER) -> None:
    """From now on the provider takes its time over an order, and lists what it made as late as it is known to.

    `at_one` is called when the next order arrives there.
    """
    shop, next_one = stage.shop, [at_one]
    shop.fleet.habits = replace(shop.fleet.habits, list_lag=LATE)
    (place,) = [name for name in stage.world.network.endpoints() if name != KUBERNETES]

    async def handle(call: Any) -> Any:
        if shop.verb_of(call) is Verb.LAUNCH:
            if next_one:
                next_one.pop()()
            await asyncio.sleep(takes)
        return await shop.handle(call)

    stage.world.mount(place, handle)


def crash(stage: Lives, restart_after: float = 1.0) -> Callable[[], None]:
    return lambda: stage.world.processes["tgp-0"].crash(restart_after=restart_after)


# -- the histories -----------------------------------------------------------------------------------------------------


def whole_life(seed: str) -> None:
    """Apply, Ready, delete, gone."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=20)
        stage.world.run(minutes=1)

        assert not loose_ends(stage.witness)


def lost_answer(seed: str) -> None:
    """The order is carried out, its buyer hears nothing, and sees nothing for as long as a list may be late."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.fleet.habits = replace(stage.shop.fleet.habits, list_lag=LATE)
        stage.shop.mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)

        assert len(stage.shop.fleet.machines) == 1


def paused_at_the_end(seed: str) -> None:
    """The leader stands still between deciding and giving back, and wakes up when another leads."""
    with lives(seed, kubelets=QUICK, plan=Plan("tgp-0", _number_of_the_end(seed), Act.PAUSE)) as stage:
        _whole_life_under_two(stage)
        stage.world.run(minutes=6)


def _number_of_the_end(seed: str) -> int:
    with lives(seed, kubelets=QUICK) as stage:
        _whole_life_under_two(stage)
        stage.until(lambda: not stage.living(), minutes=5, step=1)
        return next(one.number for one in reversed(stage.world.effects) if one.endpoint != KUBERNETES)


def _whole_life_under_two(stage: Lives) -> None:
    begin(stage, replicas=1)
    stage.world.process("tgp-1", operator_main())
    stage.wants()
    stage.until(is_ready(stage), minutes=20)
    stage.drops()


def crash_while_it_is_ordered(seed: str) -> None:
    """The buyer dies with its order under way; the provider takes half a minute over it."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        slow_orders(stage)
        at_first_order(stage, crash(stage), after=0.5)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)


def cut_off_while_it_orders(seed: str) -> None:
    """The leader loses the API server as its order arrives; another leads before the provider has carried it out.

    An older machine is given back at that time, so that the provider is listed more often than for the order alone.
    """
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.world.process("tgp-1", operator_main())
        stage.wants("older", idleTimeout="Never")
        stage.until(is_ready(stage, "older"), minutes=20)
        slow_orders(stage, at_one=lambda: stage.world.network.partition("tgp-0", KUBERNETES))
        stage.wants()
        stage.until(lambda: stage.condition("Launched")[1] == "Settling", minutes=2, step=0.1)
        stage.drops("older")
        stage.until(lambda: len(stage.shop.fleet.machines) > 1, minutes=5)
        stage.world.network.heal_all()
        stage.until(is_ready(stage), minutes=20)


def crash_after_a_late_order(seed: str) -> None:
    """The same, of an order that left long after it was reserved: the provider could not be reached before."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        slow_orders(stage)
        (place,) = [name for name in stage.world.network.endpoints() if name != KUBERNETES]
        at_first_order(stage, crash(stage), after=0.5)
        stage.wants()
        stage.until(lambda: bool(stage.attempts()), minutes=2, step=0.005)
        stage.world.network.partition("tgp-0", place)
        stage.world.run(seconds=95)
        stage.world.network.heal_all()
        stage.until(is_ready(stage), minutes=20)

        assert len(stage.shop.fleet.machines) == 1


def made_twice(seed: str) -> None:
    """The provider makes two machines for one order."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.MADE_TWICE, Verb.LAUNCH)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)
        stage.world.run(minutes=8)

        assert len(stage.living()) == 1


def at_once(seed: str) -> None:
    """Many requests at the same moment, and room for three."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 3})
        for number in range(12):
            stage.wants(f"train-{number}")
        stage.world.run(minutes=2)

        assert len(stage.living()) == 3


def at_once_seen_late(seed: str) -> None:
    """The same, where the operator sees what it wrote only after a while."""
    with lives(seed, kubelets=QUICK, faults=Faults({Fault.WATCH_LAG: 1.0})) as stage:
        begin(stage, limits={"maxNodes": 3})
        for number in range(12):
            stage.wants(f"train-{number}")
        stage.world.run(minutes=3)


def nothing_listed(seed: str) -> None:
    """For some minutes the provider answers well-formed lists of nothing; of one machine no Node has come yet."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants("one")
        stage.wants("two")
        stage.until(is_ready(stage, "one"), minutes=20)
        stage.until(is_ready(stage, "two"), minutes=20)
        stage.estate.ailments.aim(Ailment.NEVER_REGISTERS)
        stage.wants("three")
        stage.until(lambda: stage.phase("three") == "Booting", minutes=10)
        stage.shop.mishaps.chances[Mishap.LIST_NOTHING] = 1.0
        stage.world.run(minutes=8)
        stage.shop.mishaps.calm()
        stage.world.run(minutes=3)

        assert (stage.phase("one"), stage.phase("two")) == ("Ready", "Ready")


def another_account(seed: str) -> None:
    """The key comes to belong to another account while one machine serves and another has not joined yet."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)
        stage.estate.ailments.aim(Ailment.NEVER_REGISTERS)
        stage.wants("another")
        stage.until(lambda: stage.phase("another") == "Booting", minutes=10)
        accounts = stage.shop.fleet.accounts
        mine = accounts.of("")
        assert mine is not None
        accounts.hand_over("", accounts.other_than(mine.id).id)
        stage.world.run(minutes=8)
        accounts.hand_over("", mine.id)
        stage.world.run(minutes=3)

        assert stage.phase() == "Ready"


def somebody_elses_node(seed: str) -> None:
    """A Node of the reserved name is there already, and it is another request's."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.estate.ailments.aim(Ailment.NEVER_REGISTERS)
        stage.wants()
        stage.until(lambda: bool((stage.request() or {}).get("status", {}).get("nodeName")), minutes=3, step=0.5)
        name = stage.request()["status"]["nodeName"]
        told = f"tgp://simulated/tgp-{stage.witness.cluster}-{OTHER}-1"
        create(stage.world, NODE, name, spec={"providerID": told})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": None}
        amounts = {"cpu": "12", "memory": "48Gi", "nvidia.com/gpu": "1", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        stage.world.api.backstage.merge_patch(NODE, "", name, {"status": status}, "status")
        stage.world.api.backstage.merge_patch(NODE, "", name, {"spec": {"taints": None}})
        stage.world.run(minutes=8)


def wiped(seed: str) -> None:
    """A tool writes the request anew and loses its status."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)
        wipe(stage)
        stage.world.run(minutes=10)
        stage.until(is_ready(stage), minutes=20)

        assert len(stage.living()) == 1


def wiped_while_it_is_ordered(seed: str) -> None:
    """The same while an order is under way, and its buyer dies."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        slow_orders(stage)

        def misfortune() -> None:
            crash(stage)()
            wipe(stage)

        at_first_order(stage, misfortune, after=0.5)
        stage.wants()
        stage.world.run(minutes=5)
        stage.until(is_ready(stage), minutes=20)


def wipe(stage: Lives, name: str = "train") -> None:
    nothing = dict.fromkeys((stage.request(name) or {}).get("status", {}))
    stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"status": nothing}, "status")


FOUR = tuple(f"train-{number}" for number in range(4))


def all_ready(stage: Lives, names: tuple[str, ...] = FOUR) -> Callable[[], bool]:
    return lambda: all(is_ready(stage, name)() for name in names)


def four_wiped(seed: str) -> None:
    """Four statuses are wiped while their machines serve: every machine goes on under its own request."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 4})
        for name in FOUR:
            stage.wants(name)
        stage.until(all_ready(stage), minutes=20)
        before = sorted(machine.id for machine in stage.living())
        for name in FOUR:
            wipe(stage, name)
        stage.wants("fifth")  # there is no room for it, whatever the statuses say
        stage.world.run(minutes=15)

        assert sorted(machine.id for machine in stage.living()) == before, "a machine was ended or bought for a wipe"
        assert all(stage.phase(name) == "Ready" for name in FOUR)


def four_wiped_while_they_are_ordered(seed: str) -> None:
    """Four statuses are wiped during their orders, and the buyer dies; then two of the requests are deleted."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        slow_orders(stage)

        def misfortune() -> None:
            crash(stage)()
            for name in FOUR:
                wipe(stage, name)

        at_first_order(stage, misfortune, after=2.0)
        for name in FOUR:
            stage.wants(name)
        stage.world.run(minutes=2)
        for name in FOUR[:2]:
            stage.drops(name)
        stage.until(all_ready(stage, FOUR[2:]), minutes=20)
        stage.until(lambda: not any(stage.request(name) for name in FOUR[:2]), minutes=20)

        assert len(stage.living()) == 2
        assert max(len(stage.attempts(name)) for name in FOUR[2:]) <= 2


def declared_over(seed: str) -> None:
    """Somebody writes into four statuses that their attempts are over, and the machines run on."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoEndWithoutReason)  # a person ended it, for no reason
    with lives(seed, kubelets=QUICK, invariants=kinds) as stage:
        begin(stage)
        for name in FOUR:
            stage.wants(name, idleTimeout="Never")
        stage.until(all_ready(stage), minutes=20)
        for name in FOUR:
            *earlier, row = stage.attempts(name)
            over = {"attempts": [*earlier, {**row, "outcome": "Failed", "endedAt": row["launchedAt"]}]}
            stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"status": over}, "status")
        stage.world.run(minutes=10)
        stage.until(all_ready(stage), minutes=20)

        assert len(stage.living()) == len(FOUR)


def rewound(seed: str) -> None:
    """etcd is restored to the moment before its machines were rented. No list is old; one request is deleted then."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        for name in FOUR:
            stage.wants(name, idleTimeout="Never")
        stage.until(lambda: all(_guarded(stage, name) for name in FOUR), minutes=1, step=0.01)
        backup = stage.world.api.snapshot()
        stage.until(lambda: len(stage.living()) == len(FOUR), minutes=5)
        stage.world.run(minutes=2)
        stage.world.api.restore(backup)
        stage.drops(FOUR[0])
        stage.until(lambda: stage.request(FOUR[0]) is None, minutes=6)
        stage.world.run(minutes=2)

        assert len(stage.living()) == len(FOUR) - 1, "a machine was bought again, or lost its request"
        assert all(stage.attempts(name)[-1]["outcome"] == "Launched" for name in FOUR[1:])


def rewound_and_carried_past(seed: str) -> None:
    """The same, where other writers have carried the revision beyond the old one before anybody could ask for it."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=20)
        backup = stage.world.api.snapshot()
        stage.world.run(minutes=10)
        old = stage.world.api.store.revision
        stage.world.api.restore(backup)
        stage.drops()
        while stage.world.api.store.revision <= old:
            change = {"metadata": {"annotations": {"written": str(stage.world.api.store.revision)}}}
            stage.world.api.backstage.merge_patch(NAMESPACE, "", "default", change)
        stage.until(lambda: stage.request() is None, minutes=5)

        assert stage.living() == []


def rewound_to_a_reservation(seed: str) -> None:
    """The same, to the moment of an order that came to nothing: its reservation stands there again."""
    _rewound_to_an_order(seed, lambda stage: "endedAt" in (*stage.attempts(), {})[0])


def rewound_past_an_attempt(seed: str) -> None:
    """The same, once the attempt after that has its machine: the request goes on with that one."""
    _rewound_to_an_order(seed, lambda stage: bool(stage.living()))


def _rewound_to_an_order(seed: str, when: Callable[[Lives], bool]) -> None:
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.HANG_UP, Verb.LAUNCH)
        backups = list[Snapshot]()
        at_first_order(stage, lambda: backups.append(stage.world.api.snapshot()))
        stage.wants()
        stage.until(lambda: when(stage), minutes=20, step=0.5)
        stage.world.api.restore(backups[0])
        stage.world.run(minutes=8)

        assert len(stage.shop.fleet.machines) == 1, "a machine was bought again"
        assert [row["outcome"] for row in stage.attempts()] == ["Absent", "Launched"]


def _guarded(stage: Lives, name: str) -> bool:
    return FINALIZER in (stage.request(name) or {"metadata": {}})["metadata"].get("finalizers", ())


def restored_to_before(seed: str) -> None:
    """etcd is restored to a day on which none of its requests existed: four machines of four belong to none."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoOrphan)
    with lives(seed, kubelets=QUICK, invariants=kinds) as stage:
        begin(stage)
        backup = stage.world.api.snapshot()
        for name in FOUR:
            stage.wants(name, idleTimeout="Never")
        stage.until(all_ready(stage), minutes=20)
        stage.witness.forced.update(dict.fromkeys(stage.witness.claims))  # whoever restores it lets all of them go
        stage.world.api.restore(backup)
        stage.world.run(minutes=9)
        assert len(stage.living()) == 4, "the collector ended everything there was, unasked"
        stage.world.run(minutes=9)

        assert stage.living() == [], "machines that belong to no request are paid for ever"


def lease_deleted(seed: str) -> None:
    """Somebody deletes the Lease, again and again, each time as an order leaves that takes three seconds."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, replicas=2)
        slow_orders(stage, takes=3.0)

        def misfortune(_order: Order) -> None:
            for lease in list(stage.world.api.backstage.objects(LEASE, NAMESPACE_NAME)):
                stage.world.api.backstage.delete(LEASE, NAMESPACE_NAME, lease["metadata"]["name"])

        stage.witness.add(AtOrders(stage, misfortune))
        for number in range(6):
            stage.wants(f"train-{number}")
            stage.world.run(seconds=47)
        stage.world.run(minutes=4)


def outbid(seed: str) -> None:
    """A spot machine is stopped; its disk stays, and costs."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, instanceRequirements={"spotAllowed": True})
        stage.wants(spot=True)
        stage.until(is_ready(stage), minutes=20)
        (machine,) = stage.living()
        stage.shop.fleet.interrupt(machine, stage.shop.fleet.advance())
        stage.until(lambda: stage.phase() == "Failed", minutes=20)

        assert stage.living() == []


def restored(seed: str) -> None:
    """A copy from a backup: the old finalizer, the old uid, and no status."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        meta = {"finalizers": [FINALIZER], "annotations": {UID_ANNOTATION: "0b0b0b0b-0000-4000-8000-0b0b0b0b0b0b"}}
        obj = {"metadata": {"name": "train", "namespace": "default", **meta}, "spec": {"gpuType": "RTX4090"}}
        stage.world.api.backstage.create(GPU_REQUEST, obj)
        stage.world.run(minutes=6)

        assert not stage.shop.fleet.machines, "a restored copy bought a machine"


def too_dear(seed: str) -> None:
    """Nothing on sale is within the owner's price."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants(maxHourlyPrice="0.10")
        stage.world.run(minutes=3)

        assert not stage.shop.fleet.machines


def dearer_when_ordered(seed: str) -> None:
    """Prices rise by a fifth between listing and order; the class has room for two at the old price."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, limits={"maxHourlyCost": "1.00"})
        fleet, most = stage.shop.fleet, 1_000_000

        class Counted(Checker):
            def made(self, rented: Rented) -> None:
                cost = sum(machine.rate_microusd for machine in stage.living())
                if cost > most:
                    self.witness.accuse(f"the class costs ${cost / 1e6:.2f} an hour, at most $1.00: {rented}")

        stage.witness.call(Counted)
        for stand in list(fleet.selling()):
            fleet.reprice(stand.shelf.id, stand.hourly_microusd * 6 // 5)
        for number in range(3):
            stage.wants(f"train-{number}", idleTimeout="Never")
        stage.world.run(minutes=1)

        assert stage.living(), "nothing was rented, although there was room"


def containers_on_sale(seed: str) -> None:
    """A class allows every way to boot, and its only provider starts containers: nothing is reserved or ordered."""
    with lives(seed, "runpod") as stage:
        begin(stage, providers=[{"name": "runpod"}], bootPolicy="Any")
        stage.wants()
        stage.world.run(minutes=10)
        assert not stage.attempts(), "a container was reserved to boot Talos"
        assert not stage.shop.calls[Verb.LAUNCH], "a container was ordered to boot Talos"


def never_an_answer(seed: str) -> None:
    """No order is ever carried out, and nobody ever says so."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.HANG_UP, Verb.LAUNCH, times=30)
        stage.wants()
        stage.until(lambda: stage.phase() == "Failed", minutes=60)


def deleted_before_the_order(seed: str) -> None:
    """The owner thinks better of it while the provider asks for a pause."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.BUSY_TEXT, Verb.LAUNCH)
        at_first_order(stage, stage.drops, after=2.0)
        stage.wants()
        stage.world.run(minutes=4)

        assert not stage.shop.fleet.machines, "a machine was rented for a request that was being deleted"
        assert stage.request() is None


def held(seed: str) -> None:
    """Somebody pulled the brake, in the middle and beforehand."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.BUSY_TEXT, Verb.LAUNCH)
        at_first_order(stage, lambda: hold(stage), after=2.0)
        stage.wants()
        stage.world.run(minutes=2)
        stage.wants("later")
        stage.world.run(minutes=3)

        assert not stage.shop.fleet.machines, "a machine was rented while every purchase was stopped"


def hold(stage: Lives) -> None:
    change = {"metadata": {"annotations": {HOLD: "on purpose"}}}
    stage.world.api.backstage.merge_patch(NAMESPACE, "", NAMESPACE_NAME, change)


def stopped_unheard(seed: str) -> None:
    """Somebody pulls the brake, suspends the class or deletes the request while every watch has fallen silent."""
    for stop in (hold, suspend, Lives.drops):
        with lives(seed, kubelets=QUICK) as stage:
            begin(stage)
            stage.shop.mishaps.aim(Mishap.BUSY_TEXT, Verb.LAUNCH)
            at_first_order(stage, partial(_stop_unheard, stage, stop), after=2.0)
            stage.wants()
            stage.world.run(minutes=4)

            assert not stage.shop.fleet.machines, f"a machine was rented after it was stopped ({stop.__name__})"


def _stop_unheard(stage: Lives, stop: Callable[[Lives], None]) -> None:
    host = stage.world.processes["tgp-0"].host
    assert host is not None, "it is running"
    host.frozen_until = stage.world.loop.time() + FREEZE_AT_EFFECT
    stop(stage)


def suspend(stage: Lives) -> None:
    stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": True}})


def stopped_in_line(seed: str) -> None:
    """Somebody pulls the brake, suspends the class or deletes the requests while two orders wait for their turn."""
    for stop in (hold, suspend, _drop_all):
        with patch.object(SimulatedCloud, "facts", ONE_ORDER_AT_A_TIME), lives(seed, kubelets=QUICK) as stage:
            begin(stage)
            orders = at_first_order(stage, partial(stop, stage), after=1.0)
            for number in range(3):
                stage.wants(f"train-{number}")
            stage.world.run(minutes=4)

            assert len(orders.orders) == 1, f"an order left after it was stopped ({stop.__name__})"


def _drop_all(stage: Lives) -> None:
    for number in range(3):
        stage.drops(f"train-{number}")


def written_while_it_is_ordered(seed: str) -> None:
    """Somebody else writes the request, or loses its status, between the order and its answer; lists are late."""
    for deed in (_annotate, wipe):
        with lives(seed, kubelets=QUICK) as stage:
            begin(stage)
            at_first_order(stage, partial(deed, stage))
            stage.shop.mishaps.chances[Mishap.LIST_NOTHING] = 1.0
            stage.wants()
            stage.world.run(minutes=4)
            stage.shop.mishaps.calm()
            stage.until(is_ready(stage), minutes=20)

            assert len(stage.shop.fleet.machines) == 1, f"a second machine was rented ({deed.__name__})"


def listed_very_late(seed: str) -> None:
    """The provider names the machine that it made, and hides it far longer than it ever does."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.LIST_LAGS, Verb.LAUNCH)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)

        assert len(stage.shop.fleet.machines) == 1, "a second machine was rented while the first one was hidden"


def _annotate(stage: Lives) -> None:
    change = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", change)


def another_day(seed: str) -> None:
    """The wall clock of the operator's host jumps by a day."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants(maxLifetime="10h", idleTimeout="Never")
        stage.until(is_ready(stage), minutes=20)
        stage.world.processes["tgp-0"].clock.jump(timedelta(days=1))
        stage.world.run(hours=2)  # a quiet request is looked at once an hour

        assert stage.phase() == "Ready"


def tagged_like_ours(seed: str) -> None:
    """A class's own tags bear the names of ours."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, tags={"name": "mine", "Name": "mine"})
        stage.wants()
        stage.until(is_ready(stage), minutes=20)


def everybody_stripped(seed: str) -> None:
    """All requests are forced away at once: too many machines are nobody's for anybody to believe it."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoOrphan)
    with lives(seed, kubelets=QUICK, invariants=kinds) as stage:
        begin(stage)
        for number in range(4):
            stage.wants(f"train-{number}")
        stage.until(lambda: all(is_ready(stage, f"train-{number}")() for number in range(4)), minutes=20)
        for number in range(4):
            force(stage, f"train-{number}")
        stage.world.run(minutes=6)

        assert len(stage.living()) == 4, "the collector ended everything there was, unasked"


def no_request_shown(seed: str) -> None:
    """For a minute the API server lists no request at all, to a leader that has never heard of one."""
    put, blind = Store.replace, [False]

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        shown = {} if blind[0] and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    with patch.object(Store, "replace", replace_all), lives(seed, kubelets=QUICK) as stage:
        a_class(stage.world, "rented")
        operator = stage.world.process("tgp-0", operator_main())
        stage.world.run(minutes=1)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=20)
        blind[0] = True
        operator.crash(restart_after=5.0)
        stage.world.run(seconds=70)
        blind[0] = False
        stage.world.run(minutes=10)

        assert stage.phase() == "Ready", "its request was there all the time"


def force(stage: Lives, name: str) -> None:
    """`kubectl patch … finalizers: null`, and delete."""
    found = stage.request(name)
    assert found is not None
    stage.witness.forced[plain_uid(found["metadata"]["uid"])] = None
    stage.drops(name)
    stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": None}})


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
        at_once_seen_late,
        nothing_listed,
        no_request_shown,
        another_account,
        somebody_elses_node,
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
        everybody_stripped,
        *ACCOUNTS,
        *JOINING,
        *LYING,
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
