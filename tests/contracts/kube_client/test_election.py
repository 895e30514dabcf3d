"""Replicas that stand for one lease, in virtual time: one at a time acts, and one always does."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.elector import LeaseElector, new_identity
from tgp.adapters.kube.elector_rules import LeaseTimes
from tgp.api.resource import CONFIG_MAP, LEASE
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Call, NoAnswer, Reply, Streaming
from tgp.ports.leadership import LeadershipLost, NotLeading
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.entropy import SeededEntropy
from tgp.sim.faults import ALL
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.process import Host
from tgp.sim.router import NO_LATENCY, Latency
from tgp.sim.world import World

LEADER = ObjectKey("default", "tgp-leader")
NOTE = ObjectKey("default", "note")
TIMES = LeaseTimes()


class Ledger:
    """The API server's side: every write of a leader, in the order in which it arrived."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server = ApiServer(world.clock, SeededEntropy(world.seed, "apiserver"))
        self.writes: list[tuple[float, str, str]] = []  # (when, who, epoch)
        self.renewals: list[float] = []
        self.terms: list[str] = []  # epochs, in the order of their first writes
        self.late: list[str] = []
        world.mount("kube", self.handle)
        world.until(self._prepare())

    async def _prepare(self) -> None:
        await self.visitor().create(CONFIG_MAP, {"metadata": {"namespace": "default", "name": "note"}})

    def visitor(self) -> KubeCluster:
        return KubeCluster(self.world.visitor("kube"), SeededEntropy(1, "visitor"))

    async def handle(self, call: Call) -> Reply | Streaming:
        if call.changes_things and "/configmaps/" in call.path:
            data = msgspec.json.decode(call.body)["data"]
            self._note(data["who"], data["epoch"])
        if call.changes_things and "/leases/" in call.path:
            self.renewals.append(self.world.loop.time())
        return await self.server.handle(call)

    def _note(self, who: str, epoch: str) -> None:
        self.writes.append((self.world.loop.time(), who, epoch))
        if epoch not in self.terms:
            self.terms.append(epoch)
        elif epoch != self.terms[-1]:
            self.late.append(f"{who} wrote in {epoch} after {self.terms[-1]} had begun")

    def no_two_at_once(self) -> None:
        """Once a term's first write arrived, none of an earlier term may follow."""
        assert self.late == []


async def replica(host: Host, *, fenced: bool = True) -> None:
    """An operator that does nothing but lead: it writes every second while it may."""
    http = host.http("kube")
    elector = LeaseElector(
        KubeCluster(http, host.entropy),
        host.clock,
        host.entropy,
        key=LEADER,
        identity=new_identity(host.name, host.entropy),
    )
    cluster = KubeCluster(http, host.entropy, fence=elector.fence if fenced else None)
    acting = asyncio.ensure_future(act(host, elector, cluster))
    try:
        await elector.run()
    except LeadershipLost:
        acting.cancel()
        await host.exit()


async def act(host: Host, elector: LeaseElector, cluster: KubeCluster) -> None:
    await elector.won()
    while True:
        try:
            data = {"who": host.name, "epoch": elector.fence.epoch()}
            await cluster.patch(CONFIG_MAP, NOTE, {"data": data})
        except (ClusterError, NotLeading):
            pass  # the next turn tries again
        await asyncio.sleep(1)


def a_house(world: World, replicas: int = 2) -> Ledger:
    ledger = Ledger(world)
    world.watch(lambda _world: ledger.no_two_at_once())
    for number in range(replicas):
        world.process(f"replica-{number}", replica)
    return ledger


def the_leader(ledger: Ledger) -> str:
    return ledger.writes[-1][1]


def others_after(ledger: Ledger, who: str, moment: float) -> float:
    """How long after `moment` another replica first wrote."""
    return min(when for when, name, _ in ledger.writes if name != who and when > moment) - moment


def test_exactly_one_leads_and_renews_every_two_seconds():
    with World(1) as world:
        ledger = a_house(world, replicas=3)
        world.run(minutes=10)

        assert len({who for _, who, _ in ledger.writes}) == 1
        assert 295 <= len(ledger.renewals) <= 310


