"""Rate limits of one account at one provider: all calls of all its users pass here."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from tgp.core.model.cloud_errors import CloudBusy, OrderQueued
from tgp.core.model.provider_facts import CloudFacts, Rate

LAUNCH = "launch"  # the verb that pays
LONGEST_WAIT = timedelta(seconds=30)  # as long as the call itself may take (the Http port's usual timeout)
LONGEST_HOLD = timedelta(
    seconds=60
)  # a provider's "not before" is honoured for at most this long: termination must stay possible
LAUNCHES_AT_ONCE = 8  # at one account; what each may spend is reserved before
LONGEST_LAUNCH_WAIT = timedelta(seconds=5)  # a waiting launch holds a worker, and terminations need workers, too
LAUNCH_TAKES = 1.0  # seconds, until the first launch has shown it
WEIGHT_OF_LAST = 0.3  # of the last launch in the average
MOST_SOURCES = 256  # remembered at once; a cluster has a handful


ALL_TOGETHER = ""  # the key of `CloudFacts.rates` that every verb counts under


class RateLimiter:
    """Keeps one `Rate` exactly: never more than `calls` in any `per`, evenly spaced after a burst of `burst`.

    A token bucket alone would let a full burst and a full period's refill into one window; the last `calls` bookings
    are remembered to prevent that. First come, first served. Times are seconds of one monotonic clock.
    """

    def __init__(self, rate: Rate) -> None:
        assert rate.calls >= 1, "a rate lets something through"
        assert rate.burst >= 1, "a burst is at least the one call"
        self._per = rate.per.total_seconds()
        assert self._per > 0, "a rate is over some time"
        self.spacing = self._per / rate.calls
        self._slack = (min(rate.burst, rate.calls) - 1) * self.spacing
        self._even_from = float("-inf")  # when an evenly spaced next call would be due
        self._booked: deque[float] = deque(maxlen=rate.calls)

    def earliest(self, now: float) -> float:
        """The first free slot, not before `now`."""
        due = max(now, self._even_from - self._slack)
        if len(self._booked) == self._booked.maxlen:
            due = max(due, self._booked[0] + self._per)
        return due

    def book(self, now: float) -> float:
        """Take the first free slot. It counts as used, whether or not the call is sent."""
        moment = self.earliest(now)
        self._even_from = max(self._even_from, moment) + self.spacing
        self._booked.append(moment)
        return moment

    def rested(self, now: float) -> bool:
        """True: no past call delays the next one, so a new limiter would behave the same."""
        return not self._booked or now >= max(self._booked[-1] + self._per, self._even_from)


def rate_limiters(rates: Mapping[str, Rate]) -> dict[str, RateLimiter]:
    return {verb: RateLimiter(rate) for verb, rate in rates.items()}


class AccountThrottle:
    """On the running loop's clock. No call waits longer than `longest`, no launch longer than `LONGEST_LAUNCH_WAIT`:
    `CloudBusy` then says when to retry. Launches that are refused are told different times, in the order they came.
    """

    def __init__(
        self, facts: CloudFacts, longest: timedelta = LONGEST_WAIT, launches_at_once: int = LAUNCHES_AT_ONCE
    ) -> None:
        self._title = facts.title
        self._longest = longest.total_seconds()
        self._paces = rate_limiters(facts.rates)
        self._closed_until: dict[str, float] = {}  # by verb: the provider asked for a pause
        self._at_once = launches_at_once
        self._slots = asyncio.Semaphore(launches_at_once)  # first come, first served
        self._launches = 0  # that wait or are being sent
        self._takes = LAUNCH_TAKES  # the average launch, in seconds
        self._told = float("-inf")  # the latest time that a refused launch was told

    @asynccontextmanager
    async def turn(self, verb: str) -> AsyncIterator[None]:
        """The block starts when this call may be sent."""
        if verb != LAUNCH:
            await self._wait(verb, _now() + self._longest)
            yield
            return
        self._refuse_a_long_line()
        self._launches += 1
        try:
            deadline = _now() + LONGEST_LAUNCH_WAIT.total_seconds()
            await self._take_slot(deadline)
            try:
                await self._wait(verb, deadline)
                began = _now()
                yield
                self._takes += WEIGHT_OF_LAST * (_now() - began - self._takes)
            finally:
                self._slots.release()
        finally:
            self._launches -= 1

    def close(self, verb: str, length: timedelta) -> None:
        """The provider asked for a pause: no call of this verb is sent before it is over."""
        until = _now() + min(length, LONGEST_HOLD).total_seconds()
        self._closed_until[verb] = max(until, self._closed_until.get(verb, until))

    @property
    def rested(self) -> bool:
        """True: a new object would behave the same, so this one can be dropped."""
        now = _now()
        closed = any(until > now for until in self._closed_until.values())
        return not (closed or self._launches) and all(pace.rested(now) for pace in self._paces.values())

    def _refuse_a_long_line(self) -> None:
        """By an estimate, before the launch waits for anything."""
        now, turns = _now(), self._launches // self._at_once
        free = max((pace.earliest(now) for pace in self._paces_of(LAUNCH)), default=now)
        free = max(free, now + turns * self._takes)
        if free - now > LONGEST_LAUNCH_WAIT.total_seconds():
            raise self._queued(max(free, self._told + self._spacing))

    async def _take_slot(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise self._queued(max(_now(), self._told) + self._spacing) from None

    def _queued(self, moment: float) -> OrderQueued:
        self._told = moment
        return OrderQueued(f"{self._title}: other orders are sent first", timedelta(seconds=moment - _now()))

    @property
    def _spacing(self) -> float:
        """Seconds between two launches, as fast as they can be sent."""
        pace = self._paces.get(LAUNCH)
        return max(self._takes / self._at_once, 0.0 if pace is None else pace.spacing)

    def _paces_of(self, verb: str) -> list[RateLimiter]:
        """Its own first."""
        return [self._paces[name] for name in (verb, ALL_TOGETHER) if name in self._paces]

    async def _wait(self, verb: str, deadline: float) -> None:
        """Waits for this verb's own rate first, then for the rate of all verbs together.

        In that order, because a slow verb that waited in both queues would delay all other verbs.
        A slot counts as used, whether or not a call follows.
        """
        await self._until(verb, self._closed_until.get(verb, 0.0), deadline)
        for pace in self._paces_of(verb):
            await self._own_moment(verb, pace, deadline)

    async def _own_moment(self, verb: str, pace: RateLimiter, deadline: float) -> None:
        now = _now()
        moment = pace.earliest(now)
        if moment <= deadline:
            pace.book(now)  # before waiting, so that later callers queue behind
        elif verb == LAUNCH:
            raise self._queued(max(moment, self._told + self._spacing))
        await self._until(verb, moment, deadline)

    async def _until(self, verb: str, moment: float, deadline: float) -> None:
        wait = moment - _now()
        if moment > deadline:
            raise CloudBusy(f"{self._title}: too many calls wait for {verb}", timedelta(seconds=wait))
        if wait > 0:
            await asyncio.sleep(wait)


class AccountThrottles:
    """One for each source. A source is what the provider's rate limit covers: usually one key."""

    def __init__(self, longest: timedelta = LONGEST_WAIT, launches_at_once: int = LAUNCHES_AT_ONCE) -> None:
        self._longest = longest
        self._launches_at_once = launches_at_once
        self._of: dict[str, AccountThrottle] = {}

    def of(self, source: str, facts: CloudFacts) -> AccountThrottle:
        """Call this for every call: idle throttles are dropped when there are too many."""
        found = self._of.get(source)
        if found is None:
            self._forget()
            found = self._of[source] = AccountThrottle(facts, self._longest, self._launches_at_once)
        return found

    def __len__(self) -> int:
        return len(self._of)

    def _forget(self) -> None:
        if len(self._of) >= MOST_SOURCES:
            self._of = {source: each for source, each in self._of.items() if not each.rested}


def _now() -> float:
    return asyncio.get_running_loop().time()
