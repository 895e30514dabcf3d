"""`tgp observe` on a terminal whose clock is not the API server's."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from tests.cli.test_preflight import TOKEN, a_kubeconfig
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.http.serve import listen
from tgp.adapters.kube.connect import connect
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tgp.app.commands.observe import ObserveOptions, ObserveSession
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.identity import ADMIN

AHEAD = timedelta(hours=6)


class Ahead(SystemClock):
    def now(self) -> datetime:
        return super().now() + AHEAD


async def test_the_view_has_the_time_of_the_api_server(tmp_path: Path):
    """What a budget has used since its status was written is counted from the API server's stamps."""
    server = ApiServer(Ahead(), SystemEntropy())
    server.authentication.add_token(TOKEN, ADMIN)
    for definition in crds():
        server.local_api.create(CUSTOM_RESOURCE_DEFINITION, definition)
    listening = await listen(server.handle)
    try:
        kubeconfig = a_kubeconfig(tmp_path, listening.url)
        async with connect(kubeconfig, "") as connection, http_client_pool(connection.clock) as dial:
            options = ObserveOptions(kubeconfig, "", "", timedelta(seconds=1), lines=True)
            session = ObserveSession(connection, options, dial)
            await asyncio.wait_for(session.run(), 30)
            behind = Ahead().now() - session.snapshot().now
    finally:
        await listening.stop()
    assert abs(behind) < timedelta(minutes=1)
