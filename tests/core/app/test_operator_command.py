"""`tgp operator` as a supervisor meets it: an address that is taken, a signal, and another one."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tgp.app.commands.operator import stop_on_signals

WITHIN_S = 60  # for a program that must end by itself, on a machine with much else to do


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "must-not-be-shown"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(document))
    return path


def operator(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tgp", "operator", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def test_a_busy_port_ends_it_and_names_the_setting(kubeconfig: Path):
    """On any other port the probes of its pod would fail without a word."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = operator("--kubeconfig", str(kubeconfig), TGP_LISTEN=f"127.0.0.1:{port}")

    assert ended.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "in use" in ended.stderr
    assert "TGP_LISTEN" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "must-not-be-shown" not in ended.stderr + ended.stdout


def test_an_address_that_is_not_ours_ends_it_and_names_the_setting(kubeconfig: Path):
    ended = operator("--kubeconfig", str(kubeconfig), "--listen", "192.0.2.1:8080")

    assert ended.returncode == 1
    assert "Cannot listen on 192.0.2.1:8080" in ended.stderr
    assert "--listen" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_asks_and_the_second_ends(second: signal.Signals):
    stops: list[str] = []
    ends: list[int] = []
    stop_on_signals(lambda: stops.append("asked"), ends.append)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        assert (stops, ends) == (["asked"], [])
        os.kill(os.getpid(), second)
        await asyncio.sleep(0.01)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)

    assert stops == ["asked"]
    assert ends == [128 + second]


def test_what_an_idle_operator_does_not_need_is_not_imported_with_it():
    """Each takes two megabytes or more: they come with the first template, certificate or port."""
    late = {"aiohttp.web", "cryptography", "ruamel.yaml"}
    asked = f"import sys, tgp.app.commands.operator; print(*sorted({late!r} & set(sys.modules)))"

    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []
