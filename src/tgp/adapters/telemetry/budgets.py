"""GPUWorkloadBudgets as metrics, computed at each scrape: exact to the second, whatever the status says."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tgp.core.budgets.account import BudgetAccount
from tgp.core.budgets.assess import MILLI_SECONDS, USD_SECONDS, Assessment, Limits, assess
from tgp.core.budgets.spans import seconds
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.prices import MICRO

LABELS = ["namespace", "name"]
ACCURACY = "gwb_accounting_accuracy_ratio"
FAMILIES: tuple[tuple[str, str, Callable[[Assessment, Limits], float | None]], ...] = (
    ("gwb_consumed_gpu_hours", "GPU-hours used in the window", lambda seen, _: seen.used / MILLI_SECONDS),
    ("gwb_remaining_gpu_hours", "GPU-hours left, never below zero", lambda seen, _: seen.left / MILLI_SECONDS),
    ("gwb_quota_gpu_hours", "GPU-hours that may be used in the window", lambda _, to: to.used / MILLI_SECONDS),
    ("gwb_gpus", "GPUs that matching pods hold now", lambda seen, _: seen.milli / 1000),
    ("gwb_uncertainty_gpu_hours", "GPU-hours used that no record proves", lambda seen, _: seen.unsure / MILLI_SECONDS),
    ("gwb_consumed_dollars", "Dollars used in the window", lambda seen, _: seen.usd / USD_SECONDS / MICRO),
    ("gwb_exhausted_timestamp_seconds", "When the quota is used up", lambda seen, _: seen.exhausted_at),
)


class BudgetRow:
    """One budget for a scrape."""

    def __init__(
        self,
        key: ObjectKey,
        limits: Limits,
        account: BudgetAccount,
        *,
        exceeded: bool,
        pods: int,
        paused: int = 0,
        gated: int = 0,
    ) -> None:
        self.key, self.limits, self.account, self.exceeded = key, limits, account, exceeded
        self.pods, self.paused, self.gated = pods, paused, gated


class BudgetCollector(Collector):
    """`truth`: milli-GPU-seconds that a budget's pods really used by then, where that is known: in a simulation."""

    def __init__(
        self,
        budgets: Callable[[], Iterable[BudgetRow]],
        now: Callable[[], datetime],
        truth: Callable[[ObjectKey, int], float | None] | None = None,
    ) -> None:
        self._budgets = budgets
        self._now = now
        self._truth = truth

    def collect(self) -> Iterator[Metric]:
        now = seconds(self._now())
        rows = sorted(self._budgets(), key=lambda row: row.key)
        seen = [(row, assess(row.limits, row.account, now, exceeded=row.exceeded)) for row in rows]
        for name, text, value in FAMILIES:
            family = GaugeMetricFamily(name, text, labels=LABELS)
            for row, said in seen:
                if (amount := value(said, row.limits)) is not None:
                    family.add_metric(tuple(row.key), amount)
            yield family
        tracked = GaugeMetricFamily("gwb_tracked_pods", "Pods that the selector matches", labels=LABELS)
        paused = GaugeMetricFamily("gwb_paused_pods", "Pods that are paused", labels=LABELS)
        gated = GaugeMetricFamily("gwb_gated_pods", "Pods that wait behind the gate of the budget", labels=LABELS)
        for row in rows:
            tracked.add_metric(tuple(row.key), row.pods)
            paused.add_metric(tuple(row.key), row.paused)
            gated.add_metric(tuple(row.key), row.gated)
        yield tracked
        yield paused
        yield gated
        if self._truth is not None:
            yield self._accuracy(((row.key, said.used) for row, said in seen), self._truth, now)

    def _accuracy(
        self, used: Iterable[tuple[ObjectKey, int]], truth: Callable[[ObjectKey, int], float | None], now: int
    ) -> Metric:
        text = "GPU-hours counted, divided by those really used; only in simulations and benchmarks"
        family = GaugeMetricFamily(ACCURACY, text, labels=LABELS)
        for key, counted in used:
            if true := truth(key, now):
                family.add_metric(tuple(key), counted / true)
        return family
