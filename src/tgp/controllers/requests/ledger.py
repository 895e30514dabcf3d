"""The one ledger: every reservation of every class and pool passes through it, whichever reconcile makes it.

Counted is what the view of requests shows, plus what this process has written or is about to write and the view does
not show yet. Checking and noting is one step without an await, so concurrent reconciles cannot exceed a limit.
A new leader's view is a list begun after it won the Lease: it holds every reservation ever written.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.indexes import by_node_class
from tgp.core.inventory.limits import (
    COUNTED_ON_FOR,
    NOTHING_USED,
    Limits,
    Reservation,
    Usage,
    presumed_of,
    reservation_of,
    shortage,
)
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.requests.node_metadata import pool_key
from tgp.ports.clock import Clock

BELIEVED_GONE_AFTER = 150.0  # seconds: longer than the latest order (60 s) plus the listing lag (60 s)


# Whose limits a machine counts against: a class by its name, a pool by its key.
Group: TypeAlias = str | ObjectKey
Counts: TypeAlias = Callable[[KubeObject[GPURequest], Attempt], bool]  # against its class, as it is recorded


class GroupLimits(msgspec.Struct, frozen=True):
    """The limits of a class or a pool."""

    group: Group
    limits: Limits | None


class _Entry(msgspec.Struct, frozen=True):
    groups: tuple[Group, ...]
    holding: Reservation


class _Presumed(msgspec.Struct, frozen=True):
    groups: tuple[Group, ...]
    until: datetime
    holding: Reservation


class _Claim(msgspec.Struct, frozen=True):
    """A machine of a request in whose class it does not count by its record alone."""

    record: KubeObject[GPURequest]
    attempt: Attempt
    group: Group
    until: datetime | None  # of one that is presumed lost; None: it may run
    holding: Reservation


class Ledger:
    """Keeps a sum per class and per pool, changed with each record: a check does not look at all requests."""

    def __init__(
        self,
        unclaimed: Callable[[Group], Iterable[Reservation]] = lambda _group: (),
        *,
        counts: Counts = lambda _record, _attempt: True,
        now: Callable[[], datetime],
    ) -> None:
        self._counts = counts
        self._now = now
        self._unclaimed = unclaimed  # machines of a class or a pool that no request owns, and that are not gone yet
        self._recorded: dict[str, _Entry] = {}  # by uid: what the view shows
        self._noted: dict[str, _Entry] = {}  # by uid: reserved, and perhaps not in the view yet
        self._counted: dict[str, _Entry] = {}  # by uid: what is in the sums, the noted before the recorded
        self._sums: dict[Group, Usage] = {}
        self._presumed: dict[str, tuple[_Presumed, ...]] = {}  # by uid of the request
        self._claims: dict[str, tuple[_Claim, ...]] = {}  # by uid of the request

    def used(self, group: Group, *, without: str = "") -> Usage:
        """What counts against the limits of a class or a pool now, each request once; `without` this uid."""
        total, own = self._sums.get(group, NOTHING_USED), self._counted.get(without)
        if own is not None and group in own.groups:
            total = total.minus(own.holding)
        unclaimed = {each.uid: each for each in self._unclaimed(group)}
        for uid, machine in unclaimed.items():
            counted = self._counted.get(uid)
            if uid != without and (counted is None or group not in counted.groups):
                total = total.plus(machine)
        for lost in self._still_presumed(group):
            if lost.uid not in unclaimed:
                total = total.plus(lost)
        for uid, claims in self._claims.items():
            proved = [each for each in claims if each.holding.uid not in unclaimed and self._proves(each, group)]
            counted = self._counted.get(uid)
            if uid == without or (counted is not None and group in counted.groups):
                proved = [each for each in proved if each.until is not None]
            for claim in proved:
                total = total.plus(claim.holding)
        return total

    def _proves(self, claim: _Claim, group: Group) -> bool:
        over = claim.until is not None and claim.until <= self._now()
        return claim.group == group and not over and self._counts(claim.record, claim.attempt)

    def reserve(self, limited: Iterable[GroupLimits], wanted: Reservation) -> str:
        """Note the reservation if it fits all limits. Returns why it does not; empty: it is noted."""
        every = tuple(limited)
        for each in every:
            if why := shortage(each.limits, self.used(each.group, without=wanted.uid), wanted):
                return limit_message(each.group, why)
        self._noted[wanted.uid] = _Entry(tuple(each.group for each in every), wanted)
        self._count(wanted.uid)
        return ""

    def notice(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> None:
        """A handler of the requests' store: a deleted request reserves nothing any more."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        uid = plain_uid(changed.uid_text)
        self._recorded.pop(uid, None)
        self._presumed.pop(uid, None)
        self._claims.pop(uid, None)
        if new is None:
            self._noted.pop(uid, None)
        else:
            self._record(uid, new)
        self._count(uid)

    def _record(self, uid: str, record: KubeObject[GPURequest]) -> None:
        """What this process reserved counts as reserved; of anything else its class may need more than the record."""
        attempt, groups, claims = None if copied(record) else open_attempt(attempts_of(record)), groups_of(record), []
        pools = tuple(each for each in groups if not isinstance(each, str))
        classes = [each for each in groups if isinstance(each, str)]
        if attempt is not None:
            counts = self._counts(record, attempt) or uid in self._noted
            holding = reservation_of(uid, attempt)
            self._recorded[uid] = _Entry(groups if counts else pools, holding)
            claims += [] if counts else [_Claim(record, attempt, each, None, holding) for each in classes]
        lost = []
        for each, until, holding in presumed_by(record, self._now()):
            counts = self._counts(record, each)
            lost.append(_Presumed(groups if counts else pools, until, holding))
            claims += [] if counts else [_Claim(record, each, group, until, holding) for group in classes]
        if lost:
            self._presumed[uid] = tuple(lost)
        if claims:
            self._claims[uid] = tuple(claims)

    def seen(self, uid: str) -> None:
        """The view shows this request at least as new as our last write: from now on its status counts."""
        uid = plain_uid(uid)
        self._noted.pop(uid, None)
        self._count(uid)

    def _count(self, uid: str) -> None:
        entry, before = self._noted.get(uid) or self._recorded.get(uid), self._counted.get(uid)
        if entry == before:
            return
        if before is not None:
            del self._counted[uid]
            for group in before.groups:
                self._sums[group] = self._sums[group].minus(before.holding)
        if entry is not None:
            self._counted[uid] = entry
            for group in entry.groups:
                self._sums[group] = self._sums.get(group, NOTHING_USED).plus(entry.holding)

    def _still_presumed(self, group: Group) -> list[Reservation]:
        """Few: a machine counts for an hour after only lists declared it gone."""
        now = self._now()
        for uid in [uid for uid, rows in self._presumed.items() if all(row.until <= now for row in rows)]:
            del self._presumed[uid]
        rows = (row for each in self._presumed.values() for row in each)
        return [row.holding for row in rows if row.until > now and group in row.groups]


