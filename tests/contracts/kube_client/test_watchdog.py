"""The watchdog ends a real process, whatever its event loop is doing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.kube.elector import LeaseFence
from tgp.adapters.kube.elector_watchdog import (
    GRACE,
    LAST_RESORT,
    LAST_RESORT_EXIT_CODE,
    LEASE_LOST_EXIT_CODE,
    Watchdog,
)

PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from tgp.adapters.clock import SystemClock
from tgp.adapters.kube.elector import LeaseFence
from tgp.adapters.kube.elector_watchdog import Watchdog

clock = SystemClock()
fence = LeaseFence(clock)
fence.extend(clock.boottime() + float(sys.argv[2]), "u/1")
Watchdog(fence, clock).start()

async def main():
    try:
        Path(sys.argv[3]).touch()
        exec(sys.argv[1])
    finally:
        Path(sys.argv[3] + ".finally").touch()

asyncio.run(main())
"""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[object]:
    begun: list[subprocess.Popen[bytes]] = []

    def start(deed: str, lease: float) -> tuple[subprocess.Popen[bytes], Path]:
        marker = tmp_path / "began"
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, deed, str(lease), str(marker)], stderr=subprocess.PIPE
        )
        begun.append(process)
        for _ in range(1000):
            if marker.exists():
                break
            time.sleep(0.01)
        return process, marker

    yield start
    for process in begun:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("deed", ["time.sleep(60)", "while True: pass"], ids=["blocked", "busy"])
def test_a_loop_that_never_comes_back_is_ended(begin, deed: str):
    process, marker = begin(deed, 1.0)

    assert process.wait(120) == LEASE_LOST_EXIT_CODE
    assert b"leadership has lapsed" in process.stderr.read()
    assert not marker.with_name("began.finally").exists(), "no `finally` may act after the lease"


def test_a_call_that_never_lets_go_of_the_interpreter_is_ended(begin):
    """No thread of ours can run meanwhile."""
    process, marker = begin("time.sleep(0.6); sum(range(10**12))", 1.5)

    assert process.wait(120) == LAST_RESORT_EXIT_CODE
    assert not marker.with_name("began.finally").exists()


def test_a_process_that_was_stopped_ends_when_it_is_continued(begin):
    process, _ = begin("time.sleep(60)", 2.0)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.0 + GRACE + 0.5)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGCONT)

    assert process.wait(120) == LEASE_LOST_EXIT_CODE


def test_the_last_resort_ends_a_process_whose_threads_are_all_running(begin):
    """Stopped past both deadlines: whichever is first, it ends, and never by a crash."""
    spin = "Thread(target=exec, args=('while True: [].append(0)', {}), daemon=True).start()"
    process, _ = begin(f"from threading import Thread; {'; '.join([spin] * 4)}; time.sleep(60)", 1.0)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.0 + LAST_RESORT + 0.5)
    os.kill(process.pid, signal.SIGCONT)

    assert process.wait(120) in (LEASE_LOST_EXIT_CODE, LAST_RESORT_EXIT_CODE)


def test_a_lease_that_holds_ends_nothing(begin):
    process, _ = begin("time.sleep(2)", 60.0)

    assert process.wait(120) == 0


class HandClock(SystemClock):
    at = 100.0

    def boottime(self) -> float:
        return self.at


def test_it_fires_a_moment_after_the_deadline_and_never_for_a_candidate():
    clock = HandClock()
    fence = LeaseFence(clock)
    watchdog = Watchdog(fence, clock)

    assert not watchdog.lapsed()
    fence.extend(110.0, "u/1")
    clock.at = 110.0 + GRACE - 0.01
    assert not watchdog.lapsed()
    clock.at = 110.0 + GRACE
    assert watchdog.lapsed()
    fence.close()
    assert not watchdog.lapsed()


def test_a_stopped_watchdog_does_not_bite():
    clock, bitten = HandClock(), []
    fence = LeaseFence(clock)
    fence.extend(0.0, "u/1")
    watchdog = Watchdog(fence, clock, exit_process=bitten.append, last_resort=lambda _: None)
    watchdog.stop()
    watchdog.start()
    watchdog._thread.join(5)

    assert bitten == []


def test_it_bites_once():
    clock, bitten = HandClock(), []
    fence = LeaseFence(clock)
    fence.extend(0.0, "u/1")
    watchdog = Watchdog(fence, clock, exit_process=bitten.append, last_resort=lambda _: None)
    watchdog.start()
    watchdog._thread.join(5)

    assert bitten == [LEASE_LOST_EXIT_CODE]
