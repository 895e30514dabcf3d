"""Limits of GPUNodePools as metrics, computed at each scrape: what the ledger would allow at that moment."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tgp.core.inventory.limits import RoomLeft
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.resources import CPU

LABELS = ["namespace", "pool", "resource"]


class PoolLimitCollector(Collector):
    def __init__(self, limits: Callable[[], Iterable[tuple[ObjectKey, Iterable[RoomLeft]]]]) -> None:
        self._limits = limits

    def collect(self) -> Iterator[Metric]:
        most = GaugeMetricFamily("tgp_pool_limit", "Most that machines of the pool may have together", labels=LABELS)
        left = GaugeMetricFamily("tgp_pool_limit_left", "What its machines leave of the limit", labels=LABELS)
        for key, rooms in sorted(self._limits()):
            for room in rooms:
                unit = 1000 if room.resource == CPU else 1
                most.add_metric((*key, room.resource), room.most / unit)
                left.add_metric((*key, room.resource), room.left / unit)
        yield most
        yield left
