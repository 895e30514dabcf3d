"""`accounting: Exact`: a finished pod stays until it is counted, and no longer."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sim.test_budget_pauses import a_job, edit
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, consumed, pods, status
from tgp.api.resource import GPU_WORKLOAD_BUDGET, JOB, NODE, POD
from tgp.core.model.pod import COUNTED
from tgp.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World("budget-exact") as world:
        begin(world)
        yield world


def exact(world: World, **budget: Any) -> None:
    a_budget(world, **budget)
    edit(world, accounting="Exact")
    world.run(seconds=2)


def held(world: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(world) if COUNTED in pod["metadata"].get("finalizers", ())]


def test_a_pod_that_ends_and_is_deleted_while_the_operator_is_away_is_counted_to_the_second(world):
    exact(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=2)
    assert held(world) == ["one"]
    world.processes["operator-0"].crash(restart_after=1800)
    world.run(minutes=15)
    world.api.local_api.delete(POD, "default", "one")
    world.run(minutes=5)
    assert held(world) == ["one"], "it waits for the operator"
    world.run(minutes=15)
    assert pods(world) == []
    assert consumed(world) == pytest.approx(600, abs=1)
    assert "uncertaintyGpuHours" not in status(world)


def test_a_pod_is_free_in_the_second_in_which_its_end_is_written(world):
    exact(world)
    a_team_pod(world, "one", run_for="5m")
    world.run(minutes=4)
    assert held(world) == ["one"]
    world.run(minutes=2)
    assert held(world) == []
    before = consumed(world)
    world.api.local_api.delete(POD, "default", "one")
    world.run(seconds=5)
    assert pods(world) == []
    assert consumed(world) == before


def test_a_running_pod_that_is_deleted_goes_within_seconds(world):
    exact(world)
    a_team_pod(world, "one")
    a_team_pod(world, "waits", nodeSelector={"nowhere": "yes"})
    world.run(minutes=5)
    assert held(world) == ["one", "waits"]
    for name in ("one", "waits"):
        world.api.local_api.delete(POD, "default", name)
    world.run(seconds=35)
    assert pods(world) == []


def test_a_pod_that_is_deleted_by_force_on_a_silent_node_is_not_held_for_ever(world):
    exact(world)
    a_team_pod(world, "one")
    world.run(minutes=5)
    world.cluster.power_off("node-0")
    world.run(minutes=3)
    world.api.local_api.delete(POD, "default", "one", grace_seconds=0)
    world.run(seconds=10)
    assert pods(world) == []
    assert float(status(world)["gpusInUse"]) == 0


@pytest.mark.parametrize("how", ["observed", "deleted", "unmatched", "node"])
def test_pods_are_let_go_when_the_reason_is_gone(world, how):
    exact(world)
    a_team_pod(world, "one")
    world.run(minutes=5)
    assert held(world) == ["one"]
    if how == "observed":
        edit(world, accounting="Observed")
    elif how == "deleted":
        world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    elif how == "unmatched":
        edit(world, selector={"matchLabels": {"team": "z"}})
    else:
        world.api.local_api.delete(NODE, "", "node-0")
        world.api.local_api.delete(POD, "default", "one", grace_seconds=0)
    world.run(seconds=60)
    assert held(world) == []


def test_a_new_leader_takes_off_what_an_earlier_one_has_left(world):
    exact(world)
    a_team_pod(world, "one")
    world.run(minutes=5)
    world.processes["operator-0"].crash(restart_after=120)
    change = {"metadata": {"finalizers": None}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(minutes=4)
    assert held(world) == []


def test_a_job_with_its_own_finalizer_completes_and_its_pods_count(world):
    exact(world)
    a_job(world, "train", run_for="5m")
    world.run(minutes=8)
    rows = world.api.local_api.get(JOB, "default", "train")["status"]["conditions"]
    assert "Complete" in [row["type"] for row in rows]
    assert consumed(world) == pytest.approx(300, abs=1)
    assert held(world) == []


def test_other_pods_are_left_alone(world):
    exact(world)
    a_team_pod(world, "other", labels={"team": "b"})
    a_team_pod(world, "ended", labels=CPU, run_for="1s")
    world.run(minutes=2)
    assert held(world) == []


def test_a_pod_that_waited_and_lost_its_label_while_the_operator_was_away_counts(world):
    """The account names waiting pods, too: what is written on a pod a tenant can edit with its labels."""
    exact(world)
    a_team_pod(world, "one", run_for="10m", schedulingGates=[{"name": "example.org/mine"}])
    a_team_pod(world, "goes", schedulingGates=[{"name": "example.org/mine"}])
    world.run(minutes=1)
    assert held(world) == ["goes", "one"]
    assert status(world)["trackedPods"] == 0
    world.api.local_api.delete(POD, "default", "goes")
    world.run(seconds=5)
    world.processes["operator-0"].crash(restart_after=300)
    world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"labels": {"team": "none"}}})
    world.api.local_api.merge_patch(POD, "default", "one", {"spec": {"schedulingGates": None}})
    world.run(minutes=20)
    assert consumed(world) == pytest.approx(600, abs=1)
    assert "uncertaintyGpuHours" not in status(world)
    assert held(world) == []
