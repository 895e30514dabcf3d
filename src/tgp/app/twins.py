"""The desk of the ancestor's budgets: what is watched for them, and who looks after them.

Their kind is optional. Where it is not installed nothing is watched but its coming, and nobody has anything to do.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from tgp.adapters.kube.board import Filler
from tgp.adapters.kube.controller import Controller, Source
from tgp.adapters.kube.records.kinds import typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.store import Store
from tgp.api.budget import AncestorBudget, GPUWorkloadBudget
from tgp.api.resource import ANCESTOR_BUDGET, GPU_WORKLOAD_BUDGET, Resource
from tgp.controllers.twins import TwinReconciler
from tgp.core.model.typed import Typed
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.journal import Journal


class MakeReflector(Protocol):
    def __call__(self, projection: Projection[Any], store: Store[Any], *, optional: bool = False) -> Filler: ...


@dataclass(frozen=True)
class TwinDesk:
    ancestors: Store[Typed[AncestorBudget]] = field(default_factory=lambda: Store(ANCESTOR_BUDGET))
    budgets: Store[Typed[GPUWorkloadBudget]] = field(default_factory=lambda: Store(GPU_WORKLOAD_BUDGET))

    def views(self) -> dict[Resource, tuple[Store[Any], ...]]:
        """Where our own writes will show."""
        return {ANCESTOR_BUDGET: (self.ancestors,), GPU_WORKLOAD_BUDGET: (self.budgets,)}

    def reflectors(self, reflector: MakeReflector) -> tuple[Filler, ...]:
        return (
            reflector(typed(GPU_WORKLOAD_BUDGET, GPUWorkloadBudget), self.budgets),
            reflector(typed(ANCESTOR_BUDGET, AncestorBudget), self.ancestors, optional=True),
        )

    def controller(self, cluster: Cluster, journal: Journal, clock: Clock, workers: int) -> Controller:
        return Controller(
            "twins",
            TwinReconciler(self.ancestors, self.budgets, cluster, journal, clock),
            sources=(Source(self.ancestors), Source(self.budgets)),
            writes=(self.ancestors, self.budgets),
            workers=workers,
        )
