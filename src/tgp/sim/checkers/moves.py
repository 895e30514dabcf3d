"""The invariants about machines that leave their pool: D1 to D3.

What is ours to say is read from the objects alone: the condition `Disrupted`, the annotations of a move, the taint.
"""

from datetime import datetime, timedelta

import msgspec

from tgp.api.nodepool import DisruptionRule
from tgp.api.resource import GPU_NODE_POOL, NODE, POD
from tgp.core.disruption.budgets import allowance
from tgp.sim.apiserver.json_value import Json
from tgp.sim.checkers.leader_terms import CountedWait, LeaderTerms
from tgp.sim.checkers.recorded import RecordedRequest, is_ready
from tgp.sim.checkers.recorder import Checker, Recorder

TAINT = "tgp.io/disrupted"
HARD = "NoSchedule"
MOVE, REPLACES = "tgp.io/move", "tgp.io/replaces"
WITH_PODS = frozenset({"Drifted", "Expired", "Underutilized", "Ill", "Leaving"})  # pods may run there
BUDGETED = frozenset({"Empty", "Drifted", "Expired", "Underutilized"})
SEEN_WITHIN = 60.0  # seconds: what was true so long ago may have been decided on
DEAD_FOR = 600.0  # seconds until the taint of a move that is over is gone
GPU = "nvidia.com/gpu"


class ReplacedFirst(Checker):
    """D1: a request is deleted for a move only when its replacements were Ready, or other Nodes have room for its pods.

    Pods are evicted for nothing else than a request that ends. Where users deleted all its pods while the replacements
    booted, nothing is left to be replaced: no pod may have left since the operator kept others off the Node.
    """

    invariant = "D1"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._ready: dict[str, float] = {}  # by name of a Node: when it was last seen Ready
        self._kept_free: dict[str, None] = {}  # Nodes that pods with GPUs left while they had our taint

    def registered(self, before: Json | None, after: Json | None) -> None:
        for node in (before, after):
            if node is not None and is_ready(node):
                self._ready[node["metadata"]["name"]] = self.recorder.now

    def worked(self, before: Json | None, after: Json | None) -> None:
        name = before["spec"].get("nodeName") if before is not None and _leaves(before, after) else None
        node = self.recorder.world.api.local_api.get(NODE, "", name) if name else None
        if node is not None and before is not None and HARD in _effects(node) and _gpus(before):
            self._kept_free[node["metadata"]["name"]] = None

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if before is None or before.is_ending or after is None or not after.deleting:
            return
        move = _annotations(after).get(MOVE)
        if not move or _reason(after) not in WITH_PODS:
            return
        replacements = [
            each
            for each in self.recorder.claims.values()
            if _annotations(each).get(MOVE) == move and REPLACES in _annotations(each)
        ]
        deserted = self._used(after.node) == 0 and after.node not in self._kept_free
        for each in replacements:
            if not deserted and not self._was_ready(each):
                self.blame(f"{after.name} goes ({_reason(after)}) before its replacement {each.name} is ready")
        if not replacements and (needed := self._used(after.node)) > (free := self._free(after.node)):
            self.blame(
                f"{after.name} goes ({_reason(after)}): its pods use {needed} GPUs, and {free} are free elsewhere"
            )

    def _was_ready(self, claim: RecordedRequest) -> bool:
        node = self.recorder.world.api.local_api.get(NODE, "", claim.node) if claim.node else None
        return node is not None and (
            is_ready(node) or self.recorder.now - self._ready.get(claim.node, -SEEN_WITHIN) <= SEEN_WITHIN
        )

    def _free(self, without: str) -> int:
        """GPUs on Ready Nodes that pods may be bound to, without this one."""
        free = 0
        for node in self.recorder.world.api.local_api.objects(NODE):
            name = node["metadata"]["name"]
            if name == without or not is_ready(node) or HARD in _effects(node):
                continue
            free += max(int(node["status"].get("allocatable", {}).get(GPU, 0)) - self._used(name), 0)
        return free

    def _used(self, name: str) -> int:
        used = 0
        for pod in self.recorder.world.api.local_api.objects(POD):
            there = pod["spec"].get("nodeName") == name and "deletionTimestamp" not in pod["metadata"]
            if there and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                used += _gpus(pod)
        return used


