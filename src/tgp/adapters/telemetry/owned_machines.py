"""Machines you own as metrics, computed at each scrape. Their names are configuration: a class lists them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tgp.core.power.states import PowerState


@dataclass(frozen=True, slots=True)
class OwnedMachineRow:
    node_class: str
    machine: str
    state: PowerState
    boot_seconds: int = 0  # how long it took to wake when that was last measured; 0: never


class OwnedMachineCollector(Collector):
    def __init__(self, rows: Callable[[], Iterable[OwnedMachineRow]]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        rows = list(self._rows())
        # every state of a class is shown, also at 0: a series that comes and goes cannot be alerted on
        counts = Counter({(each.node_class, state): 0 for each in rows for state in PowerState})
        counts.update((each.node_class, each.state) for each in rows)
        states = GaugeMetricFamily("tgp_owned_machines", "Machines you own, by power state", labels=["class", "state"])
        for labels, count in sorted(counts.items()):
            states.add_metric(labels, count)
        yield states
        wakes = GaugeMetricFamily(
            "tgp_owned_machine_boot_seconds",
            "Time from the power-on until the machine was ready, as last measured",
            labels=["class", "machine"],
        )
        for row in sorted(rows, key=lambda each: (each.node_class, each.machine)):
            if row.boot_seconds:
                wakes.add_metric((row.node_class, row.machine), row.boot_seconds)
        yield wakes
