"""What machines a class has and what they cost, computed from its requests: totals, and conditions of the class.

An unchanged class is not written: its cost is computed when something else about it changes, with the time.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from tgp.api.common import Condition, canonical_provider
from tgp.api.field_error import Invalid
from tgp.api.nodeclass import ClassLimits, GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import duration, go_duration, microusd, rfc3339, usd
from tgp.core.inventory.in_use import IN_USE
from tgp.core.inventory.limits import (
    Reservation,
    Usage,
    headroom_microusd,
    presumed_of,
    reservation_of,
    shortage,
    usage_of,
)
from tgp.core.market.sources import sources_of
from tgp.core.model.attempts import attempts_of, boot_of, copied, open_attempt
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.costs import hourly_of, priced, spent
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.presence import AccountProblem
from tgp.core.model.price_book import PriceBook

NAMED_MOST = 3  # requests in a message
LIMIT_REACHED = "LimitReached"  # why a request waits
BOOT_NOISE = 0.25  # machines of a type differ by so much in how long they take to boot


class MachineCount(NamedTuple):
    """All that one request means for its class: a change that leaves this equal does not concern the class."""

    key: ObjectKey
    holding: Reservation | None  # None: it has no machine
    launched: bool  # a provider confirmed it
    hourly_microusd: int  # as billed
    recorded_microusd: int  # spent, as its status last said
    attempts: tuple[Attempt, ...]  # everything its cost is computed from
    provider: str  # of its newest attempt; empty: there was none
    joined_at: datetime | None  # None: its machine was not seen to join
    changed_account: str  # why its machine cannot be reached by the account; empty: it can
    limit: str  # the limit of the class that it waits for, as a message; empty: it waits for none
    # of earlier attempts, no longer listed but never confirmed as terminated: they count for another hour
    presumed: tuple[Reservation, ...] = ()
    booted: tuple[datetime, int] | None = None  # when its machine was Ready, and how many seconds it took


def machine_count_of(record: KubeObject[GPURequest]) -> MachineCount | None:
    """None: a restored copy. Its status describes another object."""
    if copied(record):
        return None
    attempts = attempts_of(record)
    newest, attempt = (attempts[-1] if attempts else None), open_attempt(attempts)
    return MachineCount(
        record.key,
        reservation_of(record.uid_text, attempt) if attempt is not None else None,
        attempt is not None and attempt.launched_at is not None,
        hourly_of(attempt) if attempt is not None else 0,
        _recorded_spend(record, attempts),
        priced(attempts),
        canonical_provider(newest.offer.provider) if newest is not None and newest.offer is not None else "",
        _joined_at(record),
        _says(record, "ProviderReachable", "False", AccountProblem.ACCOUNT_CHANGED.value)
        if attempt is not None
        else "",
        _limit(record) if attempt is None else "",
        _presumed(record, attempts),
        boot_of(record),
    )


class ClassMachines(msgspec.Struct, frozen=True):
    machine_counts: tuple[MachineCount, ...] = ()
    earlier_microusd: int = 0  # spent by requests that are gone

    @property
    def held(self) -> Usage:
        """What counts against the limits: live, reserved and unknown."""
        own = [machine_count.holding for machine_count in self.machine_counts if machine_count.holding is not None]
        return usage_of([*own, *(each for machine_count in self.machine_counts for each in machine_count.presumed)])

    @property
    def live(self) -> list[MachineCount]:
        return [machine_count for machine_count in self.machine_counts if machine_count.launched]

    @property
    def recorded_microusd(self) -> int:
        """Spent by existing requests, as their statuses last said."""
        return sum(machine_count.recorded_microusd for machine_count in self.machine_counts)

    def present_microusd(self, now: datetime) -> int:
        """Spent by existing requests, until now."""
        return sum(spent_at(machine_count, now) for machine_count in self.machine_counts)


def spent_at(machine_count: MachineCount, now: datetime) -> int:
    return max(spent(machine_count.attempts, now), machine_count.recorded_microusd)


def earlier(holdings: ClassMachines, held: Mapping[str, Any]) -> int:
    """What requests that are gone have spent, from a status that an earlier process wrote."""
    as_of = _moment(held.get("costAsOf"))  # None: written by a version that added up the requests' statuses
    present = holdings.present_microusd(as_of) if as_of is not None else holdings.recorded_microusd
    return max(_dollars(held.get("totalCost")) - present, 0)


def totals(holdings: ClassMachines, held: Mapping[str, Any], now: datetime, *, anyway: bool = False) -> dict[str, Any]:
    """The totals in a class's status that differ from the stored ones. The amount spent never decreases.

    The amount is computed until now when something else changes, or the status is written `anyway`: not for itself.
    """
    hourly = sum(machine_count.hourly_microusd for machine_count in holdings.live)
    recorded = _dollars(held.get("totalCost"))
    found: dict[str, Any] = {}
    if held.get("activeNodes", 0) != len(holdings.live):
        found["activeNodes"] = len(holdings.live)
    if _dollars(held.get("hourlyCost")) != hourly:
        found["hourlyCost"] = usd(hourly)
    if found or anyway or holdings.earlier_microusd + holdings.recorded_microusd > recorded:
        total = max(holdings.earlier_microusd + holdings.present_microusd(now), recorded)
        if found or total:
            found.update(totalCost=usd(total), costAsOf=rfc3339(now.replace(microsecond=0)))
    return found


def boots_seen(holdings: ClassMachines, held: Mapping[str, Any], providers: Iterable[str]) -> dict[str, str]:
    """By provider, as the class writes it: when a machine was first seen to join. Once seen, it stays."""
    rows = held.get("providers")
    rows = rows if isinstance(rows, dict) else {}
    found: dict[str, str] = {}
    for name in providers:
        row = rows.get(name)
        recorded = row.get("bootSeenAt") if isinstance(row, dict) else None
        if isinstance(recorded, str) and recorded:
            found[name] = recorded
            continue
        joined = [
            machine_count.joined_at
            for machine_count in holdings.machine_counts
            if machine_count.provider == canonical_provider(name) and machine_count.joined_at is not None
        ]
        if joined:
            found[name] = rfc3339(min(joined))
    return found


def boot_times(holdings: ClassMachines, held: Mapping[str, Any], providers: Iterable[str]) -> dict[str, str]:
    """By provider, as the class writes it: how long its last machine took to be Ready. What differs little stays."""
    rows = held.get("providers")
    rows = rows if isinstance(rows, dict) else {}
    found: dict[str, str] = {}
    for name in providers:
        row = rows.get(name)
        told = row.get("bootTime") if isinstance(row, dict) else None
        before = _seconds(told)
        booted = [
            each.booted
            for each in holdings.machine_counts
            if each.booted is not None and each.provider == canonical_provider(name)
        ]
        took = max(booted)[1] if booted else before
        if took and before and abs(took - before) <= BOOT_NOISE * max(took, before):
            took = before
        if took:
            found[name] = go_duration(timedelta(seconds=took))
    return found


def _seconds(written: object) -> int:
    """0: it is no duration."""
    try:
        return int(duration(written, "status").total_seconds()) if isinstance(written, str) else 0
    except Invalid:
        return 0


def leaving(holdings: ClassMachines, finalizers: Sequence[str], gone_by: datetime) -> ConditionUpdate:
    """Of a class that is being deleted: what the deletion waits for. `gone_by`: where it waits for a lagging cache."""
    waited_for = [machine_count for machine_count in holdings.machine_counts if machine_count.holding is not None]
    if not waited_for:
        others = ", ".join(each for each in finalizers if each != IN_USE)
        until = f"once finalizers of others are removed: {others}" if others else f"by {gone_by:%H:%M:%S}Z"
        return ConditionUpdate("Ready", False, "Deleting", f"No machine is left; the class is gone {until}.")
    number = _machines(len(waited_for))
    message = (
        f"Deletion waits for {number} at ${_cost(waited_for)}/h: {_names(waited_for)}. Delete the requests, or wait "
        "for them to finish. No machine is launched meanwhile."
    )
    return ConditionUpdate("Ready", False, "Deleting", message)


def limit_reached(holdings: ClassMachines, limits: ClassLimits | None) -> ConditionUpdate | None:
    waiting = [machine_count for machine_count in holdings.machine_counts if machine_count.limit]
    if limits is None:
        return None
    held = holdings.held
    full = limits.max_nodes is not None and shortage(ClassLimits(max_nodes=limits.max_nodes), held, Reservation("", 0))
    if not full and headroom_microusd(limits, held) == 0:
        full = f"limits.maxHourlyCost is ${limits.max_hourly_cost}/h, and all of it is in use or reserved"
    if not full and not waiting:
        return None
    said = full or waiting[0].limit
    wait = f"; {_names(waiting)} {'waits' if len(waiting) == 1 else 'wait'}" if waiting else ""
    return ConditionUpdate("LimitReached", True, LIMIT_REACHED, f"{said}{wait}.")


def account_changed(holdings: ClassMachines) -> ConditionUpdate | None:
    lost = [machine_count for machine_count in holdings.machine_counts if machine_count.changed_account]
    if not lost:
        return None
    message = (
        f"{_machines(len(lost))} at ${_cost(lost)}/h cannot be found or terminated: {_names(lost)}: "
        f"{lost[0].changed_account}. Restore an API key of the old account until the machines are terminated."
    )
    return ConditionUpdate("AccountChanged", True, AccountProblem.ACCOUNT_CHANGED.value, message)


def boot_proven(boot_seen: Mapping[str, str], providers: Sequence[str]) -> ConditionUpdate | None:
    """`boot_seen`: of the class's `providers` those that a machine was seen to join from, and when first."""
    if not boot_seen:
        return None
    unseen = [name for name in providers if name not in boot_seen]
    rest = f"; no machine of {', '.join(unseen)} joined yet" if unseen else ""
    return ConditionUpdate(
        "BootProven", True, "Joined", f"Machines of {', '.join(boot_seen)} joined the cluster{rest}."
    )


