"""Every command that the README and the docs show is run here, or stands in a list with the reason why not."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.plane import ControlPlane, Wanted

HOUSE = Path(__file__).parents[2]
PAGES = sorted([HOUSE / "README.md", HOUSE / "DEVELOPMENT.md", *(HOUSE / "docs").glob("*.md")])
BOUND_S = 180

# Commands that would run this very suite, rewrite the tree or need a package index: make only resolves them.
RESOLVED_ONLY = ("make test", "make check", "make format", "make bench", "make lock")
# Commands that stay until they are told to go, and what they say once they are there.
STAYS = {
    "make run": "kubectl",
    "tgp demo": "kubectl",
    "tgp observe": "observing",
    "make cluster": "Ctrl-C stops everything",
    "tgp operator": "LeadershipWon",
}
INTERRUPTED = (0, 2, 130, -signal.SIGINT)  # make itself dies of the signal it passed on


def shown() -> list[tuple[str, str]]:
    """(page, command) for every line of every `sh` block, comments cut off."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                command = re.sub(r"\s+#.*$", "", line).strip()
                if command:
                    found.append((page.name, command))
    return found


@pytest.fixture(scope="module")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """One of this file's own: what the commands leave on it is in nobody's way."""
    with a_control_plane(pytestconfig, Wanted()) as plane:
        yield plane


@pytest.fixture(scope="module")
def environment(control_plane, kubectl_program, tmp_path_factory) -> dict[str, str]:
    """A terminal in the house: our own programs first, and a cluster of its own."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "kubectl").symlink_to(kubectl_program)
    (folder / "tgp").symlink_to(Path(sys.executable).with_name("tgp"))
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig), "PYTHON": sys.executable}


@pytest.fixture(scope="module")
def embedded_world(environment) -> Iterator[None]:
    """What the kubectl lines for the embedded world talk to."""
    command = [sys.executable, "-m", "tgp", "demo", "--lines", "--for", f"{BOUND_S}s"]
    process = subprocess.Popen(command, cwd=HOUSE, env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        while "big-gpus: NotReady" not in process.stdout.readline():
            assert process.poll() is None
        yield
        process.send_signal(signal.SIGINT)
        process.communicate()


def test_the_documentation_shows_commands():
    assert len(shown()) > 8


@pytest.mark.parametrize(("page", "command"), shown(), ids=lambda text: text.replace("/", "."))
def test_a_command_in_the_documentation_works(page, command, environment, control_plane, request):
    if ".tgp/kubeconfig" in command:
        request.getfixturevalue("embedded_world")
    words = command.replace("KUBECONFIG=…", f"KUBECONFIG={control_plane.kubeconfig}")
    if words.startswith(RESOLVED_ONLY):
        ended = _run(["make", "-n", *words.split()[1:]], environment)
    elif (sign := next((STAYS[known] for known in STAYS if words.startswith(known)), "")) and "FOR=" not in words:
        return _stays_until_told(words.split(), "observing" if "KUBECONFIG=" in words else sign, environment)
    else:
        ended = _run(_quickly(words).split(), environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return None


def _quickly(command: str) -> str:
    """Shorter where a person would wait."""
    return re.sub(r"FOR=\d+s", "FOR=3s", command)


def _run(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=HOUSE, env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def _stays_until_told(words: list[str], sign: str, environment: dict[str, str]) -> None:
    """It gets to where it wanted, stays there, and ends well when asked to, as by Ctrl-C."""
    program = shutil.which(words[0], path=environment["PATH"])
    process = subprocess.Popen(
        [program, *words[1:]],
        cwd=HOUSE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(BOUND_S, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        said = ""
        while sign not in said and (line := process.stdout.readline()):
            said += line
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate()
    finally:
        watchdog.cancel()
    assert sign in said, said
    assert process.returncode in INTERRUPTED, said + rest
    assert "Traceback" not in said + rest, said + rest
