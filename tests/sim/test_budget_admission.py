"""New pods of a budget that is used up: refused, or held behind a gate and let go one by one."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, create
from tests.sim.cluster.manifests import a_pod
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, condition, reasons, status
from tgp.adapters.kube.store import Store
from tgp.api.resource import (
    GPU_WORKLOAD_BUDGET,
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    POD,
    VALIDATING_ADMISSION_POLICY_BINDING,
)
from tgp.app.demo.fixtures import create_object
from tgp.core.budgets.admission import GATE, LABEL
from tgp.services.shipped import budget_policies
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.world import World

HOURS_WAITED = 4  # at most: each of three pods uses up what an hour's window frees


def install(world: World) -> None:
    for policy in budget_policies():
        create_object(world.api, policy)


@pytest.fixture
def world() -> Iterator[World]:
    with World("admission") as world:
        install(world)
        begin(world)
        yield world


@pytest.fixture
def elected() -> Iterator[World]:
    """It holds the Lease, and lists everything again when it leads."""
    with World("admission") as world:
        install(world)
        begin(world, elects=True)
        yield world


def label(world: World, name: str = "team-a") -> str:
    return world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", name)["metadata"].get("labels", {}).get(LABEL, "")


def gated(world: World) -> list[str]:
    """Names of pods behind the gate, in order of name."""
    pods = world.api.local_api.objects(POD, "default")
    return [
        pod["metadata"]["name"]
        for pod in pods
        if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))
    ]


def edit(world: World, **spec: Any) -> None:
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": spec})
    world.run(seconds=5)


def used_up(world: World, admission: str, **budget: Any) -> None:
    """A budget of a tenth of an hour in an hour that one pod has used, and which is closed."""
    a_budget(
        world,
        **{"hours": "0.1", "window": 1, "action": "Evict", "gracePeriodSeconds": 0, **budget},
        admission=admission,
    )
    a_team_pod(world, "first")
    world.run(minutes=7)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")


def test_a_closed_budget_denies_new_pods_in_words_and_an_open_one_does_not(world):
    used_up(world, "Deny")
    assert label(world) == "Deny"
    with pytest.raises(
        Failure,
        match=r"budget default/team-a is used up .*: GPU-hours become .*tgp why budget/default/team-a",
    ):
        a_team_pod(world, "second")
    a_team_pod(world, "other", labels={"team": "b"})
    world.run(minutes=61)
    assert label(world) == "", "an open budget costs nothing at admission"
    a_team_pod(world, "third")


def test_a_list_without_any_budget_lets_no_pod_go(elected):
    """A new process is shown no budget, when it starts and when it leads; the next list shows it again."""
    world = elected
    put, lists = Store.replace, iter(())

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        empty = store.resource == GPU_WORKLOAD_BUDGET and next(lists, False)
        await put(store, {} if empty else listed, version, rewound=rewound)

    used_up(world, "Gate")
    a_team_pod(world, "waits")
    world.run(seconds=10)
    with patch.object(Store, "replace", replace_all):
        lists = iter((True, True))
        world.processes["operator-0"].crash(restart_after=5)
        world.run(seconds=90)
        assert not next(lists, False), "it was shown no budget twice"
    assert gated(world) == ["waits"]


def test_a_closed_budget_gates_new_pods_and_lets_the_oldest_go_first_as_hours_come_back(world):
    used_up(world, "Gate")
    assert label(world) == "Gate"
    for name in ("c", "a", "b"):
        a_team_pod(world, name)
        world.run(seconds=2)
    world.run(seconds=10)
    assert gated(world) == ["a", "b", "c"]
    assert status(world)["gatedPods"] == 3
    waiting, lifted = [gated(world)], 0
    while waiting[-1]:
        world.run(seconds=60)
        assert len(waiting) < HOURS_WAITED * 60, waiting[-1]
        waiting.append(gated(world))
        lifted = max(lifted, reasons(world).count("GateLifted"))
    distinct = [names for number, names in enumerate(waiting) if number == 0 or names != waiting[number - 1]]
    assert distinct == [["a", "b", "c"], ["a", "b"], ["b"], []], "one more only when what is left lasts"
    assert lifted
    world.run(seconds=10)
    assert "gatedPods" not in status(world)


def test_a_spec_that_cannot_be_counted_by_holds_no_pod_behind_its_gate(world):
    used_up(world, "Gate")
    a_team_pod(world, "waits")
    world.run(seconds=10)
    assert gated(world) == ["waits"]
    edit(world, quota={"gpuHours": "0.1", "windowHours": None, "calendar": "Day", "timeZone": "Mars/Olympus"})
    world.run(minutes=2)
    assert condition(world, "Ready") == ("False", "UnknownTimeZone")
    assert (gated(world), label(world)) == ([], "")
    a_team_pod(world, "new")
    assert gated(world) == []
    edit(world, quota={"timeZone": "UTC"})
    world.run(minutes=1)
    a_team_pod(world, "later")
    assert gated(world) == ["later"], "it counts again, and is still used up"


def test_higher_priority_goes_first(world):
    used_up(world, "Gate")
    a_team_pod(world, "old")
    world.run(seconds=2)
    a_team_pod(world, "urgent", priorityClassName="system-cluster-critical")
    world.run(seconds=10)
    assert gated(world) == ["old", "urgent"]
    for _ in range(120):
        world.run(seconds=60)
        if len(gated(world)) == 1:
            break
    assert gated(world) == ["old"]


def test_a_budget_that_turns_from_gate_to_deny_keeps_what_waits_until_hours_are_back(world):
    used_up(world, "Gate")
    for name in ("a", "b"):
        a_team_pod(world, name, run_for="1m")
    world.run(seconds=10)
    edit(world, enforcement={"admission": "Deny"})
    world.run(minutes=5)
    assert gated(world) == ["a", "b"]
    assert status(world)["gatedPods"] == 2
    world.run(hours=HOURS_WAITED)
    assert gated(world) == []


@pytest.mark.parametrize("way", ["off", "larger", "deleted", "other pods"])
def test_what_no_budget_holds_any_more_goes_at_once(world, way):
    used_up(world, "Gate")
    a_team_pod(world, "waits")
    world.run(seconds=10)
    assert gated(world) == ["waits"]
    if way == "off":
        edit(world, enforcement={"admission": "Off"})
    elif way == "larger":
        edit(world, quota={"gpuHours": 100})
    elif way == "deleted":
        world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    else:
        edit(world, selector={"matchLabels": {"team": "b"}})
    world.run(seconds=70)
    assert gated(world) == []


def test_a_pod_of_two_budgets_waits_for_both_and_other_gates_stay(world):
    used_up(world, "Gate")
    a_budget(world, "other", hours="0.1", window=2, admission="Gate")
    pod = a_pod("both", labels=CPU, restartPolicy="Never")
    pod["spec"]["schedulingGates"] = [{"name": "example.org/mine"}]
    world.api.local_api.create(POD, pod)
    world.run(seconds=10)
    assert gated(world) == ["both"]
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(seconds=70)
    left = world.api.local_api.get(POD, "default", "both")["spec"]["schedulingGates"]
    assert left == [{"name": "example.org/mine"}]


def test_gates_are_lifted_by_the_next_leader_too(world):
    used_up(world, "Gate")
    a_team_pod(world, "waits")
    world.processes["operator-0"].crash(restart_after=1800)
    world.run(minutes=70)
    assert gated(world) == [], "the window moved on while no replica led, and the next leader saw it"


def test_policies_that_are_missing_are_said_with_what_to_do_and_enforcement_goes_on(world):
    world.api.local_api.delete(VALIDATING_ADMISSION_POLICY_BINDING, "", "tgp-budgets-deny")
    used_up(world, "Deny")
    assert condition(world, "Degraded") == ("True", "AdmissionUnavailable")
    (row,) = [row for row in status(world)["conditions"] if row["type"] == "Degraded"]
    assert "kubectl apply -f deploy/policies.yaml" in row["message"]
    a_team_pod(world, "second")
    world.run(minutes=2)
    assert reasons(world).count("Evicted") >= 2
    install_binding = next(each for each in budget_policies() if each["kind"] == "ValidatingAdmissionPolicyBinding")
    create_object(world.api, install_binding)
    world.run(minutes=2)
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_a_binding_that_looks_for_budgets_in_another_namespace_is_said(world):
    """deploy/policies.yaml names tgp-system: applied as it is, it misses an operator of another namespace."""
    binding, change = "tgp-budgets-deny-namespaces", {"spec": {"paramRef": {"namespace": "elsewhere"}}}
    world.api.local_api.merge_patch(VALIDATING_ADMISSION_POLICY_BINDING, "", binding, change)
    spec = {
        "namespaceSelector": {},
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": 1, "windowHours": 1},
        "enforcement": {"action": "Evict", "admission": "Deny"},
        "gpuResourceName": "cpu",
    }
    create(world, GPU_WORKLOAD_BUDGET, "wide", NAMESPACE_NAME, spec=spec)
    world.run(minutes=1)

    def degraded() -> dict[str, Any]:
        found = world.api.local_api.get(GPU_WORKLOAD_BUDGET, NAMESPACE_NAME, "wide")
        return next(row for row in found["status"]["conditions"] if row["type"] == "Degraded")

    assert degraded()["reason"] == "AdmissionUnavailable"
    assert f"spec.paramRef.namespace to {NAMESPACE_NAME}" in degraded()["message"]
    change = {"spec": {"paramRef": {"namespace": NAMESPACE_NAME}}}
    world.api.local_api.merge_patch(VALIDATING_ADMISSION_POLICY_BINDING, "", binding, change)
    world.run(minutes=2)
    assert degraded()["status"] == "False"


def test_pods_gated_before_a_downgrade_of_kubernetes_are_let_go_when_hours_are_back(world):
    """Kubernetes 1.35 has no policy that sets gates. Lifting one takes none."""
    used_up(world, "Gate")
    a_team_pod(world, "waits")
    world.run(seconds=10)
    for policy in budget_policies():
        if policy["kind"].startswith("Mutating"):
            resource = {
                "MutatingAdmissionPolicy": MUTATING_ADMISSION_POLICY,
                "MutatingAdmissionPolicyBinding": MUTATING_ADMISSION_POLICY_BINDING,
            }[policy["kind"]]
            world.api.local_api.delete(resource, "", policy["metadata"]["name"])
    world.processes["operator-0"].crash(restart_after=30)
    world.run(minutes=5)
    assert gated(world) == ["waits"]
    assert condition(world, "Degraded") == ("True", "AdmissionUnavailable")
    world.run(minutes=65)
    assert gated(world) == []


def test_a_label_set_or_removed_by_others_is_put_right(world):
    used_up(world, "Gate")
    for value in (None, "Deny"):
        change = {"metadata": {"labels": {LABEL: value}}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
        world.run(seconds=5)
        assert label(world) == "Gate"
