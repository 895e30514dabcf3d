"""Jobs, Deployments, DaemonSets, budgets: what their real controllers would have done with the same objects."""

from datetime import datetime
from itertools import pairwise

import pytest

from tests.sim.cluster.manifests import GPU, a_cluster, a_job, a_pod, a_set, a_template, condition
from tgp.api.resource import DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, POD_DISRUPTION_BUDGET
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.cluster.component_api import CORE_EVENT, REPLICA_SET, STATEFUL_SET
from tgp.sim.cluster.machines import Hardware


def _job(cluster, name="job"):
    return cluster.api.get(JOB, "default", name)


def test_a_job_runs_its_pods_to_completion():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(JOB, a_job(completions=4, parallelism=2))
        cluster.world.run(minutes=5)
        assert _job(cluster)["status"]["active"] == 2
        cluster.world.run(minutes=30)
        status = _job(cluster)["status"]

        assert status["succeeded"] == 4
        assert condition(_job(cluster), "Complete")["status"] == "True"
        assert status["completionTime"] > status["startTime"]
        assert len(cluster.pods("Succeeded")) == 4
        assert not any(pod["metadata"].get("finalizers") for pod in cluster.pods())


def test_a_job_that_keeps_failing_backs_off_and_gives_up():
    template = a_template(run_for="10s", code=1, restartPolicy="Never")
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(JOB, a_job(template=template, backoffLimit=3))
        cluster.world.run(minutes=30)
        failed = condition(_job(cluster), "Failed")

        assert (failed["status"], failed["reason"]) == ("True", "BackoffLimitExceeded")
        assert _job(cluster)["status"]["failed"] == 4
        pods = sorted(cluster.pods("Failed"), key=lambda pod: pod["metadata"]["creationTimestamp"])
        pauses = [(_created(later) - _ended(earlier)).total_seconds() for earlier, later in pairwise(pods)]
        assert pauses == pytest.approx([10, 20, 40], abs=2)


def _created(pod):
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"])


def _ended(pod):
    return datetime.fromisoformat(pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])


def test_a_pod_deleted_under_a_job_is_counted_and_replaced():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(JOB, a_job(completions=1))
        cluster.world.run(minutes=5)
        (pod,) = cluster.pods()
        cluster.api.delete(POD, "default", pod["metadata"]["name"])
        cluster.world.run(minutes=20)

        assert _job(cluster)["status"]["failed"] == 1
        assert _job(cluster)["status"]["succeeded"] == 1


def test_a_job_has_a_deadline_a_pause_and_a_time_to_live():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(JOB, a_job("late", activeDeadlineSeconds=60))
        cluster.api.create(JOB, a_job("held", suspend=True))
        cluster.api.create(JOB, a_job("brief", ttlSecondsAfterFinished=300))
        cluster.world.run(minutes=12)
        assert condition(_job(cluster, "late"), "Failed")["reason"] == "DeadlineExceeded"
        assert condition(_job(cluster, "held"), "Suspended")["status"] == "True"
        assert condition(_job(cluster, "brief"), "Complete")["status"] == "True"
        cluster.api.merge_patch(JOB, "default", "held", {"spec": {"suspend": False}})
        cluster.world.run(minutes=12)

        assert _job(cluster, "brief") is None
        assert condition(_job(cluster, "held"), "Complete")["status"] == "True"
        assert not [pod for pod in cluster.pods() if pod["metadata"]["labels"]["job-name"] == "brief"]


def test_an_indexed_job_gives_each_index_once():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(JOB, a_job(completions=5, parallelism=3, completionMode="Indexed"))
        cluster.world.run(hours=1)
        indexes = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in cluster.pods()]

        assert sorted(indexes) == ["0", "1", "2", "3", "4"]
        assert _job(cluster)["status"]["completedIndexes"] == "0-4"


def test_a_deployment_keeps_its_replicas():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=3))
        cluster.world.run(minutes=2)
        web = cluster.api.get(DEPLOYMENT, "default", "web")
        assert (web["status"]["readyReplicas"], web["status"]["availableReplicas"]) == (3, 3)
        assert web["status"]["observedGeneration"] == web["metadata"]["generation"]
        assert condition(cluster.api.get(DEPLOYMENT, "default", "web"), "Available")["status"] == "True"
        cluster.api.delete(POD, "default", cluster.pods()[0]["metadata"]["name"])
        cluster.world.run(minutes=2)
        assert len(cluster.pods("Running")) == 3
        cluster.api.merge_patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 1}})
        cluster.world.run(minutes=2)

        assert len(cluster.pods()) == 1


