"""A budget as metrics: exact at the second of the scrape, whatever the status says."""

from datetime import UTC, datetime, timedelta

import pytest

from tgp.adapters.telemetry.budgets import BudgetCollector, BudgetRow
from tgp.core.budgets.account import OpenPod, fresh
from tgp.core.budgets.assess import Limits
from tgp.core.model.object_key import ObjectKey

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
AT = int(NOW.timestamp())
KEY = ObjectKey("ml", "team-a")
HOUR = 3_600_000  # milli-GPU-seconds


def scraped(collector: BudgetCollector) -> dict[str, float]:
    """Name of each series of team-a → value."""
    rows = [sample for family in collector.collect() for sample in family.samples]
    assert all(sample.labels == {"namespace": "ml", "name": "team-a"} for sample in rows)
    return {sample.name: sample.value for sample in rows}


def a_row(**more) -> BudgetRow:
    """Two GPUs for an hour, at $3 an hour together; the Node of one is silent for half of it."""
    account = fresh(24, AT)
    account.open[b"one---"] = OpenPod(AT - 3600, 1000, 1_000_000)
    account.open[b"two---"] = OpenPod(AT - 3600, 1000, 2_000_000, AT - 1800)
    return BudgetRow(KEY, Limits(10 * HOUR), account, exceeded=False, pods=2, paused=3, gated=4, **more)


def test_each_figure_is_of_the_moment_of_the_scrape():
    row = a_row()
    said = scraped(BudgetCollector(lambda: [row], lambda: NOW))
    assert said == {
        "gwb_consumed_gpu_hours": 2,
        "gwb_remaining_gpu_hours": 8,
        "gwb_quota_gpu_hours": 10,
        "gwb_gpus": 2,
        "gwb_uncertainty_gpu_hours": 0.5,
        "gwb_consumed_dollars": 3,
        "gwb_exhausted_timestamp_seconds": AT + 4 * 3600,
        "gwb_tracked_pods": 2,
        "gwb_paused_pods": 3,
        "gwb_gated_pods": 4,
    }
    later = scraped(BudgetCollector(lambda: [row], lambda: NOW + timedelta(seconds=9)))
    assert later["gwb_consumed_gpu_hours"] == pytest.approx(2 + 18 / 3600)


def test_use_above_the_quota_is_shown_and_nothing_is_left():
    row = a_row()
    row.limits = Limits(HOUR)
    said = scraped(BudgetCollector(lambda: [row], lambda: NOW))
    assert (said["gwb_consumed_gpu_hours"], said["gwb_quota_gpu_hours"], said["gwb_remaining_gpu_hours"]) == (2, 1, 0)


@pytest.mark.parametrize(("true", "ratio"), [(2 * HOUR, 1.0), (HOUR, 2.0), (0.0, None), (None, None)])
def test_accuracy_is_shown_only_where_the_truth_is_known(true, ratio):
    told = scraped(BudgetCollector(lambda: [a_row()], lambda: NOW, lambda key, at: {(KEY, AT): true}[key, at]))
    assert told.get("gwb_accounting_accuracy_ratio") == ratio
    assert "gwb_accounting_accuracy_ratio" not in scraped(BudgetCollector(lambda: [a_row()], lambda: NOW))
