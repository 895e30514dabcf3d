"""GPUWorkloadBudgets, and the mirrors of the legacy kind. Where that kind is not installed nothing happens."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.controllers.budgets.daily import KEY, DailyReport
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
            stores.namespaces,
            deps.clock,
            silent_for=lambda: deps.caches.silent_for(stores.pods),
            watched_until=deps.watched_until,
        )


def build(deps: Deps, stores: Stores, budgets: Budgets) -> list[Controller]:
    tracker = budgets.tracker
    counting = BudgetReconciler(
        stores.budgets,
        tracker,
        StatusWriter(GPU_WORKLOAD_BUDGET, OWNED, deps.cluster, deps.journal, deps.clock),
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
        silent_for=lambda: deps.caches.silent_for(stores.pods),
        list_pods=lambda: deps.caches.list_again(stores.pods),
        namespace=deps.settings.namespace,
    )
    daily = DailyReport(tracker.accounts, deps.cluster, deps.clock, deps.settings.namespace)
    stores.sweeps.send(KEY)
    mirrors = LegacyBudgetReconciler(stores.legacy_budgets, stores.budgets, deps.cluster, deps.journal, deps.clock)
    return [
        Controller(
            "budgets",
            counting,
            sources=(
                WatchSource(stores.budgets),
                WatchSource(stores.pods, tracker.of_pod),
                WatchSource(stores.nodes, tracker.of_node),
                WatchSource(stores.namespaces, tracker.of_namespace),
            ),
            writes=(stores.budgets,),
            workers=deps.settings.workers,
            start_over=tracker.start_over,
        ),
        Controller(
            "budget-days",
            daily,
            sources=(
                WatchSource(
                    stores.sweeps.store, lambda _old, new: (KEY,) if new is not None and new.key == KEY else ()
                ),
            ),
            also_reads=(stores.budgets, stores.pods),
        ),
        Controller(
            "legacy-budgets",
            mirrors,
            sources=(WatchSource(stores.legacy_budgets), WatchSource(stores.budgets)),
            writes=(stores.legacy_budgets, stores.budgets),
            workers=deps.settings.workers,
        ),
    ]
