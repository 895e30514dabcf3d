"""Writes conditions into a status, and notes a fact for each that changed; no change, no write."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tgp.api.resource import Resource
from tgp.core.model.conditions import ConditionUpdate, conditions_in, merge_conditions
from tgp.core.model.facts import ConditionChanged, FactSubject
from tgp.core.model.kube_object import KubeObject
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.journal import Journal

T = TypeVar("T")

BAD_WHEN_TRUE = frozenset(
    {
        "Unsatisfiable",
        "DeprecatedFields",
        "Limited",
        "SpotUnavailable",
        "LimitReached",
        "AccountChanged",
        "QuotaExceeded",
        "Degraded",
        "Restored",
        "RecordLost",
        "SweepHalted",
        "OrphanTerminationFailing",
        "Drifted",
        "MeshConfigIgnored",
        "ProviderInconsistent",
        "PresumedLost",
        "RepairHalted",
        "MachinesRefused",
        "MachinesCoolingDown",
        "TemplateUnchecked",
    }
)


class StatusWriter:
    """Keeps the conditions of one kind equal to what its rules compute."""

    def __init__(
        self,
        resource: Resource,
        owned: frozenset[str],
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        *,
        reported_elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        self._resource = resource
        self._owned = owned
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._reported_elsewhere = reported_elsewhere  # other facts report these, in better words

    async def write(
        self,
        record: KubeObject[T],
        updates: Iterable[ConditionUpdate],
        parts: Mapping[str, Any] | None = None,
        *,
        held: dict[str, Any] | None = None,
    ) -> None:
        """One status write at most. Facts are noted once the API server holds them.

        `parts` replace what is held; a part that is None is removed. `held`: the record's status, if already read.
        """
        status = record.status if held is None else held
        before = conditions_in(status)
        settled = merge_conditions(before, updates, record.generation, self._clock.now(), self._owned)
        if settled == before and parts is None:
            return
        await self._cluster.write_status(
            self._resource,
            record.key,
            uid=record.uid_text,
            seen=status,
            status={
                name: part
                for name, part in {**status, **(parts or {}), "conditions": settled}.items()
                if part is not None
            },
            resource_version=str(record.resource_version),
        )
        for fact in self._changed(record, before, settled):
            self._journal.note(fact)

    def _changed(
        self, record: KubeObject[T], before: list[dict[str, Any]], after: list[dict[str, Any]]
    ) -> Iterable[ConditionChanged]:
        known = {condition.get("type"): (condition.get("status"), condition.get("reason")) for condition in before}
        for condition in after:
            name, status, reason = condition["type"], condition["status"], condition["reason"]
            if name in self._owned - self._reported_elsewhere and known.get(name) != (status, reason):
                good = (status == "False") == (name in BAD_WHEN_TRUE) or status == "Unknown"
                yield ConditionChanged(self._subject(record), name, status, reason, condition["message"], good)

    def _subject(self, record: KubeObject[T]) -> FactSubject:
        return FactSubject(self._resource, record.key, record.uid_text)
