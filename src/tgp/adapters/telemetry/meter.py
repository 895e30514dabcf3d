"""The runtime's counts as metrics, and a counter of the calls to the API server."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from tgp.adapters.kube.runtime_metrics import FAILED, OVERDUE
from tgp.adapters.telemetry.metrics import Metrics
from tgp.ports.http import Call, Http, HttpError, Reply, Stream

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


class CountedHttp:
    """The same connection, with every call counted by status code and method."""

    def __init__(self, inner: Http, metrics: Metrics) -> None:
        self._inner = inner
        self._count = cache(lambda code, method: _counter(metrics.api_calls, str(code), method))

    async def send(self, call: Call) -> Reply:
        try:
            reply = await self._inner.send(call)
        except HttpError:
            self._count(NO_ANSWER, call.method).inc()
            raise
        self._count(reply.status, call.method).inc()
        return reply

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._streaming(call, idle)

    @asynccontextmanager
    async def _streaming(self, call: Call, idle: timedelta) -> AsyncIterator[Stream]:
        answered = False
        try:
            async with self._inner.stream(call, idle=idle) as stream:
                answered = True
                self._count(stream.status, call.method).inc()
                yield stream
        except HttpError:
            if not answered:
                self._count(NO_ANSWER, call.method).inc()
            raise


def _counter(family: Counter, *labels: str) -> Counter:
    return family.labels(*labels)


def _histogram(family: Histogram, *labels: str) -> Histogram:
    return family.labels(*labels)


def _gauge(family: Gauge, *labels: str) -> Gauge:
    return family.labels(*labels)
