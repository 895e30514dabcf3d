"""The rounds: lists what every till holds of this cluster, for everybody who decides about a machine.

A turn is one look at one till: key, list, identity, in this order, since the identity vouches for the list before it.
Whatever goes wrong becomes a trouble of that till, and nothing is ever concluded from it. After a good look the
collector sees what nobody owns. Lengths are measured on `Clock.boottime`: a wall clock that jumps changes nothing.

Tills are learned from the classes that wake the rounds and from the table of accounts, and stay for an hour after the
last of them has forgotten one: a provider entry that was removed from a class is still swept.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.common import PROVIDERS
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_NODE_CLASS
from tgp.controllers.accounts import Accounts
from tgp.controllers.collector import Collector, no_server, nowhere
from tgp.controllers.consistency import Consistency
from tgp.controllers.gate import Gate
from tgp.controllers.keys import Keys, keys_for, secrets_of
from tgp.controllers.look import Expected, look
from tgp.controllers.rosters import Roster, Rosters
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.cloud_errors import CloudBusy, CloudError, KeyRefused
from tgp.core.model.facts import Subject
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.key import Key
from tgp.core.model.presence import Trouble
from tgp.core.model.till import Till, tills_of
from tgp.core.model.token import cluster_prefix, plain_uid
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.collector import Orphan, Stuck
from tgp.core.rules.costs import most_believed
from tgp.core.rules.lifecycle import LAUNCHED
from tgp.core.rules.orphan_evidence import ServerState
from tgp.core.rules.readoption import unrecorded
from tgp.core.rules.sources import source_for
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.entropy import Entropy
from tgp.ports.journal import Journal
from tgp.ports.vault import Vault

# Seconds, all of them.
SOON = 15.0  # while somebody waits for a machine to come or to go
USUALLY = 60.0  # while machines of ours are listed: so late a loss is noticed
SELDOM = 180.0  # where nothing is: what comes there unknown to anybody must be seen, ripen and be gone within 300 s
LONGEST = 300.0  # of a till that errs …
AT_STAKE = 60.0  # … and where machines of ours are, or may be: what is nobody's there must be gone within 300 s
CLOSEST = 3.0  # between two looks at one till, whoever asks
EMPTY_AGAIN = 5.0  # after a list that suddenly is empty
A_BIT = 0.1  # moments are rounded on their way through the queue
NAMELESS = 2.0  # until the cluster's own name is known
REFUSED_AGAIN = 1500.0  # a key that was refused where nothing is at stake; the vault forgets what is asked for later
IDENTITY_LASTS = 600.0
KEPT_FOR = 3600.0  # a till that neither a class nor a request names any more

SUSPICIOUS = 2  # machines or more that are gone all at once: then once more, before it is believed
JITTER = 0.1  # of a pause, either way


@dataclass(slots=True)
class _Visits:
    """What is remembered of the looks at one till."""

    wanted_at: float
    asked_with: tuple[str, ...] = ()
    began: float = float("-inf")  # the last look
    rests_until: float = float("-inf")  # a till that erred is left alone, until its keys change
    failures: int = 0  # in a row
    account: str = ""  # under these keys; empty: not known
    account_at: float = float("-inf")
    empty: bool = False  # the last look showed nothing, and was not believed


@dataclass(frozen=True, slots=True)
class _Visit:
    """One turn's look, with all that it needs."""

    name: str
    till: Till
    keys: Keys
    prefix: str
    cluster: str
    visits: _Visits = field(repr=False)


