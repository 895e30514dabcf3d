"""Budgets that are not counted, because their spec is wrong or newer than the operator, hold up nothing of others."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sim.test_budget_admission import gated, install, used_up
from tests.sim.test_budget_exact import exact, held
from tests.sim.test_budget_pauses import edit, exhaust, suspended
from tests.sim.test_budgets import a_budget, a_team_pod, begin, consumed, reasons
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_WORKLOAD_BUDGET, POD
from tgp.core.budgets.admission import LABEL
from tgp.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World("left alone") as world:
        install(world)
        begin(world)
        yield world


CRD = "gpuworkloadbudgets.tgp.io"


def newer_kind(world: World) -> list[dict[str, Any]]:
    """As a newer version of the operator would install it: with a field of another type. Returns what was there."""
    kind = world.api.local_api.get(CUSTOM_RESOURCE_DEFINITION, "", CRD)
    versions = copy.deepcopy(kind["spec"]["versions"])
    spec = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["accounting"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    world.api.local_api.merge_patch(CUSTOM_RESOURCE_DEFINITION, "", CRD, {"spec": {"versions": versions}})
    return kind["spec"]["versions"]


def another(world: World, namespace: str = "default", label: str = "", **spec: Any) -> None:
    """A budget that this operator does not count."""
    if "accounting" in spec:
        newer_kind(world)
    quota = {"gpuHours": 1, "windowHours": 24}
    written = {
        "selector": {"matchLabels": {"team": "z"}},
        "quota": quota,
        "enforcement": {"action": "AlertOnly"},
        **spec,
    }
    metadata = {"name": "another", "namespace": namespace, "labels": {LABEL: label} if label else {}}
    kind = {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget"}
    world.api.local_api.create(GPU_WORKLOAD_BUDGET, {**kind, "metadata": metadata, "spec": written})
    world.run(seconds=5)


WRONG = {
    "in a namespace of others": {"namespace": "others", "namespaceSelector": {}},
    "beside it": {"quota": {"gpuHours": 1, "calendar": "Day", "timeZone": "Mars/Olympus"}},
    "newer": {"accounting": {"mode": "Exact"}},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_job_goes_on_and_a_counted_pod_goes_beside_a_budget_that_is_left_alone(world, case):
    exhaust(world, "first")
    assert suspended(world, "first")
    edit(world, accounting="Exact", enforcement={"action": "AlertOnly"})
    a_team_pod(world, "one", run_for="1m")
    another(world, **WRONG[case])
    world.run(minutes=1)
    assert not suspended(world, "first")
    world.api.local_api.delete(POD, "default", "one")
    world.run(minutes=2)
    assert "one" not in held(world)


def test_a_spec_that_becomes_wrong_lets_go_of_finished_pods(world):
    exact(world)
    a_team_pod(world, "one", run_for="2m")
    world.run(minutes=1)
    assert held(world) == ["one"]
    edit(world, quota={"windowHours": None, "calendar": "Day", "timeZone": "Mars/Olympus"})
    world.run(minutes=3)
    assert held(world) == []


@pytest.mark.parametrize(("label", "stays"), [("", []), ("Deny", []), ("Gate", ["waits"])])
def test_pods_wait_for_a_newer_budget_only_where_its_label_says_that_it_gates(world, label, stays):
    used_up(world, "Gate")
    a_team_pod(world, "waits")
    another(world, label=label, accounting={"mode": "Exact"})
    assert gated(world) == ["waits"]
    edit(world, quota={"gpuHours": 100})
    world.run(minutes=2)
    assert gated(world) == stays


def test_a_budget_of_a_newer_spec_that_is_deleted_leaves_what_it_used(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    used = consumed(world)
    kind = newer_kind(world)
    edit(world, accounting={"mode": "Exact"})
    world.run(seconds=10)
    world.processes["operator-0"].crash(restart_after=5)
    world.run(minutes=1)
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(seconds=10)
    assert world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", "team-a") is None
    world.api.local_api.merge_patch(CUSTOM_RESOURCE_DEFINITION, "", CRD, {"spec": {"versions": kind}})
    a_budget(world)
    world.run(seconds=10)
    assert consumed(world) == pytest.approx(used, abs=1)
    assert reasons(world).count("Inherited") == 1
