"""Prints the table "adapter by promise" at the end of a run that played any of it."""

import pytest

pytest.register_assert_rewrite("tests.contracts.clouds.promises", "tests.contracts.clouds.stage")

from tests.contracts.clouds.everything import all_promises, all_providers  # noqa: E402 - after the line above
from tests.contracts.clouds.tally import TALLY, excuses, table  # noqa: E402


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TALLY.played:
        return
    terminalreporter.section("providers")
    for line in (*table(TALLY), *excuses(all_providers(), all_promises(), TALLY)):
        terminalreporter.write_line(line)
