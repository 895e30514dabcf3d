"""The pretend Headscale beside the real one: asked the same, they answer alike. No root is needed, only the program."""

import asyncio
import json
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeAlias

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.serve import listen
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tools import toolbox
from tools.controlplane.fixtures import say_past_capturing

TAG = "tag:gpu"
START_BOUND_S = 30.0
STOP_BOUND_S = 10.0
Answer: TypeAlias = tuple[int, Any]
Ask: TypeAlias = Callable[..., Answer]


def asker(url: str, key: str) -> Ask:
    def ask(method: str, path: str, body: Any = None, *, key: str = key) -> Answer:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        call = urllib.request.Request(url + path, data, headers, method=method)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(call, timeout=10) as reply:  # noqa: S310 - loopback
                return reply.status, _read(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read())

    return ask


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _config(folder: Path, port: int) -> dict[str, Any]:
    policy = folder / "policy.json"
    policy.write_text(json.dumps({"tagOwners": {TAG: ["tgp@"]}, "acls": []}))
    relay = {
        "enabled": True,
        "region_id": 999,
        "region_code": "here",
        "region_name": "here",
        "stun_listen_addr": f"127.0.0.1:{_free_port()}",
        "private_key_path": str(folder / "derp.key"),
        "automatically_add_embedded_derp_region": True,
    }
    return {
        "server_url": f"http://127.0.0.1:{port}",
        "listen_addr": f"127.0.0.1:{port}",
        "metrics_listen_addr": f"127.0.0.1:{_free_port()}",
        "grpc_listen_addr": f"127.0.0.1:{_free_port()}",
        "unix_socket": str(folder / "s"),
        "noise": {"private_key_path": str(folder / "noise.key")},
        "prefixes": {"v4": "100.64.0.0/10", "v6": "fd7a:115c:a1e0::/48", "allocation": "sequential"},
        "database": {"type": "sqlite", "sqlite": {"path": str(folder / "db.sqlite")}},
        "dns": {"magic_dns": False, "override_local_dns": False, "base_domain": "lan.example"},
        "policy": {"mode": "file", "path": str(policy)},
        "disable_check_updates": True,
        "logtail": {"enabled": False},
        "derp": {"urls": [], "paths": [], "auto_update_enabled": False, "server": relay},
    }


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Ask]:
    program = toolbox.find(toolbox.HEADSCALE_SERVER, say=lambda line: say_past_capturing(pytestconfig, line))
    folder = tmp_path_factory.mktemp("hs")
    port = _free_port()
    config = folder / "c.yaml"
    config.write_text(json.dumps(_config(folder, port)))  # JSON is YAML
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve", "--config", config], stdout=log, stderr=log)
    try:
        _await(f"http://127.0.0.1:{port}/health", server, folder / "log")
        made = [program, "apikeys", "create", "--config", config, "--output", "json"]
        key = json.loads(subprocess.check_output(made, stderr=subprocess.DEVNULL))
        ask = asker(f"http://127.0.0.1:{port}", key)
        assert ask("POST", "/api/v1/user", {"name": "tgp"})[0] == 200
        yield ask
    finally:
        server.terminate()
        server.wait(STOP_BOUND_S)


