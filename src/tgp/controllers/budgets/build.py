"""GPUWorkloadBudgets: today only the mirrors of the legacy kind. Where that kind is not installed nothing happens."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.controllers.budgets.legacy_budgets import LegacyBudgetReconciler
from tgp.controllers.deps import Deps, Stores


def build(deps: Deps, stores: Stores) -> list[Controller]:
    reconciler = LegacyBudgetReconciler(stores.legacy_budgets, stores.budgets, deps.cluster, deps.journal, deps.clock)
    return [
        Controller(
            "legacy-budgets",
            reconciler,
            sources=(WatchSource(stores.legacy_budgets), WatchSource(stores.budgets)),
            writes=(stores.legacy_budgets, stores.budgets),
            workers=deps.settings.workers,
        )
    ]
