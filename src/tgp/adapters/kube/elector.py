"""Leader election by a Lease."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from tgp.adapters.kube.elector_rules import (
    LONGEST_DURATION,
    Create,
    Decision,
    LeaseRecord,
    LeaseTimes,
    Renew,
    Seen,
    Take,
    WaitForLease,
    decide,
    look,
    micro_time,
    moment_of,
    read_record,
    spec_of,
    went_back,
)
from tgp.api.resource import LEASE
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, NotFound
from tgp.ports.entropy import Entropy
from tgp.ports.leadership import LeadershipLost, NotLeading

CANDIDATE_JITTER = 0.2  # candidates try every 1 to 1.2 retry periods, so that they do not run in step
IDENTITY_BYTES = 8  # of randomness in an identity: two processes on one host, or one pod restarted, must differ


def new_identity(host: str, entropy: Entropy) -> str:
    return f"{host}_{entropy.token(IDENTITY_BYTES).hex()}"


class LeaseFence:
    """One field, replaced whole: the watchdog reads it from its own thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._term: tuple[float, str] | None = None  # (deadline, epoch); None: we do not lead

    def deadline(self) -> float | None:
        term = self._term
        return None if term is None else term[0]

    def epoch(self) -> str:
        return self._valid_term()[1]

    def check(self) -> None:
        self._valid_term()

    def extend(self, deadline: float, epoch: str) -> None:
        self._term = (deadline, epoch)

    def close(self) -> None:
        self._term = None

    def _valid_term(self) -> tuple[float, str]:
        term = self._term
        if term is None:
            raise NotLeading("this replica does not lead")
        if self._clock.boottime() >= term[0]:
            raise NotLeading("the Lease was not renewed in time")
        return term


