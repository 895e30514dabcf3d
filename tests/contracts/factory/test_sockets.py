"""The factory's client on real sockets: an answer that is dropped is an error, and nothing is asked twice."""

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.http.serve import listen
from tgp.adapters.image_factory import FactoryClient
from tgp.core.model.talos import TalosVersion
from tgp.ports.image_factory import FactoryError, Schematic
from tgp.sim.factory import FactorySimulator, Mood


async def test_a_schematic_and_extensions_are_read_and_a_dropped_answer_is_asked_for_once():
    clock = SystemClock()
    factory = FactorySimulator(clock)
    listening = await listen(factory.handle)
    url = listening.url
    try:
        async with http_client_pool(clock) as dial:
            client = FactoryClient(dial(url), url)
            factory.moods = [Mood.HANG_UP]
            with pytest.raises(FactoryError, match="did not answer"):
                await client.schematic(Schematic(("siderolabs/tailscale",)))
            assert len(factory.asked) == 1

            assert len(await client.schematic(Schematic(("siderolabs/tailscale",)))) == 64
            assert "siderolabs/tailscale" in await client.extensions(TalosVersion(13, 0))
            assert client.image("0" * 64, TalosVersion(13, 0), "a").startswith(url)
    finally:
        await listening.stop()
