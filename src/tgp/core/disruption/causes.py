"""Why a machine of a pool may be disrupted: it is empty, surplus, of a gang that was given up, unhealthy, expired,
drifted, its provider will take it back, or it could be exchanged for a cheaper one.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.api.common import Condition
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, go_duration, span
from tgp.core.disruption.drift import STAMP, has_drifted, unmet_requirement
from tgp.core.disruption.health import HealthProblem
from tgp.core.model.attempts import (
    attempts_of,
    end_words,
    gpu_resource,
    is_owned,
    machine_words,
    open_attempt,
    taken_back_at,
)
from tgp.core.model.conditions import begun
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.pools.orders import MOVE, anchor_of, slot_number
from tgp.core.pools.planner.sources import RESTART_HOURS
from tgp.core.pools.runaway import SCHEDULED_WITHIN
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.moments import PROVIDER_END_SPARE
from tgp.core.requests.node_metadata import future_node
from tgp.core.requests.node_state import idle, worked_until
from tgp.core.requests.termination_reasons import cause_in

EMPTY, SURPLUS, EXPIRED, DRIFTED, GANG = "Empty", "Surplus", "Expired", "Drifted", "GangNotServed"
ILL, LEAVING = "Ill", "Leaving"
UNDERUTILIZED = "Underutilized"
BUDGETED = (EMPTY, DRIFTED, EXPIRED, UNDERUTILIZED)
WHEN_UNDERUTILIZED = "WhenEmptyOrUnderutilized"  # the policy
NOT_BUDGETED = frozenset({SURPLUS, GANG})  # no working pod loses its machine, or a user asked for it
FORCED = frozenset({ILL, LEAVING})  # the machine will not serve its pods for long, whether they move or not
IN_DOUBT = frozenset({("ProviderReachable", "False"), ("ProviderInconsistent", "True")})
LEAVING_AHEAD = timedelta(minutes=30)  # besides a measured boot time: the replacement may need a second try


@dataclass(frozen=True, slots=True)
class FoundExchange:
    """An exchange that a machine leaves in, by the last search for cheaper machines."""

    message: str
    candidates: tuple[ObjectKey, ...]  # requests of machines that leave together, this one included, in order
    saving_microusd: int = 0  # an hour, of all of them
    rank: int = 0  # the best saving per restart is 0
    buys: bool = True  # machines, and the saving has held for long enough; False: its pods go into room that is there


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a pool, with all that a decision about it may use."""

    record: KubeObject[GPURequest]
    node: Node | None = None  # that it has become; None: none, or not seen
    pods: tuple[Pod, ...] = ()  # that are scheduled to it
    awaited: bool = False  # the last plan has room there for a pod that is not bound yet
    keeps_place: bool = False  # it is a replacement, and what it replaces is still there
    spare: bool = False  # no pod uses it, and another machine has the slot that it was bought for
    stamp: str = ""  # the drift hash of what pool and class say now; empty: the class is not known
    boot: timedelta = timedelta(0)  # how long a machine of its type took to be ready; 0: not measured
    health_problem: HealthProblem | None = None  # what is wrong with it; None: nothing that is known
    missing_since: datetime | None = None  # promised GPUs are gone from its Node; None: they are there, or not known
    given_up: str = ""  # why the last plan gave up the gang that it was bought for; empty: it did not
    stays_until: datetime | None = None  # of a machine you own: not switched off before; None: it may be now
    exchange: FoundExchange | None = None  # None: no search found one that is worth it
    too_little: str = ""  # what the best exchange would save, which is too little; empty: none was found
    unproven: str = ""  # an exchange that is worth it now, and when it begins if it still is; empty: there is none
    limited: str = ""  # the limit that keeps it from being exchanged; empty: none does


