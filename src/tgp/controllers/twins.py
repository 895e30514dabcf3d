"""Gives each of the ancestor's budgets a twin of ours, and shows what the twin says. It removes nothing."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.api.budget import AncestorBudget, GPUWorkloadBudget
from tgp.api.resource import ANCESTOR_BUDGET, GPU_WORKLOAD_BUDGET
from tgp.core.model.conditions import settle
from tgp.core.model.facts import ConditionChanged, Subject
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.rules.twins import DEGRADED, TOLD, Carry, Leave, Make, Mirror, next_step, refused
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Forbidden, Refused, View
from tgp.ports.journal import Journal

REFUSED_PAUSE = timedelta(minutes=5)  # an administrator must act


class TwinReconciler:
    """Keys are the ancestor's; a twin has the same."""

    def __init__(
        self,
        ancestors: View[Typed[AncestorBudget]],
        budgets: View[Typed[GPUWorkloadBudget]],
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._ancestors = ancestors
        self._budgets = budgets
        self._cluster = cluster
        self._journal = journal
        self._clock = clock

    async def reconcile(self, key: Key) -> datetime | None:
        ancestor = self._ancestors.get(key)
        if ancestor is None:
            return None
        twin = self._budgets.get(key)
        step = next_step(ancestor, twin)
        try:
            match step:
                case Make(manifest):
                    await self._cluster.create(GPU_WORKLOAD_BUDGET, manifest)
                case Carry(change):
                    assert twin is not None, "only what is there can be changed"
                    seen = str(twin.resource_version)
                    await self._cluster.patch(
                        GPU_WORKLOAD_BUDGET, key, change, uid=twin.uid_text, resource_version=seen
                    )
                case Mirror():
                    await self._show(ancestor, step)
                case Leave():
                    pass
        except (Refused, Forbidden) as error:
            if isinstance(step, Mirror):
                raise
            await self._show(ancestor, refused(str(error)))
            return self._clock.now() + REFUSED_PAUSE
        return None

    async def _show(self, ancestor: Typed[AncestorBudget], mirror: Mirror) -> None:
        """One status write at most, and none when it would say nothing new."""
        seen = ancestor.status
        held = _conditions(seen)
        conditions = self._settled(held, ancestor.generation, mirror)
        status = {**seen, **mirror.shown, "conditions": conditions or None}
        status = {name: part for name, part in status.items() if part is not None}
        if status == {name: part for name, part in seen.items() if part is not None}:
            return
        await self._cluster.write_status(
            ANCESTOR_BUDGET,
            ancestor.key,
            uid=ancestor.uid_text,
            seen=seen,
            status=status,
            resource_version=str(ancestor.resource_version),
        )
        self._tell(ancestor, held, conditions)

    def _settled(self, held: list[dict[str, Any]], generation: int, mirror: Mirror) -> list[dict[str, Any]]:
        """Somebody else's, then the twin's as they are, then ours."""
        ours = {verdict.type for verdict in mirror.verdicts}
        twins = [dict(row) for row in mirror.conditions if row["type"] not in ours]
        others = [row for row in held if row.get("type") not in TOLD]
        before = [row for row in held if row.get("type") in ours]
        settled = settle(before, mirror.verdicts, generation, self._clock.now(), TOLD)
        return [*others, *twins, *settled]

    def _tell(self, ancestor: Typed[AncestorBudget], before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
        """What is wrong with the pair is news; the rest was told of the twin. That all is well is none at first."""
        was, now = (_of(rows, DEGRADED) for rows in (before, after))
        if now is None or (was or {}).get("status", "False") == now["status"]:
            return
        subject = Subject(ANCESTOR_BUDGET, ancestor.key, ancestor.uid_text)
        good = now["status"] == "False"
        self._journal.note(
            ConditionChanged(subject, DEGRADED, now["status"], now["reason"], str(now.get("message", "")), good)
        )


def _conditions(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = status.get("conditions")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _of(rows: Iterable[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((row for row in rows if row.get("type") == name), None)
