"""Pods counted as they change, so that a frame is cheap with any number of pods."""

from collections import Counter
from collections.abc import Mapping

from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import PENDING, Pod
from tgp.core.model.resources import Resources

WAITING_FOR_GPU = "waiting for a GPU"
WORDS = ("running", WAITING_FOR_GPU, "pending", "terminating", "unknown")  # in the order they are shown


class PodCounts:
    """Subscribes to a store of pods."""

    def __init__(self) -> None:
        self._states: Counter[str] = Counter()
        self._on_node: Counter[str] = Counter()
        self._gpus: Counter[str] = Counter()
        self.waiting: dict[ObjectKey, Pod] = {}  # for a GPU
        self.with_gpus: dict[str, dict[ObjectKey, Pod]] = {}  # by Node

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._count(old, -1)
            self.waiting.pop(old.key, None)
            self._off_node(old)
        if new is not None:
            self._count(new, 1)
            if _state(new) == WAITING_FOR_GPU:
                self.waiting[new.key] = new
            elif new.node and not new.finished and gpus(new.requests):
                self.with_gpus.setdefault(new.node, {})[new.key] = new

    def _off_node(self, pod: Pod) -> None:
        there = self.with_gpus.get(pod.node)
        if there is not None:
            there.pop(pod.key, None)
            if not there:
                del self.with_gpus[pod.node]

    def states(self) -> Mapping[str, int]:
        return {word: self._states[word] for word in WORDS if self._states[word]}

    def pods_on(self, node: str) -> int:
        return self._on_node[node]

    def gpus_used_on(self, node: str) -> int:
        return self._gpus[node]

    def _count(self, pod: Pod, by: int) -> None:
        if pod.finished:
            return
        self._states[_state(pod)] += by
        if pod.node:
            self._add(self._on_node, pod.node, by)
            self._add(self._gpus, pod.node, by * gpus(pod.requests))

    def _add(self, counter: Counter[str], node: str, by: int) -> None:
        counter[node] += by
        if not counter[node]:
            del counter[node]  # nodes come and go; counters of old names must not stay


def gpus(amounts: Resources) -> int:
    """Whole GPUs of any vendor: `nvidia.com/gpu`, `amd.com/gpu`."""
    return sum(amount for name, amount in amounts.others if name.endswith("/gpu"))


def _state(pod: Pod) -> str:
    if pod.deleting:
        return "terminating"
    if pod.unschedulable and gpus(pod.requests):
        return WAITING_FOR_GPU
    if pod.phase == PENDING:
        return "pending"
    return pod.phase.lower() if pod.phase.lower() in WORDS else "unknown"
