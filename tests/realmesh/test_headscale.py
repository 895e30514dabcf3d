"""A tailnet for real: keys by our client, machines by our config, and nobody comes back once they are removed."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from tests.realmesh.machine import documents, environment_of
from tests.realmesh.traffic import carried, silent, soon_carried
from tgp.adapters.clock import SystemClock
from tgp.adapters.mesh.headscale import HeadscaleMesh
from tgp.app.dialling import switchboard
from tgp.core.model.mesh import Backend, Device, MeshReport, MeshSettings, Ref, TailscaleJoin, Trace
from tgp.core.model.secret import Secret
from tgp.ports.mesh import Enrolment, Ticket
from tools.lan import LanFailed
from tools.lan.headscale import HeadscaleServer
from tools.lan.host import wait_for
from tools.lan.tailscale import Programs, TailscaleClient
from tools.toolbox import CONTAINERBOOT, HEADSCALE_SERVER, TAILSCALE_CLI, TAILSCALED

API_KEY = Ref("headscale", "api-key")
TAGS = ("tag:gpu",)
T = TypeVar("T")


class Office:
    """The operator's side: it reaches the server from a computer of its own."""

    def __init__(self, lan, server: HeadscaleServer) -> None:
        self._host = lan.host("office")
        self._key = Secret(server.api_key)
        self._settings = MeshSettings(Backend.HEADSCALE, login_server=server.url, tags=TAGS, api_key=API_KEY)
        self.began = SystemClock().now() - timedelta(seconds=1)

    def enrol(self, hostname: str) -> Enrolment:
        ticket = Ticket(hostname, hostname, f"tgp-{hostname}", SystemClock().now() + timedelta(minutes=15))
        return self._ask(lambda mesh: mesh.enrol(ticket))

    def find(self, hostname: str, **known: str) -> Device | None:
        return self._ask(lambda mesh: mesh.find(Trace(hostname, self.began, **known)))

    def remove(self, hostname: str, **known: str) -> None:
        self._ask(lambda mesh: mesh.remove(Trace(hostname, self.began, **known)))

    def check(self) -> MeshReport:
        return self._ask(lambda mesh: mesh.check())

    def _ask(self, question: Callable[[HeadscaleMesh], Awaitable[T]]) -> T:
        async def asked() -> T:
            clock = SystemClock()
            async with switchboard(clock) as dial:
                return await question(HeadscaleMesh(self._settings, {API_KEY: self._key}, dial, clock))

        with self._host.inside():
            return asyncio.run(asked())


@pytest.fixture
def server(lan, program_of) -> HeadscaleServer:
    return HeadscaleServer(lan.host("server"), program_of(HEADSCALE_SERVER), TAGS)


@pytest.fixture
def office(lan, server) -> Office:
    return Office(lan, server)


@pytest.fixture
def programs(program_of) -> Programs:
    return Programs(program_of(CONTAINERBOOT), program_of(TAILSCALED), program_of(TAILSCALE_CLI))


def environment(enrolment: Enrolment) -> dict[str, str]:
    """As it stands in the machine config, read back from its text."""
    assert isinstance(enrolment.join, TailscaleJoin)
    return environment_of(documents(enrolment.join))


def test_a_machine_joins_by_our_config_is_found_reached_and_removed_for_good(lan, office, programs):
    assert office.check().usable
    papers = {name: office.enrol(name) for name in ("train-1", "train-2")}
    assert office.find("train-1") is None, "a key is not a machine"

    clients = {name: TailscaleClient(lan.host(name), programs, environment(papers[name])) for name in papers}
    addresses = {name: client.joined() for name, client in clients.items()}

    # Found as what it is.
    device = office.find("train-1")
    assert device is not None
    assert device.hostname == "train-1"
    assert addresses["train-1"] in device.addresses
    assert device.tags == TAGS
    assert office.find("train") is None
    assert office.find("anything", device_id=device.id) == device

    # Reached by TCP, both ways.
    first, second = (clients[name].host for name in ("train-1", "train-2"))
    assert soon_carried(first, second, addresses["train-2"])
    assert carried(second, first, addresses["train-1"])
    assert "192.0.2." in clients["train-1"].ping(addresses["train-2"]), "directly, and not by the relay"

    # Removed, while it runs.
    office.remove("train-1", key_id=papers["train-1"].key_id, device_id=device.id)
    assert office.find("train-1") is None
    wait_for(lambda: silent(second, addresses["train-1"]), 30.0, lambda: "the removed machine still answers")
    assert office.find("train-2") is not None
    office.remove("train-1", key_id=papers["train-1"].key_id, device_id=device.id)  # gone is a success

    # It cannot come back: not with its state, not with its key.
    clients["train-1"].stop()
    again = TailscaleClient(first, programs, environment(papers["train-1"]), state=first.folder / "state")
    afresh = TailscaleClient(lan.host("afresh"), programs, environment(papers["train-1"]))
    for client in (again, afresh):
        with pytest.raises(LanFailed):
            client.joined()
    assert office.find("train-1") is None


def test_a_key_is_good_once_and_the_machine_itself_may_restart(lan, office, programs):
    papers = office.enrol("train-1")
    client = TailscaleClient(lan.host("train-1"), programs, environment(papers))
    address = client.joined()

    client.stop()
    same = TailscaleClient(client.host, programs, environment(papers))
    assert same.joined() == address

    thief = TailscaleClient(lan.host("thief"), programs, environment(papers))
    with pytest.raises(LanFailed):
        thief.joined()
    device = office.find("train-1")
    assert device is not None
    assert address in device.addresses


def test_a_key_that_was_revoked_before_its_machine_came_lets_nobody_in(lan, office, programs):
    papers = office.enrol("train-1")
    office.remove("train-1", key_id=papers.key_id)
    late = TailscaleClient(lan.host("train-1"), programs, environment(papers))

    with pytest.raises(LanFailed):
        late.joined()
    assert office.find("train-1") is None
