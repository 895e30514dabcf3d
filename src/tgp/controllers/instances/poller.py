"""The poller: lists the machines of this cluster in every account, for every decision about a machine.

A reconcile is one list of one account: key, list, identity, in this order, since the identity confirms the list before
it. Every failure becomes a problem of that account, and nothing is ever concluded from it. After a good list the orphan
collector checks for machines without an owner. Durations are measured on `Clock.boottime`: a wall clock that jumps
changes nothing.

Accounts are learned from classes and from the table of accounts, and stay for an hour after the last reference is gone:
a provider entry that was removed from a class is still listed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.common import PROVIDERS
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache, InstanceSnapshot
from tgp.controllers.instances.consistency import Consistency
from tgp.controllers.instances.list_instances import ExpectedInstance, list_instances
from tgp.controllers.instances.orphan_collector import OrphanCollector
from tgp.controllers.market.credentials import Credentials, credentials_for, secrets_of
from tgp.core.market.sources import accesses_of_class
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.attempts import LAUNCHED, attempts_of, open_attempt
from tgp.core.model.backoff import doubled
from tgp.core.model.cloud_errors import CloudBusy, CloudError, KeyRefused
from tgp.core.model.costs import most_believed
from tgp.core.model.instance import InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import AccountProblem
from tgp.core.model.token import cluster_prefix
from tgp.core.model.workload import Metadata
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.entropy import Entropy
from tgp.ports.secret_reader import SecretReader

# Seconds, all of them.
SOON = 15.0  # while a machine starts or terminates, or a request has to adopt its machine again
USUALLY = 60.0  # while machines of ours are listed: the delay until a loss is noticed
SELDOM = 180.0  # where no machine is: an unknown new one must be seen, confirmed and gone within 300 s
LONGEST = 300.0  # after errors …
AT_STAKE = 60.0  # … and where machines of ours may be: an orphan there must be gone within 300 s
CLOSEST = 3.0  # between two lists of one account, always
EMPTY_AGAIN = 5.0  # after a list that is suddenly empty
ANNOUNCED_AGAIN = 5.0  # after a list that announces the end of a machine: the notice may be short
A_BIT = 0.1  # the queue rounds times
NAMELESS = 2.0  # until the cluster id is known
REFUSED_AGAIN = 1500.0  # after a refused key without machines; the secret reader drops what is read less often
IDENTITY_LASTS = 600.0
KEPT_FOR = 3600.0  # an account that neither a class nor a request names any more

SUSPICIOUS = 2  # or more machines gone at once: list once more before it is believed
JITTER = 0.1  # of a pause, either way


@dataclass(slots=True)
class _Polls:
    """What is remembered of the lists of one account."""

    wanted_at: float
    fingerprints: tuple[str, ...] = ()
    began: float = float("-inf")  # the last list
    rests_until: float = float("-inf")  # after an error no list until then, unless its keys change
    failures: int = 0  # in a row
    account: str = ""  # under these keys; empty: not known
    account_at: float = float("-inf")
    empty: bool = False  # the last list was empty, and was not believed


@dataclass(frozen=True, slots=True)
class _Poll:
    """One list, with all that it needs."""

    name: str
    access: AccountAccess
    keys: Credentials
    prefix: str
    cluster: str
    polls: _Polls = field(repr=False)


class InstancePoller:
    """A reconciler whose keys are account accesses."""

    def __init__(
        self,
        instance_cache: InstanceCache,
        *,
        consistency: Consistency,
        collector: OrphanCollector,
        classes: View[KubeObject[GPUNodeClass]],
        accounts: AccountTable,
        clouds: Clouds,
        secret_reader: SecretReader,
        clock: Clock,
        entropy: Entropy,
        cluster: Callable[[], str],  # the cluster id; empty: not known yet
        announce: Callable[[str], None],  # that something about this account changed
    ) -> None:
        self._instance_cache = instance_cache
        self._consistency = consistency
        self._classes = classes
        self._accounts = accounts
        self._clouds = clouds
        self._secret_reader = secret_reader
        self._clock = clock
        self._entropy = entropy
        self._cluster = cluster
        self._announce = announce
        self._collector = collector
        self._accesses: dict[str, AccountAccess] = {}
        self._polls: dict[str, _Polls] = {}

    # -- questions -----------------------------------------------------------------------------------------------------

    def access(self, name: str) -> AccountAccess | None:
        return self._accesses.get(name)

    # -- which accounts to list ----------------------------------------------------------------------------------------

    def of_class(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        """Account accesses that a change of this class adds or removes."""
        before, after = accesses_of_class(old), accesses_of_class(new)
        unknown = self._learn((*before.values(), *after.values()))
        changed = (name for name in (*before, *after) if (name in before) != (name in after))
        return [ObjectKey("", name) for name in dict.fromkeys((*changed, *unknown))]

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Accounts where a machine may have started, or lost its request, with this change."""
        before, after = self._open_at(old), self._open_at(new)
        if new is not None:
            self._collector.observed(new)
        unknown = self._learn((*before.values(), *after.values()))
        changed = (
            access.name for token, access in (*before.items(), *after.items()) if (token in before) != (token in after)
        )
        return [ObjectKey("", name) for name in dict.fromkeys((*changed, *unknown))]

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """The access of an account that was read or written."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        account = self._accounts.get(changed.key.name)
        unknown = self._learn([account.access]) if account is not None and account.provider in PROVIDERS else []
        return [ObjectKey("", name) for name in unknown]

    def of_secret(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Accounts that are listed with this Secret."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [
            ObjectKey("", name)
            for name, access in self._accesses.items()
            if changed.key.name in secrets_of(access.source)
        ]

    def _open_at(self, record: KubeObject[GPURequest] | None) -> dict[str, AccountAccess]:
        """Token → where it may have a machine. Of a restored copy, too: the machine of the original may be there."""
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        account = self._accounts.of(attempt) if attempt is not None else None
        if attempt is None or account is None or account.provider not in PROVIDERS:
            return {}
        return {attempt.token: account.access}

    def _learn(self, accesses: Iterable[AccountAccess]) -> list[str]:
        """Those that were not known before; each of them needs a first list."""
        now, unknown = self._clock.boottime(), []
        for access in accesses:
            if access.name not in self._accesses:
                self._accesses[access.name], self._polls[access.name] = access, _Polls(now)
                unknown.append(access.name)
            self._polls[access.name].wanted_at = now
        return unknown

    def _wanted(self, name: str) -> bool:
        """Does a class name it, also a terminating class or a disabled entry; or is it in the table of accounts?"""
        return bool(self._accounts.at(name)) or self._in_a_class(name)

    def _in_a_class(self, name: str) -> bool:
        return any(name in accesses_of_class(record) for record in self._classes.values())

    # -- reconcile -----------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        name, cluster = key.name, self._cluster()
        if not cluster:
            return self._in(NAMELESS)
        await self._accounts.load()
        access, polls = self._accesses.get(name), self._polls.get(name)
        if access is None or polls is None or self._is_over(name, polls):
            self._forget(name)
            return None
        keys = await credentials_for(access.source, self._secret_reader)
        if keys.fingerprints != polls.fingerprints:  # what was known of other keys is forgotten
            self._polls[name] = polls = _Polls(polls.wanted_at, keys.fingerprints, began=polls.began)
        pause = max(polls.rests_until, polls.began + CLOSEST) - self._clock.boottime()
        if pause > 0:
            return self._in(pause)
        if keys.missing:
            self._failed(name, AccountProblem.CREDENTIALS_MISSING, keys.missing)
            return self._in(SELDOM)
        return self._in(await self._poll_once(_Poll(name, access, keys, cluster_prefix(cluster), cluster, polls)))

    def _is_over(self, name: str, polls: _Polls) -> bool:
        """Not named for long, and without machines. Checked once an hour: changes arrive as events."""
        now = self._clock.boottime()
        if now - polls.wanted_at <= KEPT_FOR:
            return False
        if self._wanted(name):
            polls.wanted_at = now
            return False
        snapshot = self._instance_cache.snapshot(name)
        return not (snapshot is not None and snapshot.instances) and self._collector.due(name) is None

    def _forget(self, name: str) -> None:
        self._accesses.pop(name, None)
        self._polls.pop(name, None)
        self._collector.forget(name)
        self._consistency.drop(name)
        self._instance_cache.drop(name)
        self._announce(name)

    async def _poll_once(self, poll: _Poll) -> float:
        """List once; returns the pause before the next list."""
        polls = poll.polls
        polls.began = self._clock.boottime()
        try:
            cloud = self._clouds.open(poll.access.source, poll.keys.own, poll.keys.others)
            snapshot = await self._list(poll, cloud)
        except KeyRefused as error:
            self._failed(poll.name, AccountProblem.CREDENTIALS_REFUSED, str(error))
            return self._backed_off(polls, error, SOON if self._at_stake(poll.name) else REFUSED_AGAIN)
        except CloudError as error:
            self._failed(poll.name, AccountProblem.UNREACHABLE, str(error))
            return self._backed_off(polls, error, longest=AT_STAKE if self._at_stake(poll.name) else LONGEST)
        polls.failures = 0
        if snapshot is None:
            return EMPTY_AGAIN
        await self._accounts.seen(poll.access, snapshot, from_class=self._in_a_class(poll.name))
        before = self._collector.halted.get(poll.name), self._collector.stuck
        awaited = self._collector.adoption_awaited
        news = self._instance_cache.put(poll.name, snapshot)
        if self._consistency.looked(poll.name, snapshot.began, cloud.facts.listing_lag) or news:
            self._announce(poll.name)
        await self._collector.sweep(poll.name, cloud, snapshot, poll.cluster)
        if (self._collector.halted.get(poll.name), self._collector.stuck) != before:
            self._announce(poll.name)
        if self._collector.adoption_awaited and not awaited:  # the next list of an account may be minutes away
            for other in sorted(self._accesses.keys() - {poll.name}):
                self._instance_cache.ask_soon(other)
        return self._pause(poll.name, snapshot)

    async def _list(self, poll: _Poll, cloud: Cloud) -> InstanceSnapshot | None:
        """None: the list is not believed before it is repeated."""
        name, polls, began = poll.name, poll.polls, poll.polls.began
        lag = cloud.facts.listing_lag.total_seconds()
        seen = await list_instances(cloud, poll.access, poll.prefix, lambda: self._expected(name, lag))
        held = self._instance_cache.snapshot(name)
        was_doubted, polls.empty = polls.empty, not seen.instances
        if polls.empty and not was_doubted and held is not None and len(held.instances) >= SUSPICIOUS:
            # Every known machine was asked for by its id and none exists, and still: a failing provider answers like
            # this. The second empty list counts as the first of the two lists, a listing lag apart, that are needed.
            return None
        shown = {instance.token for instance in seen.instances}
        await self._know_account(polls, cloud, again=not self._tokens(name) <= shown)
        return InstanceSnapshot(
            polls.account,
            began,
            tuple(sorted(seen.instances, key=lambda one: one.id)),
            frozenset(seen.absent),
            seen.doubts,
            seen.gap,
            seen.lied,
        )

    async def _know_account(self, polls: _Polls, cloud: Cloud, *, again: bool) -> None:
        """Read after the list it confirms, and every time before a machine may count as absent."""
        now = self._clock.boottime()
        if again or not polls.account or now - polls.account_at > IDENTITY_LASTS:
            polls.account = (await cloud.identity()).id
            polls.account_at = now

    def _expected(self, name: str, lag: float) -> list[ExpectedInstance]:
        """Every token whose machine may be there, sorted."""
        recorded = self._recorded(name)
        found = []
        for token in sorted({*recorded, *self._instance_cache.expected(name)}):
            attempt = recorded.get(token)
            known = most_believed(attempt) if attempt is not None and attempt.outcome == LAUNCHED else None
            long_since = bool(self._instance_cache.seen_as(token)) or self._instance_cache.watched_for(token) > lag
            known_as = (attempt and attempt.instance_id) or self._instance_cache.known_as(token)
            found.append(ExpectedInstance(token, known_as, long_since, known))
        return found

    def _tokens(self, name: str) -> set[str]:
        """The same, tokens only."""
        return {*self._recorded(name), *self._instance_cache.expected(name)}

    def _recorded(self, name: str) -> dict[str, Attempt]:
        """Token → the attempt that may have a machine, as recorded in requests."""
        return {
            attempt.token: attempt
            for record in self._accounts.requests_at(name)
            if (attempt := open_attempt(attempts_of(record))) is not None
        }

    def _failed(self, name: str, trouble: AccountProblem, why: str) -> None:
        if self._instance_cache.fail(name, trouble, why):
            self._announce(name)

    # -- when to list again --------------------------------------------------------------------------------------------

    def _pause(self, name: str, snapshot: InstanceSnapshot) -> float:
        if self._consistency.announces(name):
            return ANNOUNCED_AGAIN
        states = {instance.token: instance.state for instance in snapshot.instances}
        if (
            snapshot.lied
            or self._collector.adoption_awaited
            or self._consistency.doubtful(name)
            or any(states.get(each) is not InstanceState.RUNNING for each in self._tokens(name))
        ):
            pause = SOON
        else:
            pause = USUALLY if snapshot.instances else SELDOM
        pause, due = self._jittered(pause), self._collector.due(name)
        if due is None:
            return pause
        ripe = max(due - self._clock.boottime() + A_BIT, SOON)
        return ripe if ripe <= SOON * (1 + 2 * JITTER) else min(pause, ripe)  # a list just before it would be wasted

    def _at_stake(self, name: str) -> bool:
        """May a machine of ours be there?"""
        snapshot = self._instance_cache.snapshot(name)
        return bool(self._tokens(name)) or (snapshot is not None and bool(snapshot.instances))

    def _backed_off(self, polls: _Polls, error: CloudError, first: float = SOON, *, longest: float = LONGEST) -> float:
        """`first`, doubling to `longest`; longer if the provider asks for it, up to five minutes."""
        polls.failures += 1
        pause = self._jittered(doubled(first, polls.failures, max(first, longest)))
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        pause = max(pause, min((asked or timedelta()).total_seconds(), LONGEST))
        polls.rests_until = self._clock.boottime() + pause
        return pause

    def _jittered(self, pause: float) -> float:
        return pause * (1 - JITTER + 2 * JITTER * self._entropy.jitter())

    def _in(self, seconds: float) -> datetime:
        """The runtime takes a moment and converts it to a delay at once, on the same clock."""
        return self._clock.now() + timedelta(seconds=seconds)