class Rounds:
    """A reconciler whose keys are tills."""

    def __init__(
        self,
        rosters: Rosters,
        *,
        consistency: Consistency,
        classes: View[Typed[GPUNodeClass]],
        requests: View[Typed[GPURequest]],  # indexed by account and uid
        accounts: Accounts,
        clouds: Clouds,
        vault: Vault,
        gate: Gate,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        cluster: Callable[[], str],  # the cluster id; empty: not known yet
        refresh: Callable[[], Awaitable[None]],  # the view of requests, from a list begun after the call
        announce: Callable[[str], None],  # that something about this till changed
        there: Callable[[Key, str], Awaitable[bool]] = nowhere,  # is a request of this name and uid, or may it be?
        server: Callable[[], Awaitable[ServerState | None]] = no_server,  # after `refresh`; None: it cannot be asked
    ) -> None:
        self._rosters = rosters
        self._consistency = consistency
        self._classes = classes
        self._requests = requests
        self._accounts = accounts
        self._clouds = clouds
        self._vault = vault
        self._clock = clock
        self._entropy = entropy
        self._cluster = cluster
        self._announce = announce
        self._collector = Collector(
            requests,
            gate=gate,
            journal=journal,
            boottime=clock.boottime,
            refresh=refresh,
            there=there,
            unrecorded=self._unrecorded,
            server=server,
            classes_at=self._classes_at,
        )
        self._tills: dict[str, Till] = {}
        self._visits: dict[str, _Visits] = {}

    # -- for whoever asks ----------------------------------------------------------------------------------------------

    @property
    def halted(self) -> Mapping[str, str]:
        """Till → why the collector stopped and asks."""
        return self._collector.halted

    @property
    def stuck(self) -> tuple[Stuck, ...]:
        """Orphans that do not end though they were asked to."""
        return self._collector.stuck

    @property
    def any_unrecorded(self) -> bool:
        """Is there any machine that is in no request's record?"""
        return self._collector.any_unrecorded

    def unrecorded_at(self, till: str) -> tuple[Instance, ...]:
        """Machines there that their requests are about to adopt again."""
        return self._collector.unrecorded_at(till)

    def till(self, name: str) -> Till | None:
        return self._tills.get(name)

    def orphans_of(self, till: str) -> tuple[Orphan, ...]:
        """Machines there that nobody owns and that are not shown to be gone: they may cost, so limits count them."""
        return self._collector.orphans_of(till)

    def start_over(self) -> None:
        """The API server's history went back: what no request owns is concluded again, from the beginning."""
        self._collector.start_over()

    def _classes_at(self, till: str) -> tuple[Subject, ...]:
        named = (record for record in self._classes.values() if till in _tills_of_class(record) and record.uid)
        return tuple(Subject(GPU_NODE_CLASS, record.key, record.uid_text) for record in named)

    def _unrecorded(self, record: Typed[GPURequest]) -> Instance | None:
        uid = plain_uid(record.uid_text)
        listed = (one for _, one in self._rosters.of_request(uid))
        return unrecorded(record, listed, self._rosters.highest_attempt(uid))

    # -- which tills want a turn ---------------------------------------------------------------------------------------

    def of_class(self, old: Typed[GPUNodeClass] | None, new: Typed[GPUNodeClass] | None) -> Iterable[Key]:
        """Tills that a change of this class adds or ends."""
        before, after = _tills_of_class(old), _tills_of_class(new)
        unknown = self._learn((*before.values(), *after.values()))
        changed = (name for name in (*before, *after) if (name in before) != (name in after))
        return [Key("", name) for name in dict.fromkeys((*changed, *unknown))]

    def of_request(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """Tills where a machine may have come, or lost its request, with this change."""
        before, after = self._open_at(old), self._open_at(new)
        if new is not None:
            self._collector.heard_of(new)
        unknown = self._learn((*before.values(), *after.values()))
        changed = (
            till.name for token, till in (*before.items(), *after.items()) if (token in before) != (token in after)
        )
        return [Key("", name) for name in dict.fromkeys((*changed, *unknown))]

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """The till of an account that was read or written."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        account = self._accounts.get(changed.key.name)
        unknown = self._learn([account.till]) if account is not None and account.provider in PROVIDERS else []
        return [Key("", name) for name in unknown]

    def of_secret(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Tills that are asked with this Secret."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [Key("", name) for name, till in self._tills.items() if changed.key.name in secrets_of(till.source)]

    def _open_at(self, record: Typed[GPURequest] | None) -> dict[str, Till]:
        """Token → where it may have a machine. Of a restored copy, too: there the machine of the original may be."""
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        account = self._accounts.of(attempt) if attempt is not None else None
        if attempt is None or account is None or account.provider not in PROVIDERS:
            return {}
        return {attempt.token: account.till}

    def _learn(self, tills: Iterable[Till]) -> list[str]:
        """Those that were not known before; each of them needs a first turn."""
        now, unknown = self._clock.boottime(), []
        for till in tills:
            if till.name not in self._tills:
                self._tills[till.name], self._visits[till.name] = till, _Visits(now)
                unknown.append(till.name)
            self._visits[till.name].wanted_at = now
        return unknown

    def _wanted(self, name: str) -> bool:
        """Does a class name it, also one that is leaving, or an entry that is switched off; or is it remembered?"""
        return bool(self._accounts.at(name)) or self._in_a_class(name)

    def _in_a_class(self, name: str) -> bool:
        return any(name in _tills_of_class(record) for record in self._classes.values())

    # -- a turn --------------------------------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> datetime | None:
        name, cluster = key.name, self._cluster()
        if not cluster:
            return self._in(NAMELESS)
        await self._accounts.load()
        till, visits = self._tills.get(name), self._visits.get(name)
        if till is None or visits is None or self._is_over(name, visits):
            self._forget(name)
            return None
        keys = await keys_for(till.source, self._vault)
        if keys.asked_with != visits.asked_with:  # what was known of other keys is forgotten
            self._visits[name] = visits = _Visits(visits.wanted_at, keys.asked_with, began=visits.began)
        pause = max(visits.rests_until, visits.began + CLOSEST) - self._clock.boottime()
        if pause > 0:
            return self._in(pause)
        if keys.missing:
            self._failed(name, Trouble.CREDENTIALS_MISSING, keys.missing)
            return self._in(SELDOM)
        return self._in(await self._visit(_Visit(name, till, keys, cluster_prefix(cluster), cluster, visits)))

    def _is_over(self, name: str, visits: _Visits) -> bool:
        """Nobody has named it for long, and it holds nothing. Looked up once an hour: every change was heard of."""
        now = self._clock.boottime()
        if now - visits.wanted_at <= KEPT_FOR:
            return False
        if self._wanted(name):
            visits.wanted_at = now
            return False
        roster = self._rosters.roster(name)
        return not (roster is not None and roster.instances) and self._collector.due(name) is None

    def _forget(self, name: str) -> None:
        self._tills.pop(name, None)
        self._visits.pop(name, None)
        self._collector.forget(name)
        self._consistency.drop(name)
        self._rosters.drop(name)
        self._announce(name)

    async def _visit(self, visit: _Visit) -> float:
        """Look, and say for how long not to."""
        visits = visit.visits
        visits.began = self._clock.boottime()
        try:
            cloud = self._clouds.open(visit.till.source, visit.keys.own, visit.keys.others)
            roster = await self._look(visit, cloud)
        except KeyRefused as error:
            self._failed(visit.name, Trouble.CREDENTIALS_REFUSED, str(error))
            return self._backed_off(visits, error, SOON if self._at_stake(visit.name) else REFUSED_AGAIN)
        except CloudError as error:
            self._failed(visit.name, Trouble.UNREACHABLE, str(error))
            return self._backed_off(visits, error, longest=AT_STAKE if self._at_stake(visit.name) else LONGEST)
        visits.failures = 0
        if roster is None:
            return EMPTY_AGAIN
        await self._accounts.seen(visit.till, roster, from_class=self._in_a_class(visit.name))
        before = self._collector.halted.get(visit.name), self._collector.stuck
        news = self._rosters.put(visit.name, roster)
        if self._consistency.looked(visit.name, roster.began, cloud.facts.listing_lag) or news:
            self._announce(visit.name)
        await self._collector.sweep(visit.name, cloud, roster, visit.cluster)
        if (self._collector.halted.get(visit.name), self._collector.stuck) != before:
            self._announce(visit.name)
        return self._pause(visit.name, roster)

    async def _look(self, visit: _Visit, cloud: Cloud) -> Roster | None:
        """None: what was seen is not believed before it is seen again."""
        name, visits, began = visit.name, visit.visits, visit.visits.began
        lag = cloud.facts.listing_lag.total_seconds()
        seen = await look(cloud, visit.till, visit.prefix, lambda: self._expected(name, lag))
        held = self._rosters.roster(name)
        was_doubted, visits.empty = visits.empty, not seen.instances
        if visits.empty and not was_doubted and held is not None and len(held.instances) >= SUSPICIOUS:
            # Every known machine was asked for by its id and none is there, and still: a provider that has a bad moment
            # answers like this. The second empty list counts, the first of two a listing lag apart that it takes.
            return None
        shown = {instance.token for instance in seen.instances}
        await self._know_account(visits, cloud, again=not self._tokens(name) <= shown)
        return Roster(
            visits.account,
            began,
            tuple(sorted(seen.instances, key=lambda one: one.id)),
            frozenset(seen.absent),
            seen.doubts,
            seen.gap,
            seen.lied,
        )

    async def _know_account(self, visits: _Visits, cloud: Cloud, *, again: bool) -> None:
        """Asked after the list it vouches for; before anything may be called absent, every time."""
        now = self._clock.boottime()
        if again or not visits.account or now - visits.account_at > IDENTITY_LASTS:
            visits.account = (await cloud.identity()).id
            visits.account_at = now

    def _expected(self, name: str, lag: float) -> list[Expected]:
        """Every token that somebody wants to know about there, by token."""
        recorded = self._recorded(name)
        found = []
        for token in sorted({*recorded, *self._rosters.expected(name)}):
            attempt = recorded.get(token)
            known = most_believed(attempt) if attempt is not None and attempt.outcome == LAUNCHED else None
            long_since = bool(self._rosters.seen_as(token)) or self._rosters.watched_for(token) > lag
            known_as = (attempt and attempt.instance_id) or self._rosters.known_as(token)
            found.append(Expected(token, known_as, long_since, known))
        return found

    def _tokens(self, name: str) -> set[str]:
        """The same, for whoever need not know more of them."""
        return {*self._recorded(name), *self._rosters.expected(name)}

    def _recorded(self, name: str) -> dict[str, Attempt]:
        """Token → the attempt that may have a machine, as requests have it on paper."""
        return {
            attempt.token: attempt
            for record in self._accounts.requests_at(name)
            if (attempt := open_attempt(attempts_of(record))) is not None
        }

    def _failed(self, name: str, trouble: Trouble, why: str) -> None:
        if self._rosters.fail(name, trouble, why):
            self._announce(name)

    # -- when to look again --------------------------------------------------------------------------------------------

    def _pause(self, name: str, roster: Roster) -> float:
        states = {instance.token: instance.state for instance in roster.instances}
        if (
            roster.lied
            or self._consistency.doubtful(name)
            or any(states.get(each) is not InstanceState.RUNNING for each in self._tokens(name))
        ):
            pause = SOON
        else:
            pause = USUALLY if roster.instances else SELDOM
        pause, due = self._jittered(pause), self._collector.due(name)
        if due is None:
            return pause
        ripe = max(due - self._clock.boottime() + A_BIT, SOON)
        return ripe if ripe <= SOON * (1 + 2 * JITTER) else min(pause, ripe)  # a look just before it would be wasted

    def _at_stake(self, name: str) -> bool:
        """Is a machine of ours there, or may there be one?"""
        roster = self._rosters.roster(name)
        return bool(self._tokens(name)) or (roster is not None and bool(roster.instances))

    def _backed_off(
        self, visits: _Visits, error: CloudError, first: float = SOON, *, longest: float = LONGEST
    ) -> float:
        """`first`, doubling to `longest`; longer where the provider asks for it, up to five minutes."""
        visits.failures += 1
        doubled = first * 2.0 ** min(visits.failures - 1, 8)
        pause = self._jittered(min(doubled, max(first, longest)))
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        pause = max(pause, min((asked or timedelta()).total_seconds(), LONGEST))
        visits.rests_until = self._clock.boottime() + pause
        return pause

    def _jittered(self, pause: float) -> float:
        return pause * (1 - JITTER + 2 * JITTER * self._entropy.jitter())

    def _in(self, seconds: float) -> datetime:
        """The runtime asks for a moment and measures the way there at once, on the same clock."""
        return self._clock.now() + timedelta(seconds=seconds)


def _tills_of_class(record: Typed[GPUNodeClass] | None) -> dict[str, Till]:
    """Also of entries that are switched off: what was bought there is still there."""
    if record is None or record.object is None:
        return {}
    found: dict[str, Till] = {}
    for provider in record.object.spec.providers:
        source = source_for(provider)
        if source.provider in PROVIDERS:  # one that only a newer version knows is left to that version
            # Each machine you own is a till: one silent box must not make the others unknown.
            found.update({till.name: till for till in tills_of(source)})
    return found
