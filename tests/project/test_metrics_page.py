"""docs/metrics.md says what the code says: every metric with its labels, and no other."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from tgp.adapters.telemetry.budgets import BudgetCollector
from tgp.adapters.telemetry.market import BookCollector
from tgp.adapters.telemetry.metrics import Metrics
from tgp.adapters.telemetry.owned_machines import OwnedMachineCollector
from tgp.adapters.telemetry.pools import PoolLimitCollector
from tgp.adapters.telemetry.requests import RequestCollector
from tgp.core.model.price_book import PriceBook

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
NOT_FOR_READERS = {"tgp_build_info"}
NAMES_A_QUEUE = {"workqueue_depth"}  # its label `name` is the controller's, as in client-go


def collectors() -> Iterator[Collector]:
    """Those whose series exist only during a scrape."""
    now = datetime.now(UTC)
    yield BookCollector(PriceBook, lambda: now)
    yield BudgetCollector(tuple, lambda: now, lambda _key, _at: None)
    yield PoolLimitCollector(tuple)
    yield OwnedMachineCollector(tuple)
    yield RequestCollector(tuple, lambda _name: None, lambda _name: (), lambda: now)


def families() -> dict[str, tuple[str, ...]]:
    """Name as a query has it → labels."""
    found = {}
    for metric in vars(Metrics()).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            found[_name(family)] = metric._labelnames
    for collector in collectors():
        for family in collector.collect():
            found[_name(family)] = getattr(family, "_labelnames", ())
    return {name: tuple(labels) for name, labels in found.items() if name not in NOT_FOR_READERS}


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def documented() -> dict[str, tuple[str, ...]]:
    told = re.findall(r"`((?:tgp|gwb|controller_runtime|workqueue|rest_client)_\w+)(?:\{([^}]*)\})?`", PAGE)
    return {name: tuple(filter(None, labels.split(","))) for name, labels in told}


def test_every_metric_is_explained_and_no_other():
    assert sorted(documented()) == sorted(families())


def test_its_labels_are_the_ones_that_are_told():
    assert documented() == families()


def test_no_label_names_a_request():
    """A label with as many values as there are requests would fill a Prometheus server."""
    for name, labels in families().items():
        if name.startswith("gwb_"):
            continue  # of the few budgets, with the labels of the ancestor's dashboards
        assert name in NAMES_A_QUEUE or not {"request", "name", "node", "instance", "uid", "token"} & set(labels), name
