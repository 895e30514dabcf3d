"""One Ctrl-C ends every question and every command, at once and without noise, and it is said what was begun."""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Terminal, tgp
from tests.cli.sample_requests import send
from tests.cli.test_rent import BARE, furnished
from tests.cli.test_talos_join import WORKER
from tests.contracts.kubectl.mounted import Mounted
from tgp.core.model.identity import cluster_id
from tgp.core.model.token import token_for
from tgp.core.requests.node_state import provider_id_of

AT_ONCE_S = 20.0  # from the key to the end of the process, on a machine with much else to do; timeouts are longer
NOISE = (b"Traceback", b"Unclosed", b"was never retrieved", b"Exception ignored", b"Aborted")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mounted]:
    with Mounted(tmp_path) as server:
        furnished(server)
        yield server


def objects(server: Mounted, path: str) -> Any:
    with urllib.request.urlopen(f"{server.url}{path}") as answer:  # noqa: S310 - on loopback
        return json.load(answer)


def operators_namespace(server: Mounted, **annotations: str) -> None:
    meta = {"name": "tgp-system", "annotations": annotations}
    send(f"{server.url}/api/v1/namespaces", "POST", {"metadata": meta})


def interrupted(terminal: Terminal, sign: bytes) -> bytes:
    """Ctrl-C once `sign` is there; gives what was written after it."""
    try:
        seen = terminal.wait_for(sign)
        pressed = time.monotonic()
        terminal.type(b"\x03")
        code = terminal.wait()
    finally:
        terminal.close()
    assert time.monotonic() - pressed < AT_ONCE_S
    assert code == 130, terminal.written
    assert not [noise for noise in NOISE if noise in terminal.written], terminal.written
    return terminal.written[seen:]


def on(server: Mounted, *words: str, **more: str) -> Terminal:
    return Terminal(server.directory, *tgp(*words, "--kubeconfig", str(server.kubeconfig)), **{**BARE, **more})


# -- questions -------------------------------------------------------------------------------------------------------


def test_rent_creates_nothing(cluster: Mounted):
    said = interrupted(
        on(cluster, "rent", "--gpu", "L40S", "--max-price", "2", "-n", "ml", "--shared"), b"Rent this machine?"
    )

    assert b"Interrupted. No request was created, and nothing is rented." in said
    assert len(objects(cluster, "/apis/tgp.io/v1/gpurequests")["items"]) == 1


def test_the_first_of_two_questions_ends_it_as_well(cluster: Mounted):
    said = interrupted(on(cluster, "rent", "--gpu", "L40S", "--max-price", "2", "-n", "ml"), b"[y/N]")

    assert b"No request was created" in said
    assert b"Rent this machine?" not in said


def test_down_does_nothing(cluster: Mounted):
    operators_namespace(cluster)
    said = interrupted(on(cluster, "down"), b"Type the cluster's name (memory) to terminate everything")

    assert b"Interrupted. Purchases were not paused, and nothing was deleted or terminated." in said
    assert "annotations" not in objects(cluster, "/api/v1/namespaces/tgp-system")["metadata"]
    assert "deletionTimestamp" not in objects(cluster, "/apis/tgp.io/v1/gpurequests")["items"][0]["metadata"]


def test_down_that_has_begun_says_what_goes_on(cluster: Mounted):
    operators_namespace(cluster)
    said = interrupted(on(cluster, "down", "--yes"), b"asking once more")

    assert b"Started: purchases are paused until tgp release, 1 request deleted" in said.replace(b"\r\n", b" ")
    assert "tgp.io/hold" in objects(cluster, "/api/v1/namespaces/tgp-system")["metadata"]["annotations"]


def test_release_releases_nothing(cluster: Mounted):
    operators_namespace(cluster, **{"tgp.io/hold": "audit; since 2026-11-16T14:00:00Z"})
    requests = f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpurequests"
    spec = {"gpuType": "L40S", "maxHourlyPrice": "2", "nodeClassRef": {"name": "standard"}}
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": {"name": "waits"}, "spec": spec}
    send(requests, "POST", manifest)
    said = interrupted(on(cluster, "release"), b"Release anyway?")

    assert b"Interrupted. Nothing was released." in said
    assert "tgp.io/hold" in objects(cluster, "/api/v1/namespaces/tgp-system")["metadata"]["annotations"]