def _await(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = monotonic() + START_BOUND_S
    while server.poll() is None and monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - loopback
                return
        except OSError:
            sleep(0.1)
    pytest.fail(f"Headscale did not answer:\n{log.read_text()[-2000:]}")


def shape(value: Any) -> Any:
    """What kinds of values stand where; of a list its first."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def beyond(pretend: Any, real: Any, where: str = "") -> list[str]:
    """Where the pretend shape has something that the real one has not, or has as another kind."""
    if isinstance(pretend, dict) and isinstance(real, dict):
        return [
            odd
            for name, each in pretend.items()
            for odd in (beyond(each, real[name], f"{where}.{name}") if name in real else [f"{where}.{name}: made up"])
        ]
    if isinstance(pretend, list) and isinstance(real, list):
        return beyond(pretend[0], real[0], f"{where}[]") if pretend and real else []
    return [] if pretend == real else [f"{where}: {pretend}, really {real}"]


def questions(ask: Ask) -> dict[str, Answer]:
    """All that our client asks, well and badly; nothing here needs a machine."""
    order = {"reusable": False, "ephemeral": True, "expiration": "2100-01-01T00:00:00Z", "aclTags": [TAG]}
    asked = {
        "the API of a newer one": ask("GET", "/api/v2/tailnet/-/keys"),
        "without a good key": ask("GET", "/api/v1/node", key="hskey-api-wrong"),
        "a newer API without a good key": ask("POST", "/api/v2/oauth/token", {}, key="hskey-api-wrong"),
        "its version": ask("GET", "/version"),
        "a key": ask("POST", "/api/v1/preauthkey", order),
        "a key without tags": ask("POST", "/api/v1/preauthkey", order | {"aclTags": []}),
        "a key with no tag": ask("POST", "/api/v1/preauthkey", order | {"aclTags": ["gpu"]}),
        "a key with a tag of no policy": ask("POST", "/api/v1/preauthkey", order | {"aclTags": ["tag:unheard-of"]}),
        "all keys": ask("GET", "/api/v1/preauthkey"),
        "no node that is there": ask("DELETE", "/api/v1/node/77"),
        "the end of no key": ask("POST", "/api/v1/preauthkey/expire", {"id": "77"}),
        "the removal of no key": ask("DELETE", "/api/v1/preauthkey?id=77"),
    }
    key_id = asked["a key"][1]["preAuthKey"]["id"]
    return asked | {
        "the end of a key": ask("POST", "/api/v1/preauthkey/expire", {"id": key_id}),
        "the removal of a key": ask("DELETE", f"/api/v1/preauthkey?id={key_id}"),
    }


def compare(pretend: dict[str, Answer], real: dict[str, Answer]) -> list[str]:
    found = []
    for name, (status, body) in pretend.items():
        real_status, real_body = real[name]
        if status != real_status:
            found.append(f"{name}: {status}, really {real_status} {real_body}")
        found += [f"{name}{odd}" for odd in beyond(shape(body), shape(real_body))]
        if status >= 400 and body != real_body:
            found.append(f"{name}: {body}, really {real_body}")
    return found


async def test_the_pretend_headscale_answers_as_the_real_one(real: Ask) -> None:
    simulator = HeadscaleSimulator(SystemClock(), 1)
    listening = await listen(simulator.handle)
    try:
        ask = asker(listening.url, simulator.api_key)
        pretend = await asyncio.to_thread(questions, ask)
        truth = await asyncio.to_thread(questions, real)
        assert compare(pretend, truth) == []

        simulator.tailnet.add("train", (TAG,))
        await asyncio.to_thread(_a_real_node, real)
        asked = {"nodes": await asyncio.to_thread(ask, "GET", "/api/v1/node")}
        truth = {"nodes": await asyncio.to_thread(real, "GET", "/api/v1/node")}
        assert compare(asked, truth) == []
        for each in (ask, real):
            (row,) = (await asyncio.to_thread(each, "GET", "/api/v1/node"))[1]["nodes"]
            assert (row["name"], row["givenName"], row["tags"], row["id"]) == ("train", "train", [TAG], "1")
            assert await asyncio.to_thread(each, "DELETE", "/api/v1/node/1") == (200, {})
            assert await asyncio.to_thread(each, "GET", "/api/v1/node") == (200, {"nodes": []})
    finally:
        await listening.stop()


def _a_real_node(real: Ask) -> None:
    """Made by the server's own back door for debugging: no client is needed."""
    request = "hskey-authreq-" + "a" * 24
    order = {"user": "tgp", "key": request, "name": "train", "routes": []}
    assert real("POST", "/api/v1/debug/node", order)[0] == 200
    assert real("POST", f"/api/v1/node/register?user=tgp&key={request}")[0] == 200
    assert real("POST", "/api/v1/node/1/tags", {"tags": [TAG]})[0] == 200
