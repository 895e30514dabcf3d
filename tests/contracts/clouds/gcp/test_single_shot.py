"""On real sockets: an order is written once, whatever becomes of the connection."""

import pytest

from tests.contracts.clouds.gcp.gcp_stage import an_order, settings
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds import gcp
from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client import HttpClient
from tgp.adapters.http.serve import listen
from tgp.adapters.resolver import SystemResolver
from tgp.core.model.cloud_errors import OutcomeUnknown
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, HangUp, Http, Reply
from tgp.sim.clouds.gcp import GcpSimulator


@pytest.mark.parametrize("verb", ["launch", "terminate"])
async def test_a_dropped_connection_leaves_one_request_and_an_open_outcome(verb: str):
    clock = SystemClock()
    simulator = GcpSimulator(clock, "sockets")
    seen: list[str] = []
    clients: list[HttpClient] = []

    async def rude(call: Call) -> Reply:
        """Gives tokens; reads everything else and drops."""
        if call.path == "/token":
            return await simulator.handle(call)
        seen.append(call.method)
        raise HangUp

    def dial(base_url: str, *, address: str = "") -> Http:
        clients.append(HttpClient(base_url, clock))
        return clients[-1]

    served = await listen(rude)
    key = Secret(simulator.key_at(served.url))
    context = AdapterContext(dial, clock, SystemEntropy(), SystemResolver(), key, settings(endpoint=served.url))
    cloud = gcp.build(context)
    try:
        with pytest.raises(OutcomeUnknown):
            await (cloud.launch(an_order()) if verb == "launch" else cloud.terminate("us-central1-a:tgp-x"))
    finally:
        for client in clients:
            await client.close()
        await served.stop()

    assert seen == ["POST" if verb == "launch" else "DELETE"]