class WithinDisruptionBudgets(Checker):
    """D2: no more nodes of a pool are disrupted at once than every budget that applies allows.

    By budgets and clock of the last minute: what was decided before a change may be written after it.
    """

    invariant = "D2"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._changed: dict[str, float] = {}  # by uid of a pool: when its budgets were last changed

    def registered(self, before: Json | None, after: Json | None) -> None:
        if after is None or HARD not in _effects(after) or (before is not None and HARD in _effects(before)):
            return
        claim = next((each for each in self.recorder.claims.values() if each.node == after["metadata"]["name"]), None)
        if claim is not None and not claim.is_ending and _reason(claim) in BUDGETED:
            self._judge(claim)

    def pooled(self, before: Json | None, after: Json | None) -> None:
        rules = [each["spec"].get("disruption") if each is not None else None for each in (before, after)]
        if after is not None and before is not None and rules[0] != rules[1]:
            self._changed[after["metadata"]["uid"]] = self.recorder.now

    def _judge(self, claim: RecordedRequest) -> None:
        pool = _pool(claim)
        ready = [each for each in self.recorder.claims.values() if pool and _pool(each) == pool and _was_ready(each)]
        moves = {_annotations(each).get(MOVE) for each in ready if REPLACES not in _annotations(each)}
        members = [
            each for each in ready if REPLACES not in _annotations(each) or _annotations(each).get(MOVE) not in moves
        ]
        found = next(
            (
                each
                for each in self.recorder.world.api.local_api.objects(GPU_NODE_POOL)
                if each["metadata"]["uid"] == pool
            ),
            None,
        )
        if found is None or self.recorder.now - self._changed.get(pool, -SEEN_WITHIN) < SEEN_WITHIN:
            return
        rows = (found["spec"].get("disruption") or {}).get("budgets") or ()
        rules = [msgspec.convert(row, DisruptionRule) for row in rows]
        counted = sum(self._disrupted(each) for each in members)
        now = self.recorder.world.clock.now()
        most = max(self._most(rules, _reason(claim), len(members), moment) for moment in _moments(now))
        if counted > most:
            self.blame(f"{counted} of {len(members)} nodes of {found['metadata']['name']} are disrupted, {most} may be")

    @staticmethod
    def _most(rules: list[DisruptionRule], reason: str, nodes: int, now: datetime) -> int:
        return allowance(rules, reason, nodes, 0, now).left

    def _disrupted(self, claim: RecordedRequest) -> bool:
        if _reason(claim) not in BUDGETED:
            return False
        node = self.recorder.world.api.local_api.get(NODE, "", claim.node)
        return claim.is_ending or (node is not None and HARD in _effects(node))


class NoTaintOfDeadMoves(Checker):
    """D3: the taint of a move that is over is gone within 10 minutes, under a leader who had the time."""

    invariant = "D3"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._waits: dict[str, CountedWait] = {}  # by name of a Node with the taint
        self._terms = LeaderTerms()
        self._looked_at = recorder.now

    def leased(self, lease: Json) -> None:
        self.look(self.recorder.now)
        self._terms.held(str(lease["spec"].get("holderIdentity") or ""), self.recorder.now)

    def registered(self, before: Json | None, after: Json | None) -> None:
        node = after or before
        assert node is not None, "a commit is about something"
        name = node["metadata"]["name"]
        if after is None or not _effects(after):
            self._waits.pop(name, None)
        else:
            self._waits.setdefault(name, CountedWait())

    def look(self, now: float) -> None:
        passed, self._looked_at = now - self._looked_at, now
        for name, wait in list(self._waits.items()):
            if any(each.node == name and _moves(each) for each in self.recorder.claims.values()):
                self._waits[name] = CountedWait()
            elif self._terms.passed(wait, passed) > DEAD_FOR and any(
                each.node == name for each in self.recorder.claims.values()
            ):
                self.blame(f"Node {name} has the taint of a move that is over")


def _gpus(pod: Json) -> int:
    containers = pod["spec"].get("containers", ())
    return sum(int(each.get("resources", {}).get("requests", {}).get(GPU, 0)) for each in containers)


def _leaves(before: Json, after: Json | None) -> bool:
    """Is its deletion new?"""
    return "deletionTimestamp" not in before["metadata"] and (after is None or "deletionTimestamp" in after["metadata"])


def _moments(now: datetime) -> tuple[datetime, ...]:
    return (now, now - timedelta(seconds=SEEN_WITHIN))


def _annotations(claim: RecordedRequest) -> Json:
    return claim.obj["metadata"].get("annotations") or {}


def _reason(claim: RecordedRequest) -> str:
    found = claim.condition("Disrupted")
    return str(found.get("reason") or "") if found.get("status") == "True" else ""


def _pool(claim: RecordedRequest) -> str:
    owners = claim.obj["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in owners if each.get("kind") == "GPUNodePool"), "")


def _was_ready(claim: RecordedRequest) -> bool:
    return bool((claim.obj.get("status") or {}).get("readyAt"))


def _moves(claim: RecordedRequest) -> bool:
    annotations = _annotations(claim)
    return claim.is_ending or (MOVE in annotations and REPLACES not in annotations)


def _effects(node: Json) -> list[str]:
    return [str(each.get("effect")) for each in node["spec"].get("taints") or () if each.get("key") == TAINT]