def limit_message(group: Group, why: str) -> str:
    return f"Class {group}: {why}" if isinstance(group, str) else f"Pool {group}: {why}"


def groups_of(record: KubeObject[GPURequest]) -> tuple[Group, ...]:
    """Its class and its pool, whether that pool still exists or not."""
    pool = pool_key(record)
    return (*by_node_class(record), *((pool,) if pool is not None else ()))


def presumed_by(record: KubeObject[GPURequest], now: datetime) -> list[tuple[Attempt, datetime, Reservation]]:
    """Machines that only lists declare gone. None counts for longer than an hour from now, whatever is recorded."""
    rows = () if copied(record) else attempts_of(record)
    return [(row, min(until, now + COUNTED_ON_FOR), held) for row in rows for until, held in presumed_of((row,))]


class _Vanished(msgspec.Struct, frozen=True):
    groups: tuple[Group, ...]
    account: str  # the id that its attempt named
    token: str
    since: float  # Clock.boottime
    holding: Reservation


class VanishedRequests:
    """Requests that vanished with a machine, or whose status was erased: they count until the machine is gone."""

    def __init__(
        self,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        clock: Clock,
        counts: Counts = lambda _record, _attempt: True,
    ) -> None:
        self._counts = counts
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._now = clock.now
        self._boottime = clock.boottime
        self._vanished: dict[str, _Vanished] = {}  # by uid
        self._presumed: dict[str, tuple[tuple[Group, ...], datetime, Reservation]] = {}  # by token, and until when

    def notice(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> None:
        """A handler of the requests' store. An erased or overwritten status forgets its machine as well."""
        if old is not None and new is None:
            self._keep_presumed(old)
        attempt = None if old is None or copied(old) else open_attempt(attempts_of(old))
        if old is None or attempt is None or (new is not None and self._accounts_for(attempt, new)):
            return
        if attempt.account:
            uid = plain_uid(old.uid_text)
            groups, holding = self._groups(old, attempt), reservation_of(uid, attempt)
            self._vanished[uid] = _Vanished(groups, attempt.account, attempt.token, self._boottime(), holding)

    def prices(self) -> dict[str, int | None]:
        """By token: what their machines cost an hour; None: unknown."""
        self._drop_those_gone()
        return {each.token: each.holding.microusd or None for each in self._vanished.values()}

    def _drop_those_gone(self) -> None:
        self._vanished = {uid: vanished for uid, vanished in self._vanished.items() if self._there(uid, vanished)}

    def of(self, group: Group) -> list[Reservation]:
        self._drop_those_gone()
        self._presumed = {token: kept for token, kept in self._presumed.items() if kept[1] > self._now()}
        return [
            *(vanished.holding for vanished in self._vanished.values() if group in vanished.groups),
            *(holding for groups, _, holding in self._presumed.values() if group in groups),
        ]

    def _keep_presumed(self, gone: KubeObject[GPURequest]) -> None:
        """Deleting a request must not free the limits while its machine may still run."""
        found = presumed_by(gone, self._now())
        self._presumed.update({each.uid: (self._groups(gone, row), until, each) for row, until, each in found})

    def _groups(self, record: KubeObject[GPURequest], attempt: Attempt) -> tuple[Group, ...]:
        counts = self._counts(record, attempt)
        return tuple(each for each in groups_of(record) if counts or not isinstance(each, str))

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
