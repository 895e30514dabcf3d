"""What tests on a real control plane shorten is there, and is shorter than what is shipped."""

from datetime import timedelta
from importlib import import_module

import pytest

from tests.controlplane.replica import SHORT


@pytest.mark.parametrize("place", sorted(SHORT))
def test_a_pause_that_tests_shorten_is_there_and_longer(place):
    """A name that moved is noticed by `make check`, not by a replica that does not start."""
    where, _, name = place.partition(":")
    shipped = getattr(import_module(where), name)

    assert SHORT[place] < (shipped.total_seconds() if isinstance(shipped, timedelta) else shipped)
