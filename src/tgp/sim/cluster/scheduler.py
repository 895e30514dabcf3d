"""The scheduler: one pod at a time to the emptiest node that may take it, or the reason why none may."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from tgp.api.resource import NODE, POD
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.component_api import condition, is_ending, key_of, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.placement import SCHEDULING_EFFECTS, Amounts, amounts, requests_of, selects, untolerated

FINISHED = ("Succeeded", "Failed")
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
UNHELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


class Scheduler(ClusterController):
    name = "default-scheduler"
    watched = (POD, NODE)

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(core, loop)
        self._used: dict[str, Amounts] = {}
        self._waiting: dict[ObjectKey, None] = {}

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        before, after = commit.before, commit.after
        if commit.served.kind == "Node":
            return list(self._waiting) if _may_help(before, after) else ()
        freed = self._account(before, after)
        if after is not None and _wants_a_node(after):
            return (*(self._waiting if freed else ()), key_of(after))
        if before is not None:
            self._waiting.pop(key_of(before), None)
        return list(self._waiting) if freed else ()

    def in_turn(self, keys: list[ObjectKey]) -> list[ObjectKey]:
        return sorted(keys, key=self._rank)

    def _rank(self, key: ObjectKey) -> tuple[int, str, ObjectKey]:
        pod = self.api.get(POD, *key)
        if pod is None:
            return (0, "", key)
        return (-(pod["spec"].get("priority") or 0), pod["metadata"]["creationTimestamp"], key)

    def _account(self, before: Json | None, after: Json | None) -> bool:
        """Keep what is in use on each node; True: something was freed."""
        old, new = _place(before), _place(after)
        if old == new:
            return False
        if before is not None and old:
            self._add(old, requests_of(before), -1)
        if after is not None and new:
            self._add(new, requests_of(after), 1)
        return bool(old)

    def _add(self, node: str, asked: Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in asked.items():
            used[name] = used.get(name, 0) + sign * amount

    def reconcile(self, key: ObjectKey) -> float | None:
        pod = self.api.get(POD, *key)
        if pod is None or not _wants_a_node(pod):
            self._waiting.pop(key, None)
            return None
        asked = requests_of(pod)
        nodes = list(self.api.all(NODE))
        verdicts = [(node, self._objections(pod, asked, node)) for node in nodes]
        fitting = [node for node, (reasons, _) in verdicts if not reasons]
        if fitting:
            self._waiting.pop(key, None)
            self._bind(pod, min(fitting, key=lambda node: self._fullness(node, asked)))
        else:
            self._waiting[key] = None
            self._refuse(pod, _why(verdicts, pod))
        return None

    def _objections(self, pod: Json, asked: Amounts, node: Json) -> tuple[list[str], bool]:
        """What the first filter that objects says, and whether evicting others could change its mind."""
        spec, taints = pod["spec"], node["spec"].get("taints") or []
        tolerations = spec.get("tolerations") or []
        if node["spec"].get("unschedulable") and untolerated(tolerations, [CORDONED], SCHEDULING_EFFECTS):
            return ["node(s) were unschedulable"], False
        if untolerated(tolerations, taints, SCHEDULING_EFFECTS):
            return ["node(s) had untolerated taint(s)"], False  # since 1.34 the scheduler no longer says which
        if not selects(spec, node):
            return ["node(s) didn't match Pod's node affinity/selector"], False
        return self._shortages(asked, node)

    def _shortages(self, asked: Amounts, node: Json) -> tuple[list[str], bool]:
        allocatable = amounts(node.get("status", {}).get("allocatable"))
        used = self._used.get(node["metadata"]["name"], {})
        short = [
            name for name, amount in asked.items() if amount and amount > allocatable.get(name, 0) - used.get(name, 0)
        ]
        reasons = ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]
        return reasons, all(asked[name] <= allocatable.get(name, 0) for name in short)

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
        self.api.bind(pod, name)
        meta = pod["metadata"]
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {name}"
        self.api.event(pod, "Normal", "Scheduled", text)

    def _refuse(self, pod: Json, why: str) -> None:
        said = condition(pod, "PodScheduled")
        if said is not None and (said.get("reason"), said.get("message")) == ("Unschedulable", why):
            return
        now = self.api.now_text()
        self.api.edit_status(
            POD,
            *key_of(pod),
            lambda status: set_condition(
                status, "PodScheduled", "False", now, reason="Unschedulable", message=why, lastProbeTime=None
            ),
        )
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


def _place(pod: Json | None) -> str:
    """The node whose resources it holds; empty: none."""
    if pod is None or pod.get("status", {}).get("phase") in FINISHED:
        return ""
    return str(pod["spec"].get("nodeName") or "")


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


def _why(verdicts: list[tuple[Json, tuple[list[str], bool]]], pod: Json) -> str:
    """The scheduler's own sentence: counts and reasons in the order of their text, then what preemption could do."""
    if not verdicts:
        return "no nodes available to schedule pods"
    total = len(verdicts)
    reasons = Counter(reason for _, (found, _) in verdicts for reason in found)
    if pod["spec"].get("preemptionPolicy") == "Never":
        preemption = "not eligible due to preemptionPolicy=Never."
    else:
        hopes = Counter(NO_VICTIMS if hope else UNHELPFUL for _, (_, hope) in verdicts)
        preemption = f"0/{total} nodes are available: {_listed(hopes)}."
    return f"0/{total} nodes are available: {_listed(reasons)}. no new claims to deallocate, preemption: {preemption}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
