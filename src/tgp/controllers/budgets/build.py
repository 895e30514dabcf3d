"""GPUWorkloadBudgets, and the mirrors of the legacy kind. Where that kind is not installed nothing happens."""

import asyncio

from tgp.adapters.kube.controller import Controller, WatchSource, only
from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.controllers.budgets.admission import GateReconciler, PolicyCheck
from tgp.controllers.budgets.api_groups import ApiGroups
from tgp.controllers.budgets.archive import AccountArchive
from tgp.controllers.budgets.daily import KEY, DailyReport
from tgp.controllers.budgets.gated_pods import GatedPods
from tgp.controllers.budgets.holds import HoldsReconciler
from tgp.controllers.budgets.legacy_budgets import LegacyBudgetReconciler
from tgp.controllers.budgets.pauser import Pauser
from tgp.controllers.budgets.reconciler import BudgetReconciler
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.status_writer import StatusWriter
from tgp.core.budgets.status import OWNED


class Budgets:
    """What counting is made of: a scrape reads the tracker, too."""

    def __init__(self, deps: Deps, stores: Stores) -> None:
        self.tracker = BudgetTracker(
            stores.pods,
            stores.nodes,
            stores.namespaces,
            stores.machine_ends.store,
            deps.clock,
            silent_for=deps.caches.of(stores.pods).silent_for,
            watched_until=deps.watched_until,
        )
        self.gated = GatedPods(stores.pods, stores.budgets, stores.namespaces, deps.settings.namespace)
        self.groups = ApiGroups(deps.cluster, deps.clock)
        self.spend_log = SpendLog(deps.cluster, deps.settings.namespace, stores.machine_ends)
        self.archive = AccountArchive(deps.cluster, deps.settings.namespace, deps.journal)


def build(deps: Deps, stores: Stores, budgets: Budgets) -> list[Controller]:
    return [
        _counting(deps, stores, budgets),
        _holds(deps, stores, budgets),
        _gates(deps, stores, budgets),
        _days(deps, stores, budgets),
        _mirrors(deps, stores),
    ]


def _counting(deps: Deps, stores: Stores, budgets: Budgets) -> Controller:
    tracker, archive = budgets.tracker, budgets.archive

    def start_over() -> None:
        tracker.start_over()
        archive.start_over()

    async def list_pods_and_nodes() -> None:
        await asyncio.gather(deps.caches.list_again(stores.pods), deps.caches.list_again(stores.nodes))

    counting = BudgetReconciler(
        stores.budgets,
        tracker,
        StatusWriter(GPU_WORKLOAD_BUDGET, OWNED, deps.cluster, deps.journal, deps.clock),
        archive,
        Pauser(stores.jobs, budgets.groups, deps.cluster, deps.journal),
        spend_log=budgets.spend_log,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
        silent_for=deps.caches.of(stores.pods).silent_for,
        list_pods_and_nodes=list_pods_and_nodes,
        list_budgets=deps.caches.of(stores.budgets).list_again,
        gated=budgets.gated,
        policies=PolicyCheck(deps.cluster, deps.clock, deps.settings.namespace),
        counted=stores.counted,
        namespace=deps.settings.namespace,
    )
    return Controller(
        "budgets",
        counting,
        sources=(
            WatchSource(stores.budgets),
            WatchSource(stores.pods, tracker.of_pod),
            WatchSource(stores.pods, budgets.gated.budgets_of),
            WatchSource(stores.nodes, tracker.of_node),
            WatchSource(stores.machine_ends.store, tracker.of_machine_end),
            WatchSource(stores.jobs, tracker.of_job),
            WatchSource(stores.namespaces, tracker.of_namespace),
        ),
        writes=(stores.budgets,),
        workers=deps.settings.workers,
        start_over=start_over,
    )


def _holds(deps: Deps, stores: Stores, budgets: Budgets) -> Controller:
    holds = HoldsReconciler(
        stores.budgets,
        stores.pods,
        stores.jobs,
        budgets.tracker,
        budgets.groups,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
        home=deps.settings.namespace,
    )
    return Controller(
        "budget-holds",
        holds,
        sources=(
            WatchSource(stores.budgets, holds.of_budget),
            WatchSource(stores.counted.store),
            WatchSource(stores.pods, holds.of_pod),
            WatchSource(stores.jobs, holds.of_job),
        ),
        workers=deps.settings.workers,
    )


def _gates(deps: Deps, stores: Stores, budgets: Budgets) -> Controller:
    gates = GateReconciler(
        budgets.gated,
        stores.pods,
        budgets.tracker,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
        list_budgets=deps.caches.of(stores.budgets).list_again,
    )
    return Controller(
        "budget-gates",
        gates,
        sources=(
            WatchSource(stores.pods, budgets.gated.namespaces_of),
            WatchSource(stores.budgets, budgets.gated.of_changed_budget),
        ),
        also_reads=(stores.namespaces,),
        workers=1,
    )


def _days(deps: Deps, stores: Stores, budgets: Budgets) -> Controller:
    def complete() -> bool:
        waiting = (record for record in stores.budgets.values() if not record.deleting)
        return all(budgets.tracker.settled(record.key, record.uid_text) for record in waiting)

    daily = DailyReport(
        budgets.tracker,
        budgets.archive,
        complete,
        cluster=deps.cluster,
        clock=deps.clock,
        namespace=deps.settings.namespace,
    )
    stores.sweeps.send(KEY)
    return Controller(
        "budget-days",
        daily,
        sources=(WatchSource(stores.sweeps.store, only(KEY)),),
        also_reads=(stores.budgets, stores.pods),
    )


def _mirrors(deps: Deps, stores: Stores) -> Controller:
    mirrors = LegacyBudgetReconciler(stores.legacy_budgets, stores.budgets, deps.cluster, deps.journal, deps.clock)
    return Controller(
        "legacy-budgets",
        mirrors,
        sources=(WatchSource(stores.legacy_budgets), WatchSource(stores.budgets)),
        writes=(stores.legacy_budgets, stores.budgets),
        workers=deps.settings.workers,
    )
