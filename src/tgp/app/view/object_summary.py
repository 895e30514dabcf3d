"""One object's conditions in a line: the state, whether it is good, and the most important reason."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.nodepool import GPUNodePoolStatus
from tgp.api.quantity import exact
from tgp.api.resource import Resource
from tgp.core.budgets.assess import MILLI_SECONDS, hours_text
from tgp.core.budgets.quota import limits_of
from tgp.core.budgets.spans import seconds
from tgp.core.model.costs import read_amount
from tgp.core.model.money import total
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.status import would_have_paid
from tgp.core.requests.purchase_stops import NEEDS_USER
from tgp.interfaces.terminal.budget_bar import bar, share_of
from tgp.interfaces.terminal.snapshot import ObjectRow, moment

IN_THE_WAY = ("Unsatisfiable", "Restored", "Degraded", "QuotaExceeded")  # a problem when True, whatever Ready is
ENDED_BADLY = frozenset({"Failed"})
OBSERVING = "Observing"  # of a pool that buys nothing: a condition, and its state
OVER = frozenset({"Finished", "Failed"})
WAITING = frozenset({"Pending"})  # for an offer: neither good nor bad, and without cost
STUCK_AFTER = timedelta(minutes=10)  # a request that has waited this long needs attention


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_Condition, ...] | None = None
    phase: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectObservation:
    """One object as the API server returned it."""

    resource: Resource
    key: ObjectKey
    created_at: datetime | None
    deleting: bool
    status_document: bytes


def object_row_of(observation: ObjectObservation, now: datetime) -> ObjectRow:
    """Total: an unreadable status counts as empty."""
    status = _read(observation.status_document)
    conditions = {row.type: row for row in status.conditions or ()}
    state, good, row = _assess(status, conditions)
    since = (row.last_transition_time if row is not None else None) or observation.created_at or now
    if state in WAITING and (now - since > STUCK_AFTER or (row is not None and row.reason in NEEDS_USER)):
        good = False
    if observation.deleting:
        state = "Deleting"
    return ObjectRow(
        kind=observation.resource.kind,
        name=str(observation.key),
        state=state,
        good=good,
        reason=row.reason if row is not None else "",
        message=(row.message if row is not None else status.message) or _without_status(state),
        since=since,
        over=status.phase in OVER,
    )


def pool_message(status: GPUNodePoolStatus, now: datetime, *, observes: bool) -> str:
    """What a pool has, and what waits for it; of one that observes, what it would have."""
    waiting = f", {_pods(status.waiting_pods)}" if status.waiting_pods else ""
    if not observes:
        return f"{_machines(status.node_count)}{waiting}"
    cost, count = status.would_have_cost, sum(machine.count for machine in status.would_buy)
    if cost is None:
        return f"would buy nothing{waiting}"
    buys = f"{count} for {total(read_amount(cost.hourly_cost) or 0)}/h" if count else "nothing"
    return f"would buy {buys}, {total(would_have_paid(cost, now))} so far{waiting}"


def budget_message(budget: GPUWorkloadBudget, told: str, now: datetime) -> str:
    """A bar, and beyond the quota what the condition says. Since the status was written use grew by what runs."""
    status = budget.status
    if status.as_of is None or status.consumed_gpu_hours is None:
        return told
    quota = limits_of(budget.spec, seconds(now)).used
    passed = max(0, seconds(now) - seconds(status.as_of))
    used = exact(status.consumed_gpu_hours) * MILLI_SECONDS + exact(status.gpus_in_use or 0) * 1000 * passed
    share, of = share_of(int(used), quota), f"{hours_text(quota)} GPU-hours"
    if (limit := budget.spec.quota.usd) and (spent := float(exact(status.consumed_usd or 0) / exact(limit))) > share:
        share, of = spent, f"${limit}"
    shown = f"{bar(share)} {share * 100:.0f} % of {of}"
    if status.exceeded_at is not None:
        back = f", more available at {moment(status.next_change_at, now)}" if status.next_change_at is not None else ""
        return f"{shown}{back}"
    return f"{shown}, used up at {moment(status.exhausted_at, now)}" if status.exhausted_at is not None else shown


def _machines(count: int) -> str:
    return "no machine" if not count else "1 machine" if count == 1 else f"{count} machines"


def _pods(count: int) -> str:
    return "1 pod waits" if count == 1 else f"{count} pods wait"


def _assess(status: _Status, conditions: dict[str, _Condition]) -> tuple[str, bool | None, _Condition | None]:
    ready = conditions.get("Ready")
    for name in IN_THE_WAY:
        row = conditions.get(name)
        otherwise_ready = ready is None or ready.status == "True" or ready.reason == name
        if row is not None and row.status == "True" and otherwise_ready:
            return name, False, row
    if status.phase:
        return status.phase, None if status.phase in WAITING else status.phase not in ENDED_BADLY, ready
    if ready is None:
        return "", None, None
    match ready.status:
        case "True":
            observing = conditions.get(OBSERVING)
            return (OBSERVING if observing is not None and observing.status == "True" else "Ready"), True, ready
        case "False":
            return "NotReady", False, ready
        case _:
            return "Unknown", None, ready


def _without_status(state: str) -> str:
    return "" if state else "no status yet"


def _read(document: bytes) -> _Status:
    try:
        return _STATUS.decode(document or b"{}") or _Status()
    except msgspec.DecodeError:
        return _Status()


_STATUS: msgspec.json.Decoder[_Status | None] = msgspec.json.Decoder(_Status | None)
