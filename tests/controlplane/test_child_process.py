"""Programs on a child_process: they end with us, and only with us."""

import subprocess
import threading
import time
from pathlib import Path

import pytest

from tools.toolbox import child_process

STUBBORN = 'trap "" TERM; echo deaf; while :; do sleep 0.05; done'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "program.log"


def test_a_program_that_ignores_the_polite_signal_is_killed_with_its_group(log: Path, eventually, runs):
    process = child_process.spawn(["sh", "-c", f"sleep 300 & echo $!; {STUBBORN}"], log)
    eventually(lambda: "deaf" in log.read_text())
    its_child = int(log.read_text().split()[0])

    assert not child_process.stop(process, patience_s=0.1)
    assert not runs(process.pid)
    eventually(lambda: not runs(its_child))


def test_a_program_that_goes_when_asked_is_not_killed(log: Path):
    process = child_process.spawn(["sleep", "300"], log)

    assert child_process.stop(process, patience_s=5)
    assert child_process.stop(process, patience_s=5)  # once more does no harm


def test_a_program_outlives_the_thread_that_asked_for_it(log: Path):
    """The kernel ties a child to the thread that made it; ours is not the caller's."""
    started: list[subprocess.Popen[bytes]] = []
    asking = threading.Thread(target=lambda: started.append(child_process.spawn(["sleep", "300"], log)))
    asking.start()
    asking.join()
    time.sleep(0.2)

    try:
        assert started[0].poll() is None
    finally:
        child_process.stop(started[0], patience_s=5)


def test_a_program_that_cannot_be_run_says_so_in_its_log(log: Path, tmp_path: Path):
    process = child_process.spawn([str(tmp_path / "nothing")], log)

    assert process.wait(120) == child_process.CANNOT_RUN
    assert "cannot run" in log.read_text()
