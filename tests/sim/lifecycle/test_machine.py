"""Hypothesis plays users and bad luck around the whole operator, so that a failure comes back as a few lines."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.amounts import amount
from tests.sim.an_operator import a_class, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.reference import CLASS, QUICK, without_faults
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.clouds.cloud_faults import WHERE, CloudFault, CloudVerb
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.plans import Act, FaultPlan

STEPS = 12
BRIEF = settings(
    max_examples=amount(4, 100, "TGP_EXAMPLES"),
    stateful_step_count=STEPS,
    deadline=None,  # virtual time is not the machine's
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
NAMES = st.sampled_from(("one", "two", "three"))
AT_LAUNCH = [
    cloud_fault
    for cloud_fault, verbs in WHERE.items()
    if CloudVerb.LAUNCH in verbs and cloud_fault not in (CloudFault.KEY_REVOKED, CloudFault.OTHER_ACCOUNT)
]
AT_TERMINATE = [
    CloudFault.HANG_UP_AFTER,
    CloudFault.ERROR_AFTER,
    CloudFault.DELETE_UNKNOWN,
    CloudFault.DELETE_IGNORED,
    CloudFault.ERROR,
]
AT_LIST = [CloudFault.LIST_NOTHING, CloudFault.LIST_PARTIAL, CloudFault.LIST_GONE, CloudFault.HTML, CloudFault.ERROR]
ENOUGH = 120  # minutes of time without faults


class Requests(RuleBasedStateMachine):
    """Two replicas, three names, one class of two machines."""

    def __init__(self):
        super().__init__()
        self._open = sim_env("requests", kubelets=QUICK)
        self.env = self._open.__enter__()
        a_class(self.env.world, CLASS, limits={"maxNodes": 2})
        for number in range(2):
            self.env.world.process(f"tgp-{number}", operator_main())
        self.env.world.run(seconds=20)

    # -- users --------------------------------------------------------------------------------------------------------

    @rule(name=NAMES, policy=st.sampled_from(("Never", "OnLoss")), idle=st.sampled_from(("3m", "Never")))
    def a_person_wants(self, name, policy, idle):
        if self.env.request(name) is None:
            self.env.wants(name, restartPolicy=policy, idleTimeout=idle)

    @rule(name=NAMES)
    def a_person_drops(self, name):
        if self.env.request(name) is not None:
            self.env.drops(name)

    @rule(name=NAMES)
    def a_person_forces(self, name):
        found = self.env.request(name)
        if found is not None:
            self.env.recorder.forced[plain_uid(found["metadata"]["uid"])] = None
            change = {"metadata": {"finalizers": None}}
            self.env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, change)

    @rule(suspended=st.booleans())
    def the_class_is_suspended(self, suspended):
        change = {"spec": {"suspend": suspended}}
        self.env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", CLASS, change)

    # -- luck ----------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((1, 5, 30, 120, 400)))
    def time_passes(self, seconds):
        self.env.world.run(seconds=seconds)

    @rule(replica=st.integers(0, 1))
    def the_power_goes(self, replica):
        self.env.world.processes[f"tgp-{replica}"].crash(restart_after=3)

    @rule(replica=st.integers(0, 1), act=st.sampled_from(Act), ahead=st.integers(1, 3))
    def a_side_effect_goes_wrong(self, replica, act, ahead):
        world, process = self.env.world, f"tgp-{replica}"
        number = sum(effect.process == process for effect in world.effects) + ahead
        world.network.plan = FaultPlan(process, number, act)

    @rule(cloud_fault=st.sampled_from(AT_LAUNCH))
    def an_order_goes_wrong(self, cloud_fault):
        self.env.simulator.faults.aim(cloud_fault, CloudVerb.LAUNCH)

    @rule(cloud_fault=st.sampled_from(AT_TERMINATE))
    def a_return_goes_wrong(self, cloud_fault):
        self.env.simulator.faults.aim(cloud_fault, CloudVerb.TERMINATE)

    @rule(cloud_fault=st.sampled_from(AT_LIST), times=st.integers(1, 3))
    def a_list_goes_wrong(self, cloud_fault, times):
        self.env.simulator.faults.aim(cloud_fault, CloudVerb.LIST, times=times)

    @rule(node_fault=st.sampled_from(NodeFault))
    def a_kubelet_ails(self, node_fault):
        self.env.node_bootstrap.node_faults.aim(node_fault)

    @invariant()
    def no_more_is_rented_than_allowed(self):
        kept = [one for one in self.env.recorder.everything() if not one.excused and self.env.recorder.owner(one)]
        assert len(kept) <= 2, f"two machines are allowed: {kept}"

    def teardown(self):
        """No faults: every request ends, and nothing is left."""
        try:
            self._go_home()
        finally:
            self._open.__exit__(None, None, None)

    def _go_home(self) -> None:
        env = self.env
        without_faults(env)
        env.world.network.plan = None
        for name in ("one", "two", "three"):
            if env.request(name) is not None:
                env.drops(name)
        env.until(
            lambda: not (env.recorder.claims or env.recorder.everything() or env.nodes()), minutes=ENOUGH, step=30
        )
        assert loose_ends(env.recorder) == []


def test_whatever_people_and_luck_do_money_is_kept_and_nothing_is_left():
    run_state_machine_as_test(Requests, settings=BRIEF)
