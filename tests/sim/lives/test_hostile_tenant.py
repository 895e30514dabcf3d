"""A hostile tenant forges specs and statuses: nothing of others is read, called or touched."""

from tests.sim.lives.an_estate import lives
from tests.sim.lives.hostile import Hostile
from tests.sim.lives.reference import QUICK

FORGERIES = 120


def test_whatever_a_tenant_writes_concerns_nobody_else():
    with lives("hostile", "simulated", "vultr", kubelets=QUICK, invariants=()) as stage:
        hostile = Hostile(stage)
        hostile.forge(FORGERIES)
        hostile.judge()
