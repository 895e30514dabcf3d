"""On real sockets: a server that reads an order and drops the connection has seen it once, and the outcome is
unknown.
"""

import pytest

from tests.contracts.clouds.runpod.answers import an_order
from tests.contracts.http.rude import Line, client_of, rude_server
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.runpod.client import RunPodCloud
from tgp.core.model.cloud_errors import CannotTell, OutcomeUnknown
from tgp.ports.cloud import Account


async def reads_and_drops(line: Line) -> None:
    await line.request()


async def answers_half(line: Line) -> None:
    await line.request()
    await line.say(b'HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{"id":')


@pytest.mark.parametrize("manners", [reads_and_drops, answers_half])
async def test_an_order_is_seen_once_and_its_outcome_is_unknown(manners):
    async with rude_server(manners) as rude, client_of(rude, SystemClock()) as http:
        with pytest.raises(OutcomeUnknown):
            await RunPodCloud(http, Account("key:x")).launch(an_order())

        assert rude.requests == ["POST /v2/pods HTTP/1.1"]


async def test_an_end_is_asked_for_once():
    async with rude_server(reads_and_drops) as rude, client_of(rude, SystemClock()) as http:
        with pytest.raises(OutcomeUnknown):
            await RunPodCloud(http, Account("key:x")).terminate("7h9k2m4n6p")

        assert rude.requests == ["DELETE /v2/pods/7h9k2m4n6p HTTP/1.1"]


async def test_an_id_that_is_none_is_not_asked_for_at_all():
    async with rude_server(reads_and_drops) as rude, client_of(rude, SystemClock()) as http:
        with pytest.raises(CannotTell):
            await RunPodCloud(http, Account("key:x")).terminate("../account")

        assert rude.requests == []
