"""The orphan collector: terminates machines with a token of this cluster that no request owns.

Slow on purpose. A machine must have had no owner in two complete lists half a minute apart, the requests must have been
listed again after the provider was, and a request that was known once is read by name. When too many
machines have no request at once, all of them stay until the evidence is complete (`orphan_evidence`); then they are
terminated one a minute. Where the API server shows no request at all, it has to say so in two lists a minute apart,
and longer apart while it shows Nodes of requests: an empty answer makes every machine an orphan.

A machine of an older attempt needs less evidence: its request exists, is readable, and does not want it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS
from tgp.controllers.instances.cache import InstanceCache, InstanceSnapshot
from tgp.controllers.instances.evidence import Evidence
from tgp.controllers.requests.indexes import BY_UID
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.inventory.orphan_evidence import ENDED_EVERY, PROVEN_AFTER, Check, checked, proven
from tgp.core.inventory.orphans import Orphan, RequestOwner, Stuck, bears_our_mark, orphans, owners, too_many
from tgp.core.market.sources import accesses_of_class
from tgp.core.model.attempts import attempts_of
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.facts import (
    ConditionChanged,
    FactSubject,
    OrphanFound,
    OrphanGone,
    OrphanTerminated,
    OrphanTerminationFailing,
    SweepHalted,
)
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import REQUEST_UID, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid, read_token
from tgp.core.requests.readoption import unrecorded
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud
from tgp.ports.cluster import ClusterError, View
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

GRACE = 30.0  # seconds between two lists that both show a machine without an owner
NONE_FOR = 60.0  # seconds between two lists without a single request, before it is believed that there is none
NONE_BUT_NODES_FOR = 150.0  # the same while Nodes of ours are there, which say that there were requests
REFRESHED_WITHIN = 20.0  # seconds; a slower API server is asked after the next list
MOST_ENDS = 10  # terminations that may start, per account, within …
ENDS_PER = 60.0  # … so many seconds
STUCK_AFTER = 3  # failed termination requests in a row …
STUCK_FOR = 600.0  # … or so many seconds after accepted ones: then it is reported as stuck
MOST_KNOWN = 65_536  # requests whose name is remembered; the least recently seen are forgotten first
THERE, EVERYWHERE = "listed there", "at all providers together"


@dataclass(slots=True)
class PendingTermination:
    """An orphan whose termination was requested, until it is shown to be gone."""

    orphan: Orphan
    account: str
    since: float  # Clock.boottime of the list that led to the first request
    tries: int = 0
    why: str = ""  # the last error of the provider; empty: none
    failures: int = 0  # in a row
    stuck: str = ""  # why it is not terminated, as reported; empty: not reported
    absent_since: float | None = None  # Clock.boottime


@dataclass(slots=True)
class _AccountState:
    """What is known of the orphans of one account."""

    orphans: tuple[Orphan, ...] = ()  # in the last complete list
    since: dict[str, float] = field(
        default_factory=dict
    )  # by id: the first list in a row that showed it without an owner
    ending: dict[str, PendingTermination] = field(default_factory=dict)  # by id
    reported: set[str] = field(default_factory=set)  # ids that were reported
    begun: deque[float] = field(
        default_factory=lambda: deque(maxlen=MOST_ENDS)
    )  # when terminations were first requested
    halted: tuple[int, int, str] | None = None  # the number of orphans, of how many machines, and where
    checks: dict[str, Check] = field(default_factory=dict)  # by id, while halted: since when its request does not exist
    unrecorded: tuple[Instance, ...] = ()  # that their requests are about to adopt again
    ours: int = 0  # machines in the last complete list with a token of this cluster


class OrphanCollector:
    def __init__(
        self,
        instance_cache: InstanceCache,
        requests: View[KubeObject[GPURequest]],  # indexed by uid
        *,
        classes: View[KubeObject[GPUNodeClass]],
        nodes: View[Node],
        evidence: Evidence,
        gate: LeaderGuard,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._instance_cache = instance_cache
        self._requests = requests
        self._classes = classes
        self._nodes = nodes
        self._evidence = evidence
        self._gate = gate
        self._journal = journal
        self._boottime = clock.boottime
        self._states: dict[str, _AccountState] = {}  # by account access
        self._known: dict[str, ObjectKey] = {}  # by uid, as in tokens: requests that this process has seen
        self._last_of_many = float("-inf")  # Clock.boottime: the last termination while there are too many
        self._none: tuple[float, float] | None = None  # Clock.boottime: the first and last list in a row without any

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def halted(self) -> Mapping[str, str]:
        """Account access → why terminations there are halted."""
        return {
            access: _halted(*held.halted) for access, held in sorted(self._states.items()) if held.halted is not None
        }

    @property
    def any_unrecorded(self) -> bool:
        """Is there any machine that is in no request's record?"""
        return any(held.orphans or held.ending or held.unrecorded for held in self._states.values())

    @property
    def adoption_awaited(self) -> bool:
        """Does a request have to adopt its machine again? It waits for a list of every account where more may be."""
        return any(held.unrecorded for held in self._states.values())

    def without_request(self) -> Mapping[str, int | None]:
        """By token: the hourly price of machines that are in no request's record, and may cost."""
        found: dict[str, int | None] = {}
        for access, held in self._states.items():
            machines = (*held.unrecorded, *(orphan.instance for orphan in self.orphans_of(access)))
            found |= {one.token: one.hourly_microusd for one in machines}
        return found

    def unrecorded_at(self, access: str) -> tuple[Instance, ...]:
        """Machines in no request's record that are no orphans: their requests adopt them again."""
        held = self._states.get(access)
        return held.unrecorded if held is not None else ()

    def orphans_of(self, access: str) -> tuple[Orphan, ...]:
        """Machines without an owner that are not shown to be gone: they may cost. `why` ends with the last error."""
        held = self._states.get(access)
        if held is None:
            return ()
        found = {orphan.instance.id: orphan for orphan in held.orphans}
        for name, ending in held.ending.items():
            orphan = ending.orphan
            found[name] = replace(orphan, why=f"{orphan.why}; {ending.why}") if ending.why else orphan
        return tuple(found[name] for name in sorted(found))

    @property
    def stuck(self) -> tuple[Stuck, ...]:
        """Orphans that are not terminated although that was requested, with the reported reason."""
        return tuple(
            Stuck(access, ending.orphan.instance, ending.stuck)
            for access, held in sorted(self._states.items())
            for _, ending in sorted(held.ending.items())
            if ending.stuck
        )

    def due(self, access: str) -> float | None:
        """From when (Clock.boottime) the next list may allow a termination; None: there are no orphans."""
        held = self._states.get(access)
        if held is None:
            return None
        if any(not ending.stuck for ending in held.ending.values()):
            return float("-inf")
        never = float("inf") if held.ending else None  # stuck ones are requested again after the ordinary lists
        unreported = (orphan for orphan in held.orphans if orphan.instance.id not in held.reported)
        proofs = (max(each.at + PROVEN_AFTER, self._last_of_many + ENDED_EVERY) for each in held.checks.values())
        return min((*(self._ripens_at(held, orphan) for orphan in unreported), *proofs), default=never)

    def _ripens_at(self, held: _AccountState, orphan: Orphan) -> float:
        at = held.since[orphan.instance.id] + GRACE
        if self._none is None or _uid(orphan) in self._known:
            return at
        return max(at, self._none[0] + self._none_for())

    def forget(self, access: str) -> None:
        self._states.pop(access, None)

    def start_over(self) -> None:
        """The API server's history went back: collect the evidence again."""
        self._none = None
        for held in self._states.values():
            held.since.clear()
            held.checks.clear()
            held.reported.clear()

    def observed(self, record: KubeObject[GPURequest]) -> None:
        """A request appeared or changed. Remembered after its deletion: a list that omits it looks the same."""
        self._none = None
        uid = plain_uid(record.uid_text)
        self._known.pop(uid, None)
        self._known[uid] = record.key
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    # -- after a list ------------------------------------------------------------------------------------------------

    async def sweep(self, access: str, cloud: Cloud, snapshot: InstanceSnapshot, cluster: str) -> None:
        """After a list. What an incomplete one omits proves nothing, and what it shows can wait."""
        if not snapshot.complete:
            return
        held = self._states.setdefault(access, _AccountState())
        self._note_gone(access, held, snapshot, cloud.facts.listing_lag)
        self._judge(held, snapshot, cluster)
        if not held.orphans:
            held.halted = None
            held.checks.clear()
        if (self._ripe(held, snapshot) or (held.orphans and not len(self._requests))) and await self._refreshed():
            self._judge(held, snapshot, cluster)
            if sure := await self._sure_of(self._ripe(held, snapshot)):
                await self._end(access, held, cloud, snapshot, sure)
            else:
                held.checks.clear()

    def _judge(self, held: _AccountState, snapshot: InstanceSnapshot, cluster: str) -> None:
        ours = [token.uid for one in snapshot.instances if (token := bears_our_mark(one, cluster)) is not None]
        records = [record for uid in sorted(set(ours)) for record in self._requests.by_index(BY_UID, uid)]
        held.ours = len(ours)
        owned = owners(records, self._unrecorded)
        held.unrecorded = self._about_to_be_adopted(snapshot, records, owned)
        held.orphans = orphans(snapshot.instances, owned, cluster)
        names = [orphan.instance.id for orphan in held.orphans]
        held.since = {name: held.since.get(name, snapshot.began) for name in names}
        held.reported &= set(names)
        for one in snapshot.instances:
            if one.id not in held.since:  # a request owns it after all
                held.ending.pop(one.id, None)

    def _about_to_be_adopted(
        self, snapshot: InstanceSnapshot, records: list[KubeObject[GPURequest]], owned: Mapping[str, RequestOwner]
    ) -> tuple[Instance, ...]:
        kept = {owner.instance_id for owner in owned.values()} - {
            attempt.instance_id for record in records for attempt in attempts_of(record)
        }
        return tuple(one for one in snapshot.instances if one.id in kept)

    def _unrecorded(self, record: KubeObject[GPURequest]) -> Instance | None:
        uid = plain_uid(record.uid_text)
        listed = (one for _, one in self._instance_cache.of_request(uid))
        return unrecorded(record, listed, self._instance_cache.highest_attempt(uid))

    def _ripe(self, held: _AccountState, snapshot: InstanceSnapshot) -> list[Orphan]:
        return [
            orphan
            for orphan in held.orphans
            if orphan.instance.id in held.ending or snapshot.began - held.since[orphan.instance.id] >= GRACE
        ]

    async def _refreshed(self) -> bool:
        """Bounded: an unreachable API server must not block the poller."""
        began = self._boottime()
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._evidence.refresh()
        except (TimeoutError, ClusterError):
            return False
        first, _ = self._none or (began, began)
        self._none = None if len(self._requests) else (first, began)
        return True

    def _view_believed(self) -> bool:
        """After a fresh list. A list without any request is believed if another one was empty a while before."""
        return self._none is None or self._none[1] - self._none[0] >= self._none_for()

    def _none_for(self) -> float:
        marked = any(REQUEST_UID in node.labels for node in self._nodes.values())
        return NONE_BUT_NODES_FOR if marked else NONE_FOR

    async def _sure_of(self, ripe: Iterable[Orphan]) -> list[Orphan]:
        """Those confirmed beyond the list: an empty 200 would make every machine an orphan.

        A request that was seen before is read by name. One that was not is believed to be gone only where the list was
        not found to omit any request.
        """
        sure, unknown, omitted = [], [], False
        for orphan in ripe:
            uid = _uid(orphan)
            if orphan.lost and uid not in self._known:
                unknown.append(orphan)
            elif orphan.lost and await self._evidence.exists(self._known[uid], uid):
                omitted = True
            else:
                sure.append(orphan)
        return sure if omitted or not self._view_believed() else [*sure, *unknown]

    async def _end(
        self, access: str, held: _AccountState, cloud: Cloud, snapshot: InstanceSnapshot, ripe: list[Orphan]
    ) -> None:
        self._report(access, held, ripe)
        halt = self._too_many(held)
        if halt is not None and held.halted is None:
            self._journal.note(SweepHalted(access, *halt[:2]))
        held.halted = halt
        if halt is not None:
            ripe = await self._beyond_doubt(access, held, ripe)
        else:
            held.checks.clear()
        for orphan in ripe:
            if not await self._ask(held, cloud, snapshot, orphan):
                return
            self._report_stuck(access, held.ending[orphan.instance.id], snapshot)

    async def _beyond_doubt(self, access: str, held: _AccountState, ripe: list[Orphan]) -> list[Orphan]:
        """Of too many: those that their request does not want, those already requested, and one more a minute."""
        now, doubted = self._boottime(), {one.instance.id: one for one in ripe if one.lost}
        held.checks = checked(
            held.checks, sorted(doubted.keys() - held.ending.keys()), await self._evidence.server(), now
        )
        going = [one for one in ripe if not one.lost or one.instance.id in held.ending]
        if now - self._last_of_many >= ENDED_EVERY and (names := proven(held.checks, now)):
            self._last_of_many = now
            held.checks.pop(names[0])
            self._report_one(access, held, doubted[names[0]].instance)
            going.append(doubted[names[0]])
        return going

    def _report_one(self, access: str, held: _AccountState, one: Instance) -> None:
        """Report each one, also on the classes that buy there."""
        left = sum(each.lost for each in _new(held)) - 1
        why = f"the request was confirmed absent twice, {PROVEN_AFTER / 60:.0f} minutes apart"
        self._journal.note(OrphanTerminated(access, one.id, one.token, why, left))
        words = f"Machine {one.id} at {access} is being terminated: {why}. {left} more belong to no request."
        there = (each for each in self._classes.values() if access in accesses_of_class(each) and each.uid)
        for node_class in there:
            subject = FactSubject(GPU_NODE_CLASS, node_class.key, node_class.uid_text)
            self._journal.note(ConditionChanged(subject, "SweepHalted", "True", "OrphanTerminated", words, False))

    def _too_many(self, held: _AccountState) -> tuple[int, int, str] | None:
        """Of one list, or of all accounts together: ten owned machines are ten accounts.

        Only machines whose uid no request has count. Where a request can be read, the view of it is right.
        """
        here, everywhere = self._lost((held,)), self._lost(self._states.values())
        if too_many(here, held.ours):
            return here, held.ours, THERE
        of = sum(each.ours for each in self._states.values())
        return (everywhere, of, EVERYWHERE) if too_many(everywhere, of) else None

    def _lost(self, bins: Iterable[_AccountState]) -> int:
        """As the cache is now: the list may be older."""
        found = (orphan for held in bins for orphan in _new(held) if orphan.lost)
        return len([orphan for orphan in found if not self._requests.by_index(BY_UID, _uid(orphan))])

    async def _ask(self, held: _AccountState, cloud: Cloud, snapshot: InstanceSnapshot, orphan: Orphan) -> bool:
        """Request one termination, after every list until it is gone. False: no more requests after this list."""
        name = orphan.instance.id
        if name not in held.ending:
            if len(held.begun) == MOST_ENDS and snapshot.began - held.begun[0] < ENDS_PER:
                return False
            held.begun.append(snapshot.began)
        ending = held.ending.setdefault(name, PendingTermination(orphan, snapshot.account, snapshot.began))
        ending.orphan, ending.tries = orphan, ending.tries + 1
        try:
            await self._gate.terminate(cloud, name)
        except NotLeading:  # nothing was sent
            if ending.tries == 1:
                del held.ending[name]
            return False
        except CloudError as error:
            ending.failures += 1
            ending.why = f"termination requested {ending.tries} times: {error}"
        else:
            ending.failures, ending.why = 0, ""
        return True

    def _report_stuck(self, access: str, ending: PendingTermination, snapshot: InstanceSnapshot) -> None:
        """Once for each: the first message stays, or every list would change the condition."""
        accepted = not ending.failures and snapshot.began - ending.since >= STUCK_FOR
        if ending.stuck or (ending.failures < STUCK_AFTER and not accepted):
            return
        ending.stuck = ending.why or (
            f"termination requested {ending.tries} times: the provider accepts it but still lists the machine"
        )
        one = ending.orphan.instance
        self._journal.note(
            OrphanTerminationFailing(access, one.id, one.token, ending.tries, ending.stuck, one.hourly_microusd or 0)
        )

    def _report(self, access: str, held: _AccountState, found: Iterable[Orphan]) -> None:
        for orphan in found:
            machine = orphan.instance
            if machine.id not in held.reported:
                held.reported.add(machine.id)
                self._journal.note(OrphanFound(access, machine.id, machine.token, orphan.why))

    def _note_gone(self, access: str, held: _AccountState, snapshot: InstanceSnapshot, lag: timedelta) -> None:
        """Shown absent twice, a listing lag apart, in the account it was terminated in."""
        listed = {one.id for one in snapshot.instances}
        for name, ending in list(held.ending.items()):
            if name in listed or ending.account != snapshot.account:
                ending.absent_since = None
            elif ending.absent_since is None:
                ending.absent_since = snapshot.began
            elif snapshot.began - ending.absent_since >= lag.total_seconds():
                del held.ending[name]
                self._journal.note(OrphanGone(access, name, ending.orphan.instance.token))


def _uid(orphan: Orphan) -> str:
    token = read_token(orphan.instance.token)
    assert token is not None, "only a machine with our token can be an orphan"
    return token.uid


def _new(held: _AccountState) -> list[Orphan]:
    """Orphans whose termination was not requested yet."""
    return [orphan for orphan in held.orphans if orphan.instance.id not in held.ending]


def _halted(count: int, of: int, where: str) -> str:
    return (
        f"{count} of {of} machines {where} belong to no request. They stay until each request was confirmed absent "
        f"twice, {PROVEN_AFTER / 60:.0f} minutes apart; then one machine is terminated per minute. "
        "List them with: tgp doctor --orphans"
    )
