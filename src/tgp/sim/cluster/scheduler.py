"""The scheduler: one pod at a time to the emptiest node that may take it, or the reason why none may.

Filters, and what they say, are those of kube-scheduler. What it prefers is simpler here: it only decides between nodes
that may take the pod.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tgp.api.resource import NAMESPACE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json, list_at
from tgp.sim.cluster.component_api import condition, is_ending, key_of, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.placement import (
    SCHEDULING_EFFECTS,
    Amounts,
    HostPort,
    amounts,
    collide,
    host_ports,
    requests_of,
    selects,
    term_holds,
    untolerated,
)
from tgp.sim.cluster.topology import Neighbours, apart_terms, looks_at_pods
from tgp.sim.cluster.volumes import PodVolumes, bind_volumes, uses_claims, volumes_of

FINISHED = ("Succeeded", "Failed")
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
UNHELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
MOST_LIKED = 100  # the largest weight of a preference
NO_PORTS = "node(s) didn't have free ports for the requested pod ports"


class Verdict(NamedTuple):
    """What the first filter that objects to a node says; empty: the node may take the pod."""

    reasons: list[str]
    helped: bool = False  # evicting others could change its mind
    everywhere: bool = False  # no node would be better


@dataclass(frozen=True, slots=True)
class PodToPlace:
    """A pod to place, with everything about it that does not depend on the node."""

    pod: Json
    asked: Amounts
    ports: list[HostPort]
    volumes: PodVolumes | None  # None: it uses no claims
    neighbours: Neighbours | None  # None: no pod has a say in where it goes


class Scheduler(ClusterController):
    name = "default-scheduler"
    watched = (POD, NODE, NAMESPACE, PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS)

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(core, loop)
        self._used: dict[str, Amounts] = {}
        self._waiting: dict[ObjectKey, None] = {}
        self._waiting_for_pods: dict[ObjectKey, None] = {}  # those of them whose place depends on other pods' places
        self._waiting_for_volumes: dict[ObjectKey, None] = {}
        self._placed: dict[str, dict[ObjectKey, Json]] = {}  # by node
        self._repelling: dict[ObjectKey, str] = {}  # pods with anti-affinity, each with its node
        self._nominated: dict[str, dict[ObjectKey, Json]] = {}  # by node: pods that are promised room there

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        before, after = commit.before, commit.after
        kind = commit.served.kind
        if kind == "Node":
            return list(self._waiting) if _may_help(before, after) else ()
        if kind == "Namespace":
            return list(self._waiting_for_pods) if _labels(before) != _labels(after) else ()
        if kind != "Pod":
            return list(self._waiting_for_volumes)
        woken = self._account(key_of(commit.obj), before, after)
        if after is not None and _wants_a_node(after):
            return woken if before is not None and _only_status_changed(before, after) else (*woken, key_of(after))
        if before is not None:
            self._forget(key_of(before))
        return woken

    def in_turn(self, keys: list[ObjectKey]) -> list[ObjectKey]:
        return sorted(keys, key=self._rank)

    def _rank(self, key: ObjectKey) -> tuple[int, str, ObjectKey]:
        pod = self.api.get(POD, *key)
        if pod is None:
            return (0, "", key)
        return (-_priority(pod), pod["metadata"]["creationTimestamp"], key)

    def _account(self, key: ObjectKey, before: Json | None, after: Json | None) -> list[ObjectKey]:
        """Keep what is in use on each node and what is promised; answers with whom the change may help."""
        old, new = _place(before), _place(after)
        freed = old != new and bool(old)
        if old != new and before is not None and old:
            self._add(old, requests_of(before), -1)
            self._placed[old].pop(key, None)
            self._repelling.pop(key, None)
        if old != new and after is not None and new:
            self._add(new, requests_of(after), 1)
        if after is not None and new:
            self._placed.setdefault(new, {})[key] = after
            if apart_terms(after):
                self._repelling[key] = new
        if self._promise(key, _promised(before), _promised(after), after) or freed:
            return list(self._waiting)
        moved = old != new or (new and (_labels(before), _ending(before)) != (_labels(after), _ending(after)))
        return list(self._waiting_for_pods) if moved else []

    def _promise(self, key: ObjectKey, old: str, new: str, pod: Json | None) -> bool:
        """True: room that was promised is free again."""
        if old and old != new:
            self._nominated.get(old, {}).pop(key, None)
        if new and pod is not None:
            self._nominated.setdefault(new, {})[key] = pod
        return bool(old) and old != new

    def _add(self, node: str, asked: Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in asked.items():
            used[name] = used.get(name, 0) + sign * amount

    def _forget(self, key: ObjectKey) -> None:
        for waiting in (self._waiting, self._waiting_for_pods, self._waiting_for_volumes):
            waiting.pop(key, None)

    def _remember(self, key: ObjectKey, pod: Json) -> None:
        self._waiting[key] = None
        if looks_at_pods(pod):
            self._waiting_for_pods[key] = None
        if uses_claims(pod):
            self._waiting_for_volumes[key] = None

    def reconcile(self, key: ObjectKey) -> float | None:
        pod = self.api.get(POD, *key)
        if pod is None or not _wants_a_node(pod):
            self._forget(key)
            return None
        verdicts = self.verdicts(pod, self.api.all(NODE))
        fitting = [node for node, verdict in verdicts if not verdict.reasons]
        if fitting:
            self._forget(key)
            self._bind(pod, self._best(pod, fitting))
        else:
            self._remember(key, pod)
            self._refuse(pod, _why(verdicts, pod))
        return None

    def verdicts(self, pod: Json, nodes: list[Json]) -> list[tuple[Json, Verdict]]:
        """Which of these nodes may take it, as if there were no others."""
        volumes = volumes_of(self.api, pod) if uses_claims(pod) else None
        if volumes is not None and volumes.refused:
            return [(node, Verdict([volumes.refused], everywhere=True)) for node in nodes]
        placed = PodToPlace(pod, requests_of(pod), host_ports(pod), volumes, self._neighbours(pod, nodes))
        return [(node, self._verdict(placed, node, nodes)) for node in nodes]

    def _neighbours(
        self, pod: Json, nodes: list[Json], crowded: str = "", guests: list[Json] | None = None
    ) -> Neighbours | None:
        """With `guests` as if they ran on the node `crowded` already."""
        own = looks_at_pods(pod)
        repelling = set(self._repelling.values())
        if any(apart_terms(guest) for guest in guests or ()):
            repelling.add(crowded)
        if not own and not repelling:
            return None
        namespaces = {
            each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in self.api.all(NAMESPACE)
        }

        def pods_on(name: str) -> list[Json]:
            return [*self._placed.get(name, {}).values(), *((guests or ()) if name == crowded else ())]

        return Neighbours(pod, nodes, pods_on, namespaces, repelling)

    def _verdict(self, placed: PodToPlace, node: Json, nodes: list[Json]) -> Verdict:
        """Both with the pods that are promised room on the node, and without them: they may never come."""
        pod, name = placed.pod, node["metadata"]["name"]
        guests = [
            guest
            for key, guest in self._nominated.get(name, {}).items()
            if key != key_of(pod) and _priority(guest) >= _priority(pod)
        ]
        if guests:
            crowded = PodToPlace(
                pod, placed.asked, placed.ports, placed.volumes, self._neighbours(pod, nodes, name, guests)
            )
            found = self._objections(crowded, node, guests)
            if found.reasons:
                return found
        return self._objections(placed, node, [])

    def _objections(self, placed: PodToPlace, node: Json, guests: list[Json]) -> Verdict:
        pod = placed.pod
        spec, taints = pod["spec"], node["spec"].get("taints") or []
        tolerations = spec.get("tolerations") or []
        if node["spec"].get("unschedulable") and untolerated(tolerations, [CORDONED], SCHEDULING_EFFECTS):
            return Verdict(["node(s) were unschedulable"])
        if untolerated(tolerations, taints, SCHEDULING_EFFECTS):
            return Verdict(["node(s) had untolerated taint(s)"])  # since 1.34 the scheduler no longer says which
        if not selects(spec, node):
            return Verdict(["node(s) didn't match Pod's node affinity/selector"])
        if placed.ports and any(collide(placed.ports, host_ports(other)) for other in self._pods_on(node, guests)):
            return Verdict([NO_PORTS], helped=True)
        short = self._shortages(placed.asked, node, guests)
        if short.reasons:
            return short
        elsewhere = placed.volumes.objection(node) if placed.volumes is not None else ""
        if elsewhere:
            return Verdict([elsewhere])
        objection = placed.neighbours.objection(node) if placed.neighbours is not None else None
        return Verdict([]) if objection is None else Verdict([objection[0]], objection[1])

    def _pods_on(self, node: Json, guests: list[Json]) -> Iterable[Json]:
        return (*self._placed.get(node["metadata"]["name"], {}).values(), *guests)

    def _shortages(self, asked: Amounts, node: Json, guests: list[Json]) -> Verdict:
        allocatable = amounts(node.get("status", {}).get("allocatable"))
        used = self._used.get(node["metadata"]["name"], {})
        if guests:
            used = dict(used)
            for guest in guests:
                for name, amount in requests_of(guest).items():
                    used[name] = used.get(name, 0) + amount
        short = [
            name for name, amount in asked.items() if amount and amount > allocatable.get(name, 0) - used.get(name, 0)
        ]
        reasons = ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]
        return Verdict(reasons, all(asked[name] <= allocatable.get(name, 0) for name in short))

    def _best(self, pod: Json, fitting: list[Json]) -> Json:
        promised, asked = _promised(pod), requests_of(pod)
        own = next((node for node in fitting if node["metadata"]["name"] == promised), None)
        if own is not None:
            return own
        written = "preferredDuringSchedulingIgnoredDuringExecution"
        preferred = list_at(pod, "spec", "affinity", "nodeAffinity", written)
        return min(fitting, key=lambda node: (-_liked(pod, preferred, node), *self._fullness(node, asked)))

    def _fullness(self, node: Json, asked: Amounts) -> tuple[float, str]:
        """Least allocated first, over cpu and memory, as the stock scheduler scores; then by name."""
        allocatable = amounts(node.get("status", {}).get("allocatable"))
        used = self._used.get(node["metadata"]["name"], {})
        shares = [
            (used.get(name, 0) + asked.get(name, 0)) / allocatable[name]
            for name in ("cpu", "memory")
            if allocatable.get(name)
        ]
        return (round(sum(shares), 9), node["metadata"]["name"])

    def _bind(self, pod: Json, node: Json) -> None:
        name = node["metadata"]["name"]
        if uses_claims(pod):
            bind_volumes(self.api, volumes_of(self.api, pod), node)
        self.api.bind(pod, name)
        meta = pod["metadata"]
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {name}"
        self.api.event(pod, "Normal", "Scheduled", text)

    def _refuse(self, pod: Json, why: str) -> None:
        """Room that was promised is promised no longer, unless the pod never preempts: so does the real one."""
        said = condition(pod, "PodScheduled")
        known = said is not None and (said.get("reason"), said.get("message")) == ("Unschedulable", why)
        promised = bool(_promised(pod)) and pod["spec"].get("preemptionPolicy") != "Never"
        if known and not promised:
            return
        now = self.api.now_text()

        def edit(status: Json) -> None:
            if promised:
                status.pop("nominatedNodeName", None)
            if not known:
                set_condition(
                    status, "PodScheduled", "False", now, reason="Unschedulable", message=why, lastProbeTime=None
                )

        self.api.edit_status(POD, *key_of(pod), edit)
        if not known:
            self.api.event(pod, "Warning", "FailedScheduling", why)


def _wants_a_node(pod: Json) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", Scheduler.name) == Scheduler.name
        and pod.get("status", {}).get("phase") not in FINISHED
        and not is_ending(pod)
    )


def _only_status_changed(before: Json, after: Json) -> bool:
    """Such a change makes no pod schedulable, so that the scheduler does not try it again."""
    old, new = before["metadata"], after["metadata"]
    same = all(old.get(name) == new.get(name) for name in ("labels", "annotations", "deletionTimestamp"))
    return same and before["spec"] == after["spec"] and _wants_a_node(before)


def _place(pod: Json | None) -> str:
    """The node whose resources it holds; empty: none."""
    if pod is None or pod.get("status", {}).get("phase") in FINISHED:
        return ""
    return str(pod["spec"].get("nodeName") or "")


def _promised(pod: Json | None) -> str:
    """The node that is keeping room for it; empty: none, or it needs none any more."""
    if pod is None or not _wants_a_node(pod):
        return ""
    return str(pod.get("status", {}).get("nominatedNodeName") or "")


def _priority(pod: Json) -> int:
    return int(pod["spec"].get("priority") or 0)


def _labels(obj: Json | None) -> Json | None:
    return obj["metadata"].get("labels") if obj is not None else None


def _ending(obj: Json | None) -> bool:
    return obj is not None and is_ending(obj)


def _liked(pod: Json, preferred: list[Json], node: Json) -> int:
    """Preferred node affinity, less what taints ask softly."""
    taints = node["spec"].get("taints")
    if not preferred and not taints:
        return 0
    labels, fields = node["metadata"].get("labels") or {}, {"metadata.name": node["metadata"]["name"]}
    liked = sum(each["weight"] for each in preferred if term_holds(each["preference"], labels, fields))
    soft = [taint for taint in taints or () if taint["effect"] == "PreferNoSchedule"]
    disliked = [t for t in soft if untolerated(pod["spec"].get("tolerations") or (), [t], ("PreferNoSchedule",))]
    return int(liked) - MOST_LIKED * len(disliked)


def _may_help(before: Json | None, after: Json | None) -> bool:
    """A heartbeat makes no pod schedulable."""
    if before is None or after is None:
        return True
    return any(
        (
            before["spec"] != after["spec"],
            before["metadata"].get("labels") != after["metadata"].get("labels"),
            before.get("status", {}).get("allocatable") != after.get("status", {}).get("allocatable"),
        )
    )


def _why(verdicts: list[tuple[Json, Verdict]], pod: Json) -> str:
    """The scheduler's own sentence: counts and reasons in the order of their text, then what preemption could do."""
    if not verdicts:
        return "no nodes available to schedule pods"
    total = len(verdicts)
    reasons = _listed(Counter(reason for _, verdict in verdicts for reason in verdict.reasons))
    first = verdicts[0][1]
    if first.everywhere:  # said before any node was looked at, so without a count
        reasons = first.reasons[0]
    if pod["spec"].get("preemptionPolicy") == "Never":
        preemption = "not eligible due to preemptionPolicy=Never."
    else:
        hopes = Counter(NO_VICTIMS if verdict.helped else UNHELPFUL for _, verdict in verdicts)
        preemption = f"0/{total} nodes are available: {_listed(hopes)}."
    return f"0/{total} nodes are available: {reasons}. no new claims to deallocate, preemption: {preemption}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
