"""The collector: gives back machines that bear our mark and that no request owns.

Slow on purpose. A machine must have been nobody's in two complete lists half a minute apart, the requests must have
been listed again after the provider was, a request that was known once is asked for by its name, and when too many
would go at once nothing goes: then a person has to look.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tgp.api.request import GPURequest
from tgp.controllers.gate import Gate
from tgp.controllers.request_index import BY_UID
from tgp.controllers.rosters import Roster
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.facts import OrphanFound, OrphanReturned, SweepHalted
from tgp.core.model.key import Key
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.collector import Orphan, bears_our_mark, orphans, owners, too_many
from tgp.ports.cloud import Cloud
from tgp.ports.cluster import ClusterError, View
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

RIPE_AFTER = 30.0  # seconds between two lists that both show a machine to be nobody's
REFRESHED_WITHIN = 20.0  # seconds; an API server that takes longer is asked in the next round
MOST_ENDS = 10  # machines that begin to be given back, per till, in any …
ENDS_PER = 60.0  # … so many seconds


@dataclass(slots=True)
class Ending:
    """An orphan whose end was asked for, until it is shown to be gone."""

    orphan: Orphan
    account: str
    tries: int = 0
    why: str = ""  # what the provider last had against it; empty: nothing
    absent_since: float | None = None  # Clock.boottime


@dataclass(slots=True)
class _Bin:
    """What is known of the orphans of one till."""

    orphans: tuple[Orphan, ...] = ()  # in the last complete list
    since: dict[str, float] = field(
        default_factory=dict
    )  # by id: the first list in a row that showed it to be nobody's
    ending: dict[str, Ending] = field(default_factory=dict)  # by id
    told: set[str] = field(default_factory=set)  # ids of which somebody was told
    begun: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_ENDS))  # when ends were first asked for
    halted: tuple[int, int] | None = None  # so many would go, of so many
    homes: dict[str, Key] = field(default_factory=dict)  # by uid: the request that a machine here was once seen to have


async def nowhere(_key: Key, _uid: str) -> bool:
    return False


class Collector:
    def __init__(
        self,
        requests: View[Typed[GPURequest]],
        *,
        gate: Gate,
        journal: Journal,
        refresh: Callable[[], Awaitable[None]],  # the view of requests, from a list begun after the call
        there: Callable[[Key, str], Awaitable[bool]] = nowhere,  # is a request of this name and uid, or may it be?
    ) -> None:
        self._requests = requests
        self._gate = gate
        self._journal = journal
        self._refresh = refresh
        self._there = there
        self._bins: dict[str, _Bin] = {}  # by till

    # -- for whoever asks --------------------------------------------------------------------------------------------

    @property
    def halted(self) -> Mapping[str, str]:
        """Till → why nothing is given back there before a person has looked."""
        return {till: _halted(*held.halted) for till, held in sorted(self._bins.items()) if held.halted is not None}

    @property
    def any_orphans(self) -> bool:
        return any(held.orphans or held.ending for held in self._bins.values())

    def orphans_of(self, till: str) -> tuple[Orphan, ...]:
        """Nobody's now, and not shown to be gone: they may cost. `why` ends with what keeps one from ending."""
        held = self._bins.get(till)
        if held is None:
            return ()
        found = {orphan.instance.id: orphan for orphan in held.orphans}
        for name, ending in held.ending.items():
            orphan = ending.orphan
            found[name] = Orphan(orphan.instance, f"{orphan.why}; {ending.why}") if ending.why else orphan
        return tuple(found[name] for name in sorted(found))

    def due(self, till: str) -> float | None:
        """The moment (Clock.boottime) from which the next list may ripen or end something; None: nothing is at hand."""
        held = self._bins.get(till)
        if held is None:
            return None
        if held.ending:
            return float("-inf")
        return min((since + RIPE_AFTER for name, since in held.since.items() if name not in held.told), default=None)

    def forget(self, till: str) -> None:
        self._bins.pop(till, None)

    # -- a round -----------------------------------------------------------------------------------------------------

    async def sweep(self, till: str, cloud: Cloud, roster: Roster, cluster: str) -> None:
        """After a look. What an incomplete one does not show proves nothing, and what it shows can wait."""
        if not roster.complete:
            return
        held = self._bins.setdefault(till, _Bin())
        self._note_gone(till, held, roster, cloud.facts.listing_lag)
        self._judge(held, roster, cluster)
        if not self._ripe(held, roster):
            if not held.orphans:
                held.halted = None
        elif await self._refreshed():
            self._judge(held, roster, cluster)
            if not await self._left_out(self._ripe(held, roster), held.homes):
                await self._end(till, held, cloud, roster, cluster)

    def _judge(self, held: _Bin, roster: Roster, cluster: str) -> None:
        ours = [token.uid for one in roster.instances if (token := bears_our_mark(one, cluster)) is not None]
        records = [record for uid in sorted(set(ours)) for record in self._requests.having(BY_UID, uid)]
        known = held.homes | {plain_uid(record.uid_text): record.key for record in records}
        held.homes = {uid: key for uid, key in known.items() if uid in ours}
        held.orphans = orphans(roster.instances, owners(records), cluster)
        names = [orphan.instance.id for orphan in held.orphans]
        held.since = {name: held.since.get(name, roster.began) for name in names}
        held.told &= set(names)
        for one in roster.instances:
            if one.id not in held.since:  # it is somebody's after all
                held.ending.pop(one.id, None)

    def _ripe(self, held: _Bin, roster: Roster) -> list[Orphan]:
        return [
            orphan
            for orphan in held.orphans
            if orphan.instance.id in held.ending or roster.began - held.since[orphan.instance.id] >= RIPE_AFTER
        ]

    async def _refreshed(self) -> bool:
        """Bounded: an API server out of reach must not hold a round for ever."""
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._refresh()
        except (TimeoutError, ClusterError):
            return False
        return True

    async def _left_out(self, ripe: Iterable[Orphan], homes: Mapping[str, Key]) -> bool:
        """Does a request live that the list does not show? An empty 200 would make every machine nobody's."""
        uids = {token.uid for orphan in ripe if (token := read_token(orphan.instance.token)) is not None}
        unseen = sorted(uid for uid in uids & homes.keys() if not self._requests.having(BY_UID, uid))
        for uid in unseen:
            if await self._there(homes[uid], uid):
                return True
        return False

    async def _end(self, till: str, held: _Bin, cloud: Cloud, roster: Roster, cluster: str) -> None:
        ripe = self._ripe(held, roster)
        self._tell(till, held, ripe)
        new = [orphan for orphan in held.orphans if orphan.instance.id not in held.ending]
        of = sum(bears_our_mark(one, cluster) is not None for one in roster.instances)
        if too_many(len(new), of):
            if held.halted is None:
                self._journal.note(SweepHalted(till, len(new), of))
            held.halted = len(new), of
            return
        held.halted = None
        for orphan in ripe:
            if not await self._ask(held, cloud, roster, orphan):
                return

    async def _ask(self, held: _Bin, cloud: Cloud, roster: Roster, orphan: Orphan) -> bool:
        """For the end of one, in every round until it is gone. False: nothing more in this round."""
        name = orphan.instance.id
        if name not in held.ending:
            if len(held.begun) == MOST_ENDS and roster.began - held.begun[0] < ENDS_PER:
                return False
            held.begun.append(roster.began)
        ending = held.ending.setdefault(name, Ending(orphan, roster.account))
        ending.orphan, ending.tries = orphan, ending.tries + 1
        try:
            await self._gate.terminate(cloud, name)
        except NotLeading:  # nothing was sent
            if ending.tries == 1:
                del held.ending[name]
            return False
        except CloudError as error:
            ending.why = f"asked to end {ending.tries} times: {error}"
        else:
            ending.why = ""
        return True

    def _tell(self, till: str, held: _Bin, found: Iterable[Orphan]) -> None:
        for orphan in found:
            machine = orphan.instance
            if machine.id not in held.told:
                held.told.add(machine.id)
                self._journal.note(OrphanFound(till, machine.id, machine.token, orphan.why))

    def _note_gone(self, till: str, held: _Bin, roster: Roster, lag: timedelta) -> None:
        """Shown absent twice, a listing lag apart, in the account it was ended in."""
        listed = {one.id for one in roster.instances}
        for name, ending in list(held.ending.items()):
            if name in listed or ending.account != roster.account:
                ending.absent_since = None
            elif ending.absent_since is None:
                ending.absent_since = roster.began
            elif roster.began - ending.absent_since >= lag.total_seconds():
                del held.ending[name]
                self._journal.note(OrphanReturned(till, name, ending.orphan.instance.token))


def _halted(count: int, of: int) -> str:
    return (
        f"{count} of {of} machines listed there belong to no request: too many to give back unasked. "
        "Look at them with: tgp doctor --orphans"
    )
