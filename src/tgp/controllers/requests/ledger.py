"""The one ledger: every reservation of every class passes through it, whichever reconcile makes it.

Counted is what the view of requests shows, plus what this process has written or is about to write and the view does
not show yet. Checking and noting is one step without an await, so concurrent reconciles cannot exceed a limit.
A new leader's view is a list begun after it won the Lease: it holds every reservation ever written.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from tgp.api.nodeclass import ClassLimits
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.indexes import BY_NODE_CLASS, by_node_class
from tgp.core.inventory.limits import Reservation, presumed_of, reservation_of, shortage
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.ports.clock import Clock
from tgp.ports.cluster import View

BELIEVED_GONE_AFTER = 150.0  # seconds: longer than the latest order (60 s) plus the listing lag (60 s)


class _Read(msgspec.Struct, frozen=True):
    record: KubeObject[GPURequest]
    holding: Reservation | None
    presumed: tuple[tuple[datetime, Reservation], ...]


class Noted(msgspec.Struct, frozen=True):
    node_class: str
    holding: Reservation


class Ledger:
    def __init__(
        self,
        requests: View[KubeObject[GPURequest]],
        strays: Callable[[str], Iterable[Reservation]] = lambda _node_class: (),
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._requests = requests
        self._now = now
        self._strays = strays  # machines of a class that no request owns, and that are not gone yet
        self._noted: dict[str, Noted] = {}  # by uid
        self._read: dict[ObjectKey, _Read] = {}  # of records as they were last read

    def held(self, node_class: str) -> list[Reservation]:
        """Everything that counts against the limits of a class now, each request once."""
        holdings = {each.uid: each for each in self._strays(node_class)}
        for record in self._requests.by_index(BY_NODE_CLASS, node_class):
            read = self._reading(record)
            if read.holding is not None:
                holdings[read.holding.uid] = read.holding
            holdings.update({each.uid: each for until, each in read.presumed if until > self._now()})
        for uid, noted in self._noted.items():
            if noted.node_class == node_class:
                holdings[uid] = noted.holding
        return sorted(holdings.values(), key=lambda each: each.uid)

    def reserve(self, node_class: str, limits: ClassLimits | None, wanted: Reservation) -> str:
        """Note the reservation if it fits. Returns why it does not; empty: it is noted."""
        held = [each for each in self.held(node_class) if each.uid != wanted.uid]
        why = shortage(limits, held, wanted)
        if not why:
            self._noted[wanted.uid] = Noted(node_class, wanted)
        return why

    def notice(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> None:
        """A handler of the requests' store: a deleted request reserves nothing any more."""
        if old is not None and new is None:
            self.seen(old.uid_text)
            self._read.pop(old.key, None)

    def seen(self, uid: str) -> None:
        """The view shows this request at least as new as our last write: from now on its status counts."""
        self._noted.pop(plain_uid(uid), None)

    def _reading(self, record: KubeObject[GPURequest]) -> "_Read":
        """Cached: records are frozen, and every reconcile counts them all."""
        known = self._read.get(record.key)
        if known is None or known.record is not record:
            known = self._read[record.key] = _Read(record, _holding(record), _presumed(record))
        return known


def _holding(record: KubeObject[GPURequest]) -> Reservation | None:
    """A restored copy reserves nothing: the machines in its status belong to another object."""
    if copied(record):
        return None
    attempt = open_attempt(attempts_of(record))
    return reservation_of(plain_uid(record.uid_text), attempt) if attempt is not None else None


def _presumed(record: KubeObject[GPURequest]) -> tuple[tuple[datetime, Reservation], ...]:
    return () if copied(record) else tuple(presumed_of(attempts_of(record)))


class _Vanished(msgspec.Struct, frozen=True):
    node_class: str
    account: str  # the id that its attempt named
    token: str
    since: float  # Clock.boottime
    holding: Reservation


class VanishedRequests:
    """Requests that vanished with a machine, or whose status was erased: they count until the machine is gone."""

    def __init__(self, instance_cache: InstanceCache, accounts: AccountTable, clock: Clock) -> None:
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._now = clock.now
        self._boottime = clock.boottime
        self._vanished: dict[str, _Vanished] = {}  # by uid
        self._presumed: dict[
            str, tuple[str, datetime, Reservation]
        ] = {}  # by token: the class, and until when it counts

    def notice(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> None:
        """A handler of the requests' store. An erased or overwritten status forgets its machine as well."""
        if old is not None and new is None:
            self._keep_presumed(old)
        attempt = None if old is None or copied(old) else open_attempt(attempts_of(old))
        if old is None or attempt is None or (new is not None and self._accounts_for(attempt, new)):
            return
        node_class = next(iter(by_node_class(old)), None)
        if attempt.account and node_class is not None:
            uid = plain_uid(old.uid_text)
            vanished = _Vanished(
                node_class, attempt.account, attempt.token, self._boottime(), reservation_of(uid, attempt)
            )
            self._vanished[uid] = vanished

    def of(self, node_class: str) -> list[Reservation]:
        self._vanished = {uid: vanished for uid, vanished in self._vanished.items() if self._there(uid, vanished)}
        self._presumed = {token: kept for token, kept in self._presumed.items() if kept[1] > self._now()}
        presumed = [holding for name, _, holding in self._presumed.values() if name == node_class]
        return [
            *(vanished.holding for vanished in self._vanished.values() if vanished.node_class == node_class),
            *presumed,
        ]

    def _keep_presumed(self, gone: KubeObject[GPURequest]) -> None:
        """Deleting a request must not free the limits while its machine may still run."""
        for node_class in by_node_class(gone):
            self._presumed.update({each.uid: (node_class, until, each) for until, each in _presumed(gone)})

    def _accounts_for(self, attempt: Attempt, record: KubeObject[GPURequest]) -> bool:
        """Whether the record shows the attempt's outcome: not if a user ended it in the status while it is listed."""
        rows = () if copied(record) else attempts_of(record)
        if not rows or open_attempt(rows) is not None:
            return bool(rows)
        account = self._accounts.of(attempt)
        owned = account is not None and account.owned  # and so always listed
        return owned or not self._listed(plain_uid(record.uid_text), attempt.token)

    def _listed(self, uid: str, token: str) -> bool:
        return any(machine.token == token for _, machine in self._instance_cache.of_request(uid))

    def _there(self, uid: str, vanished: _Vanished) -> bool:
        """Listed, or not absent for long enough to be believed gone."""
        if self._listed(uid, vanished.token):
            return True
        account = self._accounts.get(vanished.account)
        if account is None:  # no account that was ever used, so nothing was bought there
            return not self._accounts.ready
        return not self._instance_cache.listed_since(account.access.name, vanished.since + BELIEVED_GONE_AFTER)
