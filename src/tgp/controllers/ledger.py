"""The one ledger: every reservation of every class passes it, whichever turn makes it.

What the view of requests shows counts, and beside it what this process has written or is about to write and the view
does not show yet. Checking and noting is one step without an await, so any number of turns at once cannot overdraw.
A new leader's view is a list begun after it won the Lease: it holds every reservation anybody ever wrote.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from tgp.api.nodeclass import ClassLimits
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.accounts import Accounts
from tgp.controllers.request_index import BY_NODE_CLASS, by_node_class
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.key import Key
from tgp.core.model.token import plain_uid
from tgp.core.model.typed import Typed
from tgp.core.rules.limits import Holding, holding_of, presumed_of, shortage
from tgp.ports.clock import Clock
from tgp.ports.cluster import View

BELIEVED_GONE_AFTER = 150.0  # seconds: longer than any order is late (60 s) and any list lags (60 s) together


@dataclass(frozen=True, slots=True)
class _Read:
    record: Typed[GPURequest]
    holding: Holding | None
    presumed: tuple[tuple[datetime, Holding], ...]


@dataclass(frozen=True, slots=True)
class Noted:
    node_class: str
    holding: Holding


class Ledger:
    def __init__(
        self,
        requests: View[Typed[GPURequest]],
        strays: Callable[[str], Iterable[Holding]] = lambda _node_class: (),
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._requests = requests
        self._now = now
        self._strays = strays  # machines of a class that no request owns, and that are not gone yet
        self._noted: dict[str, Noted] = {}  # by uid
        self._read: dict[Key, _Read] = {}  # of records as they were last read

    def held(self, node_class: str) -> list[Holding]:
        """Everything that counts against a class now, each request once."""
        holdings = {each.uid: each for each in self._strays(node_class)}
        for record in self._requests.having(BY_NODE_CLASS, node_class):
            read = self._reading(record)
            if read.holding is not None:
                holdings[read.holding.uid] = read.holding
            holdings.update({each.uid: each for until, each in read.presumed if until > self._now()})
        for uid, noted in self._noted.items():
            if noted.node_class == node_class:
                holdings[uid] = noted.holding
        return sorted(holdings.values(), key=lambda each: each.uid)

    def reserve(self, node_class: str, limits: ClassLimits | None, wanted: Holding) -> str:
        """Note it, unless it does not fit: then why, in words. Empty: it is noted."""
        held = [each for each in self.held(node_class) if each.uid != wanted.uid]
        why = shortage(limits, held, wanted)
        if not why:
            self._noted[wanted.uid] = Noted(node_class, wanted)
        return why

    def notice(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> None:
        """A handler of the requests' store: who is gone reserves nothing any more."""
        if old is not None and new is None:
            self.seen(old.uid_text)
            self._read.pop(old.key, None)

    def seen(self, uid: str) -> None:
        """The view shows this request at least as new as our last write: from now on what stands there counts."""
        self._noted.pop(plain_uid(uid), None)

    def _reading(self, record: Typed[GPURequest]) -> "_Read":
        """Records are frozen, and every turn counts them all."""
        known = self._read.get(record.key)
        if known is None or known.record is not record:
            known = self._read[record.key] = _Read(record, _holding(record), _presumed(record))
        return known


def _holding(record: Typed[GPURequest]) -> Holding | None:
    """A restored copy holds nothing: the machines in its status are another object's."""
    if copied(record):
        return None
    attempt = open_attempt(attempts_of(record))
    return holding_of(plain_uid(record.uid_text), attempt) if attempt is not None else None


def _presumed(record: Typed[GPURequest]) -> tuple[tuple[datetime, Holding], ...]:
    return () if copied(record) else tuple(presumed_of(attempts_of(record)))


@dataclass(frozen=True, slots=True)
class _Ghost:
    node_class: str
    account: str  # the id that its attempt named
    token: str
    since: float  # Clock.boottime
    holding: Holding


class Ghosts:
    """Requests that vanished with a machine, or whose record did: they count until the machine is gone."""

    def __init__(self, rosters: Rosters, accounts: Accounts, clock: Clock) -> None:
        self._rosters = rosters
        self._accounts = accounts
        self._now = clock.now
        self._boottime = clock.boottime
        self._ghosts: dict[str, _Ghost] = {}  # by uid
        self._presumed: dict[str, tuple[str, datetime, Holding]] = {}  # by token: the class, and until when it counts

    def notice(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> None:
        """A handler of the requests' store. A status that was wiped or overwritten forgets its machine as well."""
        if old is not None and new is None:
            self._keep_presumed(old)
        attempt = None if old is None or copied(old) else open_attempt(attempts_of(old))
        if old is None or attempt is None or (new is not None and self._accounts_for(attempt, new)):
            return
        node_class = next(iter(by_node_class(old)), None)
        if attempt.account and node_class is not None:
            uid = plain_uid(old.uid_text)
            ghost = _Ghost(node_class, attempt.account, attempt.token, self._boottime(), holding_of(uid, attempt))
            self._ghosts[uid] = ghost

    def of(self, node_class: str) -> list[Holding]:
        self._ghosts = {uid: ghost for uid, ghost in self._ghosts.items() if self._there(uid, ghost)}
        self._presumed = {token: kept for token, kept in self._presumed.items() if kept[1] > self._now()}
        presumed = [holding for name, _, holding in self._presumed.values() if name == node_class]
        return [*(ghost.holding for ghost in self._ghosts.values() if ghost.node_class == node_class), *presumed]

    def _keep_presumed(self, gone: Typed[GPURequest]) -> None:
        """Whoever deletes a request must not make room for a machine that may run on."""
        for node_class in by_node_class(gone):
            self._presumed.update({each.uid: (node_class, until, each) for until, each in _presumed(gone)})

    def _accounts_for(self, attempt: Attempt, record: Typed[GPURequest]) -> bool:
        """Whether what became of the attempt stands in its record: not if a person declared over what is listed on."""
        rows = () if copied(record) else attempts_of(record)
        if not rows or open_attempt(rows) is not None:
            return bool(rows)
        account = self._accounts.of(attempt)
        owned = account is not None and account.owned  # and so listed for ever
        return owned or not self._listed(plain_uid(record.uid_text), attempt.token)

    def _listed(self, uid: str, token: str) -> bool:
        return any(machine.token == token for _, machine in self._rosters.of_request(uid))

    def _there(self, uid: str, ghost: _Ghost) -> bool:
        """Listed, or not listed for long enough since to be believed gone."""
        if self._listed(uid, ghost.token):
            return True
        account = self._accounts.get(ghost.account)
        if account is None:  # no account that was ever used, so nothing was bought there
            return not self._accounts.ready
        return not self._rosters.listed_since(account.till.name, ghost.since + BELIEVED_GONE_AFTER)
