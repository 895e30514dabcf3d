"""The commands that look after money, over real sockets, with a kubeconfig."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.program import Answer, Terminal, answer
from tests.cli.program import tgp as program
from tests.cli.test_preflight import TOKEN, a_kubeconfig
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.serve import listen
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from tgp.app.demo.world import EmbeddedWorld
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.identity import ADMIN


async def tgp(*words: str) -> Answer:
    """In a thread of its own: the API server that it asks is served by this one."""
    return await asyncio.to_thread(answer, *words)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, str]]:
    server = ApiServer(SystemClock(), SystemEntropy())
    server.authentication.add_token(TOKEN, ADMIN)
    listening = await listen(server.handle)
    yield server, a_kubeconfig(tmp_path, listening.url)
    await listening.stop()


def a_namespace(server: ApiServer) -> None:
    server.local_api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tgp-system"}})


async def test_the_brake_is_pulled_and_released_over_a_socket(cluster):
    server, kubeconfig = cluster
    a_namespace(server)
    held = await tgp("hold", "audit", "--kubeconfig", kubeconfig)
    seen = server.local_api.get(NAMESPACE, "", "tgp-system")["metadata"]["annotations"]["tgp.io/hold"]
    released = await tgp("release", "--kubeconfig", kubeconfig, "-o", "json")

    assert held.returncode == 0, held.stderr
    assert seen.startswith("audit; since ")
    assert released.returncode == 0, released.stderr
    assert json.loads(released.stdout)["purchasesPaused"] is False


async def test_a_cluster_without_the_operator_is_told_in_a_sentence(cluster):
    server, kubeconfig = cluster
    nowhere = await tgp("hold", "--kubeconfig", kubeconfig)
    a_namespace(server)
    kindless = await tgp("doctor", "--kubeconfig", kubeconfig)
    empty = await tgp("cost", "--kubeconfig", kubeconfig)

    assert (nowhere.returncode, kindless.returncode, empty.returncode) == (2, 2, 0)
    assert "Namespace tgp-system does not exist" in nowhere.stderr
    assert "tgp crds apply" in kindless.stderr
    assert "No cost so far." in empty.stdout


async def test_an_installed_cluster_without_a_class_is_well_and_empty(cluster):
    server, kubeconfig = cluster
    a_namespace(server)
    for definition in crds():
        server.local_api.create(CUSTOM_RESOURCE_DEFINITION, definition)
    doctor = await tgp("doctor", "--kubeconfig", kubeconfig)
    down = await tgp("down", "--yes", "--direct", "-o", "json", "--kubeconfig", kubeconfig)

    assert doctor.returncode == 0, doctor.stderr
    assert "No machine is rented; the cost is $0.00 an hour." in doctor.stdout
    assert down.returncode == 0, down.stdout
    assert json.loads(down.stdout)["proven"] is True


async def test_a_pretend_market_proves_nothing_of_a_cluster(cluster):
    """TGP_WORLD is for markets: with it set, a cluster's own providers are asked all the same."""
    server, kubeconfig = cluster
    a_namespace(server)
    for definition in crds():
        server.local_api.create(CUSTOM_RESOURCE_DEFINITION, definition)
    told = await tgp("--world", "http://127.0.0.1:9", "doctor", "--kubeconfig", kubeconfig)

    assert told.returncode == 0, told.stderr


async def test_no_kubeconfig_is_told_without_a_traceback(tmp_path):
    told = await tgp("doctor", "--kubeconfig", str(tmp_path / "nothing"))

    assert told.returncode == 2
    assert "nothing" in told.stderr


async def test_a_pretend_cluster_leads_to_its_own_pretend_providers(tmp_path):
    """The keys in its Secrets open accounts in that world only: they are never sent to the internet."""
    world = EmbeddedWorld(SystemClock(), SystemEntropy())
    world.server.authentication.add_token(TOKEN, ADMIN)
    listening = await listen(world.handle)
    try:
        world.market.open_at(listening.url)
        told = await tgp("doctor", "-o", "json", "--kubeconfig", a_kubeconfig(tmp_path, listening.url))
    finally:
        await listening.stop()
        world.close()
    asked = {row["provider"]: row["answered"] for row in json.loads(told.stdout)["providers"]}

    assert told.returncode == 2, "the keys of some are missing there"
    assert asked["vultr"] is True
    assert asked["vast"] is True
    assert asked["runpod"] is True


async def test_on_a_terminal_the_name_is_typed(cluster, tmp_path):
    server, kubeconfig = cluster
    a_namespace(server)
    for definition in crds():
        server.local_api.create(CUSTOM_RESOURCE_DEFINITION, definition)

    def person() -> tuple[int, bytes]:
        terminal = Terminal(tmp_path, *program("down", "--kubeconfig", kubeconfig))
        try:
            terminal.wait_for(b"Type the cluster's name (x)")
            terminal.type(b"x\n")
            return terminal.wait(), terminal.written
        finally:
            terminal.close()

    code, written = await asyncio.to_thread(person)
    assert code == 0, written
    assert b"No machine can exist" in written
    assert (
        "tgp down; since" in server.local_api.get(NAMESPACE, "", "tgp-system")["metadata"]["annotations"]["tgp.io/hold"]
    )