def test_a_new_template_rolls_through_without_falling_below_its_floor():
    floor = []
    with a_cluster(Hardware("a", cpu="32")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=8))
        cluster.world.run(minutes=2)
        cluster.world.watch(
            lambda _world: floor.append(
                sum(condition(pod, "Ready")["status"] == "True" for pod in cluster.pods("Running"))
            )
        )
        change = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        cluster.api.merge_patch(DEPLOYMENT, "default", "web", change)
        cluster.world.run(minutes=10)
        sets = list(cluster.api.objects(REPLICA_SET))

        assert min(floor) >= 6
        assert sorted(one["spec"]["replicas"] for one in sets) == [0, 8]
        assert all(pod["metadata"]["annotations"]["version"] == "2" for pod in cluster.pods())
        revisions = {one["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for one in sets}
        assert revisions == {"1", "2"}


def test_recreate_never_runs_two_versions_at_once():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=2, strategy={"type": "Recreate"}))
        cluster.world.run(minutes=2)
        versions = []
        cluster.world.watch(
            lambda _world: versions.append(
                {pod["metadata"].get("annotations", {}).get("version") for pod in cluster.pods("Running")}
            )
        )
        change = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        cluster.api.merge_patch(DEPLOYMENT, "default", "web", change)
        cluster.world.run(minutes=5)

        assert len(cluster.pods("Running")) == 2
        assert all(len(seen) <= 1 for seen in versions)


def test_a_daemon_set_runs_once_on_each_node_it_selects_and_tolerates():
    taint = {"key": "tgp.io/gpu", "effect": "NoSchedule"}
    machines = (
        Hardware("plain"),
        Hardware("gpu-1", labels={"gpu": "yes"}),
        Hardware("gpu-2", labels={"gpu": "yes"}, taints=(taint,)),
    )
    template = a_template(nodeSelector={"gpu": "yes"})
    tolerant = a_template({"app": "t"}, nodeSelector={"gpu": "yes"}, tolerations=[{"operator": "Exists"}])
    with a_cluster(*machines) as cluster:
        cluster.api.create(DAEMON_SET, a_set("strict", template=template))
        cluster.api.create(DAEMON_SET, a_set("tolerant", template=tolerant))
        cluster.world.run(minutes=2)

        def homes(app):
            return sorted(p["spec"]["nodeName"] for p in cluster.pods() if p["metadata"]["labels"]["app"] == app)

        assert homes("x") == ["gpu-1"]
        assert homes("t") == ["gpu-1", "gpu-2"]
        status = cluster.api.get(DAEMON_SET, "default", "tolerant")["status"]
        assert (status["desiredNumberScheduled"], status["numberReady"]) == (2, 2)
        cluster.api.merge_patch(NODE, "", "plain", {"metadata": {"labels": {"gpu": "yes"}}})
        cluster.api.merge_patch(NODE, "", "gpu-1", {"metadata": {"labels": {"gpu": None}}})
        cluster.world.run(minutes=2)

        assert homes("t") == ["gpu-2", "plain"]


def test_a_daemon_stays_on_a_cordoned_or_tainted_node_until_it_is_driven_out():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DAEMON_SET, a_set("daemon"))
        cluster.world.run(minutes=1)
        first = cluster.pods("Running")[0]["metadata"]["uid"]
        keep_away = {"key": "new", "effect": "NoSchedule"}
        cluster.api.merge_patch(NODE, "", "a", {"spec": {"unschedulable": True, "taints": [keep_away]}})
        cluster.world.run(minutes=1)
        assert [pod["metadata"]["uid"] for pod in cluster.pods()] == [first]
        cluster.api.merge_patch(NODE, "", "a", {"spec": {"taints": [{**keep_away, "effect": "NoExecute"}]}})
        cluster.world.run(minutes=1)

        assert cluster.pods() == []


def test_a_daemon_waits_for_a_node_that_is_not_ready_unless_it_tolerates_that():
    patient, eager = a_template({"app": "patient"}), a_template({"app": "eager"}, tolerations=[{"operator": "Exists"}])
    with a_cluster() as cluster:
        cluster.api.create(DAEMON_SET, a_set("patient", template=patient))
        cluster.api.create(DAEMON_SET, a_set("eager", template=eager))
        cluster.plane.power_on(Hardware("slow", registers_after=1, ready_after=600))
        cluster.world.run(minutes=5)

        assert [pod["metadata"]["labels"]["app"] for pod in cluster.pods()] == ["eager"]


