"""`tgp demo`, as a person runs it."""

import re
import shlex
import signal
import socket
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.cli.program import BOUND_S, Terminal, answer, line_with, started, tgp
from tools.controlplane.kubectl import Kubectl

LOOK = "From another terminal: "


def test_without_a_terminal_it_tells_lines_and_an_ordinary_kubectl_reads_its_world(
    tmp_path: Path, kubectl_program: Path
):
    """While it runs, its objects have conditions; one interrupt ends it, and afterwards nothing of it is left."""
    with started(tmp_path, *tgp("demo", "--port", "18001")) as demo:
        url = re.search(r"http://127\.0\.0\.1:\d+", line_with(demo, "tgp demo: "))
        command = shlex.split(line_with(demo, LOOK).removeprefix(LOOK))
        line_with(demo, "= class cellar: Ready (Valid)")
        kubectl = Kubectl(kubectl_program, tmp_path / command[2], tmp_path)
        seen = kubectl(*command[3:])
        describe = kubectl("describe", "gpunodeclass", "big-gpus")
        refused = kubectl.run("auth", "can-i", "create", "pods", "--as=system:serviceaccount:tgp-system:tgp-operator")
        line_with(demo, " scenario: an administrator put the Tailscale key")
        line_with(demo, " scenario: team research started Job")
        demo.send_signal(signal.SIGINT)
        told, _ = demo.communicate(timeout=BOUND_S)

    assert url is not None
    assert command == ["kubectl", "--kubeconfig", f"{tmp_path}/.tgp/kubeconfig", "get", "tgp", "-A"]
    assert "gpunodeclass.tgp.io/standard-gpu-class" in seen
    assert "gpunodepool.tgp.io/ml-workload-pool" in seen
    assert "gpuworkloadbudget.tgp.io/team-ml" in seen
    assert "CredentialsMissing" in describe
    assert refused.stdout.strip() == "no"  # the operator's rights are the shipped ones, and they are evaluated
    assert demo.returncode == 0
    assert re.search(r"ended after .*\d+s \(.*\d+m.* in that world\)", told)
    assert re.search(r"operator leads, reconciles \d+, writes [1-9]\d*, failed 0", told)
    assert re.search(r"  bill: \$\d", told)
    assert "The demo world was in memory" in told
    assert "Error" not in told
    assert list(tmp_path.glob(".tgp*")) == []
    with closing(socket.socket()) as line, pytest.raises(ConnectionRefusedError):
        line.connect(("127.0.0.1", int(url[0].rpartition(":")[2])))


def test_on_a_terminal_it_draws_follows_the_size_and_ends_with_ctrl_c(tmp_path: Path):
    terminal = Terminal(tmp_path, *tgp("demo", "--port", "18101"))
    try:
        drawn = terminal.wait_for(b"\x1b[?1049h")  # the other screen: what was there before comes back
        drawn = terminal.wait_for(b"Objects (1", drawn)
        drawn = terminal.wait_for(b"describe", drawn)
        terminal.resize(60, 20)
        terminal.wait_for(b"more below", drawn)
        terminal.type(b"\x03")
        code = terminal.wait()
    finally:
        terminal.close()
    shown, _, rest = terminal.written.rpartition(b"\x1b[?1049l")

    assert code == 0
    assert shown.count(b"Nodes (5)") >= 2
    assert terminal.written.rfind(b"\x1b[?25h") > terminal.written.rfind(b"\x1b[?25l")  # the cursor is back
    assert b"ended after" in rest
    assert b"The demo world was in memory" in rest
    assert b"Traceback" not in terminal.written


def test_its_keys_filter_scroll_help_and_end_it_and_the_terminal_is_left_as_it_was(tmp_path: Path):
    """And a change by a foreign client slows its clock down, at once and in words."""
    terminal = Terminal(tmp_path, *tgp("demo", "--port", "18151"))
    before = terminal.settings()
    try:
        drawn = terminal.wait_for(b"Objects (1")
        assert terminal.settings() != before
        port = re.search(rb"http://127\.0\.0\.1:(\d+)", terminal.written)
        assert port is not None
        terminal.type(b"/cellar\r")
        drawn = terminal.wait_for(b"with 'cellar'", drawn)
        terminal.type(b"\x1b")
        terminal.resize(120, 24)
        terminal.type(b"\x1b[B")
        drawn = terminal.wait_for(b"more above", drawn)
        terminal.type(b"?")
        drawn = terminal.wait_for(b"filter objects by text", drawn)
        namespace = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"of-a-visitor"}}'
        with closing(HTTPConnection("127.0.0.1", int(port[1]), timeout=60)) as line:
            line.request("POST", "/api/v1/namespaces", namespace, {"Content-Type": "application/json"})
            assert line.getresponse().status == 201
        drawn = terminal.wait_for(b"real time for ", drawn)
        terminal.wait_for(b": you changed something", drawn)
        terminal.type(b"q")
        code = terminal.wait()
        after = terminal.settings()
    finally:
        terminal.close()

    assert code == 0
    assert after == before
    assert b"  bill: " in terminal.written
    assert b"Traceback" not in terminal.written


def test_a_busy_port_is_no_error(tmp_path: Path):
    with closing(socket.socket()) as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with started(tmp_path, *tgp("demo", "--for", "1s", "--port", str(port))) as demo:
            told, _ = demo.communicate(timeout=BOUND_S)

    found = re.search(r"http://127\.0\.0\.1:(\d+)", told)
    assert demo.returncode == 0
    assert found is not None
    assert port < int(found[1]) < port + 64


def test_a_crash_of_the_operator_ends_it_with_the_error(tmp_path: Path):
    """It must neither hang nor end as if all were well."""
    crash = (
        "import tgp.app.operator as o\n"
        "async def run(self, **_):\n"
        "    raise ZeroDivisionError('a defect of ours')\n"
        "o.Operator.run = run\n"
        "import sys; sys.argv = ['tgp', 'demo', '--port', '18201']\n"
        "from tgp.app.main import main; main()\n"
    )
    with started(tmp_path, "-c", crash) as demo:
        told, _ = demo.communicate(timeout=BOUND_S)

    assert demo.returncode == 1
    assert "ZeroDivisionError: a defect of ours" in told
    assert list(tmp_path.glob(".tgp*")) == []


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path):
    """The kubeconfig goes elsewhere, and the line to look says where. (A file stands where the folder would be.)"""
    (tmp_path / ".tgp").write_text("something of mine")
    with started(tmp_path, *tgp("demo", "--for", "1s", "--port", "18301")) as demo:
        look = shlex.split(line_with(demo, LOOK).removeprefix(LOOK))
        there = Path(look[2]).exists()
        demo.communicate(timeout=BOUND_S)

    assert demo.returncode == 0
    assert there
    assert not Path(look[2]).parent.exists()
    assert (tmp_path / ".tgp").read_text() == "something of mine"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(("--for", "soon"), "'soon'"), (("--speed", "0.5"), "0.5"), (("--port", "0"), "0 is not in the range")],
)
def test_a_wrong_flag_is_refused_before_anything_starts(arguments: tuple[str, ...], complaint: str):
    told = answer("demo", *arguments)

    assert told.returncode == 2
    assert complaint in told.stderr
