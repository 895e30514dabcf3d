"""Which pods machines may be bought for, and why not for the others that ask for GPUs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType

import msgspec

from tgp.api.field_error import Invalid
from tgp.api.values import duration, microusd
from tgp.core.model.gpus import GPU_RESOURCES
from tgp.core.model.labels import NO_LABELS
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import with_pods
from tgp.core.pools.planner.classes import (
    CHECKPOINT_EVERY,
    GANG,
    GANG_SIZE,
    LONGEST_GANG,
    MAX_PRICE,
    MAX_WAIT,
    WORKER_GROUP,
    WORKER_GROUP_SIZE,
    gang_name,
    written_gang,
)
from tgp.core.pools.planner.world import NO_POOL, Capacity, PoolReason, Unserved

GPU_VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/")
MOST_GANG = 10_000  # pods: a larger number is an error
ANNOTATIONS_KEPT = 4_096  # distinct ones whose reading is cached


@dataclass(frozen=True, slots=True)
class IgnoredAnnotation:
    """An annotation of a pod that cannot be read, and so counts as absent."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class Demand:
    pods: tuple[Pod, ...] = ()  # may be planned for; annotations are only those that a plan reads
    refused: tuple[Unserved, ...] = ()  # ask for GPUs, and no plan can serve them
    ignored: tuple[IgnoredAnnotation, ...] = ()
    nominated: tuple[Pod, ...] = ()  # have room on the Node they are nominated to; annotations as above

    @property
    def held_gangs(self) -> dict[str, str]:
        """Gangs with a pod that is refused, and its name: nothing may be bought for the others."""
        return {gang: each.pod.key.name for each in self.refused if (gang := gang_name(each.pod))}


def asks_for_gpus(pod: Pod) -> bool:
    """Whether the pod waits for a node with GPUs, by a pool or otherwise. Cheap: it is asked for every change."""
    return pod.unschedulable and not pod.finished and not pod.of_daemon_set and requests_gpus(pod)


def asks_the_same(one: Pod, other: Pod) -> bool:
    """Whether a plan for one of them holds for the other, both as they were written.

    Tolerations, annotations, labels and sizes may be edited while a pod waits.
    """
    return _placed_by(one) == _placed_by(other) and read_annotations(one)[0] == read_annotations(other)[0]


def _placed_by(pod: Pod) -> tuple[object, ...]:
    sizes = (pod.requests, pod.host_ports, pod.volume_claims, pod.claims_devices, pod.gates)
    where = (pod.node_selector, pod.affinity, pod.tolerations, pod.spreads, pod.labels)
    return (*sizes, *where, pod.priority, pod.scheduler)


def requests_gpus(pod: Pod) -> bool:
    return pod.claims_devices or bool(_gpus(pod))


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What a plan reads of a pod that waits for GPUs. It depends on the pod alone."""

    written: Pod
    pod: Pod  # the same, with only those annotations that a plan reads
    refusal: PoolReason | None = None  # why no plan can serve it; None: one may
    problems: tuple[str, ...] = ()  # of annotations that cannot be read


def demand_of_pod(pod: Pod, schedulers: frozenset[str]) -> PodDemand | None:
    """None: it does not ask for a machine."""
    if not asks_for_gpus(pod) or pod.gates:
        return None
    annotations, problems = read_annotations(pod)
    read = msgspec.structs.replace(pod, annotations=annotations)
    return PodDemand(pod, read, refusal_of(pod, schedulers), problems)


def demand_of(
    asking: Iterable[PodDemand], room: Mapping[str, Capacity], used_up: Mapping[str, str] = MappingProxyType({})
) -> Demand:
    """`asking`: in the order of their keys.

    `room`: by Node, what is or will soon be free there, so that a pod nominated to it needs no machine.

    `used_up`: by uid, of pods whose budget would stop them as they start: why.
    """
    wanted, refused, ignored = [], [], []
    nominated: list[Pod] = []
    left = dict(room)
    for each in asking:
        pod = each.written
        if pod.nominated_node and _nominated(pod, left):
            left[pod.nominated_node] = with_pods(left[pod.nominated_node], (pod,))
            nominated.append(each.pod)
        elif each.refusal is not None:
            refused.append(Unserved(pod, (each.refusal,)))
        elif why := used_up.get(uid_text(pod.uid)):
            refused.append(Unserved(pod, (PoolReason(NO_POOL, "BudgetUsedUp", why),)))
        else:
            wanted.append(each.pod)
            ignored += [IgnoredAnnotation(pod, problem) for problem in each.problems]
    return Demand(tuple(wanted), tuple(refused), tuple(ignored), tuple(nominated))


def read_annotations(pod: Pod) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What the pod says of its price, its patience, its gang and its work, and what cannot be read of it."""
    gang, size = written_gang(pod), pod.annotations.get(GANG_SIZE)
    if size is None and GANG not in pod.annotations and WORKER_GROUP in pod.labels:
        size = pod.annotations.get(WORKER_GROUP_SIZE)
    price, wait = pod.annotations.get(MAX_PRICE), pod.annotations.get(MAX_WAIT)
    every = pod.annotations.get(CHECKPOINT_EVERY)
    return _read(*(text and text[: LONGEST_GANG + 1] for text in (price, wait, gang, size, every)))


