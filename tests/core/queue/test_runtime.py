"""The runtime: which keys are reconciled, when the first one, what a bad key does to the others, how it stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.contracts.reflector.served import Even, Noted, ServedPods, a_refusal, in_virtual_time
from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.reconcile_context import CURRENT
from tgp.adapters.kube.records.kinds import pods
from tgp.adapters.kube.reflector import Reflector
from tgp.adapters.kube.runtime import LATEST, STOP_WITHIN, Runtime, RuntimeDeps
from tgp.adapters.kube.store import Store
from tgp.api.resource import POD
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.ports.cluster import ClusterBusy

START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    def boottime(self) -> float:
        return asyncio.get_running_loop().time()


class Metered:
    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.lags: list[float] = []
        self.depths: list[int] = []

    def reconciled(self, _controller: str, outcome: str, _seconds: float) -> None:
        self.outcomes.append(outcome)

    def depth(self, _controller: str, waiting: int, _failing: int) -> None:
        self.depths.append(waiting)

    def lag(self, seconds: float) -> None:
        self.lags.append(seconds)


class Reconciler:
    """Notes its reconciles; the test says what each does."""

    def __init__(self, step=None) -> None:
        self.calls: list[tuple[float, ObjectKey]] = []
        self.at_once: dict[ObjectKey, int] = {}
        self.most_at_once = 0
        self._step = step

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        self.calls.append((asyncio.get_running_loop().time(), key))
        self.at_once[key] = self.at_once.get(key, 0) + 1
        assert self.at_once[key] == 1, f"two reconciles of {key} at once"
        self.most_at_once = max(self.most_at_once, sum(self.at_once.values()))
        try:
            return await self._step(key) if self._step else None
        finally:
            self.at_once[key] -= 1

    def names(self) -> list[str]:
        return [key.name for _, key in self.calls]


class Rig:
    def __init__(self, served: ServedPods, step=None, keys=None, **options) -> None:
        self.served = served
        self.noted, self.metered = Noted(), Metered()
        self.store: Store[Pod] = Store(POD)
        self.reconciler = Reconciler(step)
        reflector = Reflector(served, ListTarget(pods()), self.store, Even(), self.noted)
        source = WatchSource(self.store, keys) if keys else WatchSource(self.store)
        controller = Controller("pods", self.reconciler, (source,), writes=(self.store,), **options)
        self.runtime = Runtime([reflector], [controller], RuntimeDeps(LoopClock(), Even(), self.noted, self.metered))


async def at_once() -> None:
    pass


@asynccontextmanager
async def running(rig: Rig, leading=None) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(rig.runtime.run(leading or at_once()))
    try:
        yield task
        rig.runtime.stop()
        await asyncio.wait_for(task, STOP_WITHIN + 1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_every_object_and_every_change_is_reconciled():
    async def scenario():
        served = ServedPods()
        key = served.create("a")
        rig = Rig(served)
        async with running(rig):
            await asyncio.sleep(1)
            served.modify(key, phase="Running")
            served.create("b")
            await asyncio.sleep(1)
            served.delete(key)
            await asyncio.sleep(1)

            assert rig.reconciler.names() == ["a", "a", "b", "a"]
            assert served.lists() == 1, "a replica that leads from the start lists once"

    in_virtual_time(scenario())


def test_no_key_is_reconciled_before_the_stores_are_synced():
    """An empty view looks like an idle cluster; acting on it deletes everything."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        served.refusals.extend([a_refusal(503)] * 5)
        rig = Rig(served)
        async with running(rig):
            await asyncio.sleep(2)
            assert not rig.runtime.synced
            assert rig.reconciler.calls == []
            await asyncio.sleep(60)
            assert rig.reconciler.names() == ["a"]

    in_virtual_time(scenario())


def test_a_replica_that_does_not_lead_watches_and_does_nothing():
    async def scenario():
        served = ServedPods()
        served.create("a")
        rig = Rig(served)
        won = asyncio.Event()
        async with running(rig, won.wait()):
            await asyncio.sleep(100)
            assert rig.runtime.synced
            assert rig.reconciler.calls == []
            lists = served.lists()
            won.set()
            await asyncio.sleep(1)

            assert rig.reconciler.names() == ["a"]
            assert served.lists() == lists + 1, "a new leader begins from a list begun after it won"

    in_virtual_time(scenario())