def test_doctor_mends_nothing(cluster: Mounted):
    operators_namespace(cluster)
    uid = objects(cluster, "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    identity = provider_id_of("simulated", token_for(cluster_id(uid), "0" * 32, 1))
    meta = {"name": "left-over", "labels": {"tgp.io/provisioned": "true"}}
    node = {"metadata": meta, "spec": {"providerID": identity}}
    send(f"{cluster.url}/api/v1/nodes", "POST", node)
    said = interrupted(on(cluster, "doctor", "--fix"), b"from the cluster? [y/N]")

    assert b"Interrupted. Nothing was changed." in said
    assert objects(cluster, "/api/v1/nodes/left-over")


def test_init_creates_nothing_and_a_key_is_not_shown(tmp_path: Path):
    """While the key of a provider is asked for, nothing that is typed is shown."""
    node = {"metadata": {"name": "control-1"}, "status": {"nodeInfo": {"osImage": "Talos (v1.11.2)"}}}
    with Mounted(tmp_path) as server:
        send(f"{server.url}/api/v1/nodes", "POST", node)
        terminal = on(server, "init", "--provider", "vultr", "--max-hourly-cost", "1")
        before = terminal.settings()
        terminal.wait_for(b"API key of Vultr:")
        hidden = terminal.settings()
        terminal.type(b"half-a-key")
        said = interrupted(terminal, b"API key of Vultr:")

    assert hidden != before
    assert b"half-a-key" not in said
    assert b"Interrupted. Nothing was created." in said


def test_the_join_secret_stays_as_it_is(cluster: Mounted):
    operators_namespace(cluster)
    secret = {"metadata": {"name": "tgp-join"}, "data": {"cluster-name": "b3RoZXI="}}
    send(f"{cluster.url}/api/v1/namespaces/tgp-system/secrets", "POST", secret)
    file = cluster.directory / "worker.yaml"
    file.write_text(json.dumps(WORKER))
    said = interrupted(on(cluster, "talos", "join-secret", str(file), "--apply"), b"[y/N]")

    assert b"Interrupted. Nothing was changed." in said
    assert objects(cluster, "/api/v1/namespaces/tgp-system/secrets/tgp-join")["data"] == secret["data"]


# -- while something is awaited --------------------------------------------------------------------------------------


@contextmanager
def silence(folder: Path) -> Iterator[tuple[Path, socket.socket]]:
    """An API server that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        file = folder / "silent"
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        file.write_text(json.dumps(config))
        listening.settimeout(60)
        yield file, listening


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("crds", "apply"), b"Nothing was changed."),
        (("crds", "diff"), b"Nothing was changed."),
        (("cost",), b"Nothing was changed."),
        (("doctor",), b"Nothing was changed."),
        (("down", "--yes"), b"Purchases were not paused, and nothing was deleted or terminated."),
        (("hold", "audit"), b"Nothing was changed."),
        (("release",), b"Nothing was released."),
        (("rent", "--gpu", "L40S", "--yes"), b"No request was created, and nothing is rented."),
        (("status",), b"Nothing was changed."),
        (("talos", "render", "--class", "x"), b"Nothing was changed."),
        (("watch", "x"), b"Nothing was changed: the request continues."),
        (("why", "x"), b"Nothing was changed."),
    ],
    ids=lambda words: "-".join(words) if isinstance(words, tuple) else "",
)
def test_a_silent_cluster_does_not_block_ctrl_c(tmp_path: Path, words: tuple[str, ...], told: bytes):
    with silence(tmp_path) as (kubeconfig, listening):
        terminal = Terminal(tmp_path, *tgp(*words, "--kubeconfig", str(kubeconfig)), **BARE)
        line, _ = listening.accept()  # it asks now
        with line:
            line.recv(1)
            terminal.written += b"asked"
            said = interrupted(terminal, b"asked")

    assert b"Interrupted. " + told in said.replace(b"\r\n", b"\n")


# -- commands that stay ----------------------------------------------------------------------------------------------


@contextmanager
def a_market(folder: Path) -> Iterator[str]:
    terminal = Terminal(folder, *tgp("sim", "--port", "18710"), **BARE)
    try:
        place = terminal.wait_for(b"export TGP_WORLD=")
        terminal.wait_for(b"Ctrl-C ends", place)
        yield terminal.written[place:].split()[0].decode()
        terminal.type(b"\x03")
        pressed = time.monotonic()
        assert terminal.wait() == 0  # Ctrl-C is how it ends
        assert time.monotonic() - pressed < AT_ONCE_S
        assert not [noise for noise in NOISE if noise in terminal.written]
    finally:
        terminal.close()


def test_the_market_and_its_watcher(tmp_path: Path):
    with a_market(tmp_path) as world:
        watching = Terminal(tmp_path, *tgp("offers", "-w", "--gpu", "L40S"), **{**BARE, "TGP_WORLD": world})
        said = interrupted(watching, b"next: ")

    assert b"Interrupted. Nothing was bought." in said


def test_observe(cluster: Mounted):
    terminal = on(cluster, "observe", "--lines")
    try:
        terminal.wait_for(b"class standard")
        terminal.type(b"\x03")
        pressed = time.monotonic()
        code = terminal.wait()
    finally:
        terminal.close()

    assert code == 0
    assert time.monotonic() - pressed < AT_ONCE_S
    assert b"Nothing was bought or written" in terminal.written
    assert not [noise for noise in NOISE if noise in terminal.written]