@dataclass(frozen=True, slots=True)
class Standing:
    """A machine of a pool, with what it costs."""

    machine: Machine
    pool: GPUNodePool
    hourly_microusd: int
    spot_loss: float = 0.0  # the chance that it is lost within an hour; 0: it is no spot machine
    paid_microusd: int = 0  # of a begun billing step: for time that has not passed yet
    changed_at: datetime | None = None  # when a pod last came or went; None: not known
    received_at: datetime | None = None  # when pods of a machine that left were last to come; None: not known
    stopped: str = ""  # why its pool buys nothing now, in text for users; empty: it may

    @property
    def key(self) -> ObjectKey:
        return self.machine.record.key

    @property
    def expected_microusd(self) -> int:
        return expected_microusd(self.hourly_microusd, self.spot_loss)


def expected_microusd(hourly: int, spot_loss: float) -> int:
    """An hour, with what the loss of a spot machine is expected to cost."""
    return round(hourly * (1 + spot_loss * RESTART_HOURS))


@dataclass(frozen=True, slots=True)
class DisruptionCause:
    reason: str
    message: str
    waits_until: datetime | None = None  # for what protects the Node or the request; None: for ever, or not at all


@dataclass(frozen=True, slots=True)
class NoCause:
    """It stays; look again at that moment, or when something changes."""

    until: datetime | None = None


def cause_of(machine: Machine, pool: GPUNodePool, now: datetime) -> DisruptionCause | NoCause:
    """Of a machine that works. Missing evidence counts as use."""
    record, node = machine.record, machine.node
    if record.deleting or record.value is None or holds(record, "Terminating") is not None:
        return NoCause()  # an object of a newer version stays: it owns its machine
    if open_attempt(attempts_of(record)) is None or machine.keeps_place or power_in_doubt(record):
        return NoCause()
    stays = machine.stays_until if machine.stays_until is not None and now < machine.stays_until else None
    if stays is None and (unneeded := _unneeded(machine, pool)) is not None:
        return unneeded
    if record.value.status.ready_at is None or node is None:
        return NoCause(stays)
    problem = machine.health_problem
    look_at = problem.due if problem is not None else None
    if problem is not None and now >= problem.due:
        return DisruptionCause(ILL, problem.what)  # a Node that is not Ready may be unhealthy for that
    if node.ready is not True:
        return NoCause(_earliest(stays, look_at))
    leaving = _leaving(machine, now)
    if stays is not None:  # no other cause is worth switching it now
        return leaving if isinstance(leaving, DisruptionCause) else NoCause(_earliest(stays, look_at, leaving.until))
    replica = pool.spec.replicas is not None and slot_number(anchor_of(record)) is not None
    empty = NoCause() if replica else _empty(machine, record.value, pool, now)
    if isinstance(empty, DisruptionCause):
        return empty  # it needs no replacement
    expired = _expired(machine, pool, now)
    for each in (leaving, expired):
        if isinstance(each, DisruptionCause):
            return each
    if why := _drifted(machine, pool):
        return DisruptionCause(DRIFTED, why)
    if why := _underutilized(machine, pool):
        return DisruptionCause(UNDERUTILIZED, why)
    moments = [each.until for each in (empty, leaving, expired) if isinstance(each, NoCause)]
    return NoCause(_earliest(look_at, *moments))


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((each for each in moments if each is not None), default=None)


def _unneeded(machine: Machine, pool: GPUNodePool) -> DisruptionCause | None:
    """Whether or not it is Ready."""
    slot = slot_number(anchor_of(machine.record))
    if pool.spec.replicas is not None and slot is not None and slot >= pool.spec.replicas:
        return DisruptionCause(SURPLUS, f"Pool has {pool.spec.replicas} replicas now")
    if pool.spec.replicas is not None and machine.spare:
        return DisruptionCause(SURPLUS, f"Another machine serves as replica {slot} of the pool")
    if machine.given_up and idle(machine.pods, gpu_resource(open_attempt(attempts_of(machine.record)))):
        return DisruptionCause(GANG, f"{machine.given_up[0].upper()}{machine.given_up[1:]}")
    return None


