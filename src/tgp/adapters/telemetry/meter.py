"""The runtime's counts, as metrics."""

from tgp.adapters.telemetry.metrics import Metrics


class MetricsMeter:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def turn(self, controller: str, outcome: str, seconds: float) -> None:
        self._metrics.turns.labels(controller, outcome).observe(seconds)

    def depth(self, controller: str, waiting: int, failing: int) -> None:
        self._metrics.queue_depth.labels(controller).set(waiting)
        self._metrics.failing_keys.labels(controller).set(failing)

    def lag(self, seconds: float) -> None:
        self._metrics.loop_lag.observe(seconds)
