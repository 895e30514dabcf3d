"""Short histories of machines that are replaced, or leave, while pods and budgets have a say."""

from collections.abc import Callable

from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.test_disruption import drift, names, of, one_machine, running, serves, set_pool
from tests.sim.test_exchanges import POLICY, in_use, sells
from tests.sim.test_pools_together import full, one_for_both
from tests.sim.test_repair import node_of, set_condition
from tests.sim.with_pools import asks, begin, requests, runs
from tgp.api.resource import GPU_NODE_POOL
from tgp.api.values import usd
from tgp.core.model.costs import REPLACED_PRICE
from tgp.sim.node_bootstrap import NodeFault


def drifts(seed: str) -> None:
    """The class of a machine changes while a pod works there."""
    with sim_env(seed) as env:
        name = one_machine(env)
        drift(env)
        env.until(lambda: name not in names(env), minutes=25)


def leave_one_by_one(seed: str) -> None:
    """Four machines are empty at once, and one may go at a time."""
    with sim_env(seed) as env:
        begin(env, disruption={"consolidateAfter": "1m", "budgets": [{"nodes": 1}]}, replicas=4)
        env.until(lambda: len(env.nodes()) == 4, minutes=30)
        env.world.run(minutes=3)
        set_pool(env, replicas=None)
        env.world.run(minutes=20)
        assert requests(env) == []


def drifts_and_is_taken_back(seed: str) -> None:
    """The replacement never joins."""
    with sim_env(seed) as env:
        name = one_machine(env)
        env.node_bootstrap.node_faults.chances[NodeFault.NEVER_REGISTERS] = 1.0
        drift(env)
        retried = "tgp.io/move-retry"
        env.until(lambda: retried in of(env, name)["metadata"]["annotations"], minutes=180)
        set_pool(env, disruption={"budgets": [{"nodes": 0}]})  # no second move follows
        env.world.run(minutes=12)


def drifts_at_its_limit(seed: str) -> None:
    """There is room for one machine, and none for a second beside it."""
    with sim_env(seed) as env:
        one_machine(env, limits={"resources": {"nodes": 1}})
        drift(env)
        for _ in range(60):
            env.world.run(seconds=5)
            assert len(requests(env)) == 1, "a replacement was ordered beyond the limit"


def half_are_unhealthy(seed: str) -> None:
    """Something that machines share fails: replacing them all would move every pod, and cost twice."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        serves(env, replicas=4, apart=True)
        env.until(lambda: running(env) == 4, minutes=30)
        before = names(env)
        for name in sorted(before)[:2]:
            set_condition(env, node_of(env, name), "KernelDeadlock", "True")
        env.world.run(minutes=30)
        assert names(env) == before, "machines were replaced although many were unhealthy at once"


def a_little_cheaper(seed: str) -> None:
    """Another machine costs a tenth less: restart and boot cost more than that saves in four hours."""
    with sim_env(seed, kubelets=QUICK) as env:
        sells(env, t4_1=0.40)
        before = in_use(env)
        sells(env, t4_1=0.36)
        env.world.run(minutes=85)
        assert names(env) == before, "pods were moved although their restart costs more than that saves"


def a_service_beside_a_job_that_ends(seed: str) -> None:
    """The machine of the job becomes free: it costs nine times as much as the one of the service."""
    with sim_env(seed, kubelets=QUICK) as env:
        sells(env, t4_1=0.11, rtx4090_2=0.94)
        before = in_use(env)
        asks(env, gpus=2, run_for="20m")
        env.until(runs(env), minutes=30)
        env.until(lambda: not runs(env)(), minutes=30)
        env.world.run(minutes=20)
        assert names(env) == before, "pods were moved to a more expensive machine that would have gone"


def two_pools_of_which_one_is_closed(seed: str) -> None:
    """One machine would be cheaper than both of theirs; only one of the pools has a budget for it."""
    with sim_env(seed, kubelets=QUICK) as env:
        before = full(env)
        closed = {"spec": {"disruption": {"budgets": [{"nodes": 0}]}}}
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-1", closed)
        one_for_both(env)
        env.world.run(minutes=80)
        assert names(env) == before, "a machine was replaced by the budget of another pool"


def billed_below_the_list(seed: str) -> None:
    """A machine costs less than was listed when it was ordered; later it is exchanged for a cheaper one."""
    with sim_env(seed, kubelets=QUICK) as env:
        sells(env, t4_1=0.40)
        begin(env, disruption=POLICY)
        sells(env, t4_1=0.30)  # not listed yet
        serves(env)
        env.until(lambda: running(env) == 1, minutes=30)
        (billed,) = [machine.rate_microusd for machine in env.living()]
        env.world.run(minutes=61)
        sells(env, t4_1=0.10)
        env.until(lambda: bool(replaced_prices(env)), minutes=120)
        assert replaced_prices(env) == [usd(billed)], "a saving was counted from a listed price"


def replaced_prices(env: SimEnv) -> list[str]:
    found = (row["metadata"]["annotations"].get(REPLACED_PRICE) for row in requests(env))
    return [price for price in found if price]


MOVING: tuple[Callable[[str], None], ...] = (
    drifts,
    leave_one_by_one,
    drifts_and_is_taken_back,
    drifts_at_its_limit,
    half_are_unhealthy,
    a_little_cheaper,
    a_service_beside_a_job_that_ends,
    two_pools_of_which_one_is_closed,
    billed_below_the_list,
)
