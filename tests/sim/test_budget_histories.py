"""Hours and days of budgets with everything that goes wrong, beside the truth: I10 to I12 at every write."""

from collections.abc import Callable
from random import Random

import pytest

from tests.amounts import amount
from tests.sim.an_operator import create, furnish, operator_main
from tests.sim.test_budget_admission import gated, install, used_up
from tests.sim.test_budget_pauses import a_job, edit, suspended
from tests.sim.test_budgets import a_budget, a_deployment, a_team_pod, begin, consumed, pods, status
from tgp.api.resource import GPU_WORKLOAD_BUDGET, NODE, POD, POD_DISRUPTION_BUDGET
from tgp.sim.checkers.budgets import BudgetWatch
from tgp.sim.checkers.holds import HoldsWatch
from tgp.sim.cluster.machines import Hardware
from tgp.sim.faults import swarm
from tgp.sim.plans import Act, Effect, FaultPlan, every_plan
from tgp.sim.world import World

WEB = {"matchLabels": {"app": "web"}}
STEPS = amount(12, 60)
FAULTY_STEPS = amount(5, 60)  # each takes ten times as long: connections break, and everything is listed again


def wipe(world: World, luck: Random) -> None:
    """While a leader looks: what is wiped while no leader looks is lost, and that is said."""
    world.run(minutes=1)
    if all(process.running for process in world.processes.values()):
        change = {"status": {"account": luck.choice((None, "nonsense")), "consumedGpuHours": "0"}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change, "status")
        world.run(minutes=1)


def looked_at(world: World) -> bool:
    """A minute later, whether all operators run: what no operator sees of a budget's own edits is another promise."""
    world.run(minutes=1)
    return all(process.running for process in world.processes.values())


def select_others(world: World, luck: Random) -> None:
    """For a while, and back."""
    for team in ("b", "a"):
        if looked_at(world):
            change = {"spec": {"selector": {"matchLabels": {"team": team}}}}
            world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "short", change)
            world.run(seconds=luck.uniform(60, 900))


def replace_budget(world: World, luck: Random) -> None:
    """One of its name comes back, sooner or later."""
    if looked_at(world):
        world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "returns")
        world.run(seconds=luck.uniform(60, 900))
        a_budget(world, "returns", hours=1000)


def live(world: World, luck: Random, steps: int, *, wipes: bool = True) -> None:
    """Pods come, end, are deleted and change their labels; Nodes fall silent and go.

    `wipes`: statuses are wiped, and budgets are edited and replaced.
    """
    api = world.api.local_api
    for _ in range(steps):
        world.run(seconds=luck.uniform(5, 900))
        names = [pod["metadata"]["name"] for pod in pods(world)]
        chance = luck.random()
        if chance < 0.5 or not names:
            length = luck.choice(("", "20s", "5m", "40m", "3h"))
            labels = {"team": luck.choice(("a", "a", "b"))}
            a_team_pod(world, f"pod-{luck.randrange(10**9)}", run_for=length, labels=labels)
        elif chance < 0.7:
            api.delete(POD, "default", luck.choice(names))
        elif chance < 0.8:
            change = {"metadata": {"labels": {"team": luck.choice(("a", "b"))}}}
            api.merge_patch(POD, "default", luck.choice(names), change)
        elif chance < 0.85 and wipes:
            luck.choice((wipe, select_others, replace_budget))(world, luck)
        elif chance < 0.9 and "node-1" in world.cluster.machines.names():
            world.cluster.power_off("node-1")
        elif chance < 0.93 and api.get(NODE, "", "node-1") is not None:
            api.delete(NODE, "", "node-1")
        elif "node-1" not in world.cluster.machines.names():
            world.cluster.power_on(Hardware("node-1", cpu="64", memory="256Gi"))


