"""A hostile tenant forges specs and statuses: nothing of others is read, called or touched."""

from tests.amounts import amount
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.hostile import Hostile
from tests.sim.lifecycle.reference import QUICK

FORGERIES = amount(30, 500, "TGP_FORGERIES")


def test_whatever_a_tenant_writes_concerns_no_other_tenant():
    with sim_env("hostile", "simulated", "vultr", kubelets=QUICK, invariants=()) as env:
        hostile = Hostile(env)
        hostile.forge(FORGERIES)
        hostile.judge()
