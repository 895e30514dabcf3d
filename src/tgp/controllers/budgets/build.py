"""GPUWorkloadBudgets, and the mirrors of the legacy kind. Where that kind is not installed nothing happens."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.controllers.budgets.archive import AccountArchive
from tgp.controllers.budgets.legacy_budgets import LegacyBudgetReconciler
from tgp.controllers.budgets.reconciler import BudgetReconciler
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.status_writer import StatusWriter
from tgp.core.budgets.status import OWNED


class Budgets:
    """What counting is made of: a scrape reads the tracker, too."""

    def __init__(self, deps: Deps, stores: Stores) -> None:
        self.tracker = BudgetTracker(
            stores.pods,
            stores.nodes,
            deps.clock,
            silent_for=lambda: deps.caches.silent_for(stores.pods),
            watched_until=deps.watched_until,
        )


def build(deps: Deps, stores: Stores, budgets: Budgets) -> list[Controller]:
    tracker = budgets.tracker
    archive = AccountArchive(deps.cluster, deps.settings.namespace, deps.journal)

    def start_over() -> None:
        tracker.start_over()
        archive.start_over()

    counting = BudgetReconciler(
        stores.budgets,
        tracker,
        StatusWriter(GPU_WORKLOAD_BUDGET, OWNED, deps.cluster, deps.journal, deps.clock),
        archive,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
        silent_for=lambda: deps.caches.silent_for(stores.pods),
        list_pods=lambda: deps.caches.list_again(stores.pods),
    )
    mirrors = LegacyBudgetReconciler(stores.legacy_budgets, stores.budgets, deps.cluster, deps.journal, deps.clock)
    return [
        Controller(
            "budgets",
            counting,
            sources=(
                WatchSource(stores.budgets),
                WatchSource(stores.pods, tracker.of_pod),
                WatchSource(stores.nodes, tracker.of_node),
            ),
            writes=(stores.budgets,),
            workers=deps.settings.workers,
            start_over=start_over,
        ),
        Controller(
            "legacy-budgets",
            mirrors,
            sources=(WatchSource(stores.legacy_budgets), WatchSource(stores.budgets)),
            writes=(stores.legacy_budgets, stores.budgets),
            workers=deps.settings.workers,
        ),
    ]
