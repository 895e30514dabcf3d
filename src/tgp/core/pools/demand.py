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
from tgp.core.pools.planner.classes import GANG, GANG_SIZE, MAX_PRICE, MAX_WAIT
from tgp.core.pools.planner.world import NO_POOL, Capacity, PoolReason, Unserved

GPU_VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/")
# Other ways to name a gang. Both are labels; LeaderWorkerSet writes its size as an annotation.
POD_GROUP = "scheduling.x-k8s.io/pod-group"
WORKER_GROUP, WORKER_GROUP_SIZE = "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/size"
MOST_GANG = 10_000  # pods: a larger number is an error
LONGEST = 253  # characters of an annotation that is read, as of any name
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


def asks_for_gpus(pod: Pod) -> bool:
    """Whether the pod waits for a node with GPUs, by a pool or otherwise. Cheap: it is asked for every change."""
    return pod.unschedulable and not pod.finished and not pod.of_daemon_set and (pod.claims_devices or bool(_gpus(pod)))


def demand_of(pods: Iterable[Pod], schedulers: frozenset[str], room: Mapping[str, Capacity]) -> Demand:
    """`room`: by Node, what is or will soon be free there, so that a pod nominated to it needs no machine."""
    wanted, refused, ignored = [], [], []
    nominated: list[Pod] = []
    left = dict(room)
    for pod in sorted(pods, key=lambda each: each.key):
        if not asks_for_gpus(pod) or pod.gates:
            continue
        if _nominated(pod, left):
            left[pod.nominated_node] = with_pods(left[pod.nominated_node], (pod,))
            nominated.append(msgspec.structs.replace(pod, annotations=read_annotations(pod)[0]))
            continue
        reason = _refusal(pod, schedulers)
        if reason is not None:
            refused.append(Unserved(pod, (reason,)))
            continue
        annotations, problems = read_annotations(pod)
        wanted.append(msgspec.structs.replace(pod, annotations=annotations))
        ignored += [IgnoredAnnotation(pod, problem) for problem in problems]
    return Demand(tuple(wanted), tuple(refused), tuple(ignored), tuple(nominated))


def read_annotations(pod: Pod) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What the pod says of its price, its patience and its gang, and what cannot be read of it."""
    gang, size = pod.annotations.get(GANG), pod.annotations.get(GANG_SIZE)
    if gang is None and WORKER_GROUP in pod.labels:
        gang, size = pod.labels[WORKER_GROUP], size or pod.annotations.get(WORKER_GROUP_SIZE)
    if gang is None:
        gang = pod.labels.get(POD_GROUP)
    price, wait = pod.annotations.get(MAX_PRICE), pod.annotations.get(MAX_WAIT)
    return _read(*(text and text[: LONGEST + 1] for text in (price, wait, gang, size)))


@lru_cache(maxsize=ANNOTATIONS_KEPT)
def _read(
    price: str | None, wait: str | None, gang: str | None, size: str | None
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Cached, so that pods that say the same share one mapping: by that a plan tells them alike quickly."""
    problems = []
    if gang and len(gang) > LONGEST:
        problems.append(f"Annotation {GANG} is ignored: {gang[:64]!r}… is longer than {LONGEST} characters")
        gang = None
    said = {MAX_PRICE: price, MAX_WAIT: wait, GANG: gang or None, GANG_SIZE: size if gang else None}
    for name, check in ((MAX_PRICE, _price), (MAX_WAIT, _wait), (GANG_SIZE, _size)):
        written = said[name]
        if written is not None and (why := check(written)):
            problems.append(f"Annotation {name} is ignored: {written[:64]!r} {why}")
            said[name] = None
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


def _size(text: str) -> str:
    whole = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_GANG))
    return "" if whole and 1 <= int(text) <= MOST_GANG else f"is no whole number from 1 to {MOST_GANG}"


def _gpus(pod: Pod) -> tuple[str, ...]:
    return tuple(name for name, amount in pod.requests.others if amount > 0 and name.startswith(GPU_VENDORS))


def _refusal(pod: Pod, schedulers: frozenset[str]) -> PoolReason | None:
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
    there = room.get(pod.nominated_node) if pod.nominated_node else None
    return there is not None and uid_text(pod.uid) not in there.refused and pod.requests.fits_in(there.free)
