"""Whether what an account says can be believed: machines that vanish from its lists, and what it says of those there.

A provider that denies everything answers like one whose machines were lost, and one that lists wrong prices or states
like one that changed them. So what would end a machine is counted here, list by list, for whoever decides about it;
and where several machines are concerned at once, the account itself is doubted: nothing is bought there until its lists
were consistent for an hour, or a person says that they are right.

All of it is this process's memory. After a restart it is counted anew; what was declared gone within the last hour is
read from the records of the attempts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import rfc3339
from tgp.controllers.accounts import Accounts
from tgp.controllers.look import BAD
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.presence import NO_CLAIMS, Absent, Claims, Found, Repeated
from tgp.core.model.till import provider_of
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import most_believed, reserved_of
from tgp.core.rules.lifecycle import BELIEVED_AFTER, LAUNCHED, SEVERAL
from tgp.core.rules.node_names import node_name_for
from tgp.core.rules.purchase import most_to_pay
from tgp.core.rules.steps import End
from tgp.ports.clock import Clock
from tgp.ports.cluster import View

# Seconds, all of them.
AT_ONCE = 600.0  # machines that vanish, or are spoken ill of, within this time do so together
CONSISTENT_FOR = 3600.0  # then an account that was doubted is believed again
CONTRADICTED_AFTER = 120.0  # a Node whose machine was stopped is not Ready any more by then

FOR_WHAT_IS_SAID = frozenset({End.LOST, End.BROKEN, End.TOO_DEAR})


@dataclass(slots=True)
class _Row:
    """The same thing said in a row of lists."""

    first: float  # Clock.boottime, when the list was begun
    last: float
    lists: int = 1

    @property
    def repeated(self) -> Repeated:
        return Repeated(self.lists, timedelta(seconds=self.last - self.first))


@dataclass(slots=True)
class _Account:
    missing: dict[str, float] = field(default_factory=dict)  # by token: Clock.boottime since when it is not listed
    leaving: set[str] = field(default_factory=set)  # tokens that the provider said it is ending
    states: dict[str, _Row] = field(default_factory=dict)  # by token: said to be stopped, broken or taken back
    prices: dict[str, _Row] = field(default_factory=dict)  # by token: said to cost more than is on record …
    implausible: set[str] = field(default_factory=set)  # … and so much more that it would be terminated for it
    ill: dict[str, _Row] = field(default_factory=dict)  # by token: of either kind, also if it was taken back or ended
    events: dict[str, float] = field(default_factory=dict)  # by token: Clock.boottime of what casts doubt
    doubted: float | None = None  # Clock.boottime of the last contradiction; None: it is believed
    number: int = 0  # of machines that cast doubt on it


@dataclass(frozen=True, slots=True)
class _Machine:
    """On record as launched, and perhaps on its way out."""

    record: Typed[GPURequest]
    attempt: Attempt
    account: CloudAccount

    @property
    def request(self) -> GPURequest:
        assert self.record.object is not None, "only readable requests are judged"
        return self.record.object


@dataclass(frozen=True, slots=True)
class _Look:
    till: str
    account: _Account
    began: float  # Clock.boottime
    lag: timedelta  # what was just made may not be listed for so long


class Consistency:
    def __init__(
        self,
        rosters: Rosters,
        *,
        requests: View[Typed[GPURequest]],
        accounts: Accounts,
        nodes: View[Node],
        clock: Clock,
        trusted_at: Callable[[str], datetime | None],  # a person's last word about a provider; None: there is none
    ) -> None:
        self._rosters = rosters
        self._requests = requests
        self._table = accounts
        self._nodes = nodes
        self._clock = clock
        self._trusted_at = trusted_at
        self._accounts: dict[str, _Account] = {}  # by till

    # -- for whoever decides -------------------------------------------------------------------------------------------

    def distrust(self, till: str) -> str:
        """Why nothing is bought there, in words with the numbers and the next step; empty: it may be."""
        account = self._accounts.get(till)
        if account is None or account.doubted is None or self._forgiven(till, account.doubted):
            return ""
        provider = provider_of(till)
        left = max(0.0, account.doubted + CONSISTENT_FOR - self._clock.boottime())
        until = self._clock.now().replace(microsecond=0, second=0) + timedelta(seconds=left)
        return (
            f"lists of {provider} contradicted themselves or the Nodes about {account.number} machines within "
            f"{AT_ONCE / 60:.0f} min, so nothing is bought there until they are consistent for "
            f"{CONSISTENT_FOR / 60:.0f} min, not before {rfc3339(until)}. "
            f"If the lists are right, say so: tgp release provider/{provider}"
        )

    def claims(self, till: str, token: str) -> Claims:
        """What is said of one machine that would end it."""
        account = self._accounts.get(till)
        if account is None:
            return NO_CLAIMS
        state, price = account.states.get(token), account.prices.get(token)
        leaving = token in account.leaving
        if state is None and price is None:
            return Claims(leaving=True) if leaving else NO_CLAIMS
        return Claims(
            state.repeated if state is not None else None,
            price.repeated if price is not None else None,
            _together(account, token),
            self._turn(till, account) == token,
            leaving,
        )

    def doubtful(self, till: str) -> bool:
        """Is something said there that the next list should confirm soon?"""
        account = self._accounts.get(till)
        return account is not None and bool(account.states or account.prices)

    # -- for the rounds ------------------------------------------------------------------------------------------------

    def looked(self, till: str, began: float, lag: timedelta) -> bool:
        """A look has come to its end and is in the rosters. Did it change whether the account is believed?"""
        account = self._accounts.setdefault(till, _Account())
        for token, at in self._on_record(till):
            account.events.setdefault(token, at)
        doubted = account.doubted is not None
        launched = list(self._launched(till))
        _forget(account, {machine.attempt.token for machine in launched})
        account.ill = {
            token: row
            for token, row in account.ill.items()
            if began - row.last < CONSISTENT_FOR and not self._forgiven(till, row.last)
        }
        look = _Look(till, account, began, lag)
        contradicted = [self._judge(look, machine) for machine in launched]
        self._doubt(account, till, began, contradicted=any(contradicted))
        return doubted != (account.doubted is not None)

    def drop(self, till: str) -> None:
        self._accounts.pop(till, None)

    def _judge(self, look: _Look, machine: _Machine) -> bool:
        """One machine. True: what is said of it contradicts what is seen, or was said before."""
        record, attempt = machine.record, machine.attempt
        account, began, token = look.account, look.began, attempt.token
        presence = self._rosters.presence(
            token, look.till, machine.account.identities, instance_id=attempt.instance_id or ""
        )
        if isinstance(presence, Absent):
            return self._absent(look, machine, presence)
        if not isinstance(presence, Found):
            return False
        back = account.missing.pop(token, None) is not None
        instance = presence.instance
        if instance.state is InstanceState.ENDING:
            account.leaving.add(token)
        if _is_ending(record):
            account.states.pop(token, None)
            account.prices.pop(token, None)
            return back
        ready = self._ready(machine)
        bad = instance.interrupted or instance.state in BAD
        was = account.states.get(token)
        if was is not None and ready and (not bad or began - was.first >= CONTRADICTED_AFTER):
            account.events.setdefault(token, began)
        _said(account.states, token, began, said=bad)
        dearer = instance.hourly_microusd is not None and instance.hourly_microusd > most_believed(attempt)
        _said(account.prices, token, began, said=dearer)
        account.implausible.discard(token)
        if dearer and _implausible(record, attempt, instance):
            account.implausible.add(token)
            account.events.setdefault(token, began)
        if (since := _ill_since(account, token)) is not None:
            account.ill[token] = _Row(since, began)
        return back or (was is not None and ready)

    def _absent(self, look: _Look, machine: _Machine, presence: Absent) -> bool:
        account, token = look.account, machine.attempt.token
        account.states.pop(token, None)
        account.prices.pop(token, None)
        if not presence.lists or _is_ending(machine.record) or token in account.leaving:
            return False
        joined = machine.request.status.ready_at is not None
        if not self._rosters.seen_as(token) and not (joined and presence.shown(look.lag)):
            return False  # no list ever showed it to this process, nor did its Node: it may be late
        if token not in account.missing:
            account.missing[token] = account.events[token] = look.began
        return self._ready(machine)

    def _doubt(self, account: _Account, till: str, began: float, *, contradicted: bool) -> None:
        if account.doubted is not None and self._forgiven(till, account.doubted):
            account.doubted = None
        account.events = {
            token: at
            for token, at in account.events.items()
            if began - at < CONSISTENT_FOR and not self._forgiven(till, at)
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

    def _turn(self, till: str, account: _Account) -> str:
        """The token whose long-standing bad word is believed now: one machine at a time."""
        if any(_ends_for(machine.record) in FOR_WHAT_IS_SAID for machine in self._launched(till)):
            return ""
        rows = [*account.states.items(), *account.prices.items()]
        long = [(row.first, token) for token, row in rows if row.repeated.shown(BELIEVED_AFTER)]
        return min(long)[1] if long else ""

    def _launched(self, till: str) -> Iterator[_Machine]:
        for record in sorted(self._table.requests_at(till), key=lambda each: each.key):
            attempt = open_attempt(attempts_of(record))
            if record.object is None or attempt is None or attempt.outcome != LAUNCHED:
                continue
            account = self._table.of(attempt)
            if account is not None:
                yield _Machine(record, attempt, account)

    def _on_record(self, till: str) -> Iterator[tuple[str, float]]:
        """What was declared gone by lists alone within the last hour, by whichever process."""
        boottime, now = self._clock.boottime(), self._clock.now()
        for record in self._requests.values():
            for attempt in () if copied(record) else attempts_of(record):
                if attempt.counts_until is None or attempt.ended_at is None or attempt.counts_until <= now:
                    continue
                account = self._table.of(attempt)
                if account is not None and account.till.name == till:
                    yield attempt.token, boottime - (now - attempt.ended_at).total_seconds()

    def _ready(self, machine: _Machine) -> bool:
        name = node_name_for(machine.record.key, machine.attempt.token, machine.account)
        node = self._nodes.get(Key("", name))
        return node is not None and node.ready is True

    def _forgiven(self, till: str, at: float) -> bool:
        """Has a person said, since, that this provider is right?"""
        word = self._trusted_at(provider_of(till))
        if word is None:
            return False
        return word >= self._clock.now() - timedelta(seconds=self._clock.boottime() - at)


def _said(rows: dict[str, _Row], token: str, began: float, *, said: bool) -> None:
    row = rows.get(token)
    if not said:
        rows.pop(token, None)
    elif row is None:
        rows[token] = _Row(began, began)
    else:
        row.last, row.lists = began, row.lists + 1


def _together(account: _Account, token: str) -> int:
    """How many machines began to be spoken ill of within ten minutes of this one, itself among them.

    Also those of which it was taken back since, and those that have gone: that makes it no truer of the last one.
    """
    own = _ill_since(account, token)
    others = (row.first for each, row in account.ill.items() if each != token)
    return 1 + sum(abs(first - own) <= AT_ONCE for first in others) if own is not None else 0


def _ill_since(account: _Account, token: str) -> float | None:
    """The first list in a row that said what would end it; None: the last one did not."""
    price = account.prices.get(token) if token in account.implausible else None
    said = [row.first for row in (account.states.get(token), price) if row is not None]
    return min(said, default=None)


def _forget(account: _Account, kept: set[str]) -> None:
    """Of machines that no request has any more."""
    account.missing = {token: at for token, at in account.missing.items() if token in kept}
    account.states = {token: row for token, row in account.states.items() if token in kept}
    account.prices = {token: row for token, row in account.prices.items() if token in kept}
    account.leaving &= kept
    account.implausible &= kept


def _is_ending(record: Typed[GPURequest]) -> bool:
    return record.deleting or _ends_for(record) != ""


def _ends_for(record: Typed[GPURequest]) -> str:
    """The reason of its Terminating; empty: its machine is not being terminated."""
    assert record.object is not None, "only readable requests are judged"
    conditions = record.object.status.conditions
    return next((each.reason for each in conditions if each.type == "Terminating" and each.status == "True"), "")


def _implausible(record: Typed[GPURequest], attempt: Attempt, instance: Instance) -> bool:
    assert record.object is not None, "only readable requests are judged"
    return (instance.hourly_microusd or 0) > most_to_pay(record.object.spec, reserved_of(attempt) or None)
