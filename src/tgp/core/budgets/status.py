"""What a budget's status says, and when it is worth a write."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tgp.api.budget import GPUWorkloadBudgetSpec
from tgp.api.values import rfc3339
from tgp.core.budgets.account import BudgetAccount
from tgp.core.budgets.assess import (
    FORECAST,
    Assessment,
    Limits,
    gpus_text,
    hours_text,
    reached_at,
    usd_text,
)
from tgp.core.budgets.quota import window_words
from tgp.core.budgets.victims import NAMES_SHOWN, NextAct
from tgp.core.model.conditions import ConditionUpdate

READY, EXCEEDED, DEGRADED = "Ready", "QuotaExceeded", "Degraded"
NOTHING_MATCHES = "NothingMatches"  # a reason of Ready
OWNED = frozenset({READY, EXCEEDED, DEGRADED})

IDLE = "No pod has matched for an hour. Compare spec.selector with the labels of pods that request"
ACTED = {"Evict": "evicted", "Pause": "paused"}
IDLE_AFTER = timedelta(hours=1)
GATHERED = timedelta(seconds=1)  # spans that open or close within it are one write
PACE = 5  # seconds between two writes for use alone
PACE_OF_EACH = 2  # the same, for each budget whose pods run: many budgets are no more writes
REFRESHED = 300  # seconds after which use that moves is written anyway
STEP = 200  # parts of the quota: use that moved by one of them is written
FALLS_BY = 5  # percentage points that use must fall below an alert before it can be raised again


class Trouble(msgspec.Struct, frozen=True):
    """Why a budget cannot do all that it is asked for."""

    reason: str
    message: str


class Told(msgspec.Struct, frozen=True):
    """What the status says now. All absent: nothing was written yet."""

    at: int = 0
    used: int = -1
    exceeded_at: datetime | None = None
    alerted: tuple[str, ...] = ()
    generation: int = 0
    trouble: Trouble | None = None  # what Degraded says
    paused: int = 0  # pods
    gated: int = 0  # pods that wait behind its gate
    idle: bool = False  # no pod matches
    quota: str = ""  # GPU-hours, with those on top
    blocked: int = 0  # pods that should be stopped, and cannot be
    unpriced: bool = False  # hours that cost nothing count against a limit of money


def raised(
    spec: GPUWorkloadBudgetSpec, limits: Limits, account: BudgetAccount, seen: Assessment, before: tuple[str, ...]
) -> tuple[str, ...]:
    """The alerts that hold. One that was raised holds until use has fallen well below it: each is told once a rise.

    A forecast that was raised holds while use will come so near to the quota.
    """
    holding = []
    for alert in spec.alerts:
        name = str(alert)
        if isinstance(alert, str):
            near = name in before and reached_at(limits, account, seen.now, 100 - FALLS_BY) is not None
            if near or (seen.exhausted_at is not None and not seen.exceeded):
                holding.append(name)
            continue
        bound = alert - FALLS_BY if name in before else alert
        if seen.reaches(bound):
            holding.append(name)
    return tuple(holding)


def pace_of(busy: int) -> int:
    """Seconds between two writes of a budget for use alone, where pods of so many budgets run."""
    return min(max(PACE, PACE_OF_EACH * busy), REFRESHED)


def worth_writing(told: Told, now: Told, limits: Limits, seen: Assessment, *, changed: bool, pace: int = PACE) -> bool:
    """`now`: what the status would say. `changed`: a span opened or closed."""
    same = msgspec.structs.replace(told, at=now.at, used=now.used) == now
    if changed or not same:
        return True
    moved = abs(seen.used - told.used)
    if moved * STEP >= limits.used and seen.now >= told.at + pace:
        return True
    return moved > 0 and seen.now >= told.at + REFRESHED


def look_again(
    spec: GPUWorkloadBudgetSpec,
    limits: Limits,
    account: BudgetAccount,
    seen: Assessment,
    told: Told,
    *,
    pace: int = PACE,
) -> int | None:
    """When the status may be worth a write although nothing happens; None: only after something did."""
    moments: list[int | None] = [seen.next_change_at]
    if seen.milli:
        moments.append(max(told.at + pace, seen.now + max(1, limits.used // STEP // seen.milli)))
    if seen.moves:
        due = told.at + REFRESHED
        moments.append(due if due > seen.now else seen.now + REFRESHED)  # it was due, and nothing had moved
    moments += [
        reached_at(limits, account, seen.now, alert)
        for alert in spec.alerts
        if isinstance(alert, int) and str(alert) not in told.alerted
    ]
    return min((max(each, seen.now + 1) for each in moments if each is not None), default=None)


def parts(spec: GPUWorkloadBudgetSpec, seen: Assessment, now: Told, account: str) -> dict[str, Any]:
    """The fields of the status but for its conditions; None: it is absent."""
    money = spec.quota.usd is not None
    return {
        "consumedGpuHours": hours_text(seen.used),
        "quotaGpuHours": now.quota,
        "remainingGpuHours": hours_text(seen.left),
        "asOf": _time(seen.now),
        "gpusInUse": gpus_text(seen.milli),
        "consumedUsd": usd_text(seen.usd) if money or seen.usd else None,
        "unpricedGpuHours": hours_text(seen.unpriced) if now.unpriced else None,
        "uncertaintyGpuHours": hours_text(seen.unsure) if seen.unsure else None,
        "exceededAt": rfc3339(now.exceeded_at) if now.exceeded_at is not None else None,
        "exhaustedAt": rfc3339(now.exceeded_at) if now.exceeded_at is not None else _time(seen.exhausted_at),
        "nextChangeAt": _time(seen.next_change_at),
        "pausedPods": now.paused or None,
        "gatedPods": now.gated or None,
        "blockedPods": now.blocked or None,
        "alerted": list(now.alerted) or None,
        "account": account,
        "observedGeneration": now.generation,
    }


def conditions(
    spec: GPUWorkloadBudgetSpec, seen: Assessment, now: Told, act: NextAct | None = None
) -> list[ConditionUpdate]:
    """`act`: what happens to which pods, and when; None: nothing does by itself."""
    ready = ConditionUpdate(READY, True, "Reconciled", "Use is counted.")
    if now.idle:
        ready = ConditionUpdate(READY, True, NOTHING_MATCHES, f"{IDLE} {spec.gpu_resource_name}.")
    when = window_words(spec.quota, seen.now)
    use = f"{_hours_used(seen)} were used {when}"
    if seen.usd_quota is not None:
        use += f", and {_usd_used(seen)}"
    if seen.exceeded:
        back = (
            f"; GPU-hours become available at {_time(seen.next_change_at)}" if seen.next_change_at is not None else ""
        )
        over = ConditionUpdate(EXCEEDED, True, "QuotaReached", f"{use}{back}. {_act_text(spec, act)}")
    elif seen.exhausted_at is not None:
        ends = f"; at this rate the quota is used up at {_time(seen.exhausted_at)}"
        over = ConditionUpdate(EXCEEDED, False, "WithinBudget", f"{use}{ends}. {_act_text(spec, act)}")
    else:
        over = ConditionUpdate(EXCEEDED, False, "WithinBudget", f"{use}.")
    if now.trouble is None:
        well = ConditionUpdate(DEGRADED, False, "ReconcileSucceeded", "No problem was found.")
    else:
        well = ConditionUpdate(DEGRADED, True, now.trouble.reason, now.trouble.message)
    return [ready, over, well]


def _act_text(spec: GPUWorkloadBudgetSpec, act: NextAct | None) -> str:
    """What will happen to whom, and when."""
    action = spec.enforcement.action
    if act is None or action == "AlertOnly":
        return f"Action: {action}."
    names = [pod.key.name for pod in act.pods]
    if not names:
        return f"Action: {action}; no pod can be {ACTED[action]} now."
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"Action: {action} from {_time(act.at)}, in this order: {', '.join(names[:NAMES_SHOWN])}{more}."


def _hours_used(seen: Assessment) -> str:
    return f"{short_text(hours_text(seen.used))} of {hours_text(seen.quota)} GPU-hours"


def _usd_used(seen: Assessment) -> str:
    return f"${short_text(usd_text(seen.usd))} of ${usd_text(seen.usd_quota or 0)}"


def unpriced_text(seen: Assessment) -> str:
    return (
        f"{short_text(hours_text(seen.unpriced))} GPU-hours ran on Nodes without a price and count as no money: "
        "spec.quota.usd does not limit them. Next: set the annotation tgp.io/hourly-price on these Nodes"
    )


def alert_text(name: str, seen: Assessment) -> str:
    use = f"{_hours_used(seen)} are used" + (f", and {_usd_used(seen)}" if seen.usd_quota is not None else "")
    if name == FORECAST:
        return f"At this rate the quota is used up at {_time(seen.exhausted_at)}: {use}"
    return f"Use has reached {name} % of the quota: {use}"


def inherited_text(spec: GPUWorkloadBudgetSpec, seen: Assessment, deleted_at: int) -> str:
    return (
        f"Usage of the budget with this name, deleted at {_time(deleted_at)}, still counts: "
        f"{short_text(hours_text(seen.used))} of {spec.quota.gpu_hours} GPU-hours are used"
    )


def short_text(decimal: str) -> str:
    """Two places are enough for a sentence, and of what is smaller two digits."""
    whole, _, rest = decimal.partition(".")
    zeros = len(rest) - len(rest.lstrip("0"))
    places = rest[: zeros + 2] if whole == "0" else rest[:2]
    return f"{whole}.{places}" if places.strip("0") else whole


def _time(moment: int | None) -> str | None:
    return None if moment is None else rfc3339(datetime.fromtimestamp(moment, UTC))
