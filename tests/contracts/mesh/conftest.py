"""Assertions of the stage print what they compared; and the table "mesh by promise" at the end of a run."""

import pytest

pytest.register_assert_rewrite("tests.contracts.mesh.stage")

from tests.contracts.mesh.tally import TALLY, table  # noqa: E402 - after the line above


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        TALLY.note(report.nodeid, kept=report.passed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TALLY.kept:
        terminalreporter.section("meshes")
        for line in table(TALLY):
            terminalreporter.write_line(line)
