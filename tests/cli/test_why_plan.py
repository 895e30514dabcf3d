"""`tgp why` of pods, Nodes and pools: what they wait for, why they are kept, and what would be bought."""

import json
import urllib.request
from datetime import UTC, datetime
from typing import Any

import click
import pytest

from tests.cli.program import Answer, answer
from tests.cli.sample_requests import BOUGHT, become, condition, document, own_node, reserved_name, send
from tests.cli.test_plan import BARE, cluster, pod_spec, waits, with_pool
from tests.contracts.kubectl.mounted import Mounted
from tests.core.market.offers import NOW, an_offer
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef, Pod
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.world import Order
from tgp.core.pools.runaway import UNUSABLE, UnusableMachine, line_of
from tgp.interfaces.cli.request_name import read_subject
from tgp.interfaces.cli.why_plan_view import pod_rows
from tgp.services.documents.reasons import next_for_stopped
from tgp.services.plan_answers import PodEnquiry, PodPlan, PoolNote
from tgp.services.plan_enquiries import WAITS, state_of

__all__ = ["cluster"]  # a fixture


def why(server: Mounted, *words: str) -> Answer:
    return answer("why", "--kubeconfig", str(server.kubeconfig), "-n", "ml", *words, **BARE)


def read(server: Mounted, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.url}/{path}") as answered:  # noqa: S310 - on loopback
        return json.load(answered)


def a_pod(**more: Any) -> Pod:
    gpu = Resources(others=(("nvidia.com/gpu", 1),))
    return Pod(key=ObjectKey("ml", "x"), **{"requests": gpu, "unplaced_reason": "Unschedulable", **more})


