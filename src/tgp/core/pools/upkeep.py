"""What a pool does about one of its requests: leave it alone, withdraw it, or delete it: it is empty, over, or no use.

A machine is only ever ended by deleting its request: the request's own lifecycle drains it, terminates it, and shows
that it is gone.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from tgp.api.common import Condition
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, go_duration, span
from tgp.core.model.attempts import IMAGE_PREPARING, attempts_of, gpu_resource, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.requests.node_state import idle, worked_until
from tgp.core.requests.protection import protection_of
from tgp.core.requests.purchase_stops import PAUSED

DISRUPTED = "Disrupted"  # the condition of a request that its pool deletes next
EMPTY, SURPLUS, GANG = "Empty", "Surplus", "GangNotServed"  # its reasons
WITHDRAWN_AFTER = timedelta(seconds=30)  # without an offer that can be bought
PREPARED_WITHIN = timedelta(minutes=10)  # of its creation: every machine of that provider waits for the same image
FAILED_KEPT = timedelta(hours=1)  # what failed is remembered by its request for so long
MOST_FAILED = 64  # of a pool
SCHEDULED_WITHIN = timedelta(minutes=2)  # of Ready: the scheduler may not have bound the pods it was bought for yet
UNDECIDED = frozenset({"", "Waiting", "Ordering", "LaunchOutcomePending", "UnclaimedInstance", "NamespaceNotSeen"})


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """One request of a pool, with all that the decision may use."""

    record: KubeObject[GPURequest]
    pool: KubeObject[GPUNodePool]
    now: datetime
    node: Node | None = None  # that its machine has become; None: none, or not seen
    pods: tuple[Pod, ...] = ()  # that are scheduled to it
    awaited: bool = False  # the last plan has room there for a pod that is not bound yet
    given_up: str = ""  # why the last plan gave up the gang that it was bought for; empty: it did not
    oldest_failed: bool = False  # the pool has more failed requests than are kept, and this is one of the oldest


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing to do; look again at that moment, or when something changes. A mark of an earlier decision is removed."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Withdraw:
    """It cannot buy what was planned: its pods are planned for again, without that offer if it was to blame."""

    why: str
    paused: bool = False  # all purchases are, or those of its class: its offer is as good as before


@dataclass(frozen=True, slots=True)
class Disrupt:
    """Mark it, and then delete it, if the reason still holds when pods were listed once more."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Remove:
    """It is over, or its pool is."""

    why: str


Care: TypeAlias = Leave | Withdraw | Disrupt | Remove


def care_for(seen: PoolRequest) -> Care:
    record, pool = seen.record, seen.pool
    if record.deleting or record.value is None or pool.value is None:
        return Leave()  # an object of a newer version stays: it owns its machine
    if pool.deleting:
        return Remove("its pool was deleted")
    status = record.value.status
    attempt = open_attempt(attempts_of(record))
    if status.phase == "Finished":
        return Remove("it is finished")
    if status.phase == "Failed":
        return _failed(seen)
    if attempt is None:
        return Remove(seen.given_up) if seen.given_up else _waiting(seen)
    if _marked(record, "Terminating") is not None:
        return Leave()
    if (surplus := _surplus(seen, pool.value)) is not None:
        return surplus
    if (
        seen.given_up
        and idle(seen.pods, gpu_resource(attempt))
        and protection_of(record, seen.node, seen.pods, seen.now) is None
    ):
        return Disrupt(GANG, f"{seen.given_up[0].upper()}{seen.given_up[1:]}")
    return _empty(seen, pool.value)


def _failed(seen: PoolRequest) -> Care:
    ended = _marked(seen.record, "Ended")
    since = (ended.last_transition_time if ended is not None else None) or seen.now
    if seen.oldest_failed or seen.now >= since + FAILED_KEPT:
        return Remove("it failed, and is remembered no longer")
    return Leave(since + FAILED_KEPT)


def _waiting(seen: PoolRequest) -> Care:
    """A spec is immutable, so that a request whose offer is sold out or more expensive now can only be withdrawn."""
    record = seen.record
    assert record.value is not None, "checked by the caller"
    launched = next((each for each in record.value.status.conditions if each.type == "Launched"), None)
    if launched is None or launched.status != "False" or launched.reason in UNDECIDED:
        return Leave()
    attempts = attempts_of(record)
    ends = [each.ended_at for each in attempts if each.ended_at is not None]
    until = max(ends, default=launched.last_transition_time or record.created_at or seen.now) + WITHDRAWN_AFTER
    if attempts and (attempts[-1].message or "").startswith(IMAGE_PREPARING):
        until = max(until, (record.created_at or seen.now) + PREPARED_WITHIN)
    if seen.now < until:
        return Leave(until)
    return Withdraw(f"{launched.reason}: {launched.message}", paused=launched.reason in PAUSED)


def _surplus(seen: PoolRequest, pool: GPUNodePool) -> Care | None:
    """A pool with `replicas` keeps the machines of its first slots, used or not, and no others."""
    slot = slot_number(anchor_of(seen.record))
    if pool.spec.replicas is None or slot is None:
        return None
    if slot < pool.spec.replicas:
        return Leave()
    return Disrupt(SURPLUS, f"The pool has {pool.spec.replicas} replicas now")


def _empty(seen: PoolRequest, pool: GPUNodePool) -> Care:
    """No pod that uses a GPU for `consolidateAfter`. Missing evidence counts as use."""
    record, node = seen.record, seen.node
    assert record.value is not None, "checked by the caller"
    status, after = (
        record.value.status,
        span(pool.spec.disruption.consolidate_after, "spec.disruption.consolidateAfter"),
    )
    if after is NEVER or canonical_policy(pool.spec.disruption.consolidation_policy) == "Never":
        return Leave()
    if status.ready_at is None or status.idle_since is None or node is None or node.ready is not True:
        return Leave()
    resource = gpu_resource(open_attempt(attempts_of(record)))
    if seen.awaited or not idle(seen.pods, resource):
        return Leave()
    if (protection := protection_of(record, node, seen.pods, seen.now)) is not None:
        return Leave(protection.until)
    since = max(status.idle_since, worked_until(seen.pods, resource, seen.now) or status.idle_since)
    until = max(since + after, status.ready_at + SCHEDULED_WITHIN)
    if seen.now < until:
        return Leave(until)
    return Disrupt(EMPTY, f"No pod has used the GPUs for {go_duration(after)} (since {since:%H:%M:%S}Z)")


def _marked(record: KubeObject[GPURequest], kind: str) -> Condition | None:
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)


def marked_disrupted(record: KubeObject[GPURequest]) -> Condition | None:
    return _marked(record, DISRUPTED)
