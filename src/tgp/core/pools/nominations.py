"""Which waiting pods are nominated to a Node: those the plan has there, where another pod could take the room.

kube-scheduler binds pods to whatever becomes ready first. A pod that runs anywhere takes the expensive machine, and
the pod that needs it would cost a second one. A pod that is nominated while its Node cannot be scheduled to yet keeps
its room there.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tgp.api.request import GPURequest
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.taints import untolerated
from tgp.core.pools.capacity import taken_by, with_pods
from tgp.core.pools.demand import asks_for_gpus
from tgp.core.pools.planner.world import Capacity
from tgp.core.requests.own_node import is_own_node

SUPPORTED_MINOR = 35  # of Kubernetes 1: older schedulers may clear a nomination that is not theirs
# Seconds without a removal before nominations are written again. Doubled each time that one was not kept for HELD_S.
QUIET_S, LONGEST_QUIET_S, HELD_S = 0.5, 8.0, 1.0
LATEST_S = 5.0  # after the first removal: where Nodes come and go all the time it is never quiet

Shape: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PricedRoom:
    """Room on a Ready Node, or on a machine on its way."""

    room: Capacity
    hourly_microusd: int = 0  # 0: nothing is paid for it by the hour
    request: KubeObject[GPURequest] | None = None  # of a machine on its way; None: the Node is Ready
    node: Node | None = None  # of the name that is reserved for that machine, whosever it is; None: there is none
    pods: tuple[str, ...] = ()  # uids of those it was bought for, or that a later plan gives it to


@dataclass(frozen=True, slots=True)
class Nomination:
    pod: Pod
    node: str
    request: KubeObject[GPURequest]


@dataclass(slots=True)
class RenominationPace:
    """When nominations that the scheduler removed are written again: all of them, once it removes no more.

    The scheduler removes a nomination whenever it tries the pod in vain, and tries the other pods again whenever one is
    removed. One that is written meanwhile is removed as well, and so on without an end.
    """

    first: float | None = None  # removal since they were written last (boottime); None: there was none
    last: float = 0.0
    written_at: float = float("-inf")
    quiet_s: float = QUIET_S

    def removed(self, now: float) -> None:
        """By the scheduler, or it could not be written."""
        if self.first is None:
            self.first = now
            self.quiet_s = min(2 * self.quiet_s, LONGEST_QUIET_S) if now - self.written_at < HELD_S else QUIET_S
        self.last = now

    def written(self, now: float) -> None:
        self.first, self.written_at = None, now

    @property
    def due(self) -> float | None:
        """When they are written again; None: none was removed."""
        if self.first is None:
            return None
        return min(self.last + self.quiet_s, self.first + max(LATEST_S, self.quiet_s))


def supports_nominations(version: str) -> bool:
    """`version`: the API server's, as it reports it. One that cannot be read supports nothing."""
    major, _, rest = version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    return major == "1" and minor.isdigit() and int(minor) >= SUPPORTED_MINOR


def node_of(machine: PricedRoom) -> str:
    """The Node whose room it is; empty: there is none yet, or the Node of that name is not ours."""
    if machine.room.coming is None:
        return machine.room.name
    node, request = machine.node, machine.request
    ours = node is not None and request is not None and not node.deleting and is_own_node(request, node)
    return node.name if ours and node is not None else ""


def nominations(waiting: Iterable[Pod], machines: Sequence[PricedRoom], nodes: Collection[str]) -> list[Nomination]:
    """In the order of the machines. A pod that is bound, being deleted, or nominated already is left alone.

    `nodes`: the names of all Nodes. A nomination to another one is of a machine that is gone, and counts as none.
    """
    asking = (pod for pod in waiting if asks_for_gpus(pod))
    pods = {uid_text(pod.uid): _without_gone(pod, nodes) for pod in asking}
    if len({each.hourly_microusd for each in machines}) < 2:
        return []
    shapes: dict[Shape, list[Pod]] = {}
    for pod in pods.values():
        shapes.setdefault(_shape(pod), []).append(pod)
    found = []
    for machine in machines:
        request, planned = machine.request, [pods[uid] for uid in machine.pods if uid in pods]
        if request is None or all(pod.nominated_node for pod in planned):
            continue
        if (node := node_of(machine)) and _contested(machine, planned, shapes, machines):
            there = [pod for pod in pods.values() if pod.nominated_node == node]
            found += [Nomination(pod, node, request) for pod in _fitting(planned, machine.room, there)]
    return found


def _without_gone(pod: Pod, nodes: Collection[str]) -> Pod:
    gone = pod.nominated_node and pod.nominated_node not in nodes
    return msgspec.structs.replace(pod, nominated_node="") if gone else pod


def _contested(
    machine: PricedRoom, planned: Sequence[Pod], shapes: dict[Shape, list[Pod]], machines: Sequence[PricedRoom]
) -> bool:
    """Whether a pod unlike those it was bought for fits there, and on a machine of another price, too."""
    own = {_shape(pod) for pod in planned}
    bought_for = set(machine.pods)
    others = [each.room for each in machines if each.hourly_microusd != machine.hourly_microusd]
    for shape, alike in shapes.items():
        if own == {shape} or all(uid_text(pod.uid) in bought_for for pod in alike):
            continue
        if _fits(alike[0], machine.room) and any(_fits(alike[0], room) for room in others):
            return True
    return False


def _fitting(planned: Iterable[Pod], room: Capacity, there: Iterable[Pod]) -> list[Pod]:
    """As many of the pods as have room beside those that are nominated to it already."""
    left, found = with_pods(room, there), []
    for pod in planned:
        if not pod.nominated_node and _fits(pod, left):
            left = with_pods(left, (pod,))
            found.append(pod)
    return found


def _fits(pod: Pod, room: Capacity) -> bool:
    selected = all(room.labels.get(name) == value for name, value in pod.node_selector.items())
    return (
        selected
        and taken_by(pod).fits_in(room.free)
        and pod.affinity.admits_node(room.name, room.labels)
        and untolerated(room.taints, pod.tolerations) is None
        and uid_text(pod.uid) not in room.refused
    )


def _shape(pod: Pod) -> Shape:
    """Pods of one shape could take each other's place on every machine."""
    return (tuple(sorted(pod.node_selector.items())), pod.affinity.node_terms, pod.tolerations, pod.requests)