@pytest.mark.parametrize("seed", range(10))
def test_after_a_power_cut_another_acts_within_twenty_seconds(seed: int):
    with World(seed) as world:
        ledger = a_house(world)
        world.run(seconds=60 + seed * 0.37)
        leader, moment = the_leader(ledger), world.loop.time()
        world.processes[leader].stop()
        world.run(seconds=40)

        assert others_after(ledger, leader, moment) <= 20


@pytest.mark.parametrize("seconds", [11, 14, 15, 16, 17, 20, 60, 600])
def test_a_leader_that_stood_still_writes_nothing_when_it_wakes(seconds: float):
    """SIGSTOP and SIGCONT: its clock went on, its lease did not."""
    with World(1) as world:
        ledger = a_house(world)
        world.run(seconds=60)
        leader, moment = the_leader(ledger), world.loop.time()
        world.processes[leader].pause(seconds)
        world.run(seconds=seconds + 30)

        late = [when for when, who, _ in ledger.writes if who == leader and moment + 10.1 < when < moment + seconds + 1]
        assert late == []
        assert world.processes[leader].starts == 2, "it ended itself instead of going on"


def test_a_leader_that_is_cut_off_stops_before_the_other_begins():
    with World(1) as world:
        ledger = a_house(world)
        world.run(seconds=60)
        leader, moment = the_leader(ledger), world.loop.time()
        world.network.partition(leader, "kube")
        world.run(seconds=40)

        assert world.processes[leader].starts == 2
        assert 10 < others_after(ledger, leader, moment) <= 20


def test_a_suspended_machine_counts_its_sleep():
    """The monotonic clock would not: its leader would believe in a lease that ended hours ago."""
    with World(1) as world:
        ledger = a_house(world)
        world.run(seconds=60)
        leader = the_leader(ledger)
        world.processes[leader].clock.suspend(3600)
        world.run(seconds=5)

        gone = world.processes[leader].host is None
        assert gone or world.processes[leader].starts == 2, "it ended itself"


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1), timedelta(hours=1), timedelta(hours=-1)])
def test_wall_clocks_that_jump_change_nothing(jump: timedelta):
    with World(1) as world:
        ledger = a_house(world, replicas=3)
        world.run(seconds=60)
        for process in world.processes.values():
            process.clock.jump(jump)
        world.run(minutes=5)

        assert len({epoch for _, _, epoch in ledger.writes}) == 1


def test_a_released_lease_is_taken_at_once():
    with World(1) as world:
        ledger = Ledger(world)
        left: list[float] = []

        async def leaves_after_a_minute(host: Host) -> None:
            elector = an_elector(ledger, host)
            standing = asyncio.ensure_future(elector.run())
            await elector.won()
            await asyncio.sleep(60)
            standing.cancel()
            await elector.release()
            with pytest.raises(NotLeading):
                elector.fence.check()
            left.append(world.loop.time())
            await host.for_ever()

        world.process("first", leaves_after_a_minute)
        world.run(seconds=10)
        world.process("second", replica)
        world.run(seconds=80)

        assert others_after(ledger, "first", left[0]) <= TIMES.retry * 1.3 + 0.1


def an_elector(ledger: Ledger, host: Host, wrap: Callable[[Any], Any] = lambda http: http) -> LeaseElector:
    del ledger
    cluster = KubeCluster(wrap(host.http("kube")), host.entropy)
    return LeaseElector(cluster, host.clock, host.entropy, key=LEADER, identity=host.name)


def run_one(scenario: Callable[[World, Ledger, Host], Any], seed: int = 1) -> None:
    """One process, watched from inside."""
    done: list[bool] = []
    with World(seed) as world:
        ledger = Ledger(world)
        world.network.mount("kube", ledger.handle, NO_LATENCY)

        async def main(host: Host) -> None:
            await scenario(world, ledger, host)
            done.append(True)
            await host.for_ever()

        world.process("one", main, restarts=False)
        world.run(minutes=5)
    assert done


