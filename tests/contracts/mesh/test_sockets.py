"""Both adapters on real sockets, as the operator runs them: what the pretend network shows is no accident of it."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from tests.contracts.mesh.stage import API_KEY, CLIENT_ID, CLIENT_SECRET, TAG, key_of
from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.http.serve import listen
from tgp.adapters.mesh.headscale import HeadscaleMesh
from tgp.adapters.mesh.tailscale import TailscaleMesh
from tgp.core.model.mesh import Backend, DeviceRef, MeshSettings
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, HangUp, Reply
from tgp.ports.mesh import JoinRequest, Mesh, MeshBusy
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tgp.sim.mesh.mesh_faults import MeshVerb
from tgp.sim.mesh.v2 import TailscaleSimulator, V2Server


@dataclass
class Served:
    server: V2Server
    seen: list[MeshVerb] = field(default_factory=list)
    drops: MeshVerb | None = None  # these requests are read to their end, and then the connection is dropped

    async def answer(self, call: Call) -> Reply:
        verb = self.server.verb_of(call)
        self.seen.append(verb)
        if verb is self.drops:
            raise HangUp
        return await self.server.handle(call)


def _made(name: str, served: Served, url: str, dial: object, clock: SystemClock) -> Mesh:
    if name == "tailscale":
        assert isinstance(served.server, TailscaleSimulator)
        settings = MeshSettings(Backend.TAILSCALE, tags=(TAG,), client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
        client = served.server.client
        secrets = {CLIENT_ID: Secret(client.id), CLIENT_SECRET: Secret(client.secret)}
        return TailscaleMesh(settings, secrets, dial, clock, base_url=url)  # type: ignore[arg-type]
    assert isinstance(served.server, HeadscaleSimulator)
    settings = MeshSettings(Backend.HEADSCALE, login_server=url, tags=(TAG,), api_key=API_KEY)
    return HeadscaleMesh(settings, {API_KEY: Secret(served.server.api_key)}, dial, clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tailscale", "headscale-0.29", "headscale-0.30"])
async def test_a_machines_whole_life_passes_through_real_sockets(name: str) -> None:
    clock = SystemClock()
    served = Served(
        TailscaleSimulator(clock, 1) if name == "tailscale" else HeadscaleSimulator(clock, 1, minor=int(name[-2:]))
    )
    listening = await listen(served.answer)
    try:
        async with http_client_pool(clock) as dial:
            mesh = _made(name, served, listening.url, dial, clock)
            assert (await mesh.check()).usable
            trace = DeviceRef("train", clock.now())
            join_request = JoinRequest("train", "train", "tgp-c0ffee0123-1-1", clock.now() + timedelta(minutes=20))
            made = await mesh.enroll(join_request)
            device = served.server.tailnet.join(key_of(made), "train")
            found = await mesh.find(replace(trace, key_id=made.key_id))
            assert found is not None
            assert found.id == device.id

            served.drops = MeshVerb.DELETE
            with pytest.raises(MeshBusy):
                await mesh.remove(replace(trace, key_id=made.key_id, device_id=device.id))
            assert served.seen.count(MeshVerb.DELETE) == 1, "what was read and not answered is not sent again by itself"
            served.drops = None
            await mesh.remove(replace(trace, key_id=made.key_id, device_id=device.id))
            assert served.server.tailnet.seats == {}

            served.drops = MeshVerb.MINT
            orders = served.seen.count(MeshVerb.MINT)
            with pytest.raises(MeshBusy):
                await mesh.enroll(join_request)
            assert served.seen.count(MeshVerb.MINT) == orders + 1
    finally:
        await listening.stop()