def test_the_first_reconcile_of_a_new_leader_sees_what_was_written_before_it_won():
    """Its watch may lag; the other leader's last reservation must not be missed."""

    async def scenario():
        seen = []

        async def step(key: ObjectKey):
            seen.append(rig.store.get(key).phase)

        served = ServedPods()
        key = served.create("a")
        rig = Rig(served, step)
        won = asyncio.Event()
        async with running(rig, won.wait()):
            await asyncio.sleep(10)
            served.go_deaf()
            served.modify(key, phase="Running")
            won.set()
            await asyncio.sleep(1)

            assert seen == ["Running"]

    in_virtual_time(scenario())


def test_a_replica_that_never_led_stops_at_once():
    async def scenario():
        rig = Rig(ServedPods())
        async with running(rig, asyncio.Event().wait()):
            await asyncio.sleep(10)
            before = asyncio.get_running_loop().time()
            rig.runtime.stop()
        assert asyncio.get_running_loop().time() - before < 0.1

    in_virtual_time(scenario())


def test_one_poisoned_object_does_not_hold_up_fifty_good_ones():
    async def scenario():
        async def step(key: ObjectKey):
            if key.name == "poison":
                raise RuntimeError("bad object")

        served = ServedPods()
        served.create("poison")
        for number in range(50):
            served.create(f"good-{number}")
        rig = Rig(served, step, workers=1)
        async with running(rig):
            await asyncio.sleep(1)
            good = {name for name in rig.reconciler.names() if name != "poison"}
            assert len(good) == 50
            await asyncio.sleep(3600)

            assert 5 <= rig.reconciler.names().count("poison") <= 30
            facts = [fact for fact in rig.noted.facts if type(fact).__name__ == "ReconcileFailed"]
            assert len(facts) == rig.reconciler.names().count("poison")
            assert facts[0].error == "RuntimeError"
            assert facts[0].key == ObjectKey("team", "poison")
            assert "bad object" not in repr(facts), "an error's message may hold anything"

    in_virtual_time(scenario())


def test_a_reconcile_that_waits_for_something_cancelled_fails_and_its_worker_lives():
    async def scenario():
        async def step(key: ObjectKey):
            if key.name == "a":
                gone = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step, workers=1)
        async with running(rig):
            await asyncio.sleep(1)
            served.create("b")
            await asyncio.sleep(10)

            assert "b" in rig.reconciler.names()
            assert rig.reconciler.names().count("a") > 1
            assert "ReconcileFailed" in rig.noted.names()

    in_virtual_time(scenario())


def test_a_busy_api_server_is_waited_out_and_is_no_failure():
    async def scenario():
        async def step(key: ObjectKey):
            if len(rig.reconciler.calls) == 1:
                raise ClusterBusy("busy", timedelta(seconds=30))

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(100)
            first, second = [at for at, _ in rig.reconciler.calls]

            assert second - first >= 30
            assert rig.noted.facts == []
            assert rig.metered.outcomes == ["requeue", "success"]

    in_virtual_time(scenario())


def test_a_reconcile_says_when_to_look_again():
    async def scenario():
        async def step(key: ObjectKey):
            return LoopClock().now() + timedelta(minutes=10)

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(3600)
            times = [at for at, _ in rig.reconciler.calls]

            assert len(times) == 6
            assert times[1] - times[0] == pytest.approx(600, abs=0.1)

    in_virtual_time(scenario())


@pytest.mark.parametrize(("asked", "least", "most"), [(-1e6, 0.04, 1), (1e9, LATEST - 1, LATEST + 1)])
def test_a_wall_clock_that_jumped_neither_spins_nor_sleeps_for_years(asked, least, most):
    async def scenario():
        async def step(key: ObjectKey):
            return LoopClock().now() + timedelta(seconds=asked)

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(2 * LATEST if asked > 0 else 5)
            times = [at for at, _ in rig.reconciler.calls]

            assert least <= times[1] - times[0] <= most

    in_virtual_time(scenario())


def test_keys_are_served_side_by_side_but_each_one_serially():
    async def scenario():
        async def step(key: ObjectKey):
            await asyncio.sleep(5)

        served = ServedPods()
        keys = [served.create(name) for name in "abcdef"]
        rig = Rig(served, step, workers=4)
        async with running(rig):
            for _ in range(10):
                await asyncio.sleep(1)
                for key in keys:
                    served.modify(key, phase="Running")
            await asyncio.sleep(60)

            assert rig.reconciler.most_at_once == 4

    in_virtual_time(scenario())