@lru_cache(maxsize=ANNOTATIONS_KEPT)
def _read(
    price: str | None, wait: str | None, gang: str | None, size: str | None, every: str | None
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Cached, so that pods that say the same share one mapping: by that a plan tells them alike quickly."""
    problems = []
    if gang and len(gang) > LONGEST_GANG:
        problems.append(f"Annotation {GANG} is ignored: {gang[:64]!r}… is longer than {LONGEST_GANG} characters")
        gang = None
    elif gang is None and size is not None:
        problems.append(f"Annotation {GANG_SIZE} is ignored: it says how many pods {GANG} has, which is absent")
    said = {MAX_PRICE: price, MAX_WAIT: wait, GANG: gang or None, GANG_SIZE: size if gang else None}
    said[CHECKPOINT_EVERY] = every
    for name, check in ((MAX_PRICE, _price), (MAX_WAIT, _wait), (GANG_SIZE, _size), (CHECKPOINT_EVERY, _every)):
        written = said[name]
        if written is not None and (why := check(written)):
            problems.append(f"Annotation {name} is ignored: {written[:64]!r} {why}")
            said[name] = None
    if said[MAX_WAIT] is not None and price is None:
        problems.append(f"Annotation {MAX_WAIT} is ignored: it says how long {MAX_PRICE} holds, which is absent")
        said[MAX_WAIT] = None
    kept = {name: text for name, text in said.items() if text is not None}
    return MappingProxyType(kept) if kept else NO_LABELS, tuple(problems)


def _price(text: str) -> str:
    try:
        microusd(text, MAX_PRICE)
    except Invalid:
        return 'is no price in dollars per GPU and hour, such as "1.50"'
    return ""


def _wait(text: str) -> str:
    try:
        return "" if duration(text, MAX_WAIT) >= timedelta(0) else "is negative"
    except (Invalid, OverflowError):
        return "is no duration, such as 30m"


def _every(text: str) -> str:
    try:
        return "" if duration(text, CHECKPOINT_EVERY) >= timedelta(0) else "is negative"
    except (Invalid, OverflowError):
        return "is no duration, such as 30m"


def _size(text: str) -> str:
    whole = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_GANG))
    return "" if whole and 1 <= int(text) <= MOST_GANG else f"is no whole number from 1 to {MOST_GANG}"


def _gpus(pod: Pod) -> tuple[str, ...]:
    return tuple(name for name, amount in pod.requests.others if amount > 0 and name.startswith(GPU_VENDORS))


def refusal_of(pod: Pod, schedulers: frozenset[str]) -> PoolReason | None:
    """Why no plan can serve a pod that requests GPUs; None: one may."""
    if pod.scheduler not in schedulers:
        names = ", ".join(sorted(schedulers))
        why = (
            f"pods of scheduler {pod.scheduler} are not planned for: the operator's setting schedulerNames has {names}"
        )
        return PoolReason(NO_POOL, "AnotherScheduler", why)
    if pod.claims_devices:
        why = "machines are not bought for pods with resource claims: request nvidia.com/gpu or amd.com/gpu instead"
        return PoolReason(NO_POOL, "ResourceClaims", why)
    unknown = [name for name in _gpus(pod) if name not in GPU_RESOURCES]
    if unknown:
        why = f"no machine provides {', '.join(unknown)}: request whole GPUs, nvidia.com/gpu or amd.com/gpu"
        return PoolReason(NO_POOL, "UnknownResource", why)
    return None


def _nominated(pod: Pod, room: Mapping[str, Capacity]) -> bool:
    """The scheduler makes room for it on a Node, or was told that the Node's machine was bought for it."""
    there = room.get(pod.nominated_node)
    return there is not None and uid_text(pod.uid) not in there.refused and pod.requests.fits_in(there.free)
