"""What a team may try for hours that do not count: each way is counted all the same."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sim.test_budget_lives import delete
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, condition, consumed, ran, reasons, status
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.core.budgets.reset import RESET
from tgp.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World("budget-dodges") as world:
        begin(world)
        yield world


def a_budget_of(world: World, resource: str, **metadata: Any) -> None:
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": 100, "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
        "gpuResourceName": resource,
    }
    metadata |= {"name": "team-a", "namespace": "default"}
    kind = {"apiVersion": GPU_WORKLOAD_BUDGET.api_version, "kind": GPU_WORKLOAD_BUDGET.kind}
    world.api.local_api.create(GPU_WORKLOAD_BUDGET, {**kind, "metadata": metadata, "spec": spec})
    world.run(seconds=5)


def test_a_budget_of_another_resource_in_between_does_not_replace_what_was_used(world):
    a_budget_of(world, "cpu")
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    delete(world)
    a_budget_of(world, "memory")
    assert consumed(world) == 0
    delete(world)
    a_budget_of(world, "cpu")
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    assert reasons(world).count("Inherited") == 1


def test_a_reset_that_was_done_is_not_done_again_for_a_budget_that_comes_back(world):
    a_budget(world)
    mark = f"{world.clock.now().replace(microsecond=0).isoformat()} alice"
    asked = {"metadata": {"annotations": {RESET: mark}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", asked)
    world.run(seconds=5)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    delete(world)
    a_budget_of(world, "cpu", annotations={RESET: mark})
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    assert reasons(world).count("AccountReset") == 1


def test_a_label_that_is_removed_before_the_pod_has_a_node_takes_no_budget_away(world):
    a_budget(world)
    a_team_pod(world, "one", schedulingGates=[{"name": "example.org/mine"}])
    world.run(seconds=5)
    world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"labels": {"team": "none"}}})
    world.run(seconds=5)
    world.api.local_api.merge_patch(POD, "default", "one", {"spec": {"schedulingGates": None}})
    world.run(minutes=10)
    assert status(world)["gpusInUse"] == "1"
    world.api.local_api.delete(POD, "default", "one")
    world.run(seconds=5)
    assert consumed(world) == pytest.approx(600, abs=60)


def test_a_verdict_that_others_edit_is_put_back(world):
    a_budget(world, hours="0.1")
    a_team_pod(world, "one", run_for="9m")
    world.run(minutes=10)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    exceeded_at = status(world)["exceededAt"]
    rows = [{**row, "status": "False"} for row in status(world)["conditions"]]
    edit = {"status": {"conditions": rows, "exceededAt": None}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", edit, "status")
    world.run(seconds=10)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert status(world)["exceededAt"] == exceeded_at
    assert "AccountRestored" in reasons(world)


def test_an_account_that_is_removed_while_the_operator_is_away_is_said_to_be_lost(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="5m")
    world.run(minutes=10)
    before = consumed(world)
    world.processes["operator-0"].crash(restart_after=30)
    edit = {"status": {"account": None, "consumedGpuHours": None}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", edit, "status")
    world.run(minutes=3)
    assert consumed(world) == pytest.approx(before, abs=1)
    assert condition(world, "Degraded") == ("True", "AccountLost")


def test_a_pod_that_was_deleted_with_a_year_of_grace_is_evicted_all_the_same(world):
    """Its process ignores the signal to end: only the end of its grace stops it."""
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0)
    a_team_pod(world, "one", terminationGracePeriodSeconds=30)
    world.run(minutes=2)
    ignores = {"metadata": {"annotations": {"sim.tgp.io/stop-takes": "8760h"}}}
    world.api.local_api.merge_patch(POD, "default", "one", ignores)
    world.api.local_api.delete(POD, "default", "one", grace_seconds=365 * 86_400)
    world.run(minutes=8)
    assert reasons(world).count("Evicted") == 2, "once, on the pod and on its budget"
    gone = world.api.local_api.get(POD, "default", "one")
    assert gone is None or gone["metadata"]["deletionGracePeriodSeconds"] == 30