def test_a_reconcile_that_never_ends_is_cancelled():
    async def scenario():
        async def step(key: ObjectKey):
            if key.name == "stuck":
                await asyncio.Event().wait()

        served = ServedPods()
        served.create("stuck")
        rig = Rig(served, step, workers=1, reconcile_timeout=timedelta(seconds=30))
        async with running(rig):
            await asyncio.sleep(10)
            served.create("next")
            await asyncio.sleep(30)

            assert "next" in rig.reconciler.names()
            assert "overdue" in rig.metered.outcomes
            await asyncio.sleep(60)
            assert rig.reconciler.names().count("stuck") > 1

    in_virtual_time(scenario())


def test_stopping_lets_reconciles_finish_within_their_grace():
    async def scenario():
        finished = []

        async def step(key: ObjectKey):
            await asyncio.sleep(5)
            finished.append(key.name)

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(1)
        assert finished == ["a"]

    in_virtual_time(scenario())


def test_stopping_does_not_wait_for_ever():
    async def scenario():
        cancelled = []

        async def step(key: ObjectKey):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(key.name)
                raise

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(1)
        assert cancelled == ["a"]

    in_virtual_time(scenario())


def test_changes_of_one_kind_can_wake_keys_of_another():
    async def scenario():
        def pools_of(old, new):
            return [
                ObjectKey("pools", name) for name in sorted({p.node for p in (old, new) if p is not None and p.node})
            ]

        served = ServedPods()
        key = served.create("a")
        rig = Rig(served, keys=pools_of)
        async with running(rig):
            await asyncio.sleep(1)
            served.move(key, "left")
            await asyncio.sleep(1)
            served.move(key, "right")
            await asyncio.sleep(1)

            assert rig.reconciler.names() == ["left", "left", "right"]

    in_virtual_time(scenario())


def test_a_reconcile_waits_until_the_view_shows_our_last_write():
    async def scenario():
        seen = []

        async def step(key: ObjectKey):
            record = rig.store.get(key)
            seen.append(record.phase)
            if len(seen) == 1:
                return LoopClock().now() + timedelta(seconds=5)
            if len(seen) == 2:
                served.go_deaf()  # the watch lags: our own write does not come back at once
                served.modify(key, phase="Running")
                rig.store.note_write(key, str(served.version))
                return LoopClock().now()
            return None

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(300)

            assert seen[:3] == ["Pending", "Pending", "Running"], "never the old state after our own write"
            assert "requeue" in rig.metered.outcomes, "and does not wait for ever either"

    in_virtual_time(scenario())


def test_the_reconcile_is_known_to_whatever_happens_in_it():
    async def scenario():
        contexts = []

        async def step(key: ObjectKey):
            contexts.append(str(CURRENT.get()))

        served = ServedPods()
        served.create("a")
        served.create("b")
        rig = Rig(served, step, workers=1)
        async with running(rig):
            await asyncio.sleep(1)

        assert contexts == ["pods-1", "pods-2"]
        assert CURRENT.get() is None

    in_virtual_time(scenario())


def test_settled_is_called_once_when_all_is_synced():
    async def scenario():
        calls = []
        rig = Rig(ServedPods())
        task = asyncio.create_task(rig.runtime.run(asyncio.Event().wait(), settled=lambda: calls.append(1)))
        await asyncio.sleep(100)
        rig.runtime.stop()
        await task

        assert calls == [1]

    in_virtual_time(scenario())


def test_a_defect_in_a_handler_is_loud():
    """A reflector that dies without an error would leave a view that looks alive."""

    async def scenario():
        def broken(old, new):
            raise IndexError

        served = ServedPods()
        rig = Rig(served, keys=broken)
        async with asyncio.timeout(10):
            with pytest.raises(ExceptionGroup):
                task = asyncio.create_task(rig.runtime.run(at_once()))
                await asyncio.sleep(1)
                served.create("a")
                await task

    in_virtual_time(scenario())


def test_lag_is_measured():
    async def scenario():
        rig = Rig(ServedPods())
        async with running(rig):
            await asyncio.sleep(10)

        assert len(rig.metered.lags) >= 9
        assert max(rig.metered.lags) < 0.001

    in_virtual_time(scenario())


def test_stores_that_no_reflector_fills_are_refused():
    store: Store[Pod] = Store(POD)
    controller = Controller("pods", Reconciler(), (WatchSource(store),))
    deps = RuntimeDeps(LoopClock(), Even(), Noted())

    with pytest.raises(AssertionError, match="no reflector fills"):
        Runtime([], [controller], deps)
