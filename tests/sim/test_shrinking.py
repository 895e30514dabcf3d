"""A failure comes back as a few lines: Hypothesis plays the world, and cuts what it did to what was needed."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.sim.toys import a_market, careful_buyer, naive_buyer
from tgp.sim.plans import Act, FaultPlan

BRIEF = settings(
    max_examples=80,
    stateful_step_count=8,
    deadline=None,  # virtual time is not the machine's
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


class Market(RuleBasedStateMachine):
    buyer = staticmethod(careful_buyer)

    def __init__(self):
        super().__init__()
        self.world, self.cloud = a_market("shrunk", self.buyer)

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds):
        self.world.run(seconds=seconds)

    @rule()
    def the_power_goes(self):
        self.world.processes["buyer"].crash(restart_after=1)

    @rule(act=st.sampled_from(Act))
    def the_next_side_effect_goes_wrong(self, act):
        number = len([effect for effect in self.world.effects if effect.process == "buyer"]) + 1
        self.world.network.plan = FaultPlan("buyer", number, act)

    @invariant()
    def nothing_is_paid_twice(self):
        assert len(self.cloud.machines) <= 1, f"paid twice for one claim: {self.cloud.machines}"

    def teardown(self):
        self.world.close()


class NaiveMarket(Market):
    buyer = staticmethod(naive_buyer)


def test_a_broken_buyer_is_found_and_its_plan_is_short():
    with pytest.raises(AssertionError, match="paid twice") as caught:
        run_state_machine_as_test(NaiveMarket, settings=BRIEF)

    told = "\n".join(getattr(caught.value, "__notes__", ())).splitlines()
    steps = [line for line in told if line.startswith(("state.time_passes", "state.the_"))]
    assert 1 <= len(steps) <= 3, told


def test_a_careful_buyer_is_not_found_wanting():
    run_state_machine_as_test(Market, settings=BRIEF)
