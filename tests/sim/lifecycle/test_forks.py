"""Copies of a process that try one plan each: they report, and they are gone."""

import os

from tests.sim.lifecycle.forks import Forks

GONE, WENT_ON = 0, 7


def test_a_copy_whose_original_was_killed_ends_all_the_same():
    """Its report cannot be delivered; it must not go on as if it were the test run."""
    if (child := os.fork()) == 0:
        try:
            reading, writing = os.pipe()
            os.close(reading)
            forks = Forks(lambda _gist: (), lambda _endpoint, _call: "")
            forks._report = writing
            forks.finish(lambda: "done")
        finally:
            os._exit(WENT_ON)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == GONE
