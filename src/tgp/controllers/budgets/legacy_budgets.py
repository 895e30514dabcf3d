"""Creates a tgp.io mirror for each legacy budget, and copies the mirror's status back. It deletes nothing."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.api.budget import GPUWorkloadBudget, LegacyBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, LEGACY_BUDGET
from tgp.core.budgets.legacy_budget import (
    COPIED_CONDITIONS,
    DEGRADED,
    CreateMirror,
    LeaveMirror,
    MirrorStatus,
    UpdateMirror,
    next_step,
    refused,
)
from tgp.core.model.conditions import merge_conditions
from tgp.core.model.facts import ConditionChanged, FactSubject
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Forbidden, Refused, View
from tgp.ports.journal import Journal

REFUSED_PAUSE = timedelta(minutes=5)  # an administrator must act


class LegacyBudgetReconciler:
    """Keys are those of legacy budgets; a mirror has the same."""

    def __init__(
        self,
        legacy_budgets: View[KubeObject[LegacyBudget]],
        budgets: View[KubeObject[GPUWorkloadBudget]],
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._legacy_budgets = legacy_budgets
        self._budgets = budgets
        self._cluster = cluster
        self._journal = journal
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        legacy = self._legacy_budgets.get(key)
        if legacy is None:
            return None
        mirror = self._budgets.get(key)
        step = next_step(legacy, mirror)
        try:
            match step:
                case CreateMirror(manifest):
                    await self._cluster.create(GPU_WORKLOAD_BUDGET, manifest)
                case UpdateMirror(change):
                    assert mirror is not None, "only an existing object can be patched"
                    seen = str(mirror.resource_version)
                    await self._cluster.patch(
                        GPU_WORKLOAD_BUDGET, key, change, uid=mirror.uid_text, resource_version=seen
                    )
                case MirrorStatus():
                    await self._show(legacy, step)
                case LeaveMirror():
                    pass
        except (Refused, Forbidden) as error:
            if isinstance(step, MirrorStatus):
                raise
            await self._show(legacy, refused(str(error)))
            return self._clock.now() + REFUSED_PAUSE
        return None

    async def _show(self, legacy: KubeObject[LegacyBudget], mirror: MirrorStatus) -> None:
        """One status write at most, and none without a change."""
        seen = legacy.status
        held = _conditions(seen)
        conditions = self._settled(held, legacy.generation, mirror)
        status = {**seen, **mirror.shown, "conditions": conditions or None}
        status = {name: part for name, part in status.items() if part is not None}
        if status == {name: part for name, part in seen.items() if part is not None}:
            return
        await self._cluster.write_status(
            LEGACY_BUDGET,
            legacy.key,
            uid=legacy.uid_text,
            seen=seen,
            status=status,
            resource_version=str(legacy.resource_version),
        )
        self._note(legacy, held, conditions)

    def _settled(self, held: list[dict[str, Any]], generation: int, mirror: MirrorStatus) -> list[dict[str, Any]]:
        """Other controllers' conditions, then the mirror's as they are, then ours."""
        ours = {verdict.type for verdict in mirror.updates}
        mirrors = [dict(row) for row in mirror.conditions if row["type"] not in ours]
        others = [row for row in held if row.get("type") not in COPIED_CONDITIONS]
        before = [row for row in held if row.get("type") in ours]
        settled = merge_conditions(before, mirror.updates, generation, self._clock.now(), COPIED_CONDITIONS)
        return [*others, *mirrors, *settled]

    def _note(
        self, legacy: KubeObject[LegacyBudget], before: list[dict[str, Any]], after: list[dict[str, Any]]
    ) -> None:
        """Problems of the pair are events; the rest was reported for the mirror. A healthy start is none."""
        was, now = (_of(rows, DEGRADED) for rows in (before, after))
        if now is None or (was or {}).get("status", "False") == now["status"]:
            return
        subject = FactSubject(LEGACY_BUDGET, legacy.key, legacy.uid_text)
        good = now["status"] == "False"
        self._journal.note(
            ConditionChanged(subject, DEGRADED, now["status"], now["reason"], str(now.get("message", "")), good)
        )


def _conditions(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = status.get("conditions")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _of(rows: Iterable[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((row for row in rows if row.get("type") == name), None)
