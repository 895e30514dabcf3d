"""What `tgp why node` says of a machine, from its objects alone."""

import msgspec

from tests.core.disruption.machines import a_machine
from tests.core.disruption.test_ending import AT_HOME, OWNED
from tests.core.pools.builders import NOW, POOL_UID, a_node, a_pool, ago, an_attempt, on_node, written
from tgp.controllers.deps import Stores
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.labels import selector
from tgp.core.model.node import REQUEST_UID
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.workload import PodDisruptionBudget
from tgp.services.plan_answers import NodeEnquiry
from tgp.services.plan_enquiries import node_enquiry
from tgp.services.plan_world import VisibleCluster

MOVES_PODS = {"consolidationPolicy": "WhenEmptyOrUnderutilized"}


def asked(hours: float, *pods, budgets=(), **disruption) -> NodeEnquiry:
    """Of a machine you own that is on for so long, and has had no pod for 20 minutes."""
    stores = Stores()
    stores.classes.put(KubeObject(key=ObjectKey("", "c"), value=OWNED))
    stores.pools.put(a_pool(nodeClassRef={"name": "c"}, disruption=disruption))
    owners = (OwnerRef("GPUNodePool", "p", POOL_UID, "tgp.io/v1", True),)
    attempt = an_attempt(outcome="Launched", launchedAt=written(ago(hours=hours)), offer=AT_HOME)
    record = a_machine(attempts=[attempt]).record
    stores.requests.put(msgspec.structs.replace(record, owners=owners))
    node = a_node("box-1", labels={REQUEST_UID: record.uid_text})
    stores.nodes.put(node)
    for pod in pods:
        stores.pods.put(pod)
    for budget in budgets:
        stores.disruption_budgets.put(budget)
    return node_enquiry(VisibleCluster(stores, NOW), node)


def test_a_machine_you_own_that_idles_within_its_least_time_on_is_kept_until_that_ends():
    found = asked(2.0)

    assert (found.ends, found.deleted_at) == ("", None)
    assert found.kept == ("minOnTime or keepOn of this machine keep it on until 2026-11-17 13:00:00Z",)
    assert asked(4.0).ends.startswith("the pool deletes it next: No pod has used the GPUs")


def test_an_idle_machine_that_a_waiting_pod_is_nominated_to_is_kept():
    waits = on_node("waits", "", nominated_node="box-1", unplaced_reason="Unschedulable")
    found = asked(4.0, waits)

    assert (found.ends, found.kept) == ("", ("it has room for a pod that waits",))


def test_a_closed_pod_disruption_budget_keeps_its_pods_from_cheaper_machines():
    serves = (OwnerRef("ReplicaSet", "s", "uid-s", "apps/v1", True),)
    pod = on_node("busy", "box-1", labels={"app": "x"}, owners=serves)
    guard = PodDisruptionBudget(key=ObjectKey("default", "guard"), selector=selector({"app": "x"}))
    found = asked(4.0, pod, budgets=(guard,), **MOVES_PODS)

    assert found.kept == (
        "its pods are not moved to cheaper machines: PodDisruptionBudget default/guard allows no eviction now",
    )
