import pytest

from tgp.interfaces.health import MetricsPage, Probes
from tgp.ports.http import Call


def probes(*troubles: str) -> Probes:
    return Probes(lambda: troubles)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/healthz/"])
async def test_liveness_is_answering_at_all(path):
    assert (await probes("no view yet").handle(Call("GET", path))).status == 200


async def test_readiness_names_what_is_missing():
    """An engineer reads the probe's answer, not the source."""
    reply = await probes("GPUNodePool is not listed yet").handle(Call("GET", "/readyz"))

    assert reply.status == 503
    assert b"GPUNodePool is not listed yet" in reply.content
    assert (await probes().handle(Call("GET", "/readyz"))).status == 200


async def test_metrics_are_plain_text_on_a_port_of_their_own():
    page = MetricsPage(lambda: b"tgp_leader 1.0\n")
    reply = await page.handle(Call("GET", "/metrics"))

    assert (await probes().handle(Call("GET", "/metrics"))).status == 404
    assert (await page.handle(Call("GET", "/healthz"))).status == 404
    assert (await page.handle(Call("POST", "/metrics"))).status == 405

    assert reply.header("content-type").startswith("text/plain")
    assert reply.content == b"tgp_leader 1.0\n"


async def test_nothing_else_is_served_and_nothing_is_changed():
    assert (await probes().handle(Call("GET", "/"))).status == 404
    assert (await probes().handle(Call("POST", "/healthz"))).status == 405
