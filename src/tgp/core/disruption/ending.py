"""Machines that go once no pod uses them: room there is not free, since pods that move there keep the machine.

A machine that nothing uses goes soon, and so does one that only pods use which run to completion, when these have
ended. A pod that is moved there from a cheaper machine would save that one and keep the more expensive one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, span
from tgp.core.disruption.causes import expected_microusd
from tgp.core.model.attempts import attempts_of, gpu_resource, open_attempt
from tgp.core.model.costs import hourly_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.pools.planner.world import ASSUMED_SPOT_LOSS, Capacity, SpotKind
from tgp.core.requests.node_state import users


@dataclass(frozen=True, slots=True)
class EndingMachine:
    """One that goes once no pod uses it."""

    hourly_microusd: int  # with what its loss is expected to cost
    resource: str  # its GPUs


@dataclass(frozen=True, slots=True)
class MovingPod:
    pod: Pod
    hourly_microusd: int  # what its machine costs


def ending_machine(
    record: KubeObject[GPURequest], pool: GPUNodePool | None, losses: Mapping[SpotKind, float]
) -> EndingMachine | None:
    """`pool`: that wrote it; None: a user did. None as the answer: it stays, or what it costs is not known."""
    attempt = open_attempt(attempts_of(record))
    if record.value is None or attempt is None or attempt.offer is None or _stays(record, record.value, pool):
        return None
    offer = attempt.offer
    loss = losses.get((offer.provider, offer.gpu_type or ""), ASSUMED_SPOT_LOSS) if offer.spot else 0.0
    return EndingMachine(expected_microusd(hourly_of(attempt), loss), gpu_resource(attempt))


def with_refused(
    rooms: Iterable[Capacity], ending: Mapping[str, EndingMachine], moving: Iterable[MovingPod]
) -> tuple[Capacity, ...]:
    """Rooms in which no pod is planned that would keep a machine which costs as much as the one that it leaves."""
    pods = tuple(moving)
    found: dict[tuple[int, bool], frozenset[str]] = {}  # by price, and whether pods use it that end: uids

    def refused(room: Capacity) -> frozenset[str]:
        about = ending.get(room.name)
        if about is None or (used := _used_for_a_while(room, about)) is None:
            return frozenset()
        key = about.hourly_microusd, used
        if key not in found:
            costs = (each for each in pods if about.hourly_microusd >= each.hourly_microusd)
            kept = (each.pod for each in costs if not (used and each.pod.runs_to_completion))
            found[key] = frozenset(uid_text(pod.uid) for pod in kept)
        return found[key]

    return tuple(replace(each, refused=each.refused | more) if (more := refused(each)) else each for each in rooms)


def kept_microusd(
    rooms: Iterable[Capacity], ending: Mapping[str, EndingMachine], coming: Mapping[str, Iterable[Pod]]
) -> int:
    """What machines cost an hour that would go without the pods that come. `coming`: by name of a room."""
    kept = 0
    for room in rooms:
        about, pods = ending.get(room.name), coming.get(room.name, ())
        used = _used_for_a_while(room, about) if about is not None and pods else None
        if about is not None and used is not None and not (used and all(pod.runs_to_completion for pod in pods)):
            kept += about.hourly_microusd
    return kept


def _used_for_a_while(room: Capacity, about: EndingMachine) -> bool | None:
    """None: other pods use it, which stay. False: no pod does."""
    using = list(users(room.pods, about.resource))
    return bool(using) if all(pod.runs_to_completion for pod in using) else None


def _stays(record: KubeObject[GPURequest], request: GPURequest, pool: GPUNodePool | None) -> bool:
    """Also while nothing uses it."""
    if pool is None:
        return span(request.spec.idle_timeout, "spec.idleTimeout") is NEVER
    disruption = pool.spec.disruption
    if pool.spec.replicas is not None and slot_number(anchor_of(record)) is not None:
        return True
    after = span(disruption.consolidate_after, "spec.disruption.consolidateAfter")
    return after is NEVER or canonical_policy(disruption.consolidation_policy) == "Never"
