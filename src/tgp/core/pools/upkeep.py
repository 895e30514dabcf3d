"""What a pool does about one of its requests: leave it, delete it to plan again, or delete it as over.

Machines that work are the business of `core/disruption`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from tgp.api.common import Condition
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.values import go_duration
from tgp.core.model.attempts import IMAGE_PREPARING, attempts_of, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.requests.purchase_stops import PAUSED

ORPHANS = "orphan"  # the finalizer of an object that is deleted and leaves what it owns, until that has lost its owner
REPLANNED_AFTER = timedelta(seconds=30)  # without an offer that can be bought
PREPARED_WITHIN = timedelta(minutes=10)  # of its creation: every machine of that provider waits for the same image
FAILED_KEPT = timedelta(hours=1)  # what failed is remembered by its request for so long
MOST_FAILED = 64  # of a pool
LIMIT_REACHED = "LimitReached"
SOLD_OUT = frozenset({"SoldOut", "Busy"})  # outcomes that are the provider's, whatever was ordered
UNDECIDED = frozenset({"", "Waiting", "Ordering", "LaunchOutcomePending", "UnclaimedInstance", "NamespaceNotSeen"})


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """One request of a pool, with all that the decision may use."""

    record: KubeObject[GPURequest]
    pool: KubeObject[GPUNodePool]
    now: datetime
    given_up: str = ""  # why the last plan gave up the gang that it was bought for; empty: it did not
    oldest_failed: bool = False  # the pool has more failed requests than are kept, and this is one of the oldest


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing to do; look again at that moment, or when something changes."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Replan:
    """It cannot buy what was planned: its pods are planned for again, without that offer if it was to blame."""

    why: str
    spared: bool = False  # its offer is as good as before: purchases are paused, or a limit is reached
    market: bool = False  # what is on sale has changed: other pools could not buy it, either


@dataclass(frozen=True, slots=True)
class Remove:
    """It is over, or its pool is."""

    why: str


Care: TypeAlias = Leave | Replan | Remove


def care_for(seen: PoolRequest) -> Care:
    record, pool = seen.record, seen.pool
    if record.deleting or record.value is None or ORPHANS in pool.finalizers:
        return Leave()  # an object of a newer version stays: it owns its machine
    if pool.deleting:
        return Remove("its pool was deleted")
    if pool.value is None:
        return Leave()  # written by a newer version: nothing is known of what it wants
    status = record.value.status
    if status.phase == "Finished":
        return Remove("it has finished")
    if status.phase == "Failed":
        return _failed(seen)
    if open_attempt(attempts_of(record)) is not None:
        return Leave()
    return Remove(seen.given_up) if seen.given_up else _waiting(seen)


def _failed(seen: PoolRequest) -> Care:
    ended = _marked(seen.record, "Ended")
    since = (ended.last_transition_time if ended is not None else None) or seen.now
    if seen.oldest_failed or seen.now >= since + FAILED_KEPT:
        return Remove(f"it failed, and the pool keeps failed requests for {go_duration(FAILED_KEPT)} at most")
    return Leave(since + FAILED_KEPT)


def _waiting(seen: PoolRequest) -> Care:
    """A spec is immutable, so that a request whose offer is sold out or more expensive now can only be deleted."""
    record = seen.record
    assert record.value is not None, "checked by the caller"
    launched = next((each for each in record.value.status.conditions if each.type == "Launched"), None)
    if launched is None or launched.status != "False" or launched.reason in UNDECIDED:
        return Leave()
    attempts = attempts_of(record)
    ends = [each.ended_at for each in attempts if each.ended_at is not None]
    until = max(ends, default=launched.last_transition_time or record.created_at or seen.now) + REPLANNED_AFTER
    if attempts and (attempts[-1].message or "").startswith(IMAGE_PREPARING):
        until = max(until, (record.created_at or seen.now) + PREPARED_WITHIN)
    if seen.now < until:
        return Leave(until)
    spared = launched.reason in {*PAUSED, LIMIT_REACHED}
    market = launched.reason == "NoOfferFits" or bool(attempts and attempts[-1].outcome in SOLD_OUT)
    return Replan(f"{launched.reason}: {launched.message}", spared, market)


def _marked(record: KubeObject[GPURequest], kind: str) -> Condition | None:
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)
