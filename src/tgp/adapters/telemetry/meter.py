"""The runtime's counts, as metrics."""

from functools import cache

from prometheus_client import Gauge, Histogram

from tgp.adapters.telemetry.metrics import Metrics


class MetricsMeter:
    """Finds each labelled series once: looking it up costs more than counting."""

    def __init__(self, metrics: Metrics) -> None:
        self._lag = metrics.loop_lag
        self._turns = cache(lambda controller, outcome: _histogram(metrics.turns, controller, outcome))
        self._depth = cache(lambda controller: _gauge(metrics.queue_depth, controller))
        self._failing = cache(lambda controller: _gauge(metrics.failing_keys, controller))

    def turn(self, controller: str, outcome: str, seconds: float) -> None:
        self._turns(controller, outcome).observe(seconds)

    def depth(self, controller: str, waiting: int, failing: int) -> None:
        self._depth(controller).set(waiting)
        self._failing(controller).set(failing)

    def lag(self, seconds: float) -> None:
        self._lag.observe(seconds)


def _histogram(family: Histogram, *labels: str) -> Histogram:
    return family.labels(*labels)


def _gauge(family: Gauge, *labels: str) -> Gauge:
    return family.labels(*labels)
