"""Who leads, by the rules of a Lease, with its renewals computed instead of sent.

A leader that runs and reaches the API server renews every `retry`, so that nothing need happen while all is well: the
last renewal was at the last beat. When it stands still, is cut off or dies, the beats end. Its own term ends
`renew_within` after the last of them, on its own boot clock, and no other replica begins before the Lease was
unchanged for `duration`. A leader that wakes up later believes what it believed: the fence is what holds it then.
"""

import asyncio
from contextvars import Context
from dataclasses import dataclass

from tgp.ports.leadership import LeadershipLost, NotLeading
from tgp.sim.fast.world import FastWorld
from tgp.sim.process import Host
from tgp.sim.router import Exchange, Tap
from tgp.sim.world import KUBERNETES

NO_PROCESS = Context()


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds, as shipped."""

    duration: float = 15.0
    renew_within: float = 10.0
    retry: float = 2.0


SHIPPED = Terms()


class FastLease:
    """One process's standing: an `Elector`, and the `Fence` of its term."""

    def __init__(self, lease: "LeanLease", host: Host, identity: str) -> None:
        self.host = host
        self.identity = identity
        self._lease = lease
        self._epoch: str | None = None  # None: it does not lead
        loop = asyncio.get_running_loop()
        self._won: asyncio.Future[None] = loop.create_future()
        self._over: asyncio.Future[str] = loop.create_future()

    @property
    def fence(self) -> "FastLease":
        return self

    def deadline(self) -> float | None:
        return None if self._epoch is None else self._lease.term_of(self)

    def epoch(self) -> str:
        self.check()
        assert self._epoch is not None, "who leads has a term"
        return self._epoch

    def check(self) -> None:
        deadline = self.deadline()
        if deadline is None:
            raise NotLeading("this replica does not lead")
        if self.host.clock.boottime() >= deadline:
            raise NotLeading("the lease was not renewed in time")

    async def won(self) -> None:
        await self._won

    async def run(self) -> None:
        raise LeadershipLost(await self._over)

    async def release(self) -> None:
        self._epoch = None

    # -- what the Lease says -------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        return self._epoch is not None

    def begin(self, epoch: str) -> None:
        self._epoch = epoch
        self._won.set_result(None)

    def end(self, why: str) -> None:
        self._epoch = None
        if not self._over.done():
            self._over.set_result(why)


class LeanLease(Tap):
    """The Lease of a world: notified of everything that may end a leader's renewals."""

    def __init__(self, world: FastWorld, terms: Terms = SHIPPED) -> None:
        self._world = world
        self._loop = world.loop
        self._terms = terms
        self._luck = world.luck("lease")
        self._waiting: list[FastLease] = []
        self._asleep: dict[FastLease, float] = {}  # leaders that stand still or are cut off → their last renewal
        self._holder: FastLease | None = None
        self._began = 0.0  # of the holder's beats
        self._transitions = 0
        self._look: asyncio.TimerHandle | None = None
        world.on_standstill = self._changed
        world.network.taps.insert(0, self)  # before the recorders, which need the last renewal

    def stand(self, host: Host, identity: str) -> FastLease:
        standing = FastLease(self, host, identity)
        self._waiting.append(standing)
        self._look_in(0.0)
        return standing

    def renewed_at(self, standing: FastLease) -> float:
        """Its last renewal, by the world's clock."""
        asleep = self._asleep.get(standing)
        return self._last_beat() if asleep is None else asleep

    def term_of(self, standing: FastLease) -> float:
        """The end of its term on its own boot clock."""
        ago = self._loop.time() - self.renewed_at(standing)
        return standing.host.clock.boottime() - ago + self._terms.renew_within

    def written(self, exchange: Exchange) -> None:  # noqa: ARG002 - whatever it is
        if self._holder is not None:
            self._world.on_lease(self._holder.host, self._holder.identity, self.renewed_at(self._holder))

    # -- what happens to it --------------------------------------------------------------------------------------------

    def _last_beat(self) -> float:
        passed = self._loop.time() - self._began
        return self._began + passed // self._terms.retry * self._terms.retry

    def _awake(self, standing: FastLease) -> bool:
        host = standing.host
        return not host.gone and not host.paused and not self._world.network.is_cut_off(host.name, KUBERNETES)

    def _changed(self) -> None:
        """A process died, paused, resumed, was cut off or is back."""
        for leader in {**dict.fromkeys(self._asleep), **({self._holder: None} if self._holder else {})}:
            self._attend(leader)
        self._look_in(0.0)

    def _attend(self, leader: FastLease) -> None:
        host, now = leader.host, self._loop.time()
        if not self._awake(leader) and leader not in self._asleep:
            self._asleep[leader] = self._last_beat()
            self._loop.call_later(self._terms.renew_within, self._changed, context=NO_PROCESS)
        renewed = self._asleep.get(leader)
        if renewed is None:
            return
        if host.gone or not leader.leads:
            if leader is not self._holder:
                del self._asleep[leader]
        elif not host.paused and now >= renewed + self._terms.renew_within:
            # It notices when its elector's turn comes; until then only the fence stops it.
            noticed_in = self._luck.uniform(0.0, self._terms.retry)
            self._loop.call_later(noticed_in, leader.end, "the lease was not renewed in time", context=NO_PROCESS)
        elif self._awake(leader) and leader is self._holder:
            del self._asleep[leader]
            self._began = now  # its next renewal is at once
            self.written_anew()

    def written_anew(self) -> None:
        assert self._holder is not None, "a replica renewed it"
        self._world.on_lease(self._holder.host, self._holder.identity, self._began)

    def _look_in(self, seconds: float) -> None:
        if self._look is None:
            self._look = self._loop.call_later(seconds, self._look_now, context=NO_PROCESS)

    def _look_now(self) -> None:
        """As candidates do: whether the Lease has stood still for long enough."""
        self._look = None
        self._waiting = [each for each in self._waiting if not each.host.gone]
        if self._holder is not None and self._holder not in self._asleep:
            return  # it beats
        stood = float("inf") if self._holder is None else self._loop.time() - self._asleep[self._holder]
        if stood <= self._terms.duration:
            self._look_in(self._terms.duration - stood + self._luck.uniform(0.01, self._terms.retry))
            return
        able = [each for each in self._waiting if self._awake(each)]
        if able:
            self._hand_over_to(self._luck.choice(able))
        elif self._waiting:
            self._look_in(self._terms.retry)

    def _hand_over_to(self, winner: FastLease) -> None:
        self._waiting.remove(winner)
        self._holder, self._began = winner, self._loop.time()
        self._transitions += 1
        self.written_anew()
        winner.begin(f"lease/{self._transitions}")
        self._changed()  # the previous holder