@pytest.mark.parametrize("seed", range(amount(1, 20)))
def test_a_day_with_kills_and_hand_overs_is_counted_once_and_never_less(seed):
    with World(f"budgets-{seed}") as world:
        watch = BudgetWatch(world)
        begin(world, machines=2, operators=2)
        luck = world.luck("history")
        a_budget(world, hours=1000)
        a_budget(world, "short", hours=1000, window=1)
        a_budget(world, "daily", hours=1000)
        daily = {"spec": {"quota": {"windowHours": None, "calendar": "Day"}}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "daily", daily)
        a_budget(world, "returns", hours=1000)
        a_deployment(world)
        for _ in range(6):
            live(world, luck, STEPS // 6)
            world.processes[luck.choice(("operator-0", "operator-1"))].crash(restart_after=luck.uniform(1, 900))
        world.run(minutes=30)
        assert watch.looks > 20
        assert consumed(world) > 0


@pytest.mark.parametrize("seed", range(amount(1, 20)))
def test_with_any_faults_use_is_never_below_the_truth_and_enforced_once(seed):
    with World(f"faulty-budgets-{seed}", faults=swarm(f"faulty-budgets-{seed}")) as world:
        watch = BudgetWatch(world, late=240)
        HoldsWatch(world, late=240)
        furnish(world)
        for number in range(2):
            world.cluster.power_on(Hardware(f"node-{number}", cpu="64", memory="256Gi"))
            world.process(f"operator-{number}", operator_main(shipped=True))
        a_budget(world, hours=6, window=4, action="Evict", gracePeriodSeconds=300)
        a_deployment(world)
        create(world, POD_DISRUPTION_BUDGET, "one", "default", spec={"minAvailable": 1, "selector": WEB})
        live(world, world.luck("history"), FAULTY_STEPS, wipes=False)
        world.calm()
        world.run(minutes=20)
        assert watch.looks > 10


@pytest.mark.parametrize("seed", range(amount(1, 20)))
def test_with_any_faults_pauses_finalizers_and_gates_go_with_their_reason(seed):
    with World(f"held-budgets-{seed}", faults=swarm(f"held-budgets-{seed}")) as world:
        watch = BudgetWatch(world, late=240)
        holds = HoldsWatch(world, late=240)
        furnish(world)
        install(world)
        for number in range(2):
            world.cluster.power_on(Hardware(f"node-{number}", cpu="64", memory="256Gi"))
            world.process(f"operator-{number}", operator_main(shipped=True))
        a_budget(world, hours=3, window=4, action="Pause", gracePeriodSeconds=60)
        edit(world, accounting="Exact")
        luck = world.luck("history")
        for number in range(amount(2, 10)):
            a_job(world, f"job-{number}", parallelism=luck.choice((1, 2)), run_for=luck.choice(("", "30m", "2h")))
            live(world, luck, amount(2, 4), wipes=False)
            action, admission = luck.choice(("Pause", "AlertOnly", "Evict")), luck.choice(("Gate", "Off"))
            edit(world, enforcement={"action": action, "admission": admission})
            edit(world, accounting=luck.choice(("Exact", "Observed")))
        world.calm()
        world.run(minutes=20)
        assert watch.looks > 10
        assert holds.marks > 0


def plans_at(effects: list[Effect], worth: Callable[[Effect], bool]) -> list[FaultPlan]:
    """The process dies before or after each of these, or gets no answer."""
    return [*every_plan(effects, worth, (Act.CRASH_BEFORE, Act.CRASH_AFTER, Act.LOST_ANSWER))]


def short_history(world: World) -> None:
    begin(world)
    a_budget(world, hours="0.05", action="Evict", gracePeriodSeconds=20)
    for number in range(2):
        a_team_pod(world, f"pod-{number}", run_for=("1m", "")[number])
    world.run(minutes=6)


def test_a_crash_at_any_write_changes_neither_use_nor_enforcement():
    """Enumerated: before and after each write of the account and each eviction."""
    with World("written") as world:
        short_history(world)
        truth, effects = consumed(world), list(world.effects)
    plans = plans_at(effects, lambda effect: "gpuworkloadbudgets" in effect.path or effect.path.endswith("/eviction"))
    tried = plans[:: amount(12, 1)]
    assert len(plans) >= 20
    for plan in tried:
        with World("written", plan=plan) as world:
            BudgetWatch(world, late=60)
            short_history(world)
            world.run(minutes=2)
            assert pods(world) == [] or status(world)["gpusInUse"] == "0", str(plan)
            assert consumed(world) == pytest.approx(truth, abs=60), str(plan)
    print(f"account and eviction: covered {len(tried)} of {len(plans)} plans")


def held_history(world: World) -> None:
    """A pod that is held ends, another is evicted, and a Job is suspended and goes on."""
    begin(world)
    a_budget(world, hours="0.05", window=1, action="Pause", gracePeriodSeconds=20)
    edit(world, accounting="Exact")
    a_job(world, "train")
    a_team_pod(world, "short", run_for="1m")
    world.run(minutes=4)
    edit(world, enforcement={"action": "Evict"})
    a_team_pod(world, "late")
    world.run(minutes=2)
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=2)


def test_a_crash_at_any_write_leaves_nothing_held_or_paused():
    """Enumerated: before and after each write of the account, finalizer, suspension, eviction and resumption."""
    with World("held") as world:
        held_history(world)
        effects = list(world.effects)
    ours = ("gpuworkloadbudgets", "/jobs/", "/pods/")
    plans = plans_at(effects, lambda effect: any(part in effect.path for part in ours))
    tried = plans[:: amount(20, 1)]
    assert len(plans) >= 40
    for plan in tried:
        with World("held", plan=plan) as world:
            BudgetWatch(world, late=60)
            HoldsWatch(world)
            held_history(world)
            world.run(minutes=3)
            assert not suspended(world, "train"), str(plan)
            gone = [pod["metadata"]["name"] for pod in pods(world) if "deletionTimestamp" in pod["metadata"]]
            assert gone == [], str(plan)
    print(f"finalizer, suspension and resumption: covered {len(tried)} of {len(plans)} plans")


def gated_history(world: World) -> None:
    """Two pods wait behind the gate until hours are back."""
    install(world)
    begin(world)
    used_up(world, "Gate")
    for name in ("first", "second"):
        a_team_pod(world, name, run_for="1m")
    world.run(minutes=1)
    assert gated(world) == ["first", "second"]
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=2)


def test_a_crash_at_any_write_leaves_no_pod_behind_its_gate():
    """Enumerated: before and after each write of the account, of the label that gates, and of each gate."""
    with World("gated") as world:
        gated_history(world)
        effects = list(world.effects)
    lifts = plans_at(effects, lambda effect: "/pods/" in effect.path and effect.method == "PATCH")
    others = plans_at(effects, lambda effect: "gpuworkloadbudgets" in effect.path)
    assert len(lifts) >= 6, "both gates, each before, after and without an answer"
    assert len(others) >= 20
    tried = [*lifts[:: amount(3, 1)], *others[:: amount(24, 1)]]
    for plan in tried:
        with World("gated", plan=plan) as world:
            BudgetWatch(world, late=60)
            HoldsWatch(world)
            gated_history(world)
            world.run(minutes=3)
            assert gated(world) == [], str(plan)
    print(f"gates: covered {len(tried)} of {len(lifts) + len(others)} plans")
