"""A plain tunnel for real: our machine config on one end, what we publish on the other, wireguard-go between them."""

from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.realmesh.machine import bring_up, documents, tunnel_of
from tests.realmesh.traffic import Line, carried, silent, soon_carried
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.mesh.wireguard import WireGuardMesh
from tgp.adapters.mesh.wireguard.keys import new_pair
from tgp.api.resource import NAMESPACE, SECRET
from tgp.core.model.mesh import Backend, DeviceRef, MeshSettings, TunnelJoin, TunnelSettings
from tgp.ports.mesh import JoinRequest
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import World
from tools.lan import Host
from tools.lan.wireguard import WireGuardEnd
from tools.toolbox import WIREGUARD_GO
from tools.toolbox.debian import SEARCHED, programs

HOME = "tgp-system"
LISTENS_AT = 51820
SERVER_KEYS = new_pair(SeededEntropy(1, "server"))
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PAGE = Path(__file__).parents[2] / "docs" / "wireguard.md"


class Office:
    """The operator's side: its mesh, on a cluster in memory."""

    def __init__(self, world: World, server: Host) -> None:
        self._world = world
        api = ApiServer(world.clock, SeededEntropy(1, "apiserver"))
        api.local_api.create(NAMESPACE, {"metadata": {"name": HOME}})
        world.mount("kube", api.handle)
        self._cluster = KubeCluster(world.visitor("kube"), SeededEntropy(1, "cluster"))
        tunnel = TunnelSettings(
            server_key=SERVER_KEYS.public,
            server_endpoint=f"{server.address}:{LISTENS_AT}",
            allowed_ips=("10.8.0.0/24",),
            address_pool="10.8.0.0/24",
        )
        settings = MeshSettings(Backend.WIREGUARD, tunnel=tunnel)
        luck = SeededEntropy(1, "mesh")
        self.mesh = WireGuardMesh(self._cluster, world.clock, luck, settings, {}, namespace=HOME)

    def enroll(self, hostname: str) -> TunnelJoin:
        join_request = JoinRequest(hostname, hostname, f"tgp-{hostname}", self._world.clock.now() + timedelta(hours=1))
        join = self._world.until(self.mesh.enroll(join_request)).join
        assert isinstance(join, TunnelJoin)
        return join

    def remove(self, hostname: str) -> None:
        self._world.until(self.mesh.remove(DeviceRef(hostname, LONG_AGO)))

    def secret(self) -> dict[str, Any]:
        found: dict[str, Any] = self._world.until(self._cluster.read(SECRET, self.mesh.key))
        return found

    def published(self) -> str:
        return b64decode(self.secret()["data"]["wg.conf"]).decode()


@pytest.fixture
def program(program_of) -> Path:
    return program_of(WIREGUARD_GO)


@pytest.fixture
def server(lan) -> Host:
    return lan.host("server")


@pytest.fixture
def office(server) -> Iterator[Office]:
    with World(1) as world:
        yield Office(world, server)


@pytest.fixture
def server_end(server, program) -> WireGuardEnd:
    end = WireGuardEnd(server, program)
    end.configure(SERVER_KEYS.private.reveal(), listen_port=LISTENS_AT)
    end.up("10.8.0.1/24")
    return end


@pytest.mark.parametrize("version", ["v1.11.5", "v1.13.0"], ids=["the old words", "the new kind"])
def test_traffic_flows_by_what_we_wrote_and_ends_with_the_node(lan, office, server_end, program, version):
    server = server_end.host
    first, second = lan.host("first"), lan.host("second")
    for host in (first, second):
        bring_up(host, program, tunnel_of(documents(office.enroll(host.name), version)))

    assert silent(first, "10.8.0.1"), "no peer is let in before the server has read it"
    server_end.sync(office.published())
    assert soon_carried(first, server, "10.8.0.1")
    assert soon_carried(second, server, "10.8.0.1")
    assert carried(server, first, "10.8.0.2")
    line, kept = Line(first, server, "10.8.0.1"), Line(second, server, "10.8.0.1", port=8090)
    assert line.alive()

    office.remove("first")
    server_end.sync(office.published())
    assert not line.alive()
    assert silent(first, "10.8.0.1")
    assert kept.alive(), "who stays is not disturbed"
    assert carried(second, server, "10.8.0.1")
    for each in (line, kept):
        each.close()


def test_the_documented_agent_does_it_with_wg_itself(lan, office, server_end, program, tmp_path):
    """Also: it keeps the server's own key and port, and removes no peer while the cluster does not answer."""
    programs(("wg",))
    server, node = server_end.host, lan.host("node")
    bring_up(node, program, tunnel_of(documents(office.enroll("node"))))
    agent = _Agent(server, office, tmp_path)

    agent.run()
    assert soon_carried(node, server, "10.8.0.1")
    assert server.run("wg", "show", "wg0", "listen-port").strip() == str(LISTENS_AT)

    agent.break_the_way_to_the_cluster()
    with pytest.raises(Exception, match="ended with"):
        agent.run()
    assert server_end.peers(), "it did not take silence for an empty list"

    office.remove("node")
    agent.run()
    assert not server_end.peers()
    assert silent(node, "10.8.0.1")


class _Agent:
    """The page's five lines, with a kubectl that knows one Secret."""

    def __init__(self, server: Host, office: Office, folder: Path) -> None:
        self._server = server
        self._office = office
        self._folder = folder
        interface = f"[Interface]\nPrivateKey = {SERVER_KEYS.private.reveal()}\nListenPort = {LISTENS_AT}\n"
        self._own = folder / "wg0.conf"
        self._own.write_text(interface)
        text = PAGE.read_text().split("```bash\n", 1)[1].split("```", 1)[0]
        text = text.replace("tgp-wireguard-0123456789", office.mesh.key.name)
        self._script = text.replace("/etc/wireguard/wg0.conf", str(self._own))
        assert str(self._own) in self._script
        self._broken = False

    def break_the_way_to_the_cluster(self) -> None:
        self._broken = True

    def run(self) -> None:
        value = self._office.secret()["data"]["wg.conf"]
        kubectl = self._folder / "kubectl"
        asked = f'[ "$3" = secret ] && [ "$4" = {self._office.mesh.key.name} ] && printf %s {value}'
        kubectl.write_text(f"#!/bin/sh\n{'exit 1' if self._broken else asked}\n")
        kubectl.chmod(0o755)
        self._broken = False
        self._server.run("sh", "-c", self._script, env={"PATH": f"{self._folder}:{SEARCHED}"})
