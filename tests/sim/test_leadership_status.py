"""The whole operator at the edges of its term: winning, losing, leaving, and being kept from its Lease."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_pool, create, dial_of, furnish, open_market, ready
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, LEASE, NAMESPACE
from tgp.app.deps import Environment
from tgp.app.operator import CACHE_SILENT_AFTER, Operator
from tgp.app.settings import Settings
from tgp.core.model.hold import HOLD
from tgp.core.model.object_key import ObjectKey
from tgp.ports.http import Call, Http, Reply, Stream
from tgp.ports.leadership import LeadershipLost
from tgp.sim.compute import InlineCompute
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

FORBIDDEN = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"x is forbidden: User \\"a\\" cannot get it"}'


class Barred:
    """An `Http` on which everything below a path is forbidden, while `bars`."""

    def __init__(self, inner: Http, path: str = "/leases") -> None:
        self._inner = inner
        self._path = path
        self.bars = False

    async def send(self, call: Call) -> Reply:
        return Reply(403, FORBIDDEN) if self.bars and self._path in call.path else await self._inner.send(call)

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(call, idle=idle)


class Replica:
    """One process that runs the operator and can be looked into."""

    def __init__(self, world: World, name: str, settings: Settings | None = None, *, bars: bool = False) -> None:
        self.settings = settings or Settings()
        self.operator: Operator | None = None
        self.http: Barred | None = None
        self._bars = bars
        self.ended = False
        self.before: Any = None  # something to do with the operator before it runs
        self.process = world.process(name, self._main, restarts=False)

    async def _main(self, host: Host) -> None:
        self.http = Barred(host.http(KUBERNETES))
        self.http.bars = self._bars
        environment = Environment(
            self.http,
            host.clock,
            host.entropy,
            host.name,
            NAMESPACE_NAME,
            host.compute,
            dial=dial_of(host),
            resolver=host.process.doors.resolver,
            boot=PlainBoot(),
        )
        self.operator = operator = Operator(self.settings, environment)
        beside = asyncio.create_task(self.before(host, operator)) if self.before else None
        try:
            await operator.run()
            self.ended = True
        except LeadershipLost:
            await host.exit()
        finally:
            if beside is not None:
                beside.cancel()

    def troubles(self, world: World) -> list[str]:
        async def look() -> list[str]:
            assert self.operator is not None
            return list(self.operator.troubles())

        return world.until(look())


def holder(world: World) -> str | None:
    lease = world.api.local_api.get(LEASE, NAMESPACE_NAME, "tgp-operator")
    return None if lease is None else lease["spec"].get("holderIdentity")


def test_two_replicas_that_were_given_one_name_do_not_both_lead():
    """TGP_IDENTITY in a Deployment is the same in every pod; the second must not renew the first one's Lease."""
    with World("namesakes") as world:
        furnish(world)
        replicas = [Replica(world, name, Settings(identity="same")) for name in ("one", "two")]
        world.run(minutes=2)

        assert [replica.operator.leads for replica in replicas].count(True) == 1
        assert str(holder(world)).startswith("same_")


def test_whenever_it_is_asked_to_stop_it_leaves_no_lease_behind():
    """Also while the very first try for the Lease is on its way."""
    for moment in [step * 0.004 for step in range(1, 15)]:
        with World(f"leaving-{moment}") as world:
            furnish(world)
            replica = Replica(world, "one")
            world.run(seconds=moment)
            if replica.operator is not None:
                replica.operator.stop()
            world.run(seconds=30)

            assert replica.ended, moment
            assert not holder(world), f"stopped after {moment} s"


def test_a_pause_between_winning_and_knowing_it_is_an_ordinary_end():
    """The term is over before the first turn: that is a lost Lease, not a defect."""
    with World("pause") as world:
        furnish(world)
        replica = Replica(world, "one")

        async def stand_still_on_winning(host: Host, operator: Operator) -> None:
            await operator.elector.won()
            host.process.pause(60)

        replica.before = stand_still_on_winning
        world.run(minutes=3)  # an error-level line, or a process that raises, would fail here

        assert not replica.ended
        assert replica.process.host is None, "it ended itself"


