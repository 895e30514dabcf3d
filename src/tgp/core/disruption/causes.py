"""Why a machine of a pool may be disrupted: it is empty, surplus, expired, of a gang that was given up, or drifted."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.api.common import Condition
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, go_duration, span
from tgp.core.disruption.drift import STAMP, has_drifted, unmet_requirement
from tgp.core.model.attempts import attempts_of, gpu_resource, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.pools.runaway import SCHEDULED_WITHIN
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.node_metadata import future_node
from tgp.core.requests.node_state import idle, worked_until

EMPTY, SURPLUS, EXPIRED, DRIFTED, GANG = "Empty", "Surplus", "Expired", "Drifted", "GangNotServed"
NOT_BUDGETED = frozenset({SURPLUS, GANG})  # no working pod loses its machine, or a user asked for it


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a pool, with all that a decision about it may use."""

    record: KubeObject[GPURequest]
    node: Node | None = None  # that it has become; None: none, or not seen
    pods: tuple[Pod, ...] = ()  # that are scheduled to it
    awaited: bool = False  # the last plan has room there for a pod that is not bound yet
    keeps_place: bool = False  # it is a replacement, and what it replaces is still there
    stamp: str = ""  # the drift hash of what pool and class say now; empty: the class is not known
    boot: timedelta = timedelta(0)  # how long a machine of its type took to be ready; 0: not measured
    given_up: str = ""  # why the last plan gave up the gang that it was bought for; empty: it did not
    stays_until: datetime | None = None  # of a machine you own: not switched off before; None: it may be now


@dataclass(frozen=True, slots=True)
class DisruptionCause:
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NoCause:
    """It stays; look again at that moment, or when something changes."""

    until: datetime | None = None


def cause_of(machine: Machine, pool: GPUNodePool, now: datetime) -> DisruptionCause | NoCause:
    """Of a machine that works. Missing evidence counts as use."""
    record, node = machine.record, machine.node
    if record.deleting or record.value is None or holds(record, "Terminating") is not None:
        return NoCause()  # an object of a newer version stays: it owns its machine
    if open_attempt(attempts_of(record)) is None or machine.keeps_place:
        return NoCause()
    if machine.stays_until is not None and now < machine.stays_until:
        return NoCause(machine.stays_until)
    slot = slot_number(anchor_of(record))
    if pool.spec.replicas is not None and slot is not None and slot >= pool.spec.replicas:
        return DisruptionCause(SURPLUS, f"The pool has {pool.spec.replicas} replicas now")
    if machine.given_up and idle(machine.pods, gpu_resource(open_attempt(attempts_of(record)))):
        return DisruptionCause(GANG, f"{machine.given_up[0].upper()}{machine.given_up[1:]}")
    if record.value.status.ready_at is None or node is None or node.ready is not True:
        return NoCause()
    replica = pool.spec.replicas is not None and slot is not None
    empty = NoCause() if replica else _empty(machine, record.value, pool, now)
    if isinstance(empty, DisruptionCause):
        return empty  # it needs no replacement
    expired = _expired(machine, pool, now)
    if isinstance(expired, DisruptionCause):
        return expired
    if why := _drifted(machine, pool):
        return DisruptionCause(DRIFTED, why)
    return NoCause(min((each for each in (empty.until, expired.until) if each is not None), default=None))


def _expired(machine: Machine, pool: GPUNodePool, now: datetime) -> DisruptionCause | NoCause:
    """A boot time before its end, so that the replacement is ready by then."""
    life = span(pool.spec.disruption.expire_after, "spec.disruption.expireAfter")
    attempt = open_attempt(attempts_of(machine.record))
    since = (attempt.launched_at if attempt is not None else None) or machine.record.created_at
    if life is NEVER or since is None:
        return NoCause()
    begins = since + life - machine.boot
    if now < begins:
        return NoCause(begins)
    why = f"Machine was launched at {since:%Y-%m-%d %H:%M:%S}Z, and expireAfter is {go_duration(life)}"
    return DisruptionCause(EXPIRED, why)


def _drifted(machine: Machine, pool: GPUNodePool) -> str:
    """Why, in text for users; empty: the machine is what pool and class ask for."""
    record, attempt = machine.record, open_attempt(attempts_of(machine.record))
    if record.value is None or attempt is None or attempt.offer is None:
        return ""
    labels = future_node(record, offer_of(attempt.offer), pool).labels
    if unmet := unmet_requirement(pool, labels):
        return (
            f"Machine no longer meets the pool's requirement on {unmet}: it has {labels.get(unmet) or 'no such label'}"
        )
    if has_drifted(record.annotations.get(STAMP, ""), machine.stamp):
        return "Talos settings, taints or mesh backend have changed since the machine was ordered"
    return ""


def _empty(machine: Machine, request: GPURequest, pool: GPUNodePool, now: datetime) -> DisruptionCause | NoCause:
    """No pod that uses a GPU for `consolidateAfter`."""
    status = request.status
    after = span(pool.spec.disruption.consolidate_after, "spec.disruption.consolidateAfter")
    if after is NEVER or canonical_policy(pool.spec.disruption.consolidation_policy) == "Never":
        return NoCause()
    resource = gpu_resource(open_attempt(attempts_of(machine.record)))
    if status.idle_since is None or status.ready_at is None or machine.awaited or not idle(machine.pods, resource):
        return NoCause()
    since = max(status.idle_since, worked_until(machine.pods, resource, now) or status.idle_since)
    until = max(since + after, status.ready_at + SCHEDULED_WITHIN)
    if now < until:
        return NoCause(until)
    return DisruptionCause(EMPTY, f"No pod has used the GPUs for {go_duration(after)} (since {since:%H:%M:%S}Z)")


def holds(record: KubeObject[GPURequest], kind: str) -> Condition | None:
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)
