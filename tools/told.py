"""A plugin for pytest (`-p tools.told`): what becomes of each test, line by line, for a runner of several at once.

It writes into the file that `TGP_TOLD` names, and nothing where the variable is not set. `Reader` is the other end.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
import pytest

VARIABLE = "TGP_TOLD"


class Collected(msgspec.Struct, frozen=True, tag="collected"):
    tests: int


class Began(msgspec.Struct, frozen=True, tag="began"):
    test: str


class Over(msgspec.Struct, frozen=True, tag="over"):
    test: str  # or the file that could not be read
    outcome: str  # passed, failed, skipped
    seconds: float


class Spent(msgspec.Struct, frozen=True, tag="spent"):
    cpu_seconds: float  # by pytest and all that it started and saw end


Told: TypeAlias = Collected | Began | Over | Spent
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)


class Reader:
    """What was told since the last time, whole lines only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def news(self) -> Iterator[Told]:
        try:
            text = self._path.read_bytes()[self._read :]
        except FileNotFoundError:
            return  # it has not begun yet, or is no pytest
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            yield _DECODER.decode(line)


class Reporter:
    """Each line is written at once: a test may fork, and no copy may hold an unwritten half of one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._outcome = "passed"
        self._seconds = 0.0

    def _tell(self, told: Told) -> None:
        self._file.write(_ENCODER.encode(told) + b"\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tell(Collected(len(session.items)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(Over(report.nodeid, "failed", 0.0))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome, self._seconds = "passed", 0.0
        self._tell(Began(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        if report.outcome == "failed" or self._outcome == "passed":
            self._outcome = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tell(Over(nodeid, self._outcome, self._seconds))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self._tell(Spent(sum(one.ru_utime + one.ru_stime for one in used)))


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.pop(VARIABLE, ""):  # taken away: a pytest that a test starts reports by itself
        file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed by the cleanup below
        config.add_cleanup(file.close)
        config.pluginmanager.register(Reporter(file), "tgp-teller")