class LeaseElector:
    """One process as a candidate. `identity` must be unique, also among earlier runs of the same process."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        entropy: Entropy,
        *,
        key: ObjectKey,
        identity: str,
        times: LeaseTimes = LeaseTimes(),  # noqa: B008 - frozen
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._entropy = entropy
        self._key = key
        self._identity = identity
        self._times = times
        self._seen: Seen | None = None  # None: no Lease, or not read yet
        self._gone_until = float("-inf")  # Clock.boottime: the holder of a deleted Lease may lead until then
        self._current = False  # `_seen` came from our own last good write: it can be renewed without reading
        self.taken_from: LeaseRecord | None = (
            None  # the record before our term; None: we do not lead, or it is the first
        )
        self._won = asyncio.Event()
        self._wrote = False  # a write of ours may be stored
        self._released = False
        self._writing = asyncio.Lock()  # a renewal and a release must not run at once
        self.fence = LeaseFence(clock)
        self.last_error = ""  # why the last try failed; empty after a good one
        self._failing_since: float | None = None  # Clock.boottime of the first of the tries that failed in a row
        self._told = False
        self.on_older: Callable[[str], None] = _ignore
        """Called when the Lease has a lower version than before: the API server's history went back."""
        self.on_trouble: Callable[[str], None] = _ignore
        """Called with the reason once the Lease was unreachable for its whole duration; with "" when that is over."""

    @property
    def holder(self) -> str:
        """The leader as last seen; empty: none."""
        return self._seen.record.holder if self._seen is not None else ""

    def watched_until(self) -> datetime | None:
        """When the leader before us last renewed the Lease, by the API server's time; None: unknown."""
        return moment_of(self.taken_from.renewed) if self.taken_from is not None else None

    @property
    def key(self) -> ObjectKey:
        return self._key

    def unreachable_for(self) -> float:
        """Seconds for which every try has failed, whether we lead or not."""
        return 0.0 if self._failing_since is None else self._clock.boottime() - self._failing_since

    @property
    def trouble(self) -> str:
        """Why the Lease is unreachable, once that has lasted for its duration; empty: reachable."""
        return self.last_error if self.unreachable_for() >= self._times.duration else ""

    async def won(self) -> None:
        await self._won.wait()

    async def run(self) -> None:
        while not self._released:
            async with self._writing:
                await self._try()
            self._end_if_late()
            await asyncio.sleep(self._pause())
            self._end_if_late()

    async def release(self) -> None:
        """Best effort: without a release the next leader waits for the Lease's duration."""
        self._released = True
        self.fence.close()
        async with self._writing:
            if not self._wrote:
                return
            try:
                async with asyncio.timeout(self._times.renew_within / 2):
                    await self._empty()
            except (ClusterError, TimeoutError) as error:
                self.last_error = str(error) or "no answer in time"

    async def _empty(self) -> None:
        """Also a Lease we acquired without knowing it: the answer may have been lost, or came after `release`."""
        if not self._current:
            self._seen = await self._look()
        seen = self._seen
        if seen is not None and seen.record.holder == self._identity:
            await self._patch(replace(seen.record, holder="", renewed=micro_time(self._clock.now())))

    async def _try(self) -> None:
        """One read and at most one write. After any error the next try reads again."""
        if self._released:
            return
        try:
            async with asyncio.timeout(self._patience()):
                await self._step()
        except (ClusterError, TimeoutError) as error:
            self._current = False  # the outcome is unknown: the Lease must be read again
            self._failed(str(error) or "no answer in time")
        else:
            self._reached()

    def _failed(self, why: str) -> None:
        self.last_error = why
        if self._failing_since is None:
            self._failing_since = self._clock.boottime()
        if self.trouble and not self._told:
            self._told = True
            self.on_trouble(why)

    def _reached(self) -> None:
        self.last_error = ""
        self._failing_since = None
        if self._told:
            self._told = False
            self.on_trouble("")

    async def _step(self) -> None:
        if not self._current:
            self._seen = await self._look()
        started = self._clock.boottime()
        decision = decide(self._identity, self._seen, started, gone_until=self._gone_until)
        self._end_if_taken(decision)
        held = await self._carry_out(decision)
        if held is None:
            return
        self._seen, self._current = Seen(held, started), True
        if self._released:  # while this renewal was in flight
            return
        self.fence.extend(started + self._times.renew_within, f"{held.uid}/{held.transitions}")
        self._won.set()

    async def _look(self) -> Seen | None:
        try:
            lease = await self._cluster.read(LEASE, self._key)
        except NotFound:
            self._note_gone()
            return None
        record = read_record(lease, self._times.duration)
        if went_back(self._seen, record):
            self.on_older(f"Lease {self._key} has version {record.resource_version}; a higher one was seen")
        return look(self._seen, record, self._clock.boottime())

    def _note_gone(self) -> None:
        """The known Lease was deleted. Its holder notices at its next renewal, or when its term ends."""
        seen = self._seen
        if seen is not None and seen.record.holder:
            duration = min(seen.record.duration, LONGEST_DURATION)
            self._gone_until = self._clock.boottime() + max(duration, self._times.duration)

    async def _carry_out(self, decision: Decision) -> LeaseRecord | None:
        """The record if it is ours; None: another holder's."""
        now = micro_time(self._clock.now())
        self._wrote = self._wrote or not isinstance(decision, WaitForLease)
        match decision:
            case Create():
                return await self._create(LeaseRecord("", "", self._identity, self._times.duration, now, now, 0))
            case Take(record):
                self.taken_from = record
                taken = replace(record, acquired=now, transitions=record.transitions + 1)
                return await self._patch(self._ours(taken, now))
            case Renew(record):
                return await self._patch(self._ours(record, now))
            case WaitForLease():
                return None
            case _:
                assert_never(decision)

    def _ours(self, record: LeaseRecord, now: str) -> LeaseRecord:
        return replace(record, holder=self._identity, duration=self._times.duration, renewed=now)

    async def _create(self, record: LeaseRecord) -> LeaseRecord:
        metadata = {"namespace": self._key.namespace, "name": self._key.name}
        written = await self._cluster.create(LEASE, {"metadata": metadata, "spec": spec_of(record)})
        return replace(record, uid=written.uid, resource_version=written.resource_version)

    async def _patch(self, record: LeaseRecord) -> LeaseRecord:
        """Compare and swap: refused unless the stored record is the one we read."""
        written = await self._cluster.patch(
            LEASE,
            self._key,
            {"spec": spec_of(record)},
            resource_version=record.resource_version,
            uid=record.uid,
        )
        return replace(record, resource_version=written.resource_version)

    def _end_if_taken(self, decision: Decision) -> None:
        """A leader only renews: a new record would be a new term, and this process belongs to the old one."""
        if self._won.is_set() and not isinstance(decision, Renew):
            self._end(f"the Lease is now held by {self.holder or 'no replica'}")

    def _end_if_late(self) -> None:
        deadline = self.fence.deadline()
        if self._won.is_set() and not self._released and (deadline is None or self._clock.boottime() >= deadline):
            self._end(f"the Lease was not renewed in time: {self.last_error or 'the process was suspended'}")

    def _end(self, why: str) -> None:
        self.fence.close()
        raise LeadershipLost(why)

    def _patience(self) -> float:
        """A leader's timeout: half a term, so that there is time for another try, and never past the end of the
        term.
        """
        deadline = self.fence.deadline()
        if deadline is None:
            return self._times.renew_within
        return max(0.0, min(self._times.renew_within / 2, deadline - self._clock.boottime()))

    def _pause(self) -> float:
        retry = self._times.retry
        if self._won.is_set():
            return retry
        return retry * (1 + CANDIDATE_JITTER * self._entropy.jitter())


def _ignore(why: str) -> None:
    pass
