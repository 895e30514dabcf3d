"""The runtime's counts as metrics, and a counter of the calls to the API server."""

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from tgp.adapters.kube.runtime_metrics import FAILED, OVERDUE
from tgp.adapters.telemetry.metrics import Metrics
from tgp.ports.http import Answered, Call, Http, WrappedHttp

NO_ANSWER = "<error>"  # client-go's code for a call without an answer


class PrometheusRuntimeMetrics:
    """Finds each labelled series once: looking it up costs more than counting."""

    def __init__(self, metrics: Metrics) -> None:
        self._lag = metrics.loop_lag
        self._time = cache(lambda controller: _histogram(metrics.reconcile_time, controller))
        self._results = cache(lambda controller, result: _counter(metrics.reconciles, controller, result))
        self._errors = metrics.reconcile_errors
        self._timeouts = metrics.reconcile_timeouts
        self._depth = cache(lambda controller: _gauge(metrics.queue_depth, controller))
        self._failing = cache(lambda controller: _gauge(metrics.failing_keys, controller))

    def reconciled(self, controller: str, outcome: str, seconds: float) -> None:
        self._time(controller).observe(seconds)
        self._results(controller, FAILED if outcome == OVERDUE else outcome).inc()
        if outcome in (FAILED, OVERDUE):
            self._errors.labels(controller).inc()
        if outcome == OVERDUE:
            self._timeouts.labels(controller).inc()

    def depth(self, controller: str, waiting: int, failing: int) -> None:
        self._depth(controller).set(waiting)
        self._failing(controller).set(failing)

    def lag(self, seconds: float) -> None:
        self._lag.observe(seconds)


class CountedHttp(WrappedHttp):
    """The same connection, with every call counted by status code and method."""

    def __init__(self, inner: Http, metrics: Metrics) -> None:
        super().__init__(inner)
        self._count = cache(lambda code, method: _counter(metrics.api_calls, str(code), method))

    def _sent(self, call: Call) -> Answered:
        return lambda reply: self._count(NO_ANSWER if reply is None else reply.status, call.method).inc()


def _counter(family: Counter, *labels: str) -> Counter:
    return family.labels(*labels)


def _histogram(family: Histogram, *labels: str) -> Histogram:
    return family.labels(*labels)


def _gauge(family: Gauge, *labels: str) -> Gauge:
    return family.labels(*labels)
