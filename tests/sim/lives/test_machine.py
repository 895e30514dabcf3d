"""Hypothesis plays people and bad luck around the whole operator, so that a failure comes back as a few lines."""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.sim.an_operator import a_class, operator_main
from tests.sim.lives.an_estate import lives
from tests.sim.lives.reference import BRISK, CLASS, QUICK, fair_weather
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.clouds.mishaps import WHERE, Mishap, Verb
from tgp.sim.estate import Ailment
from tgp.sim.plans import Act, Plan

EXAMPLES, STEPS = 10, 12
BRIEF = settings(
    max_examples=int(os.environ.get("TGP_EXAMPLES", EXAMPLES)),
    stateful_step_count=STEPS,
    deadline=None,  # virtual time is not the machine's
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
NAMES = st.sampled_from(("one", "two", "three"))
AT_LAUNCH = [
    mishap
    for mishap, verbs in WHERE.items()
    if Verb.LAUNCH in verbs and mishap not in (Mishap.KEY_REVOKED, Mishap.OTHER_ACCOUNT)
]
AT_TERMINATE = [Mishap.HANG_UP_AFTER, Mishap.ERROR_AFTER, Mishap.DELETE_UNKNOWN, Mishap.DELETE_IGNORED, Mishap.ERROR]
AT_LIST = [Mishap.LIST_NOTHING, Mishap.LIST_PARTIAL, Mishap.LIST_GONE, Mishap.HTML, Mishap.ERROR]
ENOUGH = 120  # minutes of fair weather


class Town(RuleBasedStateMachine):
    """Two replicas, three names, one class of two machines."""

    def __init__(self):
        super().__init__()
        self._open = lives("town", kubelets=QUICK)
        self.stage = self._open.__enter__()
        a_class(self.stage.world, CLASS, limits={"maxNodes": 2})
        for number in range(2):
            self.stage.world.process(f"tgp-{number}", operator_main(BRISK))
        self.stage.world.run(seconds=20)

    # -- people --------------------------------------------------------------------------------------------------------

    @rule(name=NAMES, policy=st.sampled_from(("Never", "OnLoss")), idle=st.sampled_from(("3m", "Never")))
    def somebody_wants(self, name, policy, idle):
        if self.stage.request(name) is None:
            self.stage.wants(name, restartPolicy=policy, idleTimeout=idle)

    @rule(name=NAMES)
    def somebody_drops(self, name):
        if self.stage.request(name) is not None:
            self.stage.drops(name)

    @rule(name=NAMES)
    def somebody_forces(self, name):
        found = self.stage.request(name)
        if found is not None:
            self.stage.witness.forced[plain_uid(found["metadata"]["uid"])] = None
            change = {"metadata": {"finalizers": None}}
            self.stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, change)

    @rule(suspended=st.booleans())
    def the_class_is_suspended(self, suspended):
        change = {"spec": {"suspend": suspended}}
        self.stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", CLASS, change)

    # -- luck ----------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((1, 5, 30, 120, 400)))
    def time_passes(self, seconds):
        self.stage.world.run(seconds=seconds)

    @rule(replica=st.integers(0, 1))
    def the_power_goes(self, replica):
        self.stage.world.processes[f"tgp-{replica}"].crash(restart_after=3)

    @rule(replica=st.integers(0, 1), act=st.sampled_from(Act), ahead=st.integers(1, 3))
    def a_side_effect_goes_wrong(self, replica, act, ahead):
        world, process = self.stage.world, f"tgp-{replica}"
        number = sum(effect.process == process for effect in world.effects) + ahead
        world.network.plan = Plan(process, number, act)

    @rule(mishap=st.sampled_from(AT_LAUNCH))
    def an_order_goes_wrong(self, mishap):
        self.stage.shop.mishaps.aim(mishap, Verb.LAUNCH)

    @rule(mishap=st.sampled_from(AT_TERMINATE))
    def a_return_goes_wrong(self, mishap):
        self.stage.shop.mishaps.aim(mishap, Verb.TERMINATE)

    @rule(mishap=st.sampled_from(AT_LIST), times=st.integers(1, 3))
    def a_list_goes_wrong(self, mishap, times):
        self.stage.shop.mishaps.aim(mishap, Verb.LIST, times=times)

    @rule(ailment=st.sampled_from(Ailment))
    def a_kubelet_ails(self, ailment):
        self.stage.estate.ailments.aim(ailment)

    @invariant()
    def no_more_is_rented_than_allowed(self):
        kept = [one for one in self.stage.witness.everything() if not one.excused and self.stage.witness.owner(one)]
        assert len(kept) <= 2, f"two machines are allowed: {kept}"

    def teardown(self):
        """Fair weather: everybody goes home, and nothing is left."""
        try:
            self._go_home()
        finally:
            self._open.__exit__(None, None, None)

    def _go_home(self) -> None:
        stage = self.stage
        fair_weather(stage)
        stage.world.network.plan = None
        for name in ("one", "two", "three"):
            if stage.request(name) is not None:
                stage.drops(name)
        stage.until(
            lambda: not (stage.witness.claims or stage.witness.everything() or stage.nodes()), minutes=ENOUGH, step=30
        )
        assert loose_ends(stage.witness) == []


def test_whatever_people_and_luck_do_money_is_kept_and_nothing_is_left():
    run_state_machine_as_test(Town, settings=BRIEF)
