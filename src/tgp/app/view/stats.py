"""A few numbers about a running operator, for the screen and for the summary."""

from dataclasses import dataclass

from tgp.adapters.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class ReconcileStats:
    taken: int
    failed: int


def reconcile_stats_of(metrics: Metrics) -> ReconcileStats:
    """From the same counters as the metrics page."""
    taken = failed = 0.0
    for family in (*metrics.reconcile_time.collect(), *metrics.reconcile_errors.collect()):
        for sample in family.samples:
            if sample.name == "controller_runtime_reconcile_time_seconds_count":
                taken += sample.value
            elif sample.name == "controller_runtime_reconcile_errors_total":
                failed += sample.value
    return ReconcileStats(int(taken), int(failed))


class NoJournal:
    """A journal that drops every fact: the screen shows the troubles."""

    def note(self, fact: object) -> None:
        pass
