"""Whether the lists of an account can be believed: machines that vanish from them, and states and prices in them.

A provider that denies everything answers like one whose machines were lost, and one that lists wrong prices or states
like one that changed them. So reports that would cause a termination are counted here, list by list. Where they concern
several machines at once, the account itself is doubted: nothing is bought there until its lists were consistent for an
hour, or a user confirms them with `tgp release`.

All of it is in memory. After a restart counting starts again; what was declared gone within the last hour is read from
the records of the attempts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import rfc3339
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.list_instances import BAD
from tgp.core.inventory.limits import counted_until
from tgp.core.model.account_access import provider_of
from tgp.core.model.attempts import LAUNCHED, attempts_of, copied, open_attempt
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.costs import most_believed, reserved_of
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import NO_CLAIMS, Absent, Claims, Found, Repeated
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.provider_reports import BELIEVED_AFTER, SEVERAL, end_announced
from tgp.core.requests.purchase import most_to_pay
from tgp.core.requests.steps import TerminationReason
from tgp.ports.clock import Clock
from tgp.ports.cluster import View

# Seconds, all of them.
AT_ONCE = 600.0  # reports about several machines within this time count as simultaneous
CONSISTENT_FOR = 3600.0  # then an account that was doubted is believed again
CONTRADICTED_AFTER = 120.0  # a Node whose machine was stopped is not Ready any more by then

REPORTED_REASONS = frozenset({TerminationReason.LOST, TerminationReason.BROKEN, TerminationReason.PRICE_EXCEEDED})


@dataclass(slots=True)
class _Row:
    """The same report in consecutive lists."""

    first: float  # Clock.boottime, when the list was begun
    last: float
    lists: int = 1

    @property
    def repeated(self) -> Repeated:
        return Repeated(self.lists, timedelta(seconds=self.last - self.first))


@dataclass(slots=True)
class _Account:
    missing: dict[str, float] = field(default_factory=dict)  # by token: Clock.boottime since when it is missing
    leaving: set[str] = field(default_factory=set)  # tokens that the provider reports as terminating
    states: dict[str, _Row] = field(default_factory=dict)  # by token: reported as stopped, broken or interrupted
    prices: dict[str, _Row] = field(default_factory=dict)  # by token: reported to cost more than recorded …
    implausible: set[str] = field(default_factory=set)  # … and so much more that it would be terminated
    ends: dict[str, tuple[datetime, _Row]] = field(default_factory=dict)  # by token: announced, not recorded yet
    # By token: of either kind, also if the report was withdrawn or the machine is gone.
    reported: dict[str, _Row] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)  # by token: Clock.boottime of a suspicious report
    doubted: float | None = None  # Clock.boottime of the last contradiction; None: it is believed
    number: int = 0  # of machines with suspicious reports


class _Machine(msgspec.Struct, frozen=True):
    """Recorded as launched, and perhaps terminating."""

    record: KubeObject[GPURequest]
    attempt: Attempt
    account: CloudAccount

    @property
    def request(self) -> GPURequest:
        assert self.record.value is not None, "only readable requests are judged"
        return self.record.value


class _Poll(msgspec.Struct, frozen=True):
    access: str
    account: _Account
    began: float  # Clock.boottime
    lag: timedelta  # a new machine may not be listed for so long


class Consistency:
    def __init__(
        self,
        instance_cache: InstanceCache,
        *,
        requests: View[KubeObject[GPURequest]],
        accounts: AccountTable,
        nodes: View[Node],
        clock: Clock,
        trusted_at: Callable[[str], datetime | None],  # when a user last confirmed a provider; None: never
        accuses: Callable[[KubeObject[GPURequest], Attempt], bool],  # whether a record may cast doubt on its account
    ) -> None:
        self._accuses = accuses
        self._read: dict[str, float] = {}  # by token: Clock.boottime when its loss was first read from a record
        self._instance_cache = instance_cache
        self._requests = requests
        self._table = accounts
        self._nodes = nodes
        self._clock = clock
        self._trusted_at = trusted_at
        self._accounts: dict[str, _Account] = {}  # by account access

    # -- questions -----------------------------------------------------------------------------------------------------

    def distrust(self, access: str) -> str:
        """Why nothing is bought there, with the numbers and the next step; empty: purchases are allowed."""
        account = self._accounts.get(access)
        if account is None or account.doubted is None or self._forgiven(access, account.doubted):
            return ""
        provider = provider_of(access)
        left = max(0.0, account.doubted + CONSISTENT_FOR - self._clock.boottime())
        until = self._clock.now().replace(microsecond=0, second=0) + timedelta(seconds=left)
        return (
            f"Lists of {provider} contradicted themselves or the Nodes about {account.number} machines within "
            f"{AT_ONCE / 60:.0f} min. Nothing is bought there until the lists are consistent for "
            f"{CONSISTENT_FOR / 60:.0f} min, not before {rfc3339(until)}. "
            f"If the lists are right, run: tgp release provider/{provider}"
        )

    def claims(self, access: str, token: str) -> Claims:
        """Reports about one machine that would cause its termination."""
        account = self._accounts.get(access)
        if account is None:
            return NO_CLAIMS
        state, price = account.states.get(token), account.prices.get(token)
        end = account.ends[token][1].repeated if token in account.ends else None
        leaving = token in account.leaving
        if state is None and price is None:
            return Claims(end=end, leaving=leaving) if leaving or end is not None else NO_CLAIMS
        return Claims(
            state.repeated if state is not None else None,
            price.repeated if price is not None else None,
            _together(account, token),
            self._turn(access, account) == token,
            end,
            leaving,
        )

    def doubtful(self, access: str) -> bool:
        """Is there a report that the next list should confirm soon?"""
        account = self._accounts.get(access)
        return account is not None and bool(account.states or account.prices)

    def announces(self, access: str) -> bool:
        """Has the last list announced the end of a machine, for the first time?"""
        account = self._accounts.get(access)
        return account is not None and any(row.lists == 1 for _, row in account.ends.values())

    # -- updates by the poller -----------------------------------------------------------------------------------------

    def looked(self, access: str, began: float, lag: timedelta) -> bool:
        """A new list is in the cache. Did it change whether the account is believed, or confirm an announced end?"""
        account = self._accounts.setdefault(access, _Account())
        for token, at in self._on_record(access):
            account.events.setdefault(token, at)
        doubted = account.doubted is not None
        launched = list(self._launched(access))
        _forget(account, {machine.attempt.token for machine in launched})
        account.reported = {
            token: row
            for token, row in account.reported.items()
            if began - row.last < CONSISTENT_FOR and not self._forgiven(access, row.last)
        }
        poll = _Poll(access, account, began, lag)
        contradicted = [self._judge(poll, machine) for machine in launched]
        self._doubt(account, access, began, contradicted=any(contradicted))
        confirmed = [token for token, (_, row) in account.ends.items() if row.lists == 2]
        self._instance_cache.add_news(access, confirmed)
        return bool(confirmed) or doubted != (account.doubted is not None)

    def drop(self, access: str) -> None:
        self._accounts.pop(access, None)

    def _judge(self, poll: _Poll, machine: _Machine) -> bool:
        """One machine. True: its report contradicts the Node or an earlier report."""
        record, attempt = machine.record, machine.attempt
        account, began, token = poll.account, poll.began, attempt.token
        identities = machine.account.identities
        self._instance_cache.watch(token, poll.access, identities)
        presence = self._instance_cache.presence(token, poll.access, identities, instance_id=attempt.instance_id or "")
        if isinstance(presence, Absent):
            return self._absent(poll, machine, presence)
        if not isinstance(presence, Found):
            return False
        back = account.missing.pop(token, None) is not None
        instance = presence.instance
        if instance.state is InstanceState.ENDING:
            account.leaving.add(token)
        if _is_ending(record):
            account.states.pop(token, None)
            account.prices.pop(token, None)
            account.ends.pop(token, None)
            return back
        _count_end(account.ends, attempt, instance, began)
        ready = self._ready(machine)
        bad = instance.interrupted or instance.state in BAD
        was = account.states.get(token)
        if was is not None and ready and (not bad or began - was.first >= CONTRADICTED_AFTER):
            account.events.setdefault(token, began)
        _count(account.states, token, began, said=bad)
        more_expensive = instance.hourly_microusd is not None and instance.hourly_microusd > most_believed(attempt)
        _count(account.prices, token, began, said=more_expensive)
        account.implausible.discard(token)
        if more_expensive and _implausible(record, attempt, instance):
            account.implausible.add(token)
            account.events.setdefault(token, began)
        if (since := _reported_since(account, token)) is not None:
            account.reported[token] = _Row(since, began)
        return back or (was is not None and ready)

    def _absent(self, poll: _Poll, machine: _Machine, presence: Absent) -> bool:
        account, token = poll.account, machine.attempt.token
        account.states.pop(token, None)
        account.prices.pop(token, None)
        account.ends.pop(token, None)
        if not presence.lists or _is_ending(machine.record) or token in account.leaving:
            return False
        joined = machine.request.status.ready_at is not None
        if not self._instance_cache.seen_as(token) and not (joined and presence.shown(poll.lag)):
            return False  # neither a list nor its Node ever showed it to this process: it may be late
        if token not in account.missing:
            account.missing[token] = account.events[token] = poll.began
        return self._ready(machine)

    def _doubt(self, account: _Account, access: str, began: float, *, contradicted: bool) -> None:
        if account.doubted is not None and self._forgiven(access, account.doubted):
            account.doubted = None
        account.events = {
            token: at
            for token, at in account.events.items()
            if began - at < CONSISTENT_FOR and not self._forgiven(access, at)
        }
        times = sorted(account.events.values())
        together = [at for at in times if sum(at <= other <= at + AT_ONCE for other in times) >= SEVERAL]
        if together:
            latest = max(at for at in times if any(first <= at <= first + AT_ONCE for first in together))
            account.number = len(times)
            account.doubted = max(account.doubted or latest, latest)
        if account.doubted is None:
            return
        if contradicted:
            account.doubted = began
        elif began - account.doubted >= CONSISTENT_FOR:
            account.doubted = None
            account.events.clear()

    def _turn(self, access: str, account: _Account) -> str:
        """The token whose long-standing report is believed now: one machine at a time."""
        if any(_ends_for(machine.record) in REPORTED_REASONS for machine in self._launched(access)):
            return ""
        rows = [*account.states.items(), *account.prices.items()]
        long = [(row.first, token) for token, row in rows if row.repeated.shown(BELIEVED_AFTER)]
        return min(long)[1] if long else ""

    def _launched(self, access: str) -> Iterator[_Machine]:
        for record in sorted(self._table.requests_at(access), key=lambda each: each.key):
            attempt = open_attempt(attempts_of(record))
            if record.value is None or attempt is None or attempt.outcome != LAUNCHED:
                continue
            account = self._table.of(attempt)
            if account is not None and self._accuses(record, attempt):
                yield _Machine(record, attempt, account)

    def _on_record(self, access: str) -> Iterator[tuple[str, float]]:
        """Machines that lists alone declared gone within the last hour, in any process. Each is read for an hour."""
        boottime, now, read = self._clock.boottime(), self._clock.now(), dict[str, float]()
        for record in self._requests.values():
            for attempt in () if copied(record) else attempts_of(record):
                until = counted_until(attempt)
                if until is None or until <= now or attempt.ended_at is None or not self._accuses(record, attempt):
                    continue
                first = read[attempt.token] = self._read.get(attempt.token, boottime)
                account = self._table.of(attempt)
                if account is not None and account.access.name == access and boottime - first < CONSISTENT_FOR:
                    yield attempt.token, boottime - max((now - attempt.ended_at).total_seconds(), boottime - first)
        self._read = read

    def _ready(self, machine: _Machine) -> bool:
        name = node_name_for(machine.record.key, machine.attempt.token, machine.account)
        node = self._nodes.get(ObjectKey("", name))
        return node is not None and node.ready is True

    def _forgiven(self, access: str, at: float) -> bool:
        """Has a user confirmed this provider since?"""
        confirmed_at = self._trusted_at(provider_of(access))
        if confirmed_at is None:
            return False
        return confirmed_at >= self._clock.now() - timedelta(seconds=self._clock.boottime() - at)


def _count(rows: dict[str, _Row], token: str, began: float, *, said: bool) -> None:
    row = rows.get(token)
    if not said:
        rows.pop(token, None)
    elif row is None:
        rows[token] = _Row(began, began)
    else:
        row.last, row.lists = began, row.lists + 1


def _count_end(ends: dict[str, tuple[datetime, _Row]], attempt: Attempt, instance: Instance, began: float) -> None:
    before, end = ends.pop(attempt.token, None), end_announced(attempt, instance)
    if end is None:
        return
    same = before is not None and before[0] == end
    row = before[1] if before is not None and same else _Row(began, began, lists=0)
    ends[attempt.token] = (end, _Row(row.first, began, row.lists + 1))


def _together(account: _Account, token: str) -> int:
    """How many machines have reports that began within ten minutes of this one's, itself included.

    Also machines whose report was withdrawn since, and machines that are gone: the report about the last one is no more
    credible for that.
    """
    own = _reported_since(account, token)
    others = (row.first for each, row in account.reported.items() if each != token)
    return 1 + sum(abs(first - own) <= AT_ONCE for first in others) if own is not None else 0


def _reported_since(account: _Account, token: str) -> float | None:
    """The first list in a row with a report that would terminate the machine; None: the last list had none."""
    price = account.prices.get(token) if token in account.implausible else None
    said = [row.first for row in (account.states.get(token), price) if row is not None]
    return min(said, default=None)


def _forget(account: _Account, kept: set[str]) -> None:
    """Forget machines that no request has any more."""
    account.missing = {token: at for token, at in account.missing.items() if token in kept}
    account.states = {token: row for token, row in account.states.items() if token in kept}
    account.prices = {token: row for token, row in account.prices.items() if token in kept}
    account.ends = {token: told for token, told in account.ends.items() if token in kept}
    account.leaving &= kept
    account.implausible &= kept


def _is_ending(record: KubeObject[GPURequest]) -> bool:
    return record.deleting or _ends_for(record) != ""


def _ends_for(record: KubeObject[GPURequest]) -> str:
    """The reason of its Terminating; empty: its machine is not being terminated."""
    assert record.value is not None, "only readable requests are judged"
    conditions = record.value.status.conditions
    return next((each.reason for each in conditions if each.type == "Terminating" and each.status == "True"), "")


def _implausible(record: KubeObject[GPURequest], attempt: Attempt, instance: Instance) -> bool:
    assert record.value is not None, "only readable requests are judged"
    return (instance.hourly_microusd or 0) > most_to_pay(record.value.spec, reserved_of(attempt) or None)