def _leaving(machine: Machine, now: datetime) -> DisruptionCause | NoCause:
    """Early enough to bring its replacement, and to drain it before its provider takes it back."""
    attempt = open_attempt(attempts_of(machine.record))
    end = taken_back_at(attempt)
    if attempt is None or end is None:
        return NoCause()
    drain = drain_grace(machine.record) or timedelta(0)
    begins = end - drain - PROVIDER_END_SPARE - machine.boot - LEAVING_AHEAD
    if now < begins:
        return NoCause(begins)
    return DisruptionCause(LEAVING, end_words(attempt, end, now))


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
    which = begun(machine_words(attempt)) if attempt is not None else "Machine"
    why = f"{which} was launched at {since:%Y-%m-%d %H:%M:%S}Z, and expireAfter is {go_duration(life)}"
    grace = drain_grace(machine.record)
    return DisruptionCause(EXPIRED, why, since + life + grace if grace is not None else None)


def drain_grace(record: KubeObject[GPURequest]) -> timedelta | None:
    """How long its drain waits for pods; None: for ever, or it cannot be read."""
    if record.value is None:
        return None
    grace = span(record.value.spec.termination_grace_period, "spec.terminationGracePeriod")
    return None if grace is NEVER else grace


def _drifted(machine: Machine, pool: GPUNodePool) -> str:
    """Why, in text for users; empty: the machine is what pool and class ask for."""
    record, attempt = machine.record, open_attempt(attempts_of(machine.record))
    if record.value is None or attempt is None or attempt.offer is None:
        return ""
    which = begun(machine_words(attempt))
    if pool.spec.template.spec.requirements:
        labels = future_node(record, offer_of(attempt.offer), pool).labels
        if unmet := unmet_requirement(pool, labels):
            found = labels.get(unmet) or "no such label"
            return f"{which} no longer meets the pool's requirement on {unmet}: it has {found}"
    if has_drifted(record.annotations.get(STAMP, ""), machine.stamp):
        return f"Talos settings, taints or mesh backend have changed since {machine_words(attempt)} was ordered"
    return ""


def _empty(machine: Machine, request: GPURequest, pool: GPUNodePool, now: datetime) -> DisruptionCause | NoCause:
    """No pod that uses a GPU for `consolidateAfter`."""
    status = request.status
    after = span(pool.spec.disruption.consolidate_after, "spec.disruption.consolidateAfter")
    if after is NEVER or canonical_policy(pool.spec.disruption.consolidation_policy) == "Never":
        return NoCause()
    attempt = open_attempt(attempts_of(machine.record))
    resource = gpu_resource(attempt)
    if status.idle_since is None or status.ready_at is None or machine.awaited or not idle(machine.pods, resource):
        return NoCause()
    since = max(status.idle_since, worked_until(machine.pods, resource, now) or status.idle_since)
    until = max(since + after, status.ready_at + SCHEDULED_WITHIN)
    if now < until:
        return NoCause(until)
    assert attempt is not None, "a machine that was Ready has an attempt"
    unused = f"No pod has used the GPUs of {machine_words(attempt)}"
    return DisruptionCause(EMPTY, f"{unused} for {go_duration(after)} (since {since:%H:%M:%S}Z)")


def _underutilized(machine: Machine, pool: GPUNodePool) -> str:
    """Why, in text for users; empty: it is not. A move that has begun goes on by what its condition says."""
    if canonical_policy(pool.spec.disruption.consolidation_policy) != WHEN_UNDERUTILIZED:
        return ""
    if machine.exchange is not None:
        return machine.exchange.message
    held = holds(machine.record, "Disrupted")
    begun = held is not None and held.reason == UNDERUTILIZED and MOVE in machine.record.annotations
    return cause_in(held.message or "") if held is not None and begun else ""


def power_in_doubt(record: KubeObject[GPURequest]) -> bool:
    """Whether a machine you own is not switched: its status errs, or contradicts its Node. Meanwhile it serves pods."""
    attempt = open_attempt(attempts_of(record))
    conditions = record.value.status.conditions if record.value is not None else ()
    signs = {(each.type, each.status) for each in conditions}
    return attempt is not None and is_owned(attempt) and not signs.isdisjoint(IN_DOUBT)


def holds(record: KubeObject[GPURequest], kind: str) -> Condition | None:
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)
