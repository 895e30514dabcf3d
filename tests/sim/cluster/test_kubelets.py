"""Machines that register, pods that run on them, and what is left when either goes."""

from datetime import datetime, timedelta

from tests.sim.cluster.manifests import GPU, a_cluster, a_pod, condition
from tgp.api.resource import LEASE, NODE, POD
from tgp.sim.cluster.machines import Hardware


def _moment(text):
    return datetime.fromisoformat(text)


def test_a_machine_registers_becomes_ready_and_holds_a_lease():
    machine = Hardware("gpu-1", devices={GPU: 8}, provider_id="tgp://sim/1", labels={"zone": "a"})
    with a_cluster() as cluster:
        cluster.plane.power_on(machine)
        cluster.world.run(seconds=16)
        node = cluster.api.get(NODE, "", "gpu-1")
        assert condition(node, "Ready")["status"] == "False"
        assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        cluster.world.run(seconds=20)
        node = cluster.api.get(NODE, "", "gpu-1")

        assert condition(node, "Ready")["status"] == "True"
        assert "taints" not in node["spec"]
        assert node["spec"]["providerID"] == "tgp://sim/1"
        assert node["metadata"]["labels"]["zone"] == "a"
        assert node["status"]["allocatable"][GPU] == "8"
        assert cluster.api.get(LEASE, "kube-node-lease", "gpu-1")["spec"]["holderIdentity"] == "gpu-1"


def test_a_pod_runs_and_ends_with_the_times_to_prove_it():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(POD, a_pod(run_for="10m", restartPolicy="Never"))
        cluster.world.run(minutes=1)
        status = cluster.pod()["status"]
        assert status["phase"] == "Running"
        assert condition(cluster.pod(), "Ready")["status"] == "True"
        began = status["containerStatuses"][0]["state"]["running"]["startedAt"]
        cluster.world.run(minutes=15)
        status = cluster.pod()["status"]
        ended = status["containerStatuses"][0]["state"]["terminated"]

        assert status["phase"] == "Succeeded"
        assert ended["startedAt"] == began
        assert ended["exitCode"] == 0
        assert _moment(ended["finishedAt"]) - _moment(began) == timedelta(minutes=10)
        assert condition(cluster.pod(), "Ready")["status"] == "False"


def test_a_pod_that_fails_is_failed_or_started_again_as_it_asked():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(POD, a_pod("once", run_for="1m", code=3, restartPolicy="Never"))
        cluster.api.create(POD, a_pod("again", run_for="1m", code=3, restartPolicy="OnFailure"))
        cluster.world.run(minutes=5)
        once, again = cluster.pod("once")["status"], cluster.pod("again")["status"]

        assert once["phase"] == "Failed"
        assert once["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert again["phase"] == "Running"
        assert again["containerStatuses"][0]["restartCount"] >= 2
        assert again["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3


def test_a_deleted_pod_takes_its_time_and_says_how_it_ended():
    seen = []
    with a_cluster(Hardware("a")) as cluster:
        cluster.world.api.core.hooks.append(
            lambda served, _before, after: seen.append(after) if served.kind == "Pod" else None
        )
        pod = a_pod()
        pod["metadata"]["annotations"]["sim.tgp.io/stop-takes"] = "20s"
        cluster.api.create(POD, pod)
        cluster.world.run(minutes=1)
        cluster.api.delete(POD, "default", "pod")
        cluster.world.run(seconds=15)
        assert cluster.pod()["metadata"]["deletionTimestamp"]
        assert cluster.pod()["status"]["phase"] == "Running"
        cluster.world.run(seconds=10)

        assert cluster.api.get(POD, "default", "pod") is None
        assert "terminated" in [one for one in seen if one][-1]["status"]["containerStatuses"][0]["state"]


def test_grace_is_the_longest_a_pod_may_take():
    with a_cluster(Hardware("a")) as cluster:
        pod = a_pod(terminationGracePeriodSeconds=10)
        pod["metadata"]["annotations"]["sim.tgp.io/stop-takes"] = "1h"
        cluster.api.create(POD, pod)
        cluster.world.run(minutes=1)
        cluster.api.delete(POD, "default", "pod")
        cluster.world.run(seconds=9)
        assert cluster.api.get(POD, "default", "pod") is not None
        cluster.world.run(seconds=3)

        assert cluster.api.get(POD, "default", "pod") is None


def test_a_machine_that_vanishes_is_noticed_and_its_pods_are_lost_with_the_node():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(POD, a_pod(run_for="10m", restartPolicy="Never"))
        cluster.world.run(minutes=1)
        cluster.plane.power_off("a")
        cluster.world.run(seconds=30)
        assert condition(cluster.api.get(NODE, "", "a"), "Ready")["status"] == "True"
        cluster.world.run(seconds=30)
        node = cluster.api.get(NODE, "", "a")
        assert condition(node, "Ready")["status"] == "Unknown"
        assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        assert condition(cluster.pod(), "Ready")["status"] == "False"
        cluster.world.run(minutes=20)
        assert cluster.pod()["status"]["phase"] == "Running"  # no kubelet is there to report otherwise
        cluster.api.delete(NODE, "", "a")
        cluster.world.run(minutes=2)

        assert cluster.api.get(POD, "default", "pod") is None
        assert cluster.api.get(LEASE, "kube-node-lease", "a") is None


def test_a_machine_that_comes_back_runs_its_pods_again():
    with a_cluster(Hardware("a")) as cluster:
        tolerations = [{"operator": "Exists"}]
        cluster.api.create(POD, a_pod(tolerations=tolerations))
        cluster.world.run(minutes=1)
        cluster.plane.power_off("a")
        cluster.world.run(minutes=5)
        cluster.machines(Hardware("a"))
        cluster.world.run(minutes=1)

        node = cluster.api.get(NODE, "", "a")
        assert condition(node, "Ready")["status"] == "True"
        assert "taints" not in node["spec"]
        assert condition(cluster.pod(), "Ready")["status"] == "True"
        assert cluster.pod()["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_no_execute_taint_drives_out_those_who_do_not_tolerate_it():
    taint = {"key": "maintenance", "effect": "NoExecute"}
    for_a_minute = [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}]
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(POD, a_pod("leaves"))
        cluster.api.create(POD, a_pod("lingers", tolerations=for_a_minute))
        cluster.api.create(POD, a_pod("stays", tolerations=[{"operator": "Exists"}]))
        cluster.world.run(minutes=1)
        cluster.api.merge_patch(NODE, "", "a", {"spec": {"taints": [taint]}})
        cluster.world.run(seconds=30)
        assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["lingers", "stays"]
        cluster.world.run(minutes=1)

        assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["stays"]


def test_a_quiet_hour_of_twenty_nodes_is_only_their_heartbeats():
    machines = [Hardware(f"n{number:02}") for number in range(20)]
    with a_cluster(*machines) as cluster:
        cluster.world.run(minutes=10)
        writes = []
        cluster.world.api.core.hooks.append(lambda served, _before, _after: writes.append(served.kind))
        cluster.world.run(hours=1)

        assert set(writes) == {"Node", "Lease"}
        assert writes.count("Node") == 20 * 12
        assert writes.count("Lease") <= 20 * 7