def test_a_device_plugin_brings_the_devices_of_its_node():
    template = a_template({"app": "plugin"}, tolerations=[{"operator": "Exists"}])
    template["metadata"]["annotations"]["sim.tgp.io/provides"] = GPU
    with a_cluster(Hardware("gpu", devices={GPU: 4}, needs_plugin=True)) as cluster:
        assert GPU not in cluster.api.get(NODE, "", "gpu")["status"]["allocatable"]
        cluster.api.create(POD, a_pod("waits", gpus=4))
        cluster.world.run(minutes=5)
        assert cluster.pod("waits")["status"]["phase"] == "Pending"
        cluster.api.create(DAEMON_SET, a_set("plugin", template=template))
        cluster.world.run(minutes=2)

        assert cluster.api.get(NODE, "", "gpu")["status"]["allocatable"][GPU] == "4"
        assert cluster.pod("waits")["status"]["phase"] == "Running"
        cluster.api.delete(DAEMON_SET, "default", "plugin", propagation="Background")
        cluster.world.run(minutes=2)

        assert cluster.api.get(NODE, "", "gpu")["status"]["allocatable"][GPU] == "0"


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 3}, 3, 1),
        ({"minAvailable": "50%"}, 2, 2),
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"minAvailable": 5}, 5, 0),
    ],
)
def test_a_budget_says_how_many_may_go(spec, desired, allowed):
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=4))
        selector = {"matchLabels": {"app": "x"}}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {**spec, "selector": selector}}
        cluster.api.create(POD_DISRUPTION_BUDGET, budget)
        cluster.world.run(minutes=2)
        status = cluster.api.get(POD_DISRUPTION_BUDGET, "default", "b")["status"]

        assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == (
            4,
            desired,
            allowed,
        )
        assert status["expectedPods"] == 4


def test_evictions_go_as_fast_as_the_budget_lets_them():
    """One may go; the next only when the replacement of the first is ready."""
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=4))
        selector = {"matchLabels": {"app": "x"}}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 3, "selector": selector}}
        cluster.api.create(POD_DISRUPTION_BUDGET, budget)
        cluster.world.run(minutes=2)
        first, second, *_ = (pod["metadata"]["name"] for pod in cluster.pods())
        cluster.api.evict("default", first)
        with pytest.raises(Failure, match="429"):
            cluster.api.evict("default", second)
        cluster.world.run(seconds=0.2)
        with pytest.raises(Failure, match="429"):
            cluster.api.evict("default", second)
        cluster.world.run(minutes=1)
        cluster.api.evict("default", second)
        cluster.world.run(minutes=1)

        names = [pod["metadata"]["name"] for pod in cluster.pods("Running")]
        assert len(names) == 4
        assert first not in names
        assert second not in names


def test_settled_workloads_write_nothing():
    """A controller that wakes itself would be seen here: an hour of running workloads is heartbeats alone."""
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=2))
        cluster.api.create(DAEMON_SET, a_set("daemon", template=a_template({"app": "d"})))
        cluster.api.create(JOB, a_job())
        selector = {"matchLabels": {"app": "x"}}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1, "selector": selector}}
        cluster.api.create(POD_DISRUPTION_BUDGET, budget)
        cluster.world.run(hours=2)
        writes = []
        cluster.world.api.core.hooks.append(lambda served, _before, _after: writes.append(served.kind))
        cluster.world.run(hours=1)

        assert set(writes) == {"Node", "Lease"}


def _stateful(replicas: int, **spec) -> dict:
    labels = {"app": "db"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "db:1"}]},
            },
            **spec,
        },
    }


def test_a_stateful_set_grows_and_shrinks_one_pod_at_a_time_and_replaces_by_name():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(STATEFUL_SET, _stateful(3))
        cluster.world.run(seconds=1)
        assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["db-0"]
        cluster.world.run(minutes=5)
        names = sorted(pod["metadata"]["name"] for pod in cluster.pods("Running"))
        assert names == ["db-0", "db-1", "db-2"]
        assert cluster.api.get(STATEFUL_SET, "default", "db")["status"]["readyReplicas"] == 3
        first = next(pod for pod in cluster.pods() if pod["metadata"]["name"] == "db-1")
        cluster.api.delete(POD, "default", "db-1")
        cluster.world.run(minutes=5)
        again = next(pod for pod in cluster.pods() if pod["metadata"]["name"] == "db-1")
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        assert again["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
        cluster.api.merge_patch(STATEFUL_SET, "default", "db", {"spec": {"replicas": 1}})
        cluster.world.run(minutes=5)
        assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["db-0"]


def test_a_parallel_stateful_set_starts_all_at_once():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(STATEFUL_SET, _stateful(3, podManagementPolicy="Parallel"))
        cluster.world.run(seconds=1)
        assert len(cluster.pods()) == 3


def test_a_deployment_tells_how_it_scales():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=2))
        cluster.world.run(minutes=1)
        told = [event["message"] for event in cluster.api.objects(CORE_EVENT) if event["reason"] == "ScalingReplicaSet"]
        assert len(told) == 1
        assert told[0].startswith("Scaled up replica set ")
        assert told[0].endswith(" from 0 to 2")
