"""Short histories of budgets: pods that are counted, forgotten, hidden and evicted."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from tests.sim.an_operator import create
from tests.sim.test_budget_admission import gated, install, used_up
from tests.sim.test_budget_pauses import a_job, edit, suspended
from tests.sim.test_budgets import (
    CPU,
    a_budget,
    a_team_pod,
    begin,
    consumed,
    pods,
    reasons,
    status,
)
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD, POD_DISRUPTION_BUDGET
from tgp.sim.checkers.budgets import BudgetWatch
from tgp.sim.checkers.holds import HoldsWatch
from tgp.sim.world import World


def counted(seed: str, **budget: Any) -> World:
    world = World(seed)
    BudgetWatch(world, late=30)
    HoldsWatch(world)
    begin(world, elects=True)
    a_budget(world, **{"hours": 1000, **budget})
    return world


def pods_deleted_after_their_end(seed: str) -> None:
    """A pod runs, ends, and is deleted."""
    with counted(seed) as world:
        a_team_pod(world, "one", run_for="10m")
        world.run(minutes=15)
        world.api.local_api.delete(POD, "default", "one")
        a_team_pod(world, "two", run_for="1m")
        world.run(minutes=5)


def pod_that_starts_while_the_operator_is_away(seed: str) -> None:
    """A pod is placed and pulls its image; the operator dies; the pod starts, ends and is gone."""
    with counted(seed) as world:
        a_team_pod(world, "one", run_for="10m")
        while not pods(world)[0]["spec"].get("nodeName"):
            world.run(seconds=0.5)
        world.run(seconds=3)
        world.processes["operator-0"].crash(restart_after=900)
        world.run(minutes=12)
        world.api.local_api.delete(POD, "default", "one")
        world.run(minutes=10)
        a_team_pod(world, "two", run_for="10s")
        world.run(minutes=2)


def killed_after_each_end(seed: str) -> None:
    """The operator dies again and again, while pods that ended are still there."""
    with counted(seed) as world:
        for number in range(4):
            a_team_pod(world, f"pod-{number}", run_for=f"{5 + number}m")  # the last write names only the last of them
        for _ in range(8):
            world.run(seconds=100)
            world.processes["operator-0"].crash(restart_after=15)
        world.run(minutes=5)


def killed_in_the_grace_period(seed: str) -> None:
    """Beyond the quota, the operator dies again and again before the grace period is over."""
    with counted(seed, hours="0.1", action="Evict", gracePeriodSeconds=300) as world:
        a_team_pod(world, "one")
        world.run(minutes=7)
        for _ in range(6):
            world.run(seconds=60)
            world.processes["operator-0"].crash(restart_after=5)
        world.run(minutes=2)
        assert pods(world) == [], "the grace period began again with every restart"


def label_taken_off(seed: str) -> None:
    """A running pod loses the label that its budget asks for."""
    with counted(seed) as world:
        a_team_pod(world, "one")
        world.run(minutes=5)
        world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"labels": {"team": "b"}}})
        world.run(minutes=15)
        a_team_pod(world, "two", run_for="10s")
        world.run(minutes=2)


def finished_beside_running(seed: str) -> None:
    """Of the pods of a budget that is used up one has ended, and stays where it is."""
    with counted(seed, hours="0.2", action="Evict", gracePeriodSeconds=0) as world:
        a_team_pod(world, "ended", run_for="3m")
        a_team_pod(world, "runs")
        world.run(minutes=15)
        assert [pod["metadata"]["name"] for pod in pods(world)] == ["ended"], "the running pod stayed"


def held_by_a_disruption_budget(seed: str) -> None:
    """The first in order cannot be evicted."""
    with counted(seed, hours="0.2", action="Evict", gracePeriodSeconds=0) as world:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}
        create(world, POD_DISRUPTION_BUDGET, "keep", "default", spec=spec)
        a_team_pod(world, "a-held", labels={**CPU, "app": "held"})
        world.run(minutes=1)
        a_team_pod(world, "free")
        world.run(minutes=20)
        assert [pod["metadata"]["name"] for pod in pods(world)] == ["a-held"], "one that is held stopped all others"


def alert_that_holds(seed: str) -> None:
    """Use stays beyond an alert for an hour."""
    with counted(seed, hours="0.2") as world:
        a_team_pod(world, "one", run_for="15m")
        world.run(minutes=25)
        world.processes["operator-0"].crash(restart_after=5)
        world.run(minutes=20)
        assert reasons(world).count("BudgetAlert") == 2, "an alert was raised again while it held"


def wiped_account(seed: str) -> None:
    """A tenant removes the account from the status."""
    with counted(seed) as world:
        a_team_pod(world, "one", run_for="10m")
        world.run(minutes=15)
        world.api.local_api.delete(POD, "default", "one")
        world.run(minutes=1)
        before = consumed(world)
        world.api.local_api.merge_patch(
            GPU_WORKLOAD_BUDGET, "default", "team-a", {"status": {"account": None}}, "status"
        )
        world.run(minutes=2)
        world.processes["operator-0"].crash(restart_after=5)
        world.run(minutes=1)
        a_team_pod(world, "two", run_for="1m")
        world.run(minutes=3)
        assert consumed(world) >= before, "a removed account was not put back"


def host_with_a_wrong_clock(seed: str) -> None:
    """A kubelet's clock is a day behind."""
    with World(seed) as world:  # the truth of the checker would be by the same wrong clock
        begin(world, elects=True)
        a_budget(world)
        core = world.cluster.kubelets.api
        right = core.now_text
        core.now_text = lambda: right().replace("2026-01-05", "2026-01-04").replace("2026-01-06", "2026-01-05")
        a_team_pod(world, "one", run_for="10m")
        world.run(minutes=15)
        assert 590 <= consumed(world) <= 780, "a kubelet's clock was believed"


