"""Pods of Deployments: made again where one is gone, bound where there is room, gone with their Node. No kubelets.

What the controllers of Deployments, the scheduler and the eviction from silent Nodes do, a second after each change.
All pods have the same priority, so that a nomination keeps room from all others. Here the scheduler removes none.
"""

import asyncio
from collections import Counter
from contextvars import Context

from tgp.api.resource import DEPLOYMENT, NODE, POD
from tgp.api.values import rfc3339
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.sim.apiserver.json_value import Json
from tgp.sim.fast.objects import FastCommit, Objects

GPU = "nvidia.com/gpu"
PAUSE = 1.0  # seconds between a change and what is done about it
NOWHERE = (True, True, 0, "")
EVICTED_AFTER = 300.0  # seconds: what every pod tolerates a Node for that is not Ready
KEEPS_OFF, SOFT = frozenset({"NoSchedule", "NoExecute"}), frozenset({"PreferNoSchedule"})


class Pods:
    def __init__(self, objects: Objects, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._objects = objects
        self._loop = loop
        self._clock = clock
        self._due = False
        self._made = 0
        self._away: dict[str, float] = {}  # by Node: since when it is not Ready
        for resource in (DEPLOYMENT, POD, NODE):
            objects.listen(resource, self._changed)

    def _changed(self, _commit: FastCommit) -> None:
        if not self._due:
            self._due = True
            self._loop.call_later(PAUSE, self._look, context=Context())

    def _look(self) -> None:
        self._due = False
        nodes = {_name(node): node for node in self._objects.all(NODE)}
        self._notice(nodes)
        sets = {each["metadata"]["uid"]: each for each in self._objects.all(DEPLOYMENT)}
        there = dict.fromkeys(sets, 0)
        for pod in self._owned():
            node, owner = pod["spec"].get("nodeName", ""), _owner(pod)
            if (
                owner not in sets
                or there[owner] >= sets[owner]["spec"]["replicas"]
                or (node and self._lost(node, nodes))
            ):
                self._objects.delete(POD, _key(pod))
            else:
                there[owner] += 1
        for uid, count in there.items():
            for _ in range(sets[uid]["spec"]["replicas"] - count):
                self._make(sets[uid])
        self._schedule(nodes)

    def _owned(self) -> list[Json]:
        return [pod for pod in self._objects.all(POD) if pod["metadata"].get("ownerReferences")]

    def _notice(self, nodes: dict[str, Json]) -> None:
        """Since when Nodes are not Ready."""
        now = self._loop.time()
        self._away = {name: self._away.get(name, now) for name, node in nodes.items() if not _is_ready(node)}
        if now in self._away.values():
            self._loop.call_later(EVICTED_AFTER + PAUSE, self._look, context=Context())

    def _lost(self, node: str, nodes: dict[str, Json]) -> bool:
        return node not in nodes or self._loop.time() - self._away.get(node, float("inf")) >= EVICTED_AFTER

    def _make(self, owner: Json) -> None:
        self._made += 1
        meta, template = owner["metadata"], owner["spec"]["template"]
        by = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"]}
        made = {
            **template["metadata"],
            "name": f"{meta['name']}-{self._made}",
            "namespace": meta["namespace"],
            "ownerReferences": [{**by, "controller": True}],
        }
        self._objects.create(POD, {"metadata": made, "spec": dict(template["spec"]), "status": {"phase": "Pending"}})

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def _schedule(self, nodes: dict[str, Json]) -> None:
        pods = self._owned()
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        free = {name: _gpus_of(node) for name, node in nodes.items() if _is_ready(node)}
        for pod in pods:
            if (name := pod["spec"].get("nodeName", "")) in free:
                free[name] -= _gpus_asked(pod)
        kept = Counter[str]()  # GPUs by Node, for pods that are nominated there
        for pod in waiting:
            kept[_nominated(pod)] += _gpus_asked(pod)
        for pod in waiting:
            asked, nominated = _gpus_asked(pod), _nominated(pod)
            kept[nominated] -= asked  # what is left is for others
            fitting = [
                each for each in free if free[each] - kept[each] >= asked and _admits(nodes[each], pod, KEEPS_OFF)
            ]
            chosen = min((_rank(nodes[each], pod, free[each]) for each in fitting), default=NOWHERE)[-1]
            if chosen:
                free[chosen] -= asked
            else:
                kept[nominated] += asked
            self._place(pod, chosen)

    def _place(self, pod: Json, node: str) -> None:
        """On that Node; empty: nowhere, which its condition says."""
        now = rfc3339(self._clock.now().replace(microsecond=0))
        placed = {
            "type": "PodScheduled",
            "status": "True" if node else "False",
            "reason": "" if node else "Unschedulable",
        }
        held: Json = next(iter(pod["status"].get("conditions", ())), {})
        if not node and held:
            return
        status: Json = {"conditions": [{**placed, "lastTransitionTime": now}]}
        if node:
            status |= {"phase": "Running", "startTime": now}
        self._objects.replace(POD, _key(pod), {"status": status, **({"spec": {"nodeName": node}} if node else {})})


def _rank(node: Json, pod: Json, free: int) -> tuple[bool, bool, int, str]:
    """The Node that it was nominated to; else one without a soft taint, the emptiest first."""
    return (_nominated(pod) != _name(node), not _admits(node, pod, SOFT), -free, _name(node))


def _admits(node: Json, pod: Json, effects: frozenset[str]) -> bool:
    taints = [each for each in node["spec"].get("taints") or () if each["effect"] in effects]
    off = node["spec"].get("unschedulable") and "NoSchedule" in effects
    return not off and all(any(_covers(each, taint) for each in pod["spec"].get("tolerations", ())) for taint in taints)


def _covers(toleration: Json, taint: Json) -> bool:
    """Tolerations here name a key, or all of them."""
    return toleration.get("key", taint["key"]) == taint["key"] and toleration.get("operator") == "Exists"


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _gpus_of(node: Json) -> int:
    return int(node["status"].get("allocatable", {}).get(GPU, 0))


def _gpus_asked(pod: Json) -> int:
    return sum(int(each["resources"]["requests"].get(GPU, 0)) for each in pod["spec"]["containers"])


def _nominated(pod: Json) -> str:
    """The Node that keeps room for it; empty: none."""
    return str(pod["status"].get("nominatedNodeName") or "")


def _owner(pod: Json) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["uid"])


def _key(obj: Json) -> ObjectKey:
    return ObjectKey(obj["metadata"]["namespace"], _name(obj))


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])
