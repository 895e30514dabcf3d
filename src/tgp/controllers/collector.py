"""The collector: gives back machines that bear our mark and that no request owns.

Slow on purpose. A machine must have been nobody's in two complete lists half a minute apart, the requests must have
been listed again after the provider was, and a request that was known once is asked for by its name. When too many
machines have no request at once, all of them stay until the evidence is complete (`orphan_evidence`); then they are
terminated one a minute. Where the API server shows no request at all, it has to say so in two lists a minute apart: an
empty answer makes every machine nobody's.

A machine of an older attempt is another matter: its request is there and readable, and does not want it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tgp.api.request import GPURequest
from tgp.controllers.gate import Gate
from tgp.controllers.request_index import BY_UID
from tgp.controllers.rosters import Roster
from tgp.core.model.attempts import attempts_of
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.facts import (
    ConditionChanged,
    OrphanFound,
    OrphanReturned,
    OrphanStays,
    OrphanTerminated,
    Subject,
    SweepHalted,
)
from tgp.core.model.instance import Instance
from tgp.core.model.key import Key
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.collector import Orphan, Owner, Stuck, bears_our_mark, orphans, owners, too_many
from tgp.core.rules.orphan_evidence import ENDED_EVERY, PROVEN_AFTER, Check, ServerState, checked, proven
from tgp.ports.cloud import Cloud
from tgp.ports.cluster import ClusterError, View
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

RIPE_AFTER = 30.0  # seconds between two lists that both show a machine to be nobody's
NONE_FOR = 60.0  # seconds between two lists without a single request, before it is believed that there is none
REFRESHED_WITHIN = 20.0  # seconds; an API server that takes longer is asked in the next round
MOST_ENDS = 10  # machines that begin to be given back, per till, in any …
ENDS_PER = 60.0  # … so many seconds
STUCK_AFTER = 3  # askings that failed in a row …
STUCK_FOR = 600.0  # … or so many seconds of askings that did not: then somebody is told that it does not end
MOST_HOMES = 65_536  # requests whose name is remembered; the longest unheard of are forgotten first
THERE, EVERYWHERE = "listed there", "at all providers together"


@dataclass(slots=True)
class Ending:
    """An orphan whose end was asked for, until it is shown to be gone."""

    orphan: Orphan
    account: str
    since: float  # Clock.boottime of the look that led to the first asking
    tries: int = 0
    why: str = ""  # what the provider last had against it; empty: nothing
    failures: int = 0  # in a row
    stuck: str = ""  # why it does not end, as somebody was told; empty: nobody was
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
    halted: tuple[int, int, str] | None = None  # so many would go, of so many, and where
    checks: dict[str, Check] = field(default_factory=dict)  # by id, while halted: since when its request is not there
    unrecorded: tuple[Instance, ...] = ()  # that their requests are about to adopt again
    ours: int = 0  # machines in the last complete list that bear our mark


async def nowhere(_key: Key, _uid: str) -> bool:
    return False


async def no_server() -> ServerState | None:
    return None


class Collector:
    def __init__(
        self,
        requests: View[Typed[GPURequest]],
        *,
        gate: Gate,
        journal: Journal,
        boottime: Callable[[], float],
        refresh: Callable[[], Awaitable[None]],  # the view of requests, from a list begun after the call
        there: Callable[[Key, str], Awaitable[bool]] = nowhere,  # is a request of this name and uid, or may it be?
        unrecorded: Callable[[Typed[GPURequest]], Instance | None] = lambda _record: None,  # that it adopts again
        server: Callable[[], Awaitable[ServerState | None]] = no_server,  # None: it cannot be asked
        classes_at: Callable[[str], tuple[Subject, ...]] = lambda _till: (),  # that buy there
    ) -> None:
        self._unrecorded = unrecorded
        self._server = server
        self._classes_at = classes_at
        self._last_of_many = float("-inf")  # Clock.boottime: when one was last terminated although there are so many
        self._requests = requests
        self._gate = gate
        self._journal = journal
        self._boottime = boottime
        self._refresh = refresh
        self._there = there
        self._bins: dict[str, _Bin] = {}  # by till
        self._homes: dict[str, Key] = {}  # by uid, as it stands in tokens: requests that this process has seen
        self._none: tuple[float, float] | None = None  # Clock.boottime: the first and last list in a row without any

    # -- for whoever asks --------------------------------------------------------------------------------------------

    @property
    def halted(self) -> Mapping[str, str]:
        """Till → why nothing is given back there before a person has looked."""
        return {till: _halted(*held.halted) for till, held in sorted(self._bins.items()) if held.halted is not None}

    @property
    def any_unrecorded(self) -> bool:
        return any(held.orphans or held.ending or held.unrecorded for held in self._bins.values())

    def unrecorded_at(self, till: str) -> tuple[Instance, ...]:
        """In no request's record, and not an orphan: the request it was bought for adopts it again."""
        held = self._bins.get(till)
        return held.unrecorded if held is not None else ()

    def orphans_of(self, till: str) -> tuple[Orphan, ...]:
        """Nobody's now, and not shown to be gone: they may cost. `why` ends with what keeps one from ending."""
        held = self._bins.get(till)
        if held is None:
            return ()
        found = {orphan.instance.id: orphan for orphan in held.orphans}
        for name, ending in held.ending.items():
            orphan = ending.orphan
            found[name] = replace(orphan, why=f"{orphan.why}; {ending.why}") if ending.why else orphan
        return tuple(found[name] for name in sorted(found))

    @property
    def stuck(self) -> tuple[Stuck, ...]:
        """Orphans that do not end though they were asked to, in the words that somebody was told."""
        return tuple(
            Stuck(till, ending.orphan.instance, ending.stuck)
            for till, held in sorted(self._bins.items())
            for _, ending in sorted(held.ending.items())
            if ending.stuck
        )

    def due(self, till: str) -> float | None:
        """The moment (Clock.boottime) from which the next list may ripen or end something; None: nothing is at hand."""
        held = self._bins.get(till)
        if held is None:
            return None
        if any(not ending.stuck for ending in held.ending.values()):
            return float("-inf")
        never = float("inf") if held.ending else None  # what does not end is asked again in the ordinary rounds
        untold = (orphan for orphan in held.orphans if orphan.instance.id not in held.told)
        proofs = (max(each.at + PROVEN_AFTER, self._last_of_many + ENDED_EVERY) for each in held.checks.values())
        return min((*(self._ripens_at(held, orphan) for orphan in untold), *proofs), default=never)

    def _ripens_at(self, held: _Bin, orphan: Orphan) -> float:
        at = held.since[orphan.instance.id] + RIPE_AFTER
        if self._none is None or _uid(orphan) in self._homes:
            return at
        return max(at, self._none[0] + NONE_FOR)

    def forget(self, till: str) -> None:
        self._bins.pop(till, None)

    def start_over(self) -> None:
        """The API server's history went back: whatever was concluded from it is concluded again."""
        self._none = None
        for held in self._bins.values():
            held.since.clear()
            held.checks.clear()
            held.told.clear()

    def heard_of(self, record: Typed[GPURequest]) -> None:
        """A request showed up, or changed. Remembered beyond its going: a list that leaves it out looks the same."""
        self._none = None
        uid = plain_uid(record.uid_text)
        self._homes.pop(uid, None)
        self._homes[uid] = record.key
        if len(self._homes) > MOST_HOMES:
            del self._homes[next(iter(self._homes))]

    # -- a round -----------------------------------------------------------------------------------------------------

    async def sweep(self, till: str, cloud: Cloud, roster: Roster, cluster: str) -> None:
        """After a look. What an incomplete one does not show proves nothing, and what it shows can wait."""
        if not roster.complete:
            return
        held = self._bins.setdefault(till, _Bin())
        self._note_gone(till, held, roster, cloud.facts.listing_lag)
        self._judge(held, roster, cluster)
        if not held.orphans:
            held.halted = None
            held.checks.clear()
        if (self._ripe(held, roster) or (held.orphans and not len(self._requests))) and await self._refreshed():
            self._judge(held, roster, cluster)
            if sure := await self._sure_of(self._ripe(held, roster)):
                await self._end(till, held, cloud, roster, sure)
            else:
                held.checks.clear()

    def _judge(self, held: _Bin, roster: Roster, cluster: str) -> None:
        ours = [token.uid for one in roster.instances if (token := bears_our_mark(one, cluster)) is not None]
        records = [record for uid in sorted(set(ours)) for record in self._requests.having(BY_UID, uid)]
        held.ours = len(ours)
        owned = owners(records, self._unrecorded)
        held.unrecorded = self._about_to_be_adopted(roster, records, owned)
        held.orphans = orphans(roster.instances, owned, cluster)
        names = [orphan.instance.id for orphan in held.orphans]
        held.since = {name: held.since.get(name, roster.began) for name in names}
        held.told &= set(names)
        for one in roster.instances:
            if one.id not in held.since:  # it is somebody's after all
                held.ending.pop(one.id, None)

    def _about_to_be_adopted(
        self, roster: Roster, records: list[Typed[GPURequest]], owned: Mapping[str, Owner]
    ) -> tuple[Instance, ...]:
        kept = {owner.instance_id for owner in owned.values()} - {
            attempt.instance_id for record in records for attempt in attempts_of(record)
        }
        return tuple(one for one in roster.instances if one.id in kept)

    def _ripe(self, held: _Bin, roster: Roster) -> list[Orphan]:
        return [
            orphan
            for orphan in held.orphans
            if orphan.instance.id in held.ending or roster.began - held.since[orphan.instance.id] >= RIPE_AFTER
        ]

    async def _refreshed(self) -> bool:
        """Bounded: an API server out of reach must not hold a round for ever."""
        began = self._boottime()
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._refresh()
        except (TimeoutError, ClusterError):
            return False
        first, _ = self._none or (began, began)
        self._none = None if len(self._requests) else (first, began)
        return True

    def _view_believed(self) -> bool:
        """After a fresh list. One without a single request is believed when another was so, a minute before."""
        return self._none is None or self._none[1] - self._none[0] >= NONE_FOR

    async def _sure_of(self, ripe: Iterable[Orphan]) -> list[Orphan]:
        """Those that are nobody's beyond what a list says: an empty 200 would make every machine nobody's.

        A request that was heard of is asked for by its name. One that was not is believed to be gone only where the
        list was not found to leave anybody out.
        """
        sure, unheard, left_out = [], [], False
        for orphan in ripe:
            uid = _uid(orphan)
            if orphan.lost and uid not in self._homes:
                unheard.append(orphan)
            elif orphan.lost and await self._there(self._homes[uid], uid):
                left_out = True
            else:
                sure.append(orphan)
        return sure if left_out or not self._view_believed() else [*sure, *unheard]

    async def _end(self, till: str, held: _Bin, cloud: Cloud, roster: Roster, ripe: list[Orphan]) -> None:
        self._tell(till, held, ripe)
        halt = self._too_many(held)
        if halt is not None and held.halted is None:
            self._journal.note(SweepHalted(till, *halt[:2]))
        held.halted = halt
        if halt is not None:
            ripe = await self._beyond_doubt(till, held, ripe)
        else:
            held.checks.clear()
        for orphan in ripe:
            if not await self._ask(held, cloud, roster, orphan):
                return
            self._tell_of_stuck(till, held.ending[orphan.instance.id], roster)

    async def _beyond_doubt(self, till: str, held: _Bin, ripe: list[Orphan]) -> list[Orphan]:
        """Of too many: those whose request is there and does not want them, those begun with, and one more a minute."""
        now, doubted = self._boottime(), {one.instance.id: one for one in ripe if one.lost}
        held.checks = checked(held.checks, sorted(doubted.keys() - held.ending.keys()), await self._server(), now)
        going = [one for one in ripe if not one.lost or one.instance.id in held.ending]
        if now - self._last_of_many >= ENDED_EVERY and (names := proven(held.checks, now)):
            self._last_of_many = now
            held.checks.pop(names[0])
            self._tell_of_one(till, held, doubted[names[0]].instance)
            going.append(doubted[names[0]])
        return going

    def _tell_of_one(self, till: str, held: _Bin, one: Instance) -> None:
        """Each time, also to the classes that buy there."""
        left = sum(each.lost for each in _new(held)) - 1
        why = f"its request was confirmed absent twice, {PROVEN_AFTER / 60:.0f} minutes apart"
        self._journal.note(OrphanTerminated(till, one.id, one.token, why, left))
        words = f"machine {one.id} at {till} is terminated: {why}; {left} more belong to no request"
        for subject in self._classes_at(till):
            self._journal.note(ConditionChanged(subject, "SweepHalted", "True", "OrphanTerminated", words, False))

    def _too_many(self, held: _Bin) -> tuple[int, int, str] | None:
        """Of one list, or of all tills together: ten boxes of one's own are ten tills.

        Only what no request has the uid of counts. Where a request can be read, the view of it is not wrong.
        """
        here, everywhere = self._lost((held,)), self._lost(self._bins.values())
        if too_many(here, held.ours):
            return here, held.ours, THERE
        of = sum(each.ours for each in self._bins.values())
        return (everywhere, of, EVERYWHERE) if too_many(everywhere, of) else None

    def _lost(self, bins: Iterable[_Bin]) -> int:
        """As the view is now: a list may be older than it."""
        found = (orphan for held in bins for orphan in _new(held) if orphan.lost)
        return len([orphan for orphan in found if not self._requests.having(BY_UID, _uid(orphan))])

    async def _ask(self, held: _Bin, cloud: Cloud, roster: Roster, orphan: Orphan) -> bool:
        """For the end of one, in every round until it is gone. False: nothing more in this round."""
        name = orphan.instance.id
        if name not in held.ending:
            if len(held.begun) == MOST_ENDS and roster.began - held.begun[0] < ENDS_PER:
                return False
            held.begun.append(roster.began)
        ending = held.ending.setdefault(name, Ending(orphan, roster.account, roster.began))
        ending.orphan, ending.tries = orphan, ending.tries + 1
        try:
            await self._gate.terminate(cloud, name)
        except NotLeading:  # nothing was sent
            if ending.tries == 1:
                del held.ending[name]
            return False
        except CloudError as error:
            ending.failures += 1
            ending.why = f"asked to end {ending.tries} times: {error}"
        else:
            ending.failures, ending.why = 0, ""
        return True

    def _tell_of_stuck(self, till: str, ending: Ending, roster: Roster) -> None:
        """Once for each: the words of the first time stand, or every round would be news."""
        accepted = not ending.failures and roster.began - ending.since >= STUCK_FOR
        if ending.stuck or (ending.failures < STUCK_AFTER and not accepted):
            return
        ending.stuck = ending.why or f"asked to end {ending.tries} times: its provider agrees, and lists it still"
        one = ending.orphan.instance
        self._journal.note(OrphanStays(till, one.id, one.token, ending.tries, ending.stuck, one.hourly_microusd or 0))

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


def _uid(orphan: Orphan) -> str:
    token = read_token(orphan.instance.token)
    assert token is not None, "only what bears our mark can be an orphan"
    return token.uid


def _new(held: _Bin) -> list[Orphan]:
    """Whose end was not asked for yet."""
    return [orphan for orphan in held.orphans if orphan.instance.id not in held.ending]


def _halted(count: int, of: int, where: str) -> str:
    return (
        f"{count} of {of} machines {where} belong to no request. They stay until each request was confirmed absent "
        f"twice, {PROVEN_AFTER / 60:.0f} minutes apart; then one machine is terminated per minute. "
        "Look at them with: tgp doctor --orphans"
    )