def test_a_replica_that_may_not_touch_the_lease_says_so_and_is_not_ready():
    with World("barred") as world:
        furnish(world)
        first = Replica(world, "one")
        world.run(seconds=30)
        second = Replica(world, "two", bars=True)
        world.run(seconds=5)
        assert second.troubles(world) == [], "a hiccup is no trouble yet"
        world.run(seconds=60)

        assert first.troubles(world) == []
        (trouble,) = second.troubles(world)
        assert trouble.startswith("Lease tgp-system/tgp-operator: ")
        assert "403" in trouble
        assert _metric(second.operator.metrics, "tgp_lease_unreachable_seconds") > 30
        assert _metric(second.operator.metrics, "tgp_lease_errors_total") == 1

        second.http.bars = False
        world.run(seconds=30)
        assert second.troubles(world) == [], "ready, though it does not lead"
        assert not second.operator.leads
        assert _metric(second.operator.metrics, "tgp_lease_unreachable_seconds") == 0


def test_a_view_that_is_not_refreshed_any_more_is_not_ready():
    """Synced once, and cut off since: a probe that says ok would be a lie."""
    with World("stale") as world:
        furnish(world)
        replica = Replica(world, "one", Settings(leader_elect=False))
        world.run(minutes=1)
        assert replica.troubles(world) == []

        world.network.partition("one", KUBERNETES)
        world.run(seconds=CACHE_SILENT_AFTER + 60)
        assert len(replica.troubles(world)) == 14
        assert "not up to date for" in replica.troubles(world)[0]

        world.network.heal("one", KUBERNETES)
        world.run(minutes=3)
        assert replica.troubles(world) == []


def test_a_helper_that_dies_is_loud():
    """Without its recorder the operator would go on without any Event."""
    with World("helper") as world:
        furnish(world)

        async def scenario() -> None:
            environment = Environment(
                world.visitor(KUBERNETES),
                world.clock,
                _Luck(),
                "test",
                NAMESPACE_NAME,
                InlineCompute(),
                boot=PlainBoot(),
            )
            operator = Operator(Settings(), environment)

            async def broken() -> None:
                await asyncio.sleep(5)
                raise IndexError("a defect")

            operator._recorder.run = broken
            async with asyncio.timeout(60):
                with pytest.raises(IndexError):
                    await operator.run()

        world.until(scenario())


def test_dropped_events_are_counted_where_alerts_look():
    with World("dropped") as world:
        furnish(world)
        open_market(world, "simulated")
        a_class(world, "cheap")
        replica = Replica(world, "one")
        world.run(seconds=30)
        replica.http._path, replica.http.bars = "/events", True
        a_pool(world, "lost", "nowhere")
        world.run(minutes=1)

        assert _metric(replica.operator.metrics, "tgp_events_dropped") == 1


def test_an_onlooker_does_not_wait_for_what_it_never_sent():
    """A deletion it held back is nothing its view will ever show."""
    with World("onlooker") as world:
        furnish(world)
        a_class(world, "cheap")
        a_pool(world, "pool", "cheap")
        replica = Replica(world, "one", Settings(observe=True))
        world.run(seconds=30)
        operator, pool = replica.operator, ObjectKey("default", "pool")

        world.until(operator.deps.cluster.delete(GPU_NODE_POOL, pool))

        assert not operator.stores.pools.behind(pool)
        assert ready(world, GPU_NODE_CLASS, "cheap") == "", "it only looks"


@pytest.mark.parametrize("observe", [True, False])
def test_a_viewer_learns_of_a_hold(observe):
    with World("held") as world:
        furnish(world)
        replica = Replica(world, "one", Settings(observe=observe))
        world.run(seconds=5)
        assert replica.operator.held == ""

        for said in ("the invoice; since 2026-01-05T09:00:00Z", None):
            note = {"metadata": {"annotations": {HOLD: said}}}
            world.api.local_api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, note)
            world.run(seconds=5)
            assert replica.operator.held == (said or "")


@pytest.mark.parametrize("observe", [True, False])
def test_requests_are_counted_where_they_are_watched_and_nowhere_else(observe):
    """Who only looks does not watch requests: no series is the truth, and eight zeros would be none."""
    with World("who counts") as world:
        furnish(world)
        create(world, GPU_REQUEST, "train", "default", spec={"gpuType": "H100"})
        a_pool(world, "jobs", "rented", limits={"resources": {"nodes": 3}})
        replica = Replica(world, "one", Settings(observe=observe))
        world.run(seconds=30)

        page = replica.operator.metrics.page().decode()

    assert ('tgp_requests{phase="Pending"} 1.0' in page) == (not observe)
    assert ("tgp_requests" in page) == (not observe)
    assert ('tgp_pool_limit_left{namespace="default",pool="jobs",resource="nodes"} 3.0' in page) == (not observe)


class _Luck:
    def token(self, size: int) -> bytes:
        return bytes(range(size))

    def jitter(self) -> float:
        return 0.5


def _metric(metrics: Metrics, name: str) -> float:
    found = metrics.registry.get_sample_value(name)
    assert found is not None, name
    return found