def cooling_machines(node_class: GPUNodeClass, book: PriceBook, cooldowns: Cooldowns, now: datetime) -> list[str]:
    """Machines you own that are left alone for a while: which, since when, why, and when the next try is."""
    said = []
    for source in sources_of(node_class).values():
        for offer in book.of(source.name):
            found = cooldowns.against(offer, source.name, now) if offer.boot is BootMode.POWER else None
            if found is not None:
                since, until = f"{found.failed_at:%H:%M:%S}Z", f"{found.until:%H:%M:%S}Z"
                said.append(f"Machine {offer.sku} failed at {since} ({found.why}); next attempt at {until}.")
    return sorted(said)


def _recorded_spend(record: KubeObject[GPURequest], attempts: Sequence[Attempt]) -> int:
    recorded = _dollars(record.value.status.spent) if record.value is not None else 0
    return max(recorded, sum(_dollars(attempt.spent) for attempt in attempts if attempt.ended_at is not None))


def _presumed(record: KubeObject[GPURequest], attempts: Sequence[Attempt]) -> tuple[Reservation, ...]:
    """While the request's own condition says so: nothing here depends on the clock."""
    said = _condition(record, "PresumedLost")
    if said is None or said.status != "True" or said.last_transition_time is None:
        return ()
    began = said.last_transition_time
    return tuple(holding for until, holding in presumed_of(attempts) if until > began)


