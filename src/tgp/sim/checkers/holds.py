"""The invariants about what budgets hold, B1 and B2: pauses, finalizers and gates go with their reason."""

from typing import Any

from tgp.api.resource import GPU_WORKLOAD_BUDGET, JOB, POD
from tgp.core.budgets.admission import GATE
from tgp.core.budgets.pause import PAUSED_AT, PAUSED_BY
from tgp.core.model.labels import LabelRequirement, selector
from tgp.core.model.pod import COUNTED
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.checkers.recorder import Violation
from tgp.sim.world import World

OUTLIVES = 60.0  # seconds that a mark may stay after its reason, while an operator leads
FINISHED = ("Succeeded", "Failed")
STOPPING = ("Evict", "Pause")


class HoldsWatch:
    """B1: nothing of ours outlives its reason while an operator leads. B2: nothing finished is paused.

    `late`: seconds that news may take.
    """

    def __init__(self, world: World, *, late: float = 30.0) -> None:
        self._world = world
        self._late = late
        self._budgets: dict[tuple[str, str], Json] = {}
        self._marked: dict[str, Json] = {}  # by uid
        self._idle_since: dict[str, float] = {}  # marks without a reason
        self._ended: dict[str, float] = {}  # when a pod or a Job was finished
        self._away_at = 0.0
        self._accusations: list[str] = []
        self.marks = 0
        world.api.core.hooks.append(self._committed)
        world.watch(self._look)

    def _committed(self, served: Served, before: Json | None, after: Json | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        meta = obj["metadata"]
        if served.resource == GPU_WORKLOAD_BUDGET:
            key = meta.get("namespace", ""), meta["name"]
            if after is None:
                self._budgets.pop(key, None)
            else:
                self._budgets[key] = after
        elif served.resource in (POD, JOB):
            if _over(obj):
                self._ended.setdefault(meta["uid"], self._now())
            new = after is not None and _paused(after) and (before is None or not _paused(before))
            if new and self._ended.get(meta["uid"], self._now()) < self._now() - self._late:
                self._accusations.append(f"B2: {obj.get('kind')} {meta['name']} was paused after its end")
            if after is None or not (_paused(after) or _held(after) or _gated(after)):
                self._marked.pop(meta["uid"], None)
                self._idle_since.pop(meta["uid"], None)
            else:
                self.marks += meta["uid"] not in self._marked
                self._marked[meta["uid"]] = after

    def _look(self, world: World) -> None:
        now = self._now()
        if not all(process.running for process in world.processes.values()):
            self._away_at = now
        for uid, obj in self._marked.items():
            if self._has_reason(obj):
                self._idle_since.pop(uid, None)
                continue
            since = max(self._idle_since.setdefault(uid, now), self._away_at + self._late)
            if now - since > OUTLIVES + self._late:
                name = obj["metadata"]["name"]
                self._accusations.append(
                    f"B1: {obj.get('kind')} {name} is held without a reason for {now - since:.0f} s"
                )
        if self._accusations:
            raise Violation(self._accusations[0])

    def _has_reason(self, obj: Json) -> bool:
        return (
            (not _held(obj) or self._is_counted_by(obj))
            and (not _paused(obj) or self._is_paused_by(obj))
            and (not _gated(obj) or self._is_gated_by(obj))
        )

    def _is_counted_by(self, pod: Json) -> bool:
        labels = pod["metadata"].get("labels") or {}
        if _over(pod) or (pod["metadata"].get("deletionGracePeriodSeconds") == 0):
            return False
        exact = [each for each in self._of(pod) if each["spec"].get("accounting") == "Exact"]
        return any(_selects(each, labels) for each in exact)

    def _is_paused_by(self, obj: Json) -> bool:
        """What has ended keeps its annotations; a suspended Job may wait for its turn."""
        if _over(obj) or "deletionTimestamp" in obj["metadata"]:
            return True
        by = obj["metadata"]["annotations"].get(PAUSED_BY)
        if obj.get("kind") == "Job":
            labels = obj["spec"]["template"].get("metadata", {}).get("labels") or {}
            stopping = [each for each in self._of(obj) if each["spec"]["enforcement"]["action"] in STOPPING]
            return any(_selects(each, labels) or _name(each) == by for each in stopping)
        pausing = [each for each in self._of(obj) if each["spec"]["enforcement"]["action"] == "Pause"]
        return any(_name(each) == by and each.get("status", {}).get("exceededAt") for each in pausing)

    def _is_gated_by(self, pod: Json) -> bool:
        """A pod may wait for its turn while a budget that counts asks for gates."""
        if "deletionTimestamp" in pod["metadata"]:
            return True
        labels = pod["metadata"].get("labels") or {}
        gating = [each for each in self._of(pod) if each["spec"]["enforcement"].get("admission", "Off") != "Off"]
        return any(_selects(each, labels) and _counts(each) for each in gating)

    def _of(self, obj: Json) -> list[Json]:
        """Budgets of its namespace that are there to stay."""
        namespace = obj["metadata"].get("namespace", "")
        return [
            budget
            for (place, _), budget in self._budgets.items()
            if place == namespace and "deletionTimestamp" not in budget["metadata"]
        ]

    def _now(self) -> float:
        return self._world.clock.now().timestamp()


def _paused(obj: Json) -> bool:
    return PAUSED_AT in (obj["metadata"].get("annotations") or {})


def _held(obj: Json) -> bool:
    return COUNTED in (obj["metadata"].get("finalizers") or ())


def _gated(obj: Json) -> bool:
    return any(gate["name"] == GATE for gate in obj["spec"].get("schedulingGates") or ())


def _counts(budget: Json) -> bool:
    rows = budget.get("status", {}).get("conditions") or ()
    return not any((row["type"], row["status"]) == ("Ready", "False") for row in rows)


def _over(obj: Json) -> bool:
    status: dict[str, Any] = obj.get("status") or {}
    ended = any(
        row["type"] in ("Complete", "Failed") and row["status"] == "True" for row in status.get("conditions") or ()
    )
    return status.get("phase") in FINISHED or (obj.get("kind") == "Job" and ended)


def _name(budget: Json) -> str:
    return f"{budget['metadata'].get('namespace', '')}/{budget['metadata']['name']}"


def _selects(budget: Json, labels: dict[str, str]) -> bool:
    chosen = budget["spec"]["selector"]
    rows = chosen.get("matchExpressions") or ()
    wanted = [LabelRequirement(row["key"], row["operator"], tuple(row.get("values") or ())) for row in rows]
    return selector(chosen.get("matchLabels") or {}, wanted).selects(labels)