def test_a_pod_that_waits_says_what_would_be_bought_for_it_and_since_when_it_waits(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")
    said = why(cluster, "pod/train-0").stdout

    assert "pod ml/train-0: Pending (Waits)   1 nvidia.com/gpu, 2 CPU" in said
    assert "waits for   a machine: pool ml/pool would buy one now" in said
    assert "since       2026-11-16 13:50Z" in said
    assert "would buy   1x L40S at $1.67/h from vultr in us-east for pool ml/pool, with ml/train-0 on it" in said
    assert "            next cheaper machine: 1x A10 at $0.75/h" in said


def test_a_pod_that_no_pool_serves_has_a_reason_for_each_pool(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "big", gpus=8)
    said = why(cluster, "po/ml/big").stdout

    assert "pod ml/big: Pending (TooSmall)" in said
    assert "waits for   a machine: no pool serves the pod now" in said
    assert "not served  pool ml/pool: none of 2 offers fits: 1 too small" in said
    found = json.loads(why(cluster, "pods/big", "-o", "json").stdout)
    assert (found["kind"], found["reason"], found["unserved"][0]["pool"]) == ("PodReason", "TooSmall", "ml/pool")


def test_a_pod_with_its_own_price_a_gang_and_an_event_says_so(cluster: Mounted):
    with_pool(cluster)
    own = {"tgp.io/max-price": "1.00", "tgp.io/gang": "ring", "tgp.io/gang-size": "2"}
    waits(cluster, "train-0", annotations=own)
    uid = read(cluster, "api/v1/namespaces/ml/pods/train-0")["metadata"]["uid"]
    event = {
        "metadata": {"name": "told", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "train-0", "uid": uid},
        "reason": "NotTriggerScaleUp",
        "message": "gang ml/ring has 1 of 2 pods",
        "lastTimestamp": "2026-11-16T14:00:00Z",
    }
    send(f"{cluster.url}/api/v1/namespaces/ml/events", "POST", event)
    said = why(cluster, "pod/train-0").stdout

    assert "own price   at most $1.00 per GPU and hour for as long as it waits (tgp.io/max-price)" in said
    assert "gang        ml/ring: its pods are served together or not at all" in said
    assert "ago, NotTriggerScaleUp: gang ml/ring has 1 of 2 pods" in said
    assert "not served  gang ml/ring: 1 of 2 pods exist; machines are bought once all 2 are pending" in said


@pytest.mark.parametrize("price", ["0,05", "cheap", "-1"])
def test_an_annotation_that_cannot_be_read_is_named_with_what_was_written(cluster: Mounted, price: str):
    with_pool(cluster)
    waits(cluster, "train-0", annotations={"tgp.io/max-price": price})
    said = " ".join(why(cluster, "pod/train-0").stdout.split())

    assert f"ignored Annotation tgp.io/max-price is ignored: '{price}' is no price in dollars per GPU and hour" in said
    [ignored] = json.loads(why(cluster, "pod/train-0", "-o", "json").stdout)["ignored"]
    assert ignored.startswith(f"Annotation tgp.io/max-price is ignored: '{price}'")


@pytest.mark.parametrize(
    ("pod", "reason", "words"),
    [
        (a_pod(node="gpu-1"), "Scheduled", "on Node gpu-1"),
        (a_pod(phase="Succeeded", node="gpu-1"), "Succeeded", "has ended"),
        (a_pod(gates=("kueue.x-k8s.io/admission",)), "SchedulingGated", "kueue.x-k8s.io/admission"),
        (a_pod(owners=(OwnerRef("DaemonSet", "plugin", controller=True),)), "DaemonSet", "Nodes that exist"),
        (a_pod(unplaced_reason=""), "NotScheduledYet", "once it has found none"),
        (a_pod(requests=Resources(cpu_milli=100)), "NoGPU", "requests no GPU"),
        (a_pod(scheduler="hal9000"), "AnotherScheduler", "pods of scheduler hal9000 are not planned for"),
        (a_pod(scheduler="hal9000", unplaced_reason=""), "AnotherScheduler", "hal9000"),
        (a_pod(scheduler="hal9000", requests=Resources(cpu_milli=100)), "NoGPU", "requests no GPU"),
        (a_pod(claims_devices=True, unplaced_reason=""), "ResourceClaims", "request nvidia.com/gpu"),
        (a_pod(), "Waits", "a machine with a GPU"),
    ],
)
def test_a_pod_is_demand_or_says_why_not(pod: Pod, reason: str, words: str):
    assert state_of(pod)[0] == reason
    assert words in state_of(pod)[1]


def test_a_pod_behind_the_gate_of_a_budget_names_it_and_when_hours_come_back(cluster: Mounted):
    budgets = f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpuworkloadbudgets"
    spec = {
        "selector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
        "quota": {"gpuHours": 100, "windowHours": 24},
        "enforcement": {"action": "Evict", "admission": "Gate"},
    }
    closed = {
        "consumedGpuHours": "100.2",
        "nextChangeAt": "2026-11-16T15:00:00Z",
        "conditions": [condition("QuotaExceeded", status="True", reason="QuotaReached")],
    }
    waits(cluster, "train-0", schedulingGates=[{"name": "tgp.io/budget"}])
    assert "waits for   the operator to remove gate tgp.io/budget" in why(cluster, "pod/train-0").stdout
    kind = {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget"}
    send(budgets, "POST", {**kind, "metadata": {"name": "team-a"}, "spec": spec})
    assert "ml/team-a has hours left" in " ".join(why(cluster, "pod/train-0").stdout.split())
    send(f"{budgets}/team-a/status", "PATCH", {"status": closed}, "application/merge-patch+json")
    said = " ".join(why(cluster, "pod/train-0").stdout.split())

    assert "pod ml/train-0: Pending (BudgetGate)" in said
    assert "ml/team-a is used up (100.2 of 100 GPU-hours): GPU-hours become available at 2026-11-16T15:00:00Z" in said
    assert "no machine is bought for the pod" in said
    assert "get gwb -n ml" in said
    waits(cluster, "train-1")
    said = " ".join(why(cluster, "pod/train-1").stdout.split())
    assert "pod ml/train-1: Pending (BudgetUsedUp)" in said
    assert (
        "ml/team-a is used up (100.2 of 100 GPU-hours): GPU-hours become available at 2026-11-16T15:00:00Z. No machine"
        in said
    )


def test_a_pod_of_another_scheduler_is_not_planned_for(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0", schedulerName="volcano")
    said = why(cluster, "pod/train-0").stdout

    assert "pod ml/train-0: Pending (AnotherScheduler)" in said
    assert "pods of scheduler volcano are not planned for" in said


def test_a_machine_on_its_way_is_named_to_the_pod_that_it_was_bought_for(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")
    uid = read(cluster, "api/v1/namespaces/ml/pods/train-0")["metadata"]["uid"]
    machine(cluster, uid, {"phase": "Booting", "attempts": [BOUGHT], "nodeClass": "standard", "conditions": []})
    said = why(cluster, "pod/train-0").stdout

    assert "the machine of request ml/of-pool, which was ordered for it" in said
    assert "ordered     request ml/of-pool (Booting), 1x L40S from vultr at $1.20/h" in said
    assert "tgp watch" in said


def test_a_pod_whose_machines_did_not_serve_it_says_so(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")
    uid = read(cluster, "api/v1/namespaces/ml/pods/train-0")["metadata"]["uid"]
    lines = {
        f"token-{number}": line_of(
            UnusableMachine(
                token=f"token-{number}",
                namespace="ml",
                request=f"pool-{number}",
                offer="",
                ended_at=datetime.now(UTC),
                microusd=250_000,
                what="became ready, and was not used",
                pods={uid: uid},
            )
        )
        for number in range(3)
    }
    send(f"{cluster.url}/api/v1/namespaces", "POST", {"metadata": {"name": "tgp-system"}})
    table = {"metadata": {"name": UNUSABLE}, "data": lines}
    send(f"{cluster.url}/api/v1/namespaces/tgp-system/configmaps", "POST", table)
    said = " ".join(why(cluster, "pod/train-0").stdout.split())

    assert "3 machines bought for this pod did not run it (cost $0.75)" in said
    assert "GPURequest ml/pool-2, became ready, and was not used" in said


def test_a_node_without_work_says_that_its_pool_deletes_it(cluster: Mounted):
    with_pool(cluster)
    joined(cluster)
    said = why(cluster, f"node/{own(cluster)}").stdout

    assert f"node {own(cluster)}: Ready   1x L40S from vultr at $1.20/h" in said
    assert "machine     request ml/of-pool, bought for pool ml/pool" in said
    assert "used by     no pod that uses a GPU" in said
    unused = "No pod has used the GPUs of machine i-7 at vultr for 10m (since 14:05:00Z)"
    assert f"ends        the pool deletes it next: {unused}" in said


def test_a_node_that_is_used_or_protected_says_why_it_is_kept(cluster: Mounted):
    with_pool(cluster)
    joined(cluster)
    runs(cluster, "busy", **{"tgp.io/do-not-disrupt": "true"})
    said = why(cluster, f"no/{own(cluster)}").stdout

    assert "used by     ml/busy" in said
    assert "kept        1 pod uses its GPUs" in said
    assert "            Pod ml/busy is annotated tgp.io/do-not-disrupt" in said
    assert f"runs        on Node {own(cluster)}" in why(cluster, "pod/busy").stdout
    assert "machine     request ml/of-pool, 1x L40S from vultr at $1.20/h" in why(cluster, "pod/busy").stdout


def test_a_node_that_waits_for_the_end_of_its_time_says_when(cluster: Mounted):
    with_pool(cluster, disruption={"consolidateAfter": "87600h"})
    joined(cluster)
    found = json.loads(why(cluster, f"node/{own(cluster)}", "-o", "json").stdout)

    assert (found["pool"], found["ends"], found["deletedAt"]) == ("ml/pool", None, "2036-11-13T14:05:00Z")


def test_a_node_whose_pods_are_not_moved_to_cheaper_machines_says_why(cluster: Mounted):
    with_pool(cluster, disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"})
    joined(cluster)
    runs(cluster, "busy")
    said = " ".join(why(cluster, f"node/{own(cluster)}").stdout.split())

    assert (
        "its pods are not moved to cheaper machines: Pod ml/busy has no controller that would create it again" in said
    )


def test_a_node_whose_pool_may_not_buy_says_that_its_pods_are_not_moved(cluster: Mounted):
    with_pool(cluster, disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"})
    joined(cluster)
    runs(cluster, "busy")
    status = {"conditions": [condition("Ready", reason="NodeClassSuspended", message="Class standard is suspended")]}
    where = f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpunodepools/pool/status"
    send(where, "PATCH", {"status": status}, "application/merge-patch+json")
    said = " ".join(why(cluster, f"node/{own(cluster)}").stdout.split())

    assert "its pods are not moved to cheaper machines: Pool buys nothing now: Class standard is suspended" in said


def test_a_node_of_an_unknown_owner_is_left_alone(cluster: Mounted):
    send(f"{cluster.url}/api/v1/nodes", "POST", {"metadata": {"name": "own"}})

    assert "tgp neither pays for it nor terminates it" in why(cluster, "node/own").stdout


def test_a_pool_shows_what_waits_what_it_would_buy_its_machines_and_limits(cluster: Mounted):
    with_pool(cluster)
    joined(cluster)
    runs(cluster, "busy")
    waits(cluster, "train-0")
    waits(cluster, "big", gpus=8)
    said = why(cluster, "pool/pool").stdout

    assert "pool ml/pool: Active   class standard" in said
    assert "pods        2 pods wait for a machine of any pool" in said
    assert "would buy   1x L40S at $1.67/h from vultr" in said
    assert "not served  ml/big: none of 2 offers fits" in said
    assert "machines    1 request, $1.20 an hour" in said
    assert "request ml/of-pool (Ready), 1x L40S from vultr at $1.20/h" in said
    assert "limits.maxNodes is 2: 1 machine left" in said
    found = json.loads(why(cluster, "gnp/ml/pool", "-o", "json").stdout)
    assert (found["kind"], found["waitingPods"], len(found["machines"])) == ("PoolReason", 2, 1)


def test_a_pool_that_observes_shows_what_it_would_have_cost(cluster: Mounted):
    with_pool(cluster, mode="Observe")
    cost = {"totalCost": "3.10", "hourlyCost": "0.00", "since": "2026-01-01T00:00:00Z", "at": "2026-01-01T10:00:00Z"}
    path = f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpunodepools/pool/status"
    send(path, "PATCH", {"status": {"wouldHaveCost": cost}}, "application/merge-patch+json")
    waits(cluster, "train-0")

    said = why(cluster, "pool/pool").stdout
    assert "would buy   1x L40S at $1.67/h from vultr" in said
    assert "would cost  $0.00 an hour now; $3.10 since 2026-01-01 00:00Z, had the pool bought" in said
    found = json.loads(why(cluster, "gnp/ml/pool", "-o", "json").stdout)["wouldHaveCost"]
    assert (found["usd"], found["since"]) == (3.1, "2026-01-01T00:00:00Z")


def test_a_pool_that_cannot_buy_says_what_stops_it(cluster: Mounted):
    with_pool(cluster, nodeClassRef={"name": "gone"})
    said = why(cluster, "pool/pool").stdout

    assert "stopped by  GPUNodeClass gone does not exist" in said
    assert " get gpunodeclasses" in said


@pytest.mark.parametrize(
    ("stopped", "command"),
    [
        ("InvalidSpec: spec.disruption.budgets[0].schedule: …", "kubectl describe gpunodepool pool -n ml"),
        ("NodeClassNotFound: GPUNodeClass gone does not exist", "kubectl get gpunodeclasses"),
        ("NodeClassCannotBuy: GPUNodeClass gone: …", "kubectl describe gpunodeclass gone"),
        ("NamespaceNotAllowed: GPUNodeClass gone does not serve …", "kubectl describe gpunodeclass gone"),
        ("NodeClassSuspended: GPUNodeClass gone is suspended", "tgp release class/gone"),
    ],
)
def test_a_pool_that_is_stopped_points_to_the_object_that_is_wrong(stopped: str, command: str):
    assert next_for_stopped(PoolNote(ObjectKey("ml", "pool"), "gone", stopped=stopped)) == command


def test_a_name_that_is_nearly_right_gets_the_right_one(cluster: Mounted):
    with_pool(cluster)
    ended = why(cluster, "pool/pol")

    assert ended.returncode == 1
    assert "There is no GPUNodePool ml/pol; did you mean pool?" in ended.stderr


@pytest.mark.parametrize("text", ["node/a/b", "pod/a/b/c", "pool/", "class/x"])
def test_what_is_no_name_is_wrong_use(text: str):
    with pytest.raises(click.UsageError):
        read_subject(text)


def machine(server: Mounted, anchor: str, status: dict[str, Any], pool: str = "pool") -> None:
    """A request that the pool wrote for this pod."""
    uid = read(server, f"apis/tgp.io/v1/namespaces/ml/gpunodepools/{pool}")["metadata"]["uid"]
    owner = {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": pool, "uid": uid}
    requests = f"{server.url}/apis/tgp.io/v1/namespaces/ml/gpurequests"
    meta = {"name": f"of-{pool}", "namespace": "ml", "ownerReferences": [{**owner, "controller": True}]}
    meta["annotations"] = {"tgp.io/for": anchor}
    send(requests, "POST", {**document(), "metadata": meta})
    become(f"{requests}/of-{pool}", json.dumps(status))


def own(server: Mounted, pool: str = "pool") -> str:
    """The name of the Node of the pool's machine."""
    return reserved_name(read(server, f"apis/tgp.io/v1/namespaces/ml/gpurequests/of-{pool}"))


def joined(server: Mounted, pool: str = "pool") -> None:
    """A machine of the pool that has become a Node."""
    status = {
        "phase": "Ready",
        "nodeClass": "standard",
        "attempts": [BOUGHT],
        "readyAt": "2026-11-16T14:00:00Z",
        "idleSince": "2026-11-16T14:05:00Z",
        "conditions": [condition("Initialized")],
    }
    machine(server, "another-pod", status, pool)
    nodes = f"{server.url}/api/v1/nodes"
    node = own(server, pool)
    send(nodes, "POST", own_node(read(server, f"apis/tgp.io/v1/namespaces/ml/gpurequests/of-{pool}")))
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "1"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-11-16T14:00:00Z"}
    state = {"status": {"allocatable": room, "capacity": room, "conditions": [ready]}}
    send(f"{nodes}/{node}/status", "PATCH", state, "application/merge-patch+json")


def runs(server: Mounted, name: str, **annotations: str) -> None:
    pods = f"{server.url}/api/v1/namespaces/ml/pods"
    spec = {**pod_spec(), "nodeName": own(server)}
    send(pods, "POST", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    send(
        f"{pods}/{name}/status",
        "PATCH",
        {"status": {"phase": "Running", "startTime": "2026-11-16T14:10:00Z"}},
        "application/merge-patch+json",
    )


def test_the_chance_to_lose_a_spot_machine_is_shown():
    pod = a_pod()
    made = [Order(ObjectKey("ml", "pool"), an_offer(spot=spot), "acme", 1, (pod,), "", 0.125 * spot) for spot in (1, 0)]
    shown = [
        dict(reversed([*pod_rows(PodEnquiry(pod, NOW, WAITS, "", plan=PodPlan(NOW, orders=(order,))))]))
        for order in made
    ]
    assert "spot: a loss of the machine is counted with a chance of 12.5 % an hour" in shown[0].values()
    assert "" not in shown[1]


@pytest.mark.parametrize("text", ["class/gpus", "gnc/gpus", "gpunodeclass/gpus", "gpunodeclasses.tgp.io/gpus"])
def test_a_class_is_explained_by_its_conditions(text: str):
    with pytest.raises(click.UsageError) as refused:
        read_subject(text)
    assert "kubectl describe gpunodeclass gpus" in str(refused.value)
    assert "tgp check" in str(refused.value)
