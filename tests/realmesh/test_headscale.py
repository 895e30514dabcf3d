"""A tailnet for real: keys by our client, machines by our config, and no machine comes back once it is removed."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias, TypeVar

import pytest

from tests.realmesh.machine import documents, environment_of
from tests.realmesh.traffic import carried, silent, soon_carried
from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import HttpClient
from tgp.adapters.mesh.headscale import HeadscaleMesh
from tgp.core.model.mesh import Backend, Device, DeviceRef, MeshReport, MeshSettings, Ref, TailscaleJoin
from tgp.core.model.secret import Secret
from tgp.ports.mesh import Enrollment, JoinRequest
from tools.lan import Host
from tools.lan.headscale import HeadscaleServer
from tools.lan.host import wait_for
from tools.lan.tailscale import Programs, TailscaleClient
from tools.toolbox import CONTAINERBOOT, HEADSCALE_SERVER, TAILSCALE_CLI, TAILSCALED

API_KEY = Ref("headscale", "api-key")
TAGS = ("tag:gpu",)
SLOW = "nothing"  # where the machine is so busy that containerboot gives up before its client says why
REFUSALS = ("invalid pre auth key", "authkey already used", "authkey expired", SLOW)  # Headscale's own words
T = TypeVar("T")
Start: TypeAlias = "Callable[[str | Host, Enrollment], TailscaleClient]"


class Office:
    """The operator's side: it reaches the server from a computer of its own."""

    def __init__(self, lan, server: HeadscaleServer) -> None:
        self._host = lan.host("office")
        self._server = server
        self._key = Secret(server.api_key)
        self._settings = MeshSettings(Backend.HEADSCALE, login_server=server.url, tags=TAGS, api_key=API_KEY)
        self.began = SystemClock().now() - timedelta(seconds=1)

    def enroll(self, hostname: str) -> Enrollment:
        join_request = JoinRequest(hostname, hostname, f"tgp-{hostname}", SystemClock().now() + timedelta(minutes=15))
        return self._ask(lambda mesh: mesh.enroll(join_request))

    def find(self, hostname: str, **known: str) -> Device | None:
        return self._ask(lambda mesh: mesh.find(DeviceRef(hostname, self.began, **known)))

    def remove(self, hostname: str, **known: str) -> None:
        self._ask(lambda mesh: mesh.remove(DeviceRef(hostname, self.began, **known)))

    def check(self) -> MeshReport:
        return self._ask(lambda mesh: mesh.check())

    def _ask(self, question: Callable[[HeadscaleMesh], Awaitable[T]]) -> T:
        async def asked() -> T:
            clock = SystemClock()
            http = HttpClient(self._server.url, clock, tls=self._server.trusting())
            try:
                mesh = HeadscaleMesh(self._settings, {API_KEY: self._key}, lambda *_, **__: http, clock)
                return await question(mesh)
            finally:
                await http.close()
                await _said_goodbye()

        with self._host.inside():
            return asyncio.run(asked())


async def _said_goodbye() -> None:
    """A TLS connection that is closed still says so to the other side; only then is its socket free."""
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # the only place that knows what is open
    for _ in range(500):
        if len(selector.get_map()) <= 1:  # the loop's own, by which threads wake it
            return
        await asyncio.sleep(0.01)


@pytest.fixture
def server(lan, program_of) -> HeadscaleServer:
    return HeadscaleServer(lan.host("server"), program_of(HEADSCALE_SERVER), TAGS)


@pytest.fixture
def office(lan, server) -> Office:
    return Office(lan, server)


@pytest.fixture
def start(lan, server, program_of) -> Start:
    """A machine that was given this enrollment: its config is rendered, read back from its text, and started by."""
    programs = Programs(program_of(CONTAINERBOOT), program_of(TAILSCALED), program_of(TAILSCALE_CLI))

    def started(where: str | Host, enrollment: Enrollment) -> TailscaleClient:
        assert isinstance(enrollment.join, TailscaleJoin)
        host = lan.host(where) if isinstance(where, str) else where
        return TailscaleClient(host, programs, environment_of(documents(enrollment.join)), server.authority)

    return started


def test_a_machine_joins_by_our_config_is_found_reached_and_removed_for_good(office, start):
    assert office.check().usable
    enrollment = {name: office.enroll(name) for name in ("train-1", "train-2")}
    assert office.find("train-1") is None, "a key is not a machine"

    clients = {name: start(name, enrollment[name]) for name in enrollment}
    addresses = {name: client.joined() for name, client in clients.items()}

    # Found as what it is.
    device = office.find("train-1")
    assert device is not None
    assert device.hostname == "train-1"
    assert addresses["train-1"] in device.addresses
    assert device.tags == TAGS
    assert office.find("train") is None
    again = office.find("train-1", device_id=device.id)
    assert again is not None
    assert again.id == device.id

    # Reached by TCP, both ways.
    first, second = (clients[name].host for name in ("train-1", "train-2"))
    assert soon_carried(first, second, addresses["train-2"])
    assert carried(second, first, addresses["train-1"])
    assert clients["train-1"].directly(addresses["train-2"]).startswith(f"{second.address}:"), "and not by the relay"

    # Removed, while it runs.
    office.remove("train-1", key_id=enrollment["train-1"].key_id, device_id=device.id)
    assert office.find("train-1") is None
    wait_for(lambda: silent(second, addresses["train-1"]), 30.0, lambda: "the removed machine still answers")
    assert office.find("train-2") is not None
    office.remove("train-1", key_id=enrollment["train-1"].key_id, device_id=device.id)  # gone is a success

    # It cannot come back: not with what it remembers, not afresh with its key.
    clients["train-1"].stop()
    assert start(first, enrollment["train-1"]).refused() in REFUSALS
    assert start("afresh", enrollment["train-1"]).refused() in REFUSALS
    assert office.find("train-1") is None


def test_a_key_is_good_once_and_the_machine_itself_may_restart(office, start):
    enrollment = office.enroll("train-1")
    client = start("train-1", enrollment)
    address = client.joined()

    client.stop()
    assert start(client.host, enrollment).joined() == address

    assert start("thief", enrollment).refused() in REFUSALS
    device = office.find("train-1")
    assert device is not None
    assert address in device.addresses


def test_a_key_that_was_revoked_before_its_machine_came_lets_no_machine_in(office, start):
    enrollment = office.enroll("train-1")
    office.remove("train-1", key_id=enrollment.key_id)

    assert start("train-1", enrollment).refused() in REFUSALS
    assert office.find("train-1") is None
