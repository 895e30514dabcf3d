"""The checker that judges plans beside Karpenter's finds every kind of mistake, and none in ours."""

from dataclasses import replace
from typing import Any

import pytest

from bench.karpenter.cases import (
    CPU,
    EPHEMERAL,
    GIB,
    MEMORY,
    PODS,
    Answer,
    Case,
    Machine,
    MachineType,
    gpu_market,
    karpenters_mix,
    two_gpu_pods,
    zone,
)
from bench.karpenter.checker import violations
from bench.karpenter.ours import our_plan

A, B = zone("a"), zone("b")
BOX = MachineType("box", {CPU: 2000, MEMORY: 4 * GIB, PODS: 2}, {CPU: 100}, 500, (A, B))
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def a_pod(uid: str, *, cpu: str = "900m", app: str = "x", **spec: Any) -> dict[str, Any]:
    container = {"resources": {"requests": {CPU: cpu, MEMORY: "1Gi"}}}
    return {"metadata": {"uid": uid, "labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def judged(*machines: tuple[str, str], pods: list[dict[str, Any]], taints: tuple[dict[str, Any], ...] = ()) -> str:
    """Machines are given as a zone and the pods on it, one letter each."""
    answer = Answer(tuple(Machine("box", where, 500, tuple(on_it)) for where, on_it in machines), 1.0)
    return "; ".join(violations(Case("c", (BOX,), tuple(pods), taints), answer))


def term(key: str) -> dict[str, Any]:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}
        ]
    }


def test_a_right_plan_has_no_fault():
    assert judged((A, "ab"), pods=[a_pod("a"), a_pod("b")]) == ""


def test_too_much_on_a_machine():
    assert "cpu" in judged((A, "ab"), pods=[a_pod("a", cpu="1"), a_pod("b", cpu="1")])
    assert "pods" in judged((A, "abc"), pods=[a_pod(uid, cpu="100m") for uid in "abc"])


def test_a_pod_without_a_machine_or_with_two():
    assert "a has no machine" in judged(pods=[a_pod("a")])
    assert "a has two machines" in judged((A, "a"), (B, "a"), pods=[a_pod("a")])


def test_a_wrong_price_or_place():
    answer = Answer((Machine("box", "elsewhere", 400, ()),), 1.0)
    found = violations(Case("c", (BOX,), ()), answer)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("operator", "values", "right"),
    [("In", [A], True), ("In", [B], False), ("NotIn", [A], False), ("Exists", [], True), ("DoesNotExist", [], False)],
)
def test_node_affinity(operator: str, values: list[str], right: bool):
    expression = {"key": ZONE, "operator": operator, "values": values}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert (judged((A, "a"), pods=[a_pod("a", affinity=affinity)]) == "") is right


def test_node_selectors_and_taints():
    assert "may not run" in judged((A, "a"), pods=[a_pod("a", nodeSelector={ZONE: B})])
    assert "tolerate" in judged((A, "a"), pods=[a_pod("a")], taints=(EPHEMERAL,))
    tolerant = a_pod("a", tolerations=[{"key": EPHEMERAL["key"], "operator": "Exists"}])
    assert judged((A, "a"), pods=[tolerant], taints=(EPHEMERAL,)) == ""


def test_pods_apart_and_together():
    apart = [a_pod(uid, affinity={"podAntiAffinity": term(HOSTNAME)}) for uid in "ab"]
    assert "not alone" in judged((A, "ab"), pods=apart)
    assert judged((A, "a"), (A, "b"), pods=apart) == ""
    near = [a_pod(uid, affinity={"podAffinity": term(ZONE)}) for uid in "ab"]
    assert "pods are in" in judged((A, "a"), (B, "b"), pods=near)
    assert judged((A, "a"), (A, "b"), pods=near) == ""


def test_a_spread_needs_an_order_in_which_every_pod_can_be_bound():
    by_zone = [a_pod(uid, topologySpreadConstraints=[{**SPREAD, "topologyKey": ZONE}]) for uid in "abc"]
    assert "in any order" in judged((A, "ab"), (A, "c"), pods=by_zone)
    assert judged((A, "a"), (A, "b"), (B, "c"), pods=by_zone) == ""
    by_host = [a_pod(uid, topologySpreadConstraints=[{**SPREAD, "topologyKey": HOSTNAME}]) for uid in "ab"]
    assert "2 pods on one machine" in judged((A, "ab"), pods=by_host)
    others = [replace_app(by_host[0]), a_pod("b")]  # it does not count itself, and may come first
    assert judged((A, "ab"), pods=others) == ""


def replace_app(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "labels": {"app": "y"}}}


@pytest.mark.parametrize("case", [karpenters_mix(500), gpu_market(100, 20, seed=7)], ids=lambda case: case.name)
def test_our_plan_keeps_every_rule(case: Case):
    answer = our_plan(case, rounds=1)
    assert violations(case, answer) == []
    assert answer.microusd > 0


def test_two_gpu_pods_get_two_small_machines():
    answer = our_plan(two_gpu_pods(), rounds=1)
    assert [machine.type for machine in answer.machines] == ["g5.2xlarge", "g5.2xlarge"]


def test_the_mix_is_karpenters():
    """Five parts; 30 shapes; machines from one CPU upwards in three zones."""
    case = karpenters_mix(1003)
    specs = [pod["spec"] for pod in case.pods]
    assert sum("topologySpreadConstraints" in spec for spec in specs) == 400
    assert sum("affinity" in spec for spec in specs) == 400
    assert len({str(spec["containers"][0]["resources"]["requests"]) for spec in specs}) == 30
    assert len(case.types) == 400
    assert case == karpenters_mix(1003)
    assert replace(case, name="x") != case
