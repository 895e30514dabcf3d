"""On real sockets: the create is a PUT, which clients like to send again. A server that drops the line sees it once."""

import pytest

from tests.contracts.clouds.vast.answers import an_order
from tests.contracts.http.rude import Line, client_of, rude_server
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.vast import build
from tgp.adapters.entropy import SystemEntropy
from tgp.core.model.cloud_errors import OutcomeUnknown
from tgp.core.model.secret import Secret
from tgp.sim.resolver import TableResolver


def cloud_over(http):
    clock = SystemClock()
    return build(AdapterContext(lambda _url, **_: http, clock, SystemEntropy(), TableResolver(), key=Secret("a-key")))


async def reads_and_drops(line: Line) -> None:
    await line.request()


async def answers_half(line: Line) -> None:
    await line.request()
    await line.say(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"success": true, "new_contract": 12')


@pytest.mark.parametrize("manners", [reads_and_drops, answers_half])
async def test_an_order_is_seen_once_and_its_outcome_is_unknown(manners):
    async with rude_server(manners) as rude, client_of(rude, SystemClock()) as http:
        with pytest.raises(OutcomeUnknown):
            await cloud_over(http).launch(an_order())

        assert rude.requests == ["PUT /api/v0/asks/12345678/ HTTP/1.1"]


async def test_an_end_is_asked_for_once():
    async with rude_server(reads_and_drops) as rude, client_of(rude, SystemClock()) as http:
        with pytest.raises(OutcomeUnknown):
            await cloud_over(http).terminate("312")

        assert rude.requests == ["DELETE /api/v0/instances/312/ HTTP/1.1"]
