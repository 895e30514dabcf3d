"""Which machines of a pool a search for cheaper ones may empty, and why it leaves the others alone."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.values import NEVER, go_duration, span
from tgp.core.disruption.causes import WHEN_UNDERUTILIZED, Machine, Standing
from tgp.core.disruption.machine_state import (
    CONDITION,
    bare_pod,
    move_of,
    pods_to_move,
    read_retry,
    received_at,
    unevictable,
)
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.conditions import condition_in
from tgp.core.model.costs import cost_of, hourly_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.spend import INSTANT
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.capacity import serves
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.pools.planner.world import ASSUMED_SPOT_LOSS, PlannedPool, SpotKind
from tgp.core.requests.node_metadata import pool_key
from tgp.core.requests.protection import protection_of

SETTLED_FOR = timedelta(hours=1)  # after a machine became Ready, or took pods of another one
NEVER_BUYS = "it only observes, or its class is missing"
HELD_FOR = timedelta(hours=1)  # a saving at market prices: one that is gone soon is not worth a restart


def standing_of(
    machine: Machine,
    pool: GPUNodePool,
    losses: Mapping[SpotKind, float],
    now: datetime,
    *,
    billing_step: timedelta = INSTANT,
    changed_at: datetime | None = None,
) -> Standing | None:
    """None: what it costs is not known. `losses`: of spot machines, an hour."""
    attempt = open_attempt(attempts_of(machine.record))
    if attempt is None or attempt.offer is None or machine.node is None:
        return None
    offer = attempt.offer
    loss = losses.get((offer.provider, offer.gpu_type or ""), ASSUMED_SPOT_LOSS) if offer.spot else 0.0
    paid = cost_of(attempt, now, billing_step) - cost_of(attempt, now)
    return Standing(machine, pool, hourly_of(attempt), loss, paid, changed_at, received_at(machine.record))


def why_left(standing: Standing, budgets: Iterable[PodDisruptionBudget], now: datetime) -> str:
    """Why a machine is no candidate, in text for users; empty: it may be emptied."""
    machine, disruption = standing.machine, standing.pool.spec.disruption
    after = span(disruption.consolidate_after, "spec.disruption.consolidateAfter")
    if canonical_policy(disruption.consolidation_policy) != WHEN_UNDERUTILIZED or after is NEVER:
        return f"Pool does not move pods: consolidationPolicy is {disruption.consolidation_policy}"
    if standing.stopped:
        return f"Pool buys nothing now: {standing.stopped}"
    if slot_number(anchor_of(machine.record)) is not None and standing.pool.spec.replicas is not None:
        return "Machine belongs to spec.replicas"
    if machine.node is None or not serves(machine.node) or move_of(machine.record) or _leaves(machine):
        return "Node is not Ready, or is being removed"
    protection = protection_of(machine.record, machine.node, machine.pods, now)
    if protection is not None:
        return protection.text
    if machine.stays_until is not None and now < machine.stays_until:
        return "Machine is kept on by its minOnTime or keepOn"
    pods = pods_to_move(machine.pods)
    if bare := bare_pod(pods):
        return bare
    if machine.awaited:
        return "Machine is reserved for a pending pod"
    if why := unevictable(pods, budgets):
        return why
    until, _ = read_retry(machine.record)
    if until is not None and now < until:
        return f"Last move was cancelled; next attempt at {until:%Y-%m-%d %H:%M:%S}Z"
    return _unsettled(standing, after, now)


def with_stopped(standing: Iterable[Standing], pools: Iterable[PlannedPool]) -> tuple[Standing, ...]:
    """With what stops the pool of each. `pools`: those of a plan, which has none that only observe."""
    stops = {each.key: each.stopped.partition(": ")[2] for each in pools}
    keys = ((each, pool_key(each.machine.record)) for each in standing)
    return tuple(
        replace(each, stopped=stops.get(key, NEVER_BUYS) if key is not None else NEVER_BUYS) for each, key in keys
    )


def begins_at(candidates: Iterable[ObjectKey], worth_since: Mapping[ObjectKey, datetime], now: datetime) -> datetime:
    """Of an exchange that buys machines: when its saving has held for long enough.

    `worth_since`: of each machine, since when every search has found an exchange that is worth it.
    """
    return max((worth_since.get(key, now) for key in candidates), default=now) + HELD_FOR


def _leaves(machine: Machine) -> bool:
    """Whether a move is said to be under way."""
    held = condition_in(machine.record.status, CONDITION)
    return machine.record.deleting or (held is not None and held.status is True) or machine.keeps_place


def _unsettled(standing: Standing, after: timedelta, now: datetime) -> str:
    machine = standing.machine
    began = [each for pod in machine.pods if (each := pod.accepted_at or pod.created_at) is not None]
    changed = max([*began, *((standing.changed_at,) if standing.changed_at is not None else ())], default=None)
    if changed is not None and now < changed + after:
        return f"Pods changed at {changed:%H:%M:%S}Z; consolidateAfter is {go_duration(after)}"
    ready = machine.record.value.status.ready_at if machine.record.value is not None else None
    if ready is None:
        return "Machine is not Ready yet"
    if standing.received_at is not None and now < standing.received_at + SETTLED_FOR:
        at = f"{standing.received_at:%H:%M:%S}Z"
        return f"Pods were moved to the machine at {at}, less than {go_duration(SETTLED_FOR)} ago"
    if now < ready + SETTLED_FOR:
        return f"Machine became Ready at {ready:%H:%M:%S}Z, less than {go_duration(SETTLED_FOR)} ago"
    return ""
