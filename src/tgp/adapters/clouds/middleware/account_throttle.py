"""Rate limits of one account at one provider: all calls of all its users pass here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tgp.adapters.clouds.middleware.rate_limiter import ALL_TOGETHER, RateLimiter, rate_limiters
from tgp.core.model.cloud_errors import CloudBusy
from tgp.core.model.provider_facts import CloudFacts

LAUNCH = "launch"  # the verb that pays
LONGEST_WAIT = timedelta(seconds=30)  # as long as the call itself may take (the Http port's usual timeout)
LONGEST_HOLD = timedelta(
    seconds=60
)  # a provider's "not before" is honoured for at most this long: termination must stay possible
NEXT_BUYER = timedelta(seconds=10)  # retry after this if another launch held the account all along
MOST_SOURCES = 256  # remembered at once; a cluster has a handful


class AccountThrottle:
    """On the running loop's clock. No call waits longer than `longest`; `CloudBusy` then says when to retry."""

    def __init__(self, facts: CloudFacts, longest: timedelta = LONGEST_WAIT) -> None:
        self._title = facts.title
        self._longest = longest.total_seconds()
        self._paces = rate_limiters(facts.rates)
        self._closed_until: dict[str, float] = {}  # by verb: the provider asked for a pause
        self._access = asyncio.Lock()  # first come, first served

    @asynccontextmanager
    async def turn(self, verb: str) -> AsyncIterator[None]:
        """The block starts when this call may be sent. A launch has the account for itself until its block ends.

        So that the next launch sees stock and balance after this one.
        """
        deadline = _now() + self._longest
        if verb != LAUNCH:
            await self._wait(verb, deadline)
            yield
            return
        await self._reach_the_till(deadline)
        try:
            await self._wait(verb, deadline)
            yield
        finally:
            self._access.release()

    def close(self, verb: str, length: timedelta) -> None:
        """The provider asked for a pause: no call of this verb is sent before it is over."""
        until = _now() + min(length, LONGEST_HOLD).total_seconds()
        self._closed_until[verb] = max(until, self._closed_until.get(verb, until))

    @property
    def rested(self) -> bool:
        """True: a new object would behave the same, so this one can be dropped."""
        now = _now()
        closed = any(until > now for until in self._closed_until.values())
        return not (closed or self._access.locked()) and all(pace.rested(now) for pace in self._paces.values())

    async def _reach_the_till(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._access.acquire()
        except TimeoutError:
            raise CloudBusy(f"{self._title}: another launch is still in progress", NEXT_BUYER) from None

    async def _wait(self, verb: str, deadline: float) -> None:
        """Waits for this verb's own rate first, then for the rate of all verbs together.

        In that order, because a slow verb that waited in both queues would delay all other verbs.
        A slot counts as used, whether or not a call follows.
        """
        await self._until(verb, self._closed_until.get(verb, 0.0), deadline)
        for pace in (self._paces.get(verb), self._paces.get(ALL_TOGETHER)):
            if pace is not None:
                await self._own_moment(verb, pace, deadline)

    async def _own_moment(self, verb: str, pace: RateLimiter, deadline: float) -> None:
        now = _now()
        moment = pace.earliest(now)
        if moment <= deadline:
            pace.book(now)  # before waiting, so that later callers queue behind
        await self._until(verb, moment, deadline)

    async def _until(self, verb: str, moment: float, deadline: float) -> None:
        wait = moment - _now()
        if moment > deadline:
            raise CloudBusy(f"{self._title}: too many calls wait for {verb}", timedelta(seconds=wait))
        if wait > 0:
            await asyncio.sleep(wait)


class AccountThrottles:
    """One for each source. A source is what the provider's rate limit covers: usually one key."""

    def __init__(self, longest: timedelta = LONGEST_WAIT) -> None:
        self._longest = longest
        self._of: dict[str, AccountThrottle] = {}

    def of(self, source: str, facts: CloudFacts) -> AccountThrottle:
        """Call this for every call: idle throttles are dropped when there are too many."""
        found = self._of.get(source)
        if found is None:
            self._forget()
            found = self._of[source] = AccountThrottle(facts, self._longest)
        return found

    def __len__(self) -> int:
        return len(self._of)

    def _forget(self) -> None:
        if len(self._of) >= MOST_SOURCES:
            self._of = {source: each for source, each in self._of.items() if not each.rested}


def _now() -> float:
    return asyncio.get_running_loop().time()
