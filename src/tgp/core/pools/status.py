"""What a pool's status says of its machines and of the last plan."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodepool import WouldHaveCost
from tgp.api.request import GPURequest
from tgp.api.values import rfc3339, usd
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.costs import hourly_of, read_amount
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import about
from tgp.core.model.offer import UNKNOWN_REGION
from tgp.core.pools.planner.world import Order

MOST_WOULD_BUY = 64  # kinds of machines that the status lists
NAMES_SHOWN = 3
COUNTED_EVERY = timedelta(minutes=10)  # while a pool would buy: how often its status is written for the cost alone
LONGEST_COUNTED = 2 * COUNTED_EVERY  # no operator ran for longer: whether the pods waited meanwhile is not known
SHOWN_DIGITS = 3  # of micro-dollars are left out of what is only looked at
MOST_MOVES = 16  # that the status lists


def machine_parts(requests: Iterable[KubeObject[GPURequest]]) -> dict[str, Any]:
    """Machines that run or start, what they provide together, and what they cost."""
    count, cost = 0, 0
    resources: Counter[str] = Counter()
    for record in requests:
        attempt = open_attempt(attempts_of(record))
        if attempt is None:
            continue
        count += 1
        cost += hourly_of(attempt)
        offer = attempt.offer
        if offer is not None:
            resources[resource_name(offer.gpu_type or "")] += offer.gpu_count or 0
            resources["cpu"] += offer.vcpus or 0
            resources["memory"] += offer.memory_gib or 0
    shown = {
        name: f"{amount}Gi" if name == "memory" else amount for name, amount in sorted(resources.items()) if amount
    }
    return {"nodeCount": count, "resources": shown or None, "hourlyCost": usd(round(cost, -SHOWN_DIGITS))}


def move_parts(requests: Iterable[KubeObject[GPURequest]]) -> list[dict[str, Any]] | None:
    """As `status.moves`, from the condition Disrupted of each request; None: nothing moves or waits to."""
    found = []
    for record in requests:
        conditions = record.value.status.conditions if record.value is not None else ()
        held = next((each for each in conditions if each.type == "Disrupted"), None)
        if record.value is None or held is None:
            continue
        node, since = record.value.status.node_name, held.last_transition_time
        row = {
            "request": record.key.name,
            **({"node": node} if node else {}),
            "reason": held.reason,
            "underWay": held.status == "True",
            **({"since": rfc3339(since)} if since is not None else {}),
            "message": held.message,
        }
        found.append((held.status != "True", record.key, row))
    return [row for _, _, row in sorted(found, key=lambda each: each[:2])][:MOST_MOVES] or None


def plan_parts(at: datetime, gap: float | None, orders: int, unserved: int) -> dict[str, Any]:
    """As `status.lastPlan`."""
    exact = {} if gap is None else {"gap": f"{100 * gap:.2f}".rstrip("0").rstrip(".") + "%"}
    return {"at": rfc3339(at), **exact, "orders": orders, "unserved": unserved}


def would_buy_parts(orders: Iterable[Order]) -> list[dict[str, Any]] | None:
    """As `status.wouldBuy`: equal machines once, with their number; None: nothing."""
    counts: dict[str, int] = {}
    first: dict[str, Order] = {}
    for order in orders:
        counts[order.offer.key] = counts.get(order.offer.key, 0) + 1
        first.setdefault(order.offer.key, order)
    listed = sorted(first.items(), key=lambda each: (each[1].hourly_microusd, each[0]))[:MOST_WOULD_BUY]
    return [_machine(order, counts[key]) for key, order in listed] or None


def cost_of(would_buy: Iterable[Order]) -> int:
    """Micro-dollars per hour."""
    return sum(order.hourly_microusd for order in would_buy)


def would_have_cost(before: WouldHaveCost | None, hourly: int, now: datetime) -> WouldHaveCost | None:
    """As `status.wouldHaveCost`; `before` itself while that is as good: the same price, and counted lately.

    What is counted is the price that stood there until now: `hourly` counts from now on.
    """
    if before is None:
        return WouldHaveCost(total_cost=usd(0), hourly_cost=usd(hourly), since=now, at=now) if hourly else None
    paid = read_amount(before.hourly_cost) or 0
    if paid == hourly and (not hourly or now < before.at + COUNTED_EVERY):
        return before
    total = usd(would_have_paid(before, now))
    return WouldHaveCost(total_cost=total, hourly_cost=usd(hourly), since=before.since, at=now)


def would_have_paid(cost: WouldHaveCost, now: datetime) -> int:
    """Micro-dollars up to now."""
    counted = max(min(now - cost.at, LONGEST_COUNTED), timedelta())
    more = int((read_amount(cost.hourly_cost) or 0) * counted.total_seconds() / 3600)
    return (read_amount(cost.total_cost) or 0) + more


def would_have_cost_parts(counted: WouldHaveCost | None) -> dict[str, Any] | None:
    if counted is None:
        return None
    cost = {"totalCost": counted.total_cost, "hourlyCost": counted.hourly_cost}
    return {**cost, "since": rfc3339(counted.since), "at": rfc3339(counted.at)}


def _machine(order: Order, count: int) -> dict[str, Any]:
    offer = order.offer
    where = {} if offer.region == UNKNOWN_REGION else {"region": offer.region[:63]}
    return {
        "provider": offer.provider,
        "instanceType": offer.instance_type,
        **where,
        "gpuType": offer.gpu,
        "gpuCount": offer.gpu_count,
        "hourlyPrice": usd(order.hourly_microusd),
        "count": count,
    }


def limited(why: str) -> ConditionUpdate | None:
    return ConditionUpdate("Limited", True, "LimitReached", f"{why}.") if why else None


def what_remains(requests: Iterable[KubeObject[GPURequest]]) -> ConditionUpdate:
    """Of a pool that is being deleted."""
    left = sorted(requests, key=lambda each: each.key)
    attempts = [open_attempt(attempts_of(record)) for record in left]
    cost = sum(hourly_of(each) for each in attempts if each is not None)
    machines = sum(each is not None for each in attempts)
    names = ", ".join(record.key.name for record in left[:NAMES_SHOWN]) + (", …" if left[NAMES_SHOWN:] else "")
    counted = "1 machine" if machines == 1 else f"{machines} machines"
    why = f"The pool is deleted once its machines are gone: {counted} at {about(cost)}/h left ({names})."
    return ConditionUpdate("Ready", False, "Deleting", why)
