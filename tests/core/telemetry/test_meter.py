"""Reconciles and calls to the API server, counted under the names that dashboards for operators expect."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tgp.adapters.kube.runtime_metrics import DEFERRED, DONE, FAILED, OVERDUE
from tgp.adapters.telemetry.meter import CountedHttp, PrometheusRuntimeMetrics
from tgp.adapters.telemetry.metrics import Metrics
from tgp.ports.http import Call, NeverLeft, NoAnswer, Reply

RECONCILES, CALLS = "controller_runtime_reconcile_total", "rest_client_requests_total"
CALL = Call("GET", "/api/v1/pods")


class Server:
    """Answers with a status, or raises."""

    def __init__(self, answer: int | Exception) -> None:
        self._answer = answer

    async def send(self, _call: Call) -> Reply:
        if isinstance(self._answer, Exception):
            raise self._answer
        return Reply(self._answer)

    @asynccontextmanager
    async def stream(self, call: Call, *, idle: timedelta):  # noqa: ARG002
        yield await self.send(call)


def counted(metrics: Metrics, code: str) -> float | None:
    return metrics.registry.get_sample_value(CALLS, {"code": code, "method": "GET"})


@pytest.mark.parametrize(
    ("outcome", "result", "errors", "timeouts"),
    [
        (DONE, "success", None, None),
        (DEFERRED, "requeue", None, None),
        (FAILED, "error", 1, None),
        (OVERDUE, "error", 1, 1),
    ],
)
def test_a_reconcile_is_counted_by_result(outcome, result, errors, timeouts):
    metrics = Metrics()
    value = metrics.registry.get_sample_value

    PrometheusRuntimeMetrics(metrics).reconciled("pools", outcome, 0.25)

    controller = {"controller": "pools"}
    assert value(RECONCILES, {**controller, "result": result}) == 1
    assert value("controller_runtime_reconcile_time_seconds_sum", controller) == 0.25
    assert value("controller_runtime_reconcile_errors_total", controller) == errors
    assert value("controller_runtime_reconcile_timeouts_total", controller) == timeouts


@pytest.mark.parametrize(("answer", "code"), [(200, "200"), (409, "409"), (NeverLeft("refused"), "<error>")])
def test_a_call_and_a_watch_are_counted_by_code(answer, code):
    async def scenario():
        http = CountedHttp(Server(answer), metrics)
        for attempt in (http.send(CALL), watched(http)):
            try:
                await attempt
            except NeverLeft:
                assert answer is not None

    async def watched(http: CountedHttp) -> None:
        async with http.stream(CALL, idle=timedelta(seconds=1)):
            pass

    metrics = Metrics()
    asyncio.run(scenario())

    assert counted(metrics, code) == 2


def test_a_watch_that_breaks_after_its_answer_is_counted_once():
    async def scenario():
        http = CountedHttp(Server(200), metrics)
        with pytest.raises(NoAnswer):
            async with http.stream(CALL, idle=timedelta(seconds=1)):
                raise NoAnswer("the connection broke")

    metrics = Metrics()
    asyncio.run(scenario())

    assert (counted(metrics, "200"), counted(metrics, "<error>")) == (1, None)


def test_the_process_is_measured_too():
    assert b"process_resident_memory_bytes" in Metrics().page()
