"""On real sockets: a server that reads an order and drops the connection has seen it once, and the outcome is
unknown.
"""

import msgspec
import pytest

from tests.contracts.clouds.paperspace.answers import an_order
from tests.contracts.http.rude import Line, client_of, rude_server
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.paperspace.client import PaperspaceCloud
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import OutcomeUnknown

TEMPLATE = {
    "id": "t0nspur5",
    "name": "Ubuntu 22.04",
    "availableMachineTypes": [{"machineTypeLabel": "A4000", "isAvailable": True}],
}
PAGE = msgspec.json.encode({"items": [TEMPLATE], "hasMore": False, "nextPage": None})


async def lists_templates_and_drops_the_rest(line: Line) -> None:
    head = await line.request()
    if head.startswith("GET /v1/os-templates"):
        await line.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(PAGE) + PAGE)


async def test_an_order_is_seen_once_and_its_outcome_is_unknown():
    async with rude_server(lists_templates_and_drops_the_rest) as rude, client_of(rude, SystemClock()) as http:
        cloud = PaperspaceCloud(http, SystemClock(), ProviderSettings())
        with pytest.raises(OutcomeUnknown):
            await cloud.launch(an_order())

        assert [line for line in rude.requests if line.startswith("POST")] == ["POST /v1/machines HTTP/1.1"]


async def test_an_end_is_asked_for_once():
    async with rude_server(lists_templates_and_drops_the_rest) as rude, client_of(rude, SystemClock()) as http:
        with pytest.raises(OutcomeUnknown):
            await PaperspaceCloud(http, SystemClock(), ProviderSettings()).terminate("ps3kd81ma")

        assert rude.requests == ["DELETE /v1/machines/ps3kd81ma HTTP/1.1"]
