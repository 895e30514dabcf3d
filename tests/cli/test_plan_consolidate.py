"""`tgp plan --consolidate`: which machines would be exchanged for cheaper ones; it changes nothing."""

import pytest

from tests.cli.sample_requests import condition, send
from tests.cli.test_plan import STATUS, everything, plan, planned, pod_spec, waits, with_pool
from tests.cli.test_plan import cluster as cluster  # noqa: PLC0414 - a fixture
from tests.cli.test_why_plan import joined, own
from tests.contracts.kubectl.mounted import Mounted

POLICY = {"consolidationPolicy": "WhenEmptyOrUnderutilized"}


def serves(server: Mounted, *, owned: bool = True, pool: str = "pool", name: str = "serve-0") -> None:
    pods = f"{server.url}/api/v1/namespaces/ml/pods"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve", "uid": "1", "controller": True}
    meta = {"name": name, "ownerReferences": [owner] if owned else []}
    send(pods, "POST", {"metadata": meta, "spec": {**pod_spec(), "nodeName": own(server, pool)}})
    state = {"status": {"phase": "Running", "startTime": "2026-11-16T14:10:00Z"}}
    send(f"{pods}/{name}/status", "PATCH", state, "application/merge-patch+json")


def another_node(server: Mounted, gpus: int = 1) -> None:
    """With room, and of no pool."""
    nodes = f"{server.url}/api/v1/nodes"
    send(nodes, "POST", {"metadata": {"name": "own"}})
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-11-16T14:00:00Z"}
    state = {"status": {"allocatable": room, "capacity": room, "conditions": [ready]}}
    send(f"{nodes}/own/status", "PATCH", state, "application/merge-patch+json")
    send(f"{nodes}/own", "PATCH", {"spec": {"taints": None}}, "application/merge-patch+json")  # of a Node that begins


def test_an_exchange_is_shown_with_saving_pods_and_place_and_nothing_is_written(cluster: Mounted):
    with_pool(cluster, disruption=POLICY)
    joined(cluster)
    serves(cluster)
    another_node(cluster)
    before = everything(cluster)
    said = " ".join(plan(cluster, "--consolidate").stdout.split())

    assert "1 exchange would save $1.15 an hour, restarts included; 1 pod moves" in said
    assert f"exchange 1 pool ml/pool: {own(cluster)} ($1.20/h)" in said
    assert "for room on own" in said
    assert "pods ml/serve-0" in said
    found = planned(cluster, "--consolidate", "--pool", "ml/pool")
    (exchange,) = found["exchanges"]
    assert (found["kind"], exchange["leaving"]) == ("ConsolidationPlan", [{"node": own(cluster), "usdPerHour": 1.2}])
    assert exchange["pods"] == [{"namespace": "ml", "name": "serve-0", "node": "own"}]
    assert everything(cluster) == before


def test_machines_of_two_pools_of_one_class_are_one_exchange_which_either_pool_shows(cluster: Mounted):
    with_pool(cluster, disruption=POLICY)
    with_pool(cluster, "other", disruption=POLICY)
    joined(cluster)
    joined(cluster, "other")
    serves(cluster)
    serves(cluster, pool="other", name="serve-1")
    another_node(cluster, gpus=2)
    said = " ".join(plan(cluster, "--consolidate").stdout.split())

    assert f"exchange 1 pools ml/other, ml/pool: {own(cluster, 'other')} ($1.20/h), {own(cluster)} ($1.20/h)" in said
    for name in ("pool", "other"):
        found = planned(cluster, "--consolidate", "--pool", f"ml/{name}")
        assert found["pools"] == [f"ml/{name}"]
        assert [each["pools"] for each in found["exchanges"]] == [["ml/other", "ml/pool"]]


def test_a_budget_of_one_pool_is_what_an_exchange_of_two_pools_waits_for(cluster: Mounted):
    with_pool(cluster, disruption=POLICY)
    with_pool(cluster, "other", disruption={**POLICY, "budgets": [{"nodes": 0}]})
    joined(cluster)
    joined(cluster, "other")
    serves(cluster)
    serves(cluster, pool="other", name="serve-1")
    another_node(cluster, gpus=2)
    said = " ".join(plan(cluster, "--consolidate", "--pool", "ml/pool").stdout.split())

    assert "waits for GPUNodePool ml/other: spec.disruption.budgets[0] (nodes: 0) allows no more disruption now" in said


def test_machines_of_a_pool_that_may_not_buy_stay(cluster: Mounted):
    """The operator does not exchange them either."""
    with_pool(cluster, disruption=POLICY)
    joined(cluster)
    serves(cluster)
    another_node(cluster)
    where = f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses/standard/status"
    suspended = {"conditions": [condition("Ready", reason="Suspended")]}
    send(where, "PATCH", {"status": suspended}, "application/merge-patch+json")
    said = " ".join(plan(cluster, "--consolidate").stdout.split())

    assert "ml/pool: no exchange of machines is worth it now" in said
    assert f"stays {own(cluster)}: Pool buys nothing now: GPUNodeClass standard is suspended" in said


def test_what_stays_is_shown_with_the_reason(cluster: Mounted):
    with_pool(cluster, disruption=POLICY)
    joined(cluster)
    serves(cluster, owned=False)
    ended = plan(cluster, "--consolidate")

    assert ended.returncode == 0
    assert "ml/pool: no exchange of machines is worth it now" in ended.stdout
    assert f"stays       {own(cluster)}: Pod ml/serve-0 has no controller that would create it again" in ended.stdout


def test_a_closed_budget_is_what_it_waits_for(cluster: Mounted):
    with_pool(cluster, disruption={**POLICY, "budgets": [{"nodes": 0}]})
    joined(cluster)
    serves(cluster)
    another_node(cluster)

    assert (
        "waits for   spec.disruption.budgets[0] (nodes: 0) allows no more disruption now"
        in plan(cluster, "--consolidate").stdout
    )


def test_an_exchange_that_buys_a_machine_waits_for_its_saving_to_hold(cluster: Mounted):
    with_pool(cluster, disruption=POLICY)
    joined(cluster)
    serves(cluster)
    cheaper = [{**row, "pricePerHour": "0.30"} for row in STATUS["availableGPUs"]]
    where = f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses/standard/status"
    send(where, "PATCH", {"status": {"availableGPUs": cheaper}}, "application/merge-patch+json")

    assert "waits for   savings that last 1h" in plan(cluster, "--consolidate").stdout


def test_without_a_pool_that_moves_pods_it_says_what_to_set(cluster: Mounted):
    with_pool(cluster)

    assert "no pool moves pods together" in plan(cluster, "--consolidate").stdout


@pytest.mark.parametrize(
    "words", [("--pool", "x"), ("--consolidate", "-f", "x.yaml"), ("--consolidate", "--hours", "1")]
)
def test_wrong_use(cluster: Mounted, words: tuple[str, ...]):
    assert plan(cluster, *words).returncode == 2


def test_a_pool_that_does_not_exist_is_named(cluster: Mounted):
    with_pool(cluster, disruption=POLICY)
    ended = plan(cluster, "--consolidate", "--pool", "ml/pol")

    assert ended.returncode == 1
    assert "did you mean pool?" in ended.stderr


def test_room_that_a_waiting_pod_needs_is_not_there_for_an_exchange(cluster: Mounted):
    """The operator plans for it first, too."""
    with_pool(cluster, disruption=POLICY)
    joined(cluster)
    serves(cluster)
    another_node(cluster)
    waits(cluster, "train-0")

    assert "ml/pool: no exchange of machines is worth it now" in plan(cluster, "--consolidate").stdout
