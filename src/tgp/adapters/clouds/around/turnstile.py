"""The line in front of one account at one provider: every call of everybody who uses it passes here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tgp.adapters.clouds.around.pace import ALL_TOGETHER, Pace, paces
from tgp.adapters.clouds.around.wrapped import LAUNCH
from tgp.core.model.cloud_errors import CloudBusy
from tgp.ports.cloud import CloudFacts

LONGEST_WAIT = timedelta(seconds=30)  # as long as the call itself may take (the Http port's usual timeout)
LONGEST_HOLD = timedelta(seconds=60)  # a provider's "not before" is believed so long: giving back must stay possible
NEXT_BUYER = timedelta(seconds=10)  # when to come back if the till was taken all along
MOST_SOURCES = 256  # remembered at once; a cluster has a handful


class Turnstile:
    """On the running loop's clock. Nobody waits longer than `longest`; `CloudBusy` then says when to come back."""

    def __init__(self, facts: CloudFacts, longest: timedelta = LONGEST_WAIT) -> None:
        self._title = facts.title
        self._longest = longest.total_seconds()
        self._paces = paces(facts.rates)
        self._closed_until: dict[str, float] = {}  # by verb: the provider asked for a pause
        self._till = asyncio.Lock()  # first come, first served

    @asynccontextmanager
    async def turn(self, verb: str) -> AsyncIterator[None]:
        """The block begins when it is this call's turn. A launch is alone at the till until its block ends.

        Alone, because the next buyer is to see stock and balance as this one left them.
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
            self._till.release()

    def close(self, verb: str, length: timedelta) -> None:
        """The provider asked for a pause: nobody repeats this verb before it is over."""
        until = _now() + min(length, LONGEST_HOLD).total_seconds()
        self._closed_until[verb] = max(until, self._closed_until.get(verb, until))

    @property
    def rested(self) -> bool:
        """Could it be forgotten and made anew, and nobody would notice?"""
        now = _now()
        closed = any(until > now for until in self._closed_until.values())
        return not (closed or self._till.locked()) and all(pace.rested(now) for pace in self._paces.values())

    async def _reach_the_till(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._till.acquire()
        except TimeoutError:
            raise CloudBusy(f"{self._title}: another launch is still under way", NEXT_BUYER) from None

    async def _wait(self, verb: str, deadline: float) -> None:
        """First for this verb's own turn, then for one of all together.

        In that order, because a slow verb that held its place in both lines would stop everybody behind it.
        A turn is used up by whoever got it, whether or not a call follows.
        """
        await self._until(verb, self._closed_until.get(verb, 0.0), deadline)
        for pace in (self._paces.get(verb), self._paces.get(ALL_TOGETHER)):
            if pace is not None:
                await self._own_moment(verb, pace, deadline)

    async def _own_moment(self, verb: str, pace: Pace, deadline: float) -> None:
        now = _now()
        moment = pace.earliest(now)
        if moment <= deadline:
            pace.book(now)  # before waiting, so that whoever comes next stands behind
        await self._until(verb, moment, deadline)

    async def _until(self, verb: str, moment: float, deadline: float) -> None:
        wait = moment - _now()
        if moment > deadline:
            raise CloudBusy(f"{self._title}: too many calls are waiting for {verb}", timedelta(seconds=wait))
        if wait > 0:
            await asyncio.sleep(wait)


class Turnstiles:
    """One for each source. A source is whatever the provider counts together: usually provider and key."""

    def __init__(self, longest: timedelta = LONGEST_WAIT) -> None:
        self._longest = longest
        self._of: dict[str, Turnstile] = {}

    def of(self, source: str, facts: CloudFacts) -> Turnstile:
        """Ask again at every call: those that hold nobody back are forgotten when there are too many."""
        found = self._of.get(source)
        if found is None:
            self._forget()
            found = self._of[source] = Turnstile(facts, self._longest)
        return found

    def __len__(self) -> int:
        return len(self._of)

    def _forget(self) -> None:
        if len(self._of) >= MOST_SOURCES:
            self._of = {source: each for source, each in self._of.items() if not each.rested}


def _now() -> float:
    return asyncio.get_running_loop().time()
