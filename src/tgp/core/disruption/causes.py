"""Why a machine of a pool may be disrupted: it is empty, surplus, expired, or no longer what its pool asks for."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.api.common import Condition
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, go_duration, span
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.requests.node_state import idle, worked_until

EMPTY, SURPLUS = "Empty", "Surplus"
SCHEDULED_WITHIN = timedelta(minutes=2)  # of Ready: the scheduler may not have bound the pods it was bought for yet


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a pool, with all that a decision about it may use."""

    record: KubeObject[GPURequest]
    node: Node | None = None  # that it has become; None: none, or not seen
    pods: tuple[Pod, ...] = ()  # that are scheduled to it
    awaited: bool = False  # the last plan has room there for a pod that is not bound yet
    keeps_place: bool = False  # it is a replacement, and what it replaces is still there


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
    slot = slot_number(anchor_of(record))
    if pool.spec.replicas is not None and slot is not None and slot >= pool.spec.replicas:
        return DisruptionCause(SURPLUS, f"The pool has {pool.spec.replicas} replicas now")
    if record.value.status.ready_at is None or node is None or node.ready is not True:
        return NoCause()
    if pool.spec.replicas is not None and slot is not None:
        return NoCause()
    return _empty(machine, record.value, pool, now)


def _empty(machine: Machine, request: GPURequest, pool: GPUNodePool, now: datetime) -> DisruptionCause | NoCause:
    """No pod that uses a GPU for `consolidateAfter`."""
    status = request.status
    after = span(pool.spec.disruption.consolidate_after, "spec.disruption.consolidateAfter")
    if after is NEVER or canonical_policy(pool.spec.disruption.consolidation_policy) == "Never":
        return NoCause()
    resource = resource_of(machine.record)
    if status.idle_since is None or status.ready_at is None or machine.awaited or not idle(machine.pods, resource):
        return NoCause()
    since = max(status.idle_since, worked_until(machine.pods, resource, now) or status.idle_since)
    until = max(since + after, status.ready_at + SCHEDULED_WITHIN)
    if now < until:
        return NoCause(until)
    return DisruptionCause(EMPTY, f"No pod has used the GPUs for {go_duration(after)} (since {since:%H:%M:%S}Z)")


def resource_of(record: KubeObject[GPURequest]) -> str:
    """What its GPUs are called by Kubernetes."""
    attempt = open_attempt(attempts_of(record))
    offer = attempt.offer if attempt is not None else None
    return resource_name((offer.gpu_type or "") if offer is not None else "")


def holds(record: KubeObject[GPURequest], kind: str) -> Condition | None:
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)
