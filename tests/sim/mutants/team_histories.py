"""Short histories of budgets over namespaces and periods: what must not be reached, refunded or done twice."""

from collections.abc import Callable
from datetime import timedelta

from tests.sim.an_operator import create
from tests.sim.mutants.budget_histories import counted
from tests.sim.test_budgets import a_team_pod, begin, condition, consumed, reasons
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.api.values import rfc3339
from tgp.core.budgets.reset import RESET
from tgp.sim.world import World


def budget_of_a_tenant_over_all_namespaces(seed: str) -> None:
    """Outside the operator's namespace a budget names every namespace, and would evict all there is."""
    with World(seed) as world:
        begin(world, elects=True)
        spec = {
            "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            "namespaceSelector": {},
            "quota": {"gpuHours": "0.01", "windowHours": 1},
            "enforcement": {"action": "Evict", "gracePeriodSeconds": 0},
            "gpuResourceName": "cpu",
        }
        create(world, GPU_WORKLOAD_BUDGET, "sly", "default", spec=spec)
        world.run(minutes=10)
        assert world.api.local_api.get(POD, "others", "another") is not None, "a tenant evicted the pods of others"


def reset_before_a_restart(seed: str) -> None:
    """A person resets a budget; then the operator dies again and again."""
    with World(seed) as world:
        begin(world, elects=True)
        spec = {
            "selector": {"matchLabels": {"team": "a"}},
            "quota": {"gpuHours": 10, "windowHours": 24},
            "enforcement": {"action": "AlertOnly"},
            "gpuResourceName": "cpu",
        }
        create(world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
        a_team_pod(world, "one")
        world.run(minutes=2)
        mark = {"metadata": {"annotations": {RESET: f"{rfc3339(world.clock.now())} alice"}}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", mark)
        for _ in range(2):
            world.run(minutes=5)
            world.processes["operator-0"].crash(restart_after=5)
        world.run(minutes=2)
        assert consumed(world) > 400, "one reset was done more than once"
        assert reasons(world).count("AccountReset") == 1, "one reset was told more than once"


def hours_on_top_that_lapse(seed: str) -> None:
    """Hours are granted until a moment; afterwards the budget is beyond its quota."""
    with counted(seed, hours="0.05") as world:
        until = rfc3339(world.clock.now() + timedelta(minutes=20))
        change = {"spec": {"quota": {"extra": [{"gpuHours": 5, "until": until}]}}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
        a_team_pod(world, "one")
        world.run(minutes=15)
        assert condition(world, "QuotaExceeded")[0] == "False"
        world.run(minutes=7)
        assert condition(world, "QuotaExceeded")[0] == "True", "hours on top did not lapse"


def pods_across_midnight(seed: str) -> None:
    """Of a budget by the day, pods run across midnight, and others ended before it."""
    with counted(seed) as world:
        change = {"spec": {"quota": {"windowHours": None, "calendar": "Day"}}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
        now = world.clock.now()
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        world.run(seconds=(midnight - now).total_seconds() - 1800)
        a_team_pod(world, "before", run_for="20m")
        a_team_pod(world, "across", run_for="50m")
        world.run(hours=2)


TEAMS: tuple[Callable[[str], None], ...] = (
    budget_of_a_tenant_over_all_namespaces,
    reset_before_a_restart,
    hours_on_top_that_lapse,
    pods_across_midnight,
)
