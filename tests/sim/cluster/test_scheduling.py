"""Pods to machines: who may go where, and the words for "nowhere"."""

import pytest

from tests.sim.cluster.manifests import GPU, a_cluster, a_container, a_pod, condition
from tgp.api.resource import NODE, POD, Resource
from tgp.sim.cluster.component_api import CORE_EVENT
from tgp.sim.cluster.machines import Hardware
from tgp.sim.cluster.placement import requests_of, selects, tolerates

PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
TAINT = {"key": "tgp.io/gpu", "value": "yes", "effect": "NoSchedule"}


def test_a_pod_is_bound_to_the_emptiest_node_that_fits():
    with a_cluster(Hardware("a"), Hardware("b"), Hardware("gpu", devices={GPU: 2})) as cluster:
        cluster.api.create(POD, a_pod("gpu", gpus=2))
        cluster.world.run(seconds=1)
        for number in range(4):
            cluster.api.create(POD, a_pod(f"plain-{number}"))
        cluster.world.run(minutes=1)

        homes = [pod["spec"]["nodeName"] for pod in cluster.pods() if pod["metadata"]["name"] != "gpu"]
        assert sorted(homes) == ["a", "a", "b", "b"]
        assert cluster.pod("gpu")["spec"]["nodeName"] == "gpu"
        assert condition(cluster.pod("gpu"), "PodScheduled")["status"] == "True"


def test_devices_are_not_shared():
    with a_cluster(Hardware("gpu", devices={GPU: 2})) as cluster:
        for number in range(3):
            cluster.api.create(POD, a_pod(f"pod-{number}", gpus=1))
        cluster.world.run(minutes=1)

        assert len(cluster.pods("Running")) == 2
        assert len(cluster.pods("Pending")) == 1


def test_a_pod_that_ends_makes_room_for_the_next():
    with a_cluster(Hardware("gpu", devices={GPU: 1})) as cluster:
        cluster.api.create(POD, a_pod("first", gpus=1, run_for="10m", restartPolicy="Never"))
        cluster.world.run(minutes=1)
        cluster.api.create(POD, a_pod("second", gpus=1))
        cluster.world.run(minutes=5)
        assert "nodeName" not in cluster.pod("second")["spec"]
        cluster.world.run(minutes=6)

        assert cluster.pod("second")["status"]["phase"] == "Running"


def test_why_a_pod_goes_nowhere_is_said_as_the_real_scheduler_says_it():
    machines = (
        Hardware("cordoned"),
        Hardware("full", cpu="1"),
        Hardware("tainted", taints=(TAINT,)),
        Hardware("other", labels={"zone": "b"}),
        Hardware("poor", devices={GPU: 1}, labels={"zone": "a"}),
    )
    with a_cluster(*machines) as cluster:
        cluster.api.merge_patch(NODE, "", "cordoned", {"spec": {"unschedulable": True}})
        cluster.api.create(POD, a_pod(gpus=4, nodeSelector={"zone": "a"}))
        cluster.world.run(seconds=1)
        said = condition(cluster.pod(), "PodScheduled")

        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert said["message"] == (
            "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector. "
            "no new claims to deallocate, "
            "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
        )
        events = [event for event in cluster.api.objects(CORE_EVENT) if event["reason"] == "FailedScheduling"]
        assert [event["message"] for event in events] == [said["message"]]


def test_a_full_node_could_be_emptied_by_preemption():
    with a_cluster(Hardware("small", cpu="1")) as cluster:
        cluster.api.create(POD, a_pod("first"))
        cluster.world.run(seconds=1)
        cluster.api.create(POD, a_pod("second"))
        cluster.world.run(seconds=1)

        assert condition(cluster.pod("second"), "PodScheduled")["message"] == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )


def test_without_nodes_the_words_are_others():
    with a_cluster() as cluster:
        cluster.api.create(POD, a_pod())
        cluster.world.run(seconds=1)

        assert condition(cluster.pod(), "PodScheduled")["message"] == "no nodes available to schedule pods"


def test_a_pod_that_waits_is_not_told_the_same_twice():
    """A quiet hour with an unschedulable pod and a heartbeating node writes nothing about the pod."""
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(POD, a_pod(gpus=1))
        cluster.world.run(minutes=5)
        before = cluster.pod()["metadata"]["resourceVersion"]
        cluster.world.run(hours=1)

        assert cluster.pod()["metadata"]["resourceVersion"] == before


def test_gates_hold_a_pod_back():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(POD, a_pod(schedulingGates=[{"name": "tgp.io/budget"}]))
        cluster.world.run(minutes=1)
        assert "nodeName" not in cluster.pod()["spec"]
        cluster.api.merge_patch(POD, "default", "pod", {"spec": {"schedulingGates": []}})
        cluster.world.run(minutes=1)

        assert cluster.pod()["spec"]["nodeName"] == "a"


def test_a_taint_is_tolerated_by_those_who_say_so():
    tolerations = [{"key": "tgp.io/gpu", "operator": "Exists"}]
    with a_cluster(Hardware("tainted", taints=(TAINT,))) as cluster:
        cluster.api.create(POD, a_pod("no"))
        cluster.api.create(POD, a_pod("yes", tolerations=tolerations))
        cluster.world.run(minutes=1)

        assert "nodeName" not in cluster.pod("no")["spec"]
        assert cluster.pod("yes")["spec"]["nodeName"] == "tainted"


def test_higher_priority_goes_first():
    with a_cluster() as cluster:
        cluster.api.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 10})
        cluster.api.create(POD, a_pod("a-low", gpus=1))
        cluster.world.run(seconds=10)
        cluster.api.create(POD, a_pod("high", gpus=1, priorityClassName="urgent"))
        cluster.world.run(minutes=1)
        cluster.machines(Hardware("gpu", devices={GPU: 1}))

        assert "nodeName" not in cluster.pod("a-low")["spec"]
        assert cluster.pod("high")["spec"]["nodeName"] == "gpu"


@pytest.mark.parametrize(
    ("toleration", "verdict"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "tgp.io/gpu", "operator": "Exists"}, True),
        ({"key": "tgp.io/gpu", "value": "yes"}, True),
        ({"key": "tgp.io/gpu", "operator": "Equal", "value": "no"}, False),
        ({"key": "tgp.io/gpu", "value": "yes", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "tgp.io/gpu"}, False),
    ],
)
def test_tolerations(toleration, verdict):
    assert tolerates(toleration, TAINT) is verdict


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "absent", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "count", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "count", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["3"]}, False),
    ],
)
def test_node_affinity(row, verdict):
    required = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    node = {"metadata": {"name": "n", "labels": {"zone": "a", "count": "4"}}}

    assert selects(spec, node) is verdict


def test_requests_count_sidecars_and_the_largest_init_container():
    sidecar = {**a_container(cpu="500m"), "restartPolicy": "Always"}
    pod = {
        "spec": {
            "containers": [a_container(cpu="1", **{GPU: 1})],
            "initContainers": [a_container(cpu="3"), sidecar, a_container(cpu="2")],
            "overhead": {"cpu": "100m"},
        }
    }

    assert requests_of(pod) == {"cpu": 3100, GPU: 1, "pods": 1}
