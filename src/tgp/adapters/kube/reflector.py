"""Keeps one store equal to the API server: list, watch, and list again when the watch is lost.

It never gives up and never spins: each problem is noted once when it begins and once when it is over, and waits
between tries grow to a bound. What the store held stays readable meanwhile; `silent_for` says how old it may be.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from tgp.adapters.kube.list import Listed, ListTarget, NotStreamed, paged, streamed
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.watch import USUAL, Damaged, Watch, WatchTimes
from tgp.core.model import facts
from tgp.core.model.backoff import Backoff
from tgp.core.model.facts import ObjectUnreadable, WatchFailing, WatchRecovered
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.ports.cluster import ClusterBusy, ClusterError, Expired, Forbidden, NotFound, Refused, Unauthenticated
from tgp.ports.entropy import Entropy
from tgp.ports.http import Http, HttpError, NoAnswer, UnreadableReply
from tgp.ports.journal import Journal

R = TypeVar("R", bound=ObjectRecord)

TRANSIENT = Backoff(first=0.25, cap=30.0)  # the server is busy, restarting, or unreachable
NEEDS_ADMIN = Backoff(first=5.0, cap=60.0)  # an administrator must act: retry seldom
AWAITED = 4.0  # seconds between two tries while a caller waits for a list: machines may be billed until it arrives
ABSENT = Backoff(first=5.0, cap=300.0)  # an optional kind may never be installed: checked seldom
LONGEST_RETRY_AFTER = 60.0  # seconds; a longer Retry-After is cut to this
SHORT_WATCH = 1.0  # seconds; a watch that ends this soon without an event counts as a failure, or we would spin
TROUBLE_AFTER = 3  # ordinary network failures in a row
STREAMS_TRIED = 2  # streaming lists that may break off or expire before this list is tried by pages
SILENCE_LIMIT = 600.0  # seconds of watches without so much as a bookmark, after which we list again
REWIND_AFTER = 600.0  # seconds of lists older than what we saw, after which they are accepted without confirmation


class State(StrEnum):
    """The state of a reflector, for metrics and conditions."""

    LISTING = "Listing"
    WATCHING = "Watching"
    WAITING = "Waiting"  # after a temporary problem
    FORBIDDEN = "Forbidden"  # our role does not allow it
    UNAUTHENTICATED = "Unauthenticated"
    NOT_SERVED = "NotServed"  # the kind is not installed
    NOT_THERE = "NotThere"  # an optional kind is not installed, which is fine
    REFUSED = "Refused"  # the server refused our request as invalid


class OlderThanSeen(ClusterBusy):
    """A list older than what we have seen already: it would bring back deleted objects."""


class Reflector(Generic[R]):
    def __init__(
        self,
        http: Http,
        subject: ListTarget[R],
        store: Store[R],
        entropy: Entropy,
        journal: Journal,
        *,
        streaming: bool = True,  # False: never by stream, for kinds the watch cache does not hold (Events)
        optional: bool = False,  # a kind that need not be installed: until then the store is empty, without an error
        times: WatchTimes = USUAL,
        on_older: Callable[[], None] = lambda: None,  # called for a list that is older than what was seen
    ) -> None:
        self._on_older = on_older
        self._rewound = False  # the server's history went back: the next list is accepted, whatever its version
        self._http = http
        self._subject = subject
        self._store = store
        self._entropy = entropy
        self._journal = journal
        self._watch = Watch(http, subject, store, times)
        subject.projection.on_unreadable = self._note_unreadable
        self._streaming = streaming
        self._optional = optional
        self._streams_broken = 0  # streaming lists that broke off or were refused with 410, since the last whole list
        self._failures = 0  # in a row
        self.why = ""  # the current problem; empty: none
        self._older_since: float | None = None  # loop time of the first list that was older than seen
        self._watch_timeout: asyncio.Timeout | None = None  # of the watch in progress; expired early to list at once
        self._begun = 0  # lists
        self._wanted = 1  # the list that must be stored before anything is watched
        self._done = 0  # the newest list that was stored
        self._took_over = asyncio.Event()
        self._asked = asyncio.Event()  # a caller waits for a list
        self._heard_at: float | None = None
        self._last_event_at = 0.0  # loop time; a list counts, too
        self.state = State.LISTING

    @property
    def store(self) -> Store[R]:
        return self._store

    def silent_for(self) -> float:
        """Seconds since the API server last confirmed that the store is up to date; infinite before the first list.

        A bookmark confirms it in the middle of a watch. An event does not: after an outage many come late, one by one.
        A kind that is not installed is not out of date between two checks.
        """
        if self._heard_at is None:
            return float("inf")
        if self.state is State.NOT_THERE:
            return 0.0
        return asyncio.get_running_loop().time() - max(self._heard_at, self._watch.confirmed_at or 0.0)

    async def refreshed(self) -> None:
        """Wait until the store holds a list that was begun after this call: as new as anything written before it."""
        await self.listed(self.list_again())

    def list_again(self) -> int:
        """Ask for a list, to be begun after this call; gives its number."""
        wanted = self._list_anew()
        self._asked.set()
        # another caller may have expired it just now
        if self._watch_timeout is not None and not self._watch_timeout.expired():
            self._watch_timeout.reschedule(asyncio.get_running_loop().time())
        return wanted

    def start_over(self) -> None:
        """The server's history went back: list from scratch, and accept the result."""
        self._rewound = True
        self.list_again()

    async def listed(self, number: int) -> None:
        """Wait until the store holds that list, or a later one."""
        while self._done < number:
            self._took_over.clear()
            await self._took_over.wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._step()
            except (Forbidden, Unauthenticated, NotFound, Refused) as error:
                if self._optional and isinstance(error, NotFound):
                    await self._nothing_there()
                    continue
                self._list_anew()
                await self._pause(error, _barred_state(error), NEEDS_ADMIN)
            except (Expired, Damaged, UnreadableReply) as error:
                self._list_anew()
                await self._pause(error, State.WAITING, TRANSIENT)
            except (ClusterError, HttpError) as error:
                await self._pause(error, State.WAITING, TRANSIENT)

    async def _step(self) -> None:
        if self._must_list():
            self.state = State.LISTING
            await self._list()
        self.state = State.WATCHING
        await self._watch_once()

    def _must_list(self) -> bool:
        return self._done < self._wanted

    def _list_anew(self) -> int:
        self._wanted = self._begun + 1
        return self._wanted

    # -- listing -----------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        self._begun += 1
        this = self._begun
        rewound_now = self._rewound
        # Versions of a history that went back are reused for other states: nothing that is held can be kept.
        listed = await self._listed({} if rewound_now else self._store.records)
        rewound = rewound_now or (listed.version < self._store.version and self._accept_older(listed.version))
        if listed.lost:  # a missing object may be an unreadable item: add and update, delete nothing
            listed.records = {**self._store.records, **listed.records}
        await self._store.replace(listed.records, listed.version, rewound=rewound)
        self._rewound = self._rewound and not rewound_now
        self._older_since = None
        self._streams_broken = 0
        self._done = this
        self._took_over.set()
        if not self._must_list():
            self._asked.clear()
        self._last_event_at = asyncio.get_running_loop().time()
        self._recovered()

    async def _listed(self, known: Mapping[ObjectKey, R]) -> Listed[R]:
        if self._streaming and self._streams_broken < STREAMS_TRIED:
            try:
                return await streamed(self._http, self._subject, known)
            except NotStreamed as error:
                self._streaming = not error.for_good
            except (NoAnswer, Expired):
                self._streams_broken += 1
                raise
        return await paged(self._http, self._subject, known)

    def _accept_older(self, version: int) -> bool:
        """Whether to accept a list older than what was seen: only after long without a newer one."""
        now = asyncio.get_running_loop().time()
        if self._older_since is None:
            self._older_since = now
        self._on_older()
        if now - self._older_since < REWIND_AFTER:
            raise OlderThanSeen(
                f"list {self._subject.name}: version {version} is older than {self._store.version}, seen before"
            )
        return True

    async def _nothing_there(self) -> None:
        """An optional kind is not installed: an empty list, until it is. Checked again within five minutes."""
        await self._store.replace({}, self._store.version)
        self._done = self._begun
        self._took_over.set()
        self._recovered()
        self._list_anew()
        self._failures += 1
        self.state = State.NOT_THERE
        await asyncio.sleep(ABSENT.wait(self._failures, self._entropy.jitter()))
        self._heard_at = asyncio.get_running_loop().time()  # up to date until now

    # -- watching ----------------------------------------------------------------------------------------------------

    async def _watch_once(self) -> None:
        loop = asyncio.get_running_loop()
        begun_at, lines = loop.time(), self._watch.lines
        try:
            async with asyncio.timeout(None) as self._watch_timeout:
                if self._must_list():  # a list was requested since the last one
                    return
                await self._watch.run(self._entropy.jitter())
        except TimeoutError:
            if not self._must_list():  # not our timeout
                raise
            return
        finally:
            self._watch_timeout = None
            if self._watch.lines > lines:
                self._last_event_at = loop.time()
                self._recovered()
                if loop.time() - begun_at >= SHORT_WATCH:
                    self._failures = 0
        if self._watch.lines == lines and loop.time() - begun_at < SHORT_WATCH:
            raise ClusterBusy(f"watch {self._subject.name}: closed at once, without an event")
        self._failures = 0
        self._recovered()
        if loop.time() - self._last_event_at >= SILENCE_LIMIT:
            # Nothing happened, or the server's history went back behind our version: then it never sends an event.
            self._list_anew()

    # -- failures ----------------------------------------------------------------------------------------------------

    async def _pause(self, error: Exception, state: State, backoff: Backoff) -> None:
        self.state = state
        self._failures += 1
        if not self._passes(error):
            begins, self.why = not self.why, f"{type(error).__name__}: {error}"
            if begins:
                self._journal.note(WatchFailing(self._subject.projection.resource.kind, self.why))
        wait = max(backoff.wait(self._failures, self._entropy.jitter()), min(_retry_after(error), LONGEST_RETRY_AFTER))
        await self._rest(wait, min(wait, AWAITED) if backoff is TRANSIENT and not _retry_after(error) else wait)

    async def _rest(self, wait: float, awaited: float) -> None:
        """For `wait` seconds; for `awaited` if a caller waits for a list, or begins to."""
        await asyncio.sleep(awaited)
        if wait > awaited:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait - awaited):
                    await self._asked.wait()

    def _passes(self, error: Exception) -> bool:
        """A version that was compacted, a connection that broke: ordinary for a watch, unless it persists."""
        return isinstance(error, Expired | HttpError) and self._failures < TROUBLE_AFTER

    def _note_unreadable(self, record: R, why: str) -> None:
        resource = self._subject.projection.resource
        self._journal.note(ObjectUnreadable(facts.FactSubject(resource, record.key, uid_text(record.uid)), why))

    def _recovered(self) -> None:
        """The server answered as it should: what the store holds is up to date.

        The failure count stays: a list or an event that is followed by a 410 each time must not spin.
        """
        self._heard_at = asyncio.get_running_loop().time()
        if self.why:
            self.why = ""
            self._journal.note(WatchRecovered(self._subject.projection.resource.kind))


def _barred_state(error: ClusterError) -> State:
    match error:
        case Forbidden():
            return State.FORBIDDEN
        case Unauthenticated():
            return State.UNAUTHENTICATED
        case NotFound():
            return State.NOT_SERVED
        case _:
            return State.REFUSED


def _retry_after(error: Exception) -> float:
    asked = error.retry_after if isinstance(error, ClusterBusy) else None
    return (asked or timedelta()).total_seconds()
