"""Tailscale's own Go client against the pretend tailnet: it judges whether the answers are Tailscale's."""

import asyncio
import json
from typing import Any

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.serve import listen
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tgp.sim.mesh.tailnet import Tailnet
from tgp.sim.mesh.v2 import OAuthClient, TailscaleSimulator, V2Server
from tools.controlplane.fixtures import say_past_capturing
from tools.toolbox import find
from tools.toolbox.pins import TAILNET_WALK

TAG = "tag:tgp-gpu"
BOUND_S = 60.0


async def walk(pytestconfig: pytest.Config, server: V2Server, client: OAuthClient) -> dict[str, Any]:
    """All that the client did and understood, on a real port."""
    program = await asyncio.to_thread(find, TAILNET_WALK, say=lambda line: say_past_capturing(pytestconfig, line))
    listening = await listen(server.handle)
    try:
        process = await asyncio.create_subprocess_exec(
            program, listening.url, client.id, client.secret, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await asyncio.wait_for(process.communicate(), BOUND_S)
        assert process.returncode == 0
        done: dict[str, Any] = json.loads(said)
        return done
    finally:
        await listening.stop()


def furnish(tailnet: Tailnet) -> None:
    key = tailnet.issue((TAG,))
    tailnet.go_offline(tailnet.join(key.secret, "train").id)
    tailnet.add("somebodys")


async def test_tailscales_client_understands_the_pretend_tailnet(pytestconfig: pytest.Config) -> None:
    server = TailscaleSimulator(SystemClock(), 1)
    furnish(server.tailnet)
    server.tailnet.add("shared", foreign=True)
    done = await walk(pytestconfig, server, server.client)

    assert done["KeyID"] in server.tailnet.keys
    assert done["Key"] == server.tailnet.keys[done["KeyID"]].secret
    assert (done["Tags"], done["Description"], done["Listed"]) == ([TAG], "a walk", 1)
    ours, somebodys, shared = done["Devices"]
    assert (ours["Hostname"], ours["Tags"], ours["Ephemeral"], ours["Deleted"]) == ("train", [TAG], True, "")
    assert (somebodys["Deleted"], somebodys["GoneIsNotFound"]) == ("", True)
    assert shared["External"]
    assert shared["Deleted"] == "cannot delete devices outside of your tailnet (501)"
    assert done["Revoked"] == ""
    assert done["OtherTag"] == "requested tags [tag:somebodys] are invalid or not permitted (400)"
    assert done["NoTag"] == "tailnet-owned auth key must have tags set (400)"


async def test_tailscales_client_understands_a_newer_pretend_headscale(pytestconfig: pytest.Config) -> None:
    server = HeadscaleSimulator(SystemClock(), 1, minor=30)
    furnish(server.tailnet)
    client = server.open(OAuthClient("walker", "hskey-client-walker-0123"))
    done = await walk(pytestconfig, server, client)

    assert done["KeyID"] == "2"
    assert [(each["ID"], each["Hostname"], each["Deleted"]) for each in done["Devices"]] == [
        ("1", "train", ""),
        ("2", "somebodys", ""),
    ]
    assert done["OtherTag"] == "tag tag:somebodys is not defined in policy (400)"
    assert done["NoTag"] == "an OAuth client must create tagged auth keys (403)"
