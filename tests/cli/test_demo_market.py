"""The demo's kubeconfig opens its market, too; a real cluster's never opens a simulated one."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.test_money_program import tgp
from tests.cli.test_preflight import TOKEN, a_kubeconfig
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.serve import listen
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.app.demo.world import EmbeddedWorld
from tgp.services.demo_market import demo_market_url
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.identity import ADMIN


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[str]:
    world = EmbeddedWorld(SystemClock(), SystemEntropy())
    world.server.authentication.add_token(TOKEN, ADMIN)
    listening = await listen(world.handle)
    world.market.open_at(listening.url)
    yield a_kubeconfig(tmp_path, listening.url)
    await listening.stop()
    world.close()


async def test_its_kubeconfig_opens_the_market(demo: str):
    offers = await tgp("offers", "--provider", "simulated", "-o", "json", "--kubeconfig", demo)
    owning = await tgp("breakeven", "--gpu", "RTX4090", "--hardware", "1600", "--kubeconfig", demo)
    check = await tgp("check", "--provider", "vultr", "-o", "json", "--kubeconfig", demo)
    rent = await tgp("rent", "--gpu", "RTX4090", "--class", "anywhere", "-o", "json", "--dry-run", "--kubeconfig", demo)

    assert {item["provider"] for item in json.loads(offers.stdout)["items"]} == {"simulated"}, offers.stderr
    assert owning.returncode == 0, owning.stderr
    assert json.loads(check.stdout)["providers"][0]["key"] == "valid", check.stdout
    assert any(row["live"] for row in json.loads(rent.stdout)["prices"]), rent.stdout


async def test_so_does_the_variable_that_kubectl_reads(demo: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", demo)

    assert await demo_market_url("", "") == await demo_market_url(demo, "") != ""


async def test_a_cluster_that_does_not_pretend_has_the_real_market(tmp_path: Path):
    """Also behind `kubectl proxy`, which listens as the demo does; and a server elsewhere is not even asked."""
    server = ApiServer(SystemClock(), SystemEntropy())
    listening = await listen(server.handle)
    try:
        assert await demo_market_url(a_kubeconfig(tmp_path, listening.url), "") == ""
    finally:
        await listening.stop()
    assert await demo_market_url(a_kubeconfig(tmp_path, "https://cluster.invalid:6443"), "") == ""
    assert await demo_market_url(a_kubeconfig(tmp_path, "http://cluster.invalid:8001"), "") == ""


async def test_only_a_kubeconfig_that_was_named_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))

    assert await demo_market_url("", "") == ""
    with pytest.raises(ConfigInvalid):
        await demo_market_url(str(tmp_path / "gone"), "")
