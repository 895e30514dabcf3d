"""`make run` on a machine that has little: no dev tools, no home to write into, no network."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tools import prepare


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for another environment; making it is left out: this one's Python serves there."""
    made = tmp_path / "venv"

    def make() -> None:
        (made / "bin").mkdir(parents=True)
        (made / "lib" / "python3" / "site-packages").mkdir(parents=True)
        (made / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(prepare, "VENV", made)
    monkeypatch.setattr(prepare, "_make_venv", make)
    monkeypatch.setattr(sys, "argv", ["prepare.py", "runtime"])
    return made


def test_the_runtime_lock_alone_is_installed_and_once(venv: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(prepare, "_pip", lambda *words: asked.append(words))

    assert [prepare.main(), prepare.main()] == [0, 0]
    assert [words[-1] for words in asked] == [str(prepare.ROOT / "requirements" / "runtime.txt")]
    (found,) = venv.glob("lib/python*/site-packages/tgp.pth")
    assert found.read_text().strip() == str(prepare.ROOT / "src")
    assert os.access(venv / "bin" / "tgp", os.X_OK)
    assert os.access(venv / "bin" / "kubectl-tgp", os.X_OK)


def test_an_environment_for_tests_serves_as_well(venv: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(prepare, "_pip", lambda *words: asked.append(words))
    monkeypatch.setattr(sys, "argv", ["prepare.py"])
    assert prepare.main() == 0
    monkeypatch.setattr(sys, "argv", ["prepare.py", "runtime"])
    before = len(asked)

    assert prepare.main() == 0
    assert len(asked) == before == 2
    assert not list(venv.glob("lib/python*/site-packages/tgp.pth"))


def test_a_missing_network_is_told_in_a_line(
    venv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with closing(socket.socket()) as line:
        line.bind(("127.0.0.1", 0))  # bound, and nothing listens
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{line.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")  # of the first failure pip says nothing
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setattr(prepare, "RUNTIME_LOCK", _a_lock(venv.parent))
        code = prepare.main()
    told = capsys.readouterr().err.splitlines()

    assert code == 1
    assert [line for line in told if line.startswith("✗ no network: ")] == [told[-1]]
    assert "what is needed: " in told[-1]
    assert len(told) == 2, "what it began, and why it ended"


def _a_lock(folder: Path) -> Path:
    lock = folder / "runtime.txt"
    lock.write_text(f"a-package-that-is-not-there==1.0 --hash=sha256:{'0' * 64}\n")
    return lock


@pytest.mark.parametrize(("home", "cached"), [("", True), ("/dev/null", False)])
def test_a_home_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, cached: bool
):
    words: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_how: object) -> "subprocess.CompletedProcess[str]":
        words.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home or str(tmp_path))
    monkeypatch.setattr(subprocess, "run", run)
    prepare._pip("install")

    assert ("--no-cache-dir" not in words[0]) is cached