class Lossy:
    """Delivers every changing call; loses the answers while `losing`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.losing = False

    async def send(self, call: Call) -> Reply:
        reply = await self._inner.send(call)
        if self.losing and call.changes_things:
            raise NoAnswer("lost")
        return reply


def test_a_renewal_whose_answer_was_lost_is_no_success():
    """It did happen, every time; but we do not know it, so the term is not extended and ends."""

    async def scenario(world: World, ledger: Ledger, host: Host) -> None:
        lossy: list[Lossy] = []

        def wrap(http: Any) -> Lossy:
            lossy.append(Lossy(http))
            return lossy[0]

        elector = an_elector(ledger, host, wrap)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        await asyncio.sleep(30)
        lossy[0].losing = True
        before, moment = elector.fence.deadline(), world.loop.time()
        await asyncio.sleep(5)
        assert elector.fence.deadline() == before
        assert len([when for when in ledger.renewals if when > moment]) >= 2, "the server did renew"
        with pytest.raises(LeadershipLost):
            await standing
        assert elector.fence.deadline() is None

    run_one(scenario)


def test_one_lost_answer_is_made_good_by_the_next_try():
    async def scenario(_world: World, ledger: Ledger, host: Host) -> None:
        lossy: list[Lossy] = []

        def wrap(http: Any) -> Lossy:
            lossy.append(Lossy(http))
            return lossy[0]

        elector = an_elector(ledger, host, wrap)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        epoch = elector.fence.epoch()
        for _ in range(10):
            lossy[0].losing = True
            await asyncio.sleep(2.1)
            lossy[0].losing = False
            await asyncio.sleep(4)
            assert elector.fence.epoch() == epoch
        standing.cancel()

    run_one(scenario)


def test_the_term_counts_from_the_start_of_the_renewal():
    async def scenario(_world: World, ledger: Ledger, host: Host) -> None:
        class Slow(Lossy):
            async def send(self, call: Call) -> Reply:
                await asyncio.sleep(3)
                return await self._inner.send(call)

        elector = an_elector(ledger, host, Slow)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        deadline = elector.fence.deadline()
        assert deadline is not None
        assert deadline - host.clock.boottime() == pytest.approx(TIMES.renew_within - 3, abs=0.1)
        standing.cancel()

    run_one(scenario)


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.9, 2.0, 2.0005, 2.002, 2.01, 3.0])
def test_a_release_and_a_renewal_do_not_cross(moment: float):
    """Whenever it is asked for, also while a renewal is on its way: the lease ends up empty and the fence shut."""

    async def scenario(world: World, ledger: Ledger, host: Host) -> None:
        world.network.mount("kube", ledger.handle, Latency(0.001, 0.001))
        elector = an_elector(ledger, host)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        await asyncio.sleep(moment)
        await elector.release()
        assert elector.fence.deadline() is None
        await standing  # ends by itself
        lease = await ledger.visitor().read(LEASE, LEADER)
        assert lease["spec"]["holderIdentity"] == ""
        assert elector.last_error == ""

    run_one(scenario)


@pytest.mark.parametrize("theft", ["taken", "emptied", "deleted"])
def test_a_lease_that_is_taken_away_ends_the_term_at_once(theft: str):
    """Even if it could be had again: a new record is a new term, and this process belongs to the old one."""

    async def scenario(_world: World, ledger: Ledger, host: Host) -> None:
        elector = an_elector(ledger, host)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        visitor = ledger.visitor()
        if theft == "deleted":
            await visitor.delete(LEASE, LEADER)
        else:
            await visitor.patch(LEASE, LEADER, {"spec": {"holderIdentity": "thief" if theft == "taken" else ""}})
        async with asyncio.timeout(2 * TIMES.retry + 0.5):
            with pytest.raises(LeadershipLost):
                await standing
        with pytest.raises(NotLeading):
            elector.fence.check()

    run_one(scenario)


def test_each_term_has_an_epoch_of_its_own():
    with World(3) as world:
        ledger = a_house(world, replicas=3)
        for _ in range(6):
            world.run(seconds=40)
            world.processes[the_leader(ledger)].crash(5)
        world.run(seconds=40)

        epochs = [epoch for _, _, epoch in ledger.writes]
        assert len(set(epochs)) == 7
        assert sorted(set(epochs), key=epochs.index) == sorted(set(epochs), key=lambda e: int(e.split("/")[1]))


def test_what_others_wrote_into_the_lease_stays():
    with World(1) as world:
        ledger = a_house(world)
        world.run(seconds=30)
        world.until(ledger.visitor().patch(LEASE, LEADER, {"metadata": {"labels": {"team": "gpu"}}}))
        world.run(seconds=30)

        lease = world.until(ledger.visitor().read(LEASE, LEADER))
        assert lease["metadata"]["labels"] == {"team": "gpu"}
        assert len({epoch for _, _, epoch in ledger.writes}) == 1, "a label is no reason to lose an election"


@pytest.mark.parametrize("number", range(40, 50))
def test_a_pause_right_at_a_write_is_fenced(number: int):
    """The leader stands still after it decided to write and before its bytes leave: for longer than a lease."""
    assert late_writes(number, replica) == []


def test_without_the_fence_such_a_pause_is_seen_to_do_harm():
    """The harness can fail: the same pauses, and a writer that does not ask the fence."""

    async def unfenced(host: Host) -> None:
        await replica(host, fenced=False)

    assert any(late_writes(number, unfenced) for number in range(40, 50))


def late_writes(number: int, main: Callable[[Host], Any]) -> list[str]:
    with World(1, plan=FaultPlan("replica-0", number, Act.PAUSE)) as world:
        ledger = Ledger(world)
        world.process("replica-0", main)
        world.run(seconds=10)
        world.process("replica-1", main)
        world.run(seconds=100)
        assert len(ledger.terms) >= 2, "another replica took over"
        return ledger.late


@pytest.mark.parametrize("seed", range(8))
def test_no_two_ever_write_at_once_whatever_breaks(seed: int):
    """Three replicas with faults, then without: safe all the time, and at the end one leads."""
    with World(seed, faults=ALL) as world:
        ledger = a_house(world, replicas=3)
        world.run(minutes=15)
        world.calm()
        world.run(minutes=2)

        assert ledger.writes[-1][0] > world.loop.time() - 5


@pytest.mark.parametrize("seed", range(8))
def test_a_candidate_waits_one_duration_after_the_lease_was_deleted(seed: int):
    """Its holder leads on until it notices: two led at once for up to three seconds."""
    with World(seed) as world:
        ledger = a_house(world)
        world.run(seconds=60 + seed * 0.37)
        leader, moment = the_leader(ledger), world.loop.time()
        world.until(ledger.visitor().delete(LEASE, LEADER))
        world.run(seconds=40)

        others = [when - moment for when, who, _ in ledger.writes if who != leader and when > moment]
        assert min(others, default=TIMES.duration) >= TIMES.duration, "the previous leader may be back sooner"
        assert len(ledger.terms) == 2


def test_a_lease_that_was_released_and_deleted_is_made_again_at_once():
    """It had no holder, so no replica can lead on."""

    async def scenario(world: World, ledger: Ledger, host: Host) -> None:
        elector = an_elector(ledger, host)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        standing.cancel()
        await elector.release()
        other = LeaseElector(
            KubeCluster(host.http("kube"), host.entropy), host.clock, host.entropy, key=LEADER, identity="other"
        )
        other._seen = await other._look()
        await ledger.visitor().delete(LEASE, LEADER)
        began = world.loop.time()
        standing = asyncio.ensure_future(other.run())
        await other.won()
        assert world.loop.time() - began < 1
        standing.cancel()

    run_one(scenario)


def test_a_restored_etcd_is_noticed_within_two_renewals():
    """The Lease is written every two seconds: whatever a backup holds is older."""

    async def scenario(_world: World, ledger: Ledger, host: Host) -> None:
        elector = an_elector(ledger, host)
        noticed: list[str] = []
        elector.on_older = noticed.append
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        backup = ledger.server.snapshot()
        await asyncio.sleep(60)
        assert noticed == []
        ledger.server.restore(backup)
        await asyncio.sleep(2.5 * TIMES.retry)
        assert len(noticed) == 1
        elector.fence.check()  # it is the same holder's, and the term goes on
        standing.cancel()

    run_one(scenario)
