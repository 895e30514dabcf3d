"""What every simulation does less often than a real cluster, where that changes nothing but its cost."""

import pytest

from tests.amounts import PROVING
from tgp.sim.apiserver import watch

BOOKMARK_EVERY = 300.0  # seconds; the real watch cache, and `make prove`: 60


@pytest.fixture(autouse=True)
def seldom_bookmarks():
    """Each of thirty watches got one a minute: a tenth of all that a quiet world computes."""
    with pytest.MonkeyPatch.context() as changed:
        if not PROVING:
            changed.setattr(watch, "BOOKMARK_EVERY", BOOKMARK_EVERY)
        yield