def _joined_at(record: KubeObject[GPURequest]) -> datetime | None:
    if record.value is None:
        return None
    registered = _condition(record, "Registered")
    if registered is not None and registered.status == "True" and registered.last_transition_time is not None:
        return registered.last_transition_time
    return record.value.status.ready_at


def _says(record: KubeObject[GPURequest], name: str, status: str, reason: str) -> str:
    found = _condition(record, name)
    return (found.message or reason) if found is not None and (found.status, found.reason) == (status, reason) else ""


def _limit(record: KubeObject[GPURequest]) -> str:
    said = _says(record, "Launched", "False", LIMIT_REACHED)
    return "" if said.startswith("Pool ") else said  # its pool's status says that


def _condition(record: KubeObject[GPURequest], name: str) -> Condition | None:
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == name), None)


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"


def _cost(machine_counts: Iterable[MachineCount]) -> str:
    return usd(
        sum(machine_count.holding.microusd for machine_count in machine_counts if machine_count.holding is not None)
    )


def _names(machine_counts: Sequence[MachineCount]) -> str:
    more = len(machine_counts) - NAMED_MOST
    return ", ".join(str(machine_count.key) for machine_count in machine_counts[:NAMED_MOST]) + (
        f" and {more} more" if more > 0 else ""
    )


def _moment(written: object) -> datetime | None:
    try:
        return msgspec.convert(written, datetime) if isinstance(written, str) else None
    except msgspec.ValidationError:
        return None


def _dollars(written: object) -> int:
    """In micro-dollars; zero where the text is not a price."""
    try:
        return microusd(written, "status") if isinstance(written, str) else 0
    except Invalid:
        return 0