def no_pod_shown(seed: str) -> None:
    """For a minute the API server lists no pod at all, to a leader that has never heard of one."""
    put, blind = Store.replace, [False]

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        shown = {} if blind[0] and store.resource is POD else listed
        await put(store, shown, version, rewound=rewound)

    with patch.object(Store, "replace", replace_all), counted(seed) as world:
        a_team_pod(world, "one")
        world.run(minutes=10)
        blind[0] = True
        world.processes["operator-0"].crash(restart_after=5)
        world.run(seconds=120)
        blind[0] = False
        a_team_pod(world, "two")
        world.run(minutes=20)
        assert status(world)["gpusInUse"] == "2", "I9: an empty list closed the span of a pod that runs"


def gated_while_used_up(seed: str) -> None:
    """Eight pods wait behind the gate of a budget whose hour has room for a few of them."""
    with World(seed) as world:
        install(world)
        begin(world, elects=True)
        used_up(world, "Gate")
        for number in range(8):
            a_team_pod(world, f"pod-{number}")
        waiting = [8]
        while waiting[-1] == 8 and len(waiting) < 90:
            world.run(minutes=1)
            waiting.append(len(gated(world)))
        assert waiting[-1] >= 6, "more pods were let go than what is left lasts"
        assert waiting[-1] < 8, "no pod was let go when hours were back"


def leaves_the_window(seed: str) -> None:
    """A window of four hours, and use that leaves it second by second."""
    with counted(seed, window=4) as world:
        for number in range(8):
            a_team_pod(world, f"pod-{number}", run_for="30m")
        world.run(hours=4)
        for number in range(6):
            world.run(seconds=267)
            a_team_pod(world, f"brief-{number}", run_for="1s")


def deleted_and_created_again(seed: str) -> None:
    """A tenant deletes the budget that counts, and creates it again."""
    with counted(seed) as world:
        a_team_pod(world, "ended", run_for="10m")
        a_team_pod(world, "runs")
        world.run(minutes=15)
        before = consumed(world)
        world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
        world.run(minutes=10)
        a_budget(world, hours=1000)
        world.run(minutes=5)
        assert consumed(world) >= before, "a deleted budget forgot what was used"


def paused_in_turn(seed: str) -> None:
    """Three Jobs are paused; then a little is left, and then more than enough."""
    with counted(seed, hours="0.2", window=1, action="Pause", gracePeriodSeconds=0) as world:
        names = ("first", "second", "third")
        for name in names:
            a_job(world, name)
            world.run(seconds=2)
        world.run(minutes=15)
        assert [suspended(world, name) for name in names] == [True] * 3
        edit(world, quota={"gpuHours": "0.41"})
        world.run(minutes=1)
        assert sum(suspended(world, name) for name in names) >= 2, "all paused Jobs went on at once"
        edit(world, quota={"gpuHours": "1000"})
        world.run(minutes=2)
        assert not any(suspended(world, name) for name in names), "a paused Job never went on"


def held_and_turned_off(seed: str) -> None:
    """Pods are held until they are counted and a Job is paused; then the budget asks for neither."""
    with counted(seed, hours="0.2", action="Pause", gracePeriodSeconds=0) as world:
        edit(world, accounting="Exact")
        a_job(world, "paused")
        a_team_pod(world, "runs")
        world.run(minutes=10)
        edit(world, accounting="Observed", enforcement={"action": "AlertOnly"})
        world.run(minutes=5)
        assert not suspended(world, "paused"), "B1: a Job stays paused by a budget that pauses nothing"


def counted_before_it_goes(seed: str) -> None:
    """A pod that is held ends and is deleted; the operator dies before that is written."""
    with counted(seed) as world:
        edit(world, accounting="Exact")
        a_team_pod(world, "one", run_for="5m")
        while not pods(world) or pods(world)[0].get("status", {}).get("phase") != "Succeeded":
            world.run(seconds=0.1)
        world.api.local_api.delete(POD, "default", "one")
        world.run(seconds=0.5)
        world.processes["operator-0"].crash(restart_after=60)
        world.run(minutes=3)
        assert pods(world) == [], "B1: a pod that was counted stays"
        assert "uncertaintyGpuHours" not in status(world), "a pod went before it was counted"


BUDGETS: tuple[Callable[[str], None], ...] = (
    pods_deleted_after_their_end,
    pod_that_starts_while_the_operator_is_away,
    killed_after_each_end,
    killed_in_the_grace_period,
    label_taken_off,
    finished_beside_running,
    held_by_a_disruption_budget,
    alert_that_holds,
    wiped_account,
    host_with_a_wrong_clock,
    no_pod_shown,
    gated_while_used_up,
    leaves_the_window,
    deleted_and_created_again,
    paused_in_turn,
    held_and_turned_off,
    counted_before_it_goes,
)
