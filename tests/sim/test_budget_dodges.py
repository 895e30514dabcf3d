"""What a team may try for hours that do not count: each way is counted all the same."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.sim.an_operator import create
from tests.sim.cluster.manifests import a_pod
from tests.sim.test_budget_lives import delete
from tests.sim.test_budget_pauses import a_job, suspended
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, condition, consumed, ran, reasons, status
from tgp.api.resource import CONFIG_MAP, GPU_WORKLOAD_BUDGET, JOB, NAMESPACE, NODE, POD
from tgp.core.budgets.account import fresh
from tgp.core.budgets.packing import pack
from tgp.core.budgets.pause import KUEUE
from tgp.core.budgets.reset import RESET
from tgp.core.budgets.spans import seconds
from tgp.sim.world import World

HOUR = timedelta(hours=1)


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


FORGED_ACCOUNTS = {"no width": {"width": 0}, "of next year": {"at": 365 * 86_400}, "of no time": {"at": 2**62}}


@pytest.mark.parametrize("case", FORGED_ACCOUNTS)
def test_a_forged_account_is_said_to_be_lost_and_the_budget_counts_on(world, case):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=10)
    world.processes["operator-0"].crash(restart_after=30)
    forged = fresh(24, seconds(world.clock.now()))
    for name, value in FORGED_ACCOUNTS[case].items():
        setattr(forged, name, getattr(forged, name) + value if name == "at" else value)
    forged.newest, forged.newest_hour = forged.at // 120, forged.at // 3600
    edit = {"status": {"account": pack(forged)}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", edit, "status")
    world.run(minutes=10)
    assert condition(world, "Degraded") == ("True", "AccountLost")
    assert status(world)["gpusInUse"] == "1"
    assert consumed(world) >= 10 * 60


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


# -- a Job that names a manager ----------------------------------------------------------------------------------------

FAKES = {
    "a label of Kueue, which is not installed": {"labels": {KUEUE: "team"}},
    "an owner that controls nothing": {"owner": ("v1", "ConfigMap")},
}


@pytest.mark.parametrize("fake", FAKES)
def test_a_job_that_only_claims_to_have_a_manager_is_suspended(world, fake):
    a_budget(world, hours="0.1", action="Pause", gracePeriodSeconds=0)
    meta: dict[str, Any] = {"labels": FAKES[fake].get("labels", {})}
    if "owner" in FAKES[fake]:
        version, kind = FAKES[fake]["owner"]
        create(world, CONFIG_MAP, "boss", "default")
        boss = world.api.local_api.get(CONFIG_MAP, "default", "boss")
        owner = {"apiVersion": version, "kind": kind, "name": "boss", "uid": boss["metadata"]["uid"]}
        meta["ownerReferences"] = [{**owner, "controller": True}]
    a_job(world, "train", **meta)
    world.run(minutes=10)
    assert suspended(world, "train")
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": {"quota": {"gpuHours": "100"}}})
    world.run(minutes=2)
    assert not suspended(world, "train")


# -- grace -------------------------------------------------------------------------------------------------------------


def test_an_evicted_pod_that_takes_its_time_is_named_and_others_go_instead(world):
    """It ignores the signal to end, and its own grace is a month."""
    a_budget(world, hours="0.3", window=1, action="Evict", gracePeriodSeconds=0)
    a_team_pod(world, "slow", terminationGracePeriodSeconds=30 * 86_400)
    ignores = {"metadata": {"annotations": {"sim.tgp.io/stop-takes": "8760h"}}}
    world.api.local_api.merge_patch(POD, "default", "slow", ignores)
    world.run(minutes=5)
    a_team_pod(world, "other", priorityClassName="system-cluster-critical", terminationGracePeriodSeconds=0)
    world.run(minutes=12)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert condition(world, "Degraded") == ("True", "EvictedPodsRun")
    (said,) = [row["message"] for row in status(world)["conditions"] if row["type"] == "Degraded"]
    assert "slow" in said
    assert "podGracePeriodSeconds" in said
    world.run(minutes=20)
    assert world.api.local_api.get(POD, "default", "other") is None, "what takes its time keeps no other pod running"
    assert reasons(world).count("Evicted") == 4, "each once, on the pod and on its budget"
    change = {"spec": {"enforcement": {"action": "Evict", "podGracePeriodSeconds": 5}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    world.run(seconds=30)
    assert world.api.local_api.get(POD, "default", "slow") is None
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


# -- labels and places -------------------------------------------------------------------------------------------------


def test_a_label_that_is_removed_before_a_restart_takes_no_budget_away(world):
    """The operator that saw the pod match is gone before the pod has a Node."""
    a_budget(world)
    a_team_pod(world, "one", schedulingGates=[{"name": "example.org/mine"}])
    world.run(seconds=5)
    world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"labels": {"team": "none"}}})
    world.run(seconds=5)
    world.processes["operator-0"].crash(restart_after=30)
    world.run(minutes=2)
    world.api.local_api.merge_patch(POD, "default", "one", {"spec": {"schedulingGates": None}})
    world.run(minutes=10)
    assert status(world)["gpusInUse"] == "1"
    assert "uncertaintyGpuHours" not in status(world)
    world.api.local_api.delete(POD, "default", "one")
    world.run(seconds=5)
    assert consumed(world) == pytest.approx(600, abs=60)


def test_a_pod_that_was_relabelled_and_never_ran_costs_nothing(world):
    a_budget(world)
    a_team_pod(world, "one", schedulingGates=[{"name": "example.org/mine"}])
    world.run(seconds=5)
    world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"labels": {"team": "none"}}})
    world.run(minutes=5)
    world.api.local_api.delete(POD, "default", "one")
    world.run(minutes=1)
    assert (consumed(world), status(world)["trackedPods"]) == (0, 0)


def test_a_pod_that_names_its_node_counts_and_is_evicted_like_any_other(world):
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0)
    a_team_pod(world, "one", nodeName="node-0")
    world.run(minutes=10)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert world.api.local_api.get(POD, "default", "one") is None


def test_a_static_pod_counts_and_is_said_to_be_out_of_reach(world):
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0)
    mirror = a_pod("static", labels=CPU, nodeName="node-0")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    node = world.api.local_api.get(NODE, "", "node-0")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": node["metadata"]["uid"], "controller": True}
    mirror["metadata"]["ownerReferences"] = [owner]  # as a kubelet writes it
    world.api.local_api.create(POD, mirror)
    a_team_pod(world, "other")
    world.run(minutes=8)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert world.api.local_api.get(POD, "default", "other") is None, "the next in order goes"
    assert world.api.local_api.get(POD, "default", "static") is not None
    assert condition(world, "Degraded") == ("True", "EvictionBlocked")
    assert reasons(world).count("EvictionBlocked") == 3, "on the pod, on its budget, and the condition"


# -- the budget and its namespace --------------------------------------------------------------------------------------


def select(world: World, **labels: str) -> None:
    change = {"spec": {"selector": {"matchLabels": {"team": None, "kind": None, **labels}}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)


def test_a_changed_selector_lets_go_of_what_runs_and_refunds_nothing(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=10)
    before = consumed(world)
    select(world, team="none")
    world.run(minutes=20)
    assert before <= consumed(world) <= 11 * 60
    assert (status(world)["gpusInUse"], status(world)["trackedPods"]) == ("0", 0)
    select(world, team="a")
    world.run(minutes=10)
    world.api.local_api.delete(POD, "default", "one")
    world.run(seconds=5)
    assert consumed(world) == pytest.approx(20 * 60, abs=60), "it counts again from the moment it matched"
    assert "uncertaintyGpuHours" not in status(world)


def test_a_changed_selector_holds_after_a_restart_too(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=10)
    select(world, team="none")
    world.run(minutes=2)
    before = consumed(world)
    world.processes["operator-0"].crash(restart_after=30)
    world.run(minutes=10)
    world.api.local_api.delete(POD, "default", "one")
    world.run(minutes=1)
    assert consumed(world) == before


def test_a_pod_that_the_selector_no_longer_names_is_not_evicted(world):
    a_budget(world, hours="0.2", action="Evict", gracePeriodSeconds=0)
    for name in ("mine", "theirs"):
        a_team_pod(world, name, labels={**CPU, "kind": name})
    world.run(minutes=4)
    select(world, team="a", kind="mine")
    world.run(minutes=10)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert world.api.local_api.get(POD, "default", "mine") is None
    assert world.api.local_api.get(POD, "default", "theirs") is not None


def test_a_pod_that_the_selector_no_longer_names_is_not_paused_any_more(world):
    a_budget(world, hours="0.1", action="Pause", gracePeriodSeconds=0)
    a_team_pod(world, "one")
    world.run(minutes=8)
    assert "tgp.io/paused-by" in world.api.local_api.get(POD, "default", "one")["metadata"]["annotations"]
    select(world, team="none")
    world.run(minutes=1)
    assert "tgp.io/paused-by" not in world.api.local_api.get(POD, "default", "one")["metadata"].get("annotations", {})
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_an_edit_of_the_selector_does_not_free_a_pod_that_left_by_an_edit_of_its_labels(world):
    a_budget(world)
    a_team_pod(world, "one")
    a_team_pod(world, "waits", schedulingGates=[{"name": "example.org/mine"}])
    world.run(minutes=5)
    for name in ("one", "waits"):
        world.api.local_api.merge_patch(POD, "default", name, {"metadata": {"labels": {"team": "none"}}})
    world.run(minutes=1)
    select(world, team="z")
    world.api.local_api.merge_patch(POD, "default", "waits", {"spec": {"schedulingGates": None}})
    world.run(minutes=10)
    assert status(world)["gpusInUse"] == "2"


def test_a_waiting_pod_that_the_selector_no_longer_names_never_counts(world):
    a_budget(world)
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": {"accounting": "Exact"}})
    a_team_pod(world, "waits", schedulingGates=[{"name": "example.org/mine"}])
    world.run(minutes=1)
    select(world, team="z")
    world.run(minutes=1)
    world.api.local_api.merge_patch(POD, "default", "waits", {"spec": {"schedulingGates": None}})
    world.run(minutes=10)
    assert (consumed(world), status(world)["trackedPods"]) == (0, 0)


def test_a_namespace_that_is_deleted_and_created_again_brings_no_new_hours(world):
    def there() -> dict[str, Any]:
        found = world.api.local_api.get(GPU_WORKLOAD_BUDGET, "lab", "team-a")
        assert found is not None
        return found["status"]

    def a_lab() -> None:
        create(world, NAMESPACE, "lab")
        spec = {
            "selector": {"matchLabels": CPU},
            "quota": {"gpuHours": 100, "windowHours": 24},
            "enforcement": {"action": "AlertOnly"},
            "gpuResourceName": "cpu",
        }
        create(world, GPU_WORKLOAD_BUDGET, "team-a", "lab", spec=spec)
        world.run(seconds=5)

    a_lab()
    world.api.local_api.create(POD, a_pod("one", "lab", labels=CPU))
    world.run(minutes=10)
    world.api.local_api.delete(NAMESPACE, "", "lab")
    world.run(minutes=2)
    assert world.api.local_api.get(NAMESPACE, "", "lab") is None
    a_lab()
    assert float(there()["consumedGpuHours"]) * 3600 == pytest.approx(600, abs=60)
    assert reasons(world).count("Inherited") == 1


@pytest.mark.parametrize("admission", ["Gate", "Deny"])
def test_turning_admission_off_and_on_again_changes_nothing_that_was_used(world, admission):
    a_budget(world, hours="0.1", action="AlertOnly", admission=admission)
    a_team_pod(world, "one", run_for="9m")
    world.run(minutes=10)
    before, exceeded_at = consumed(world), status(world)["exceededAt"]
    for said in ("Off", admission):
        change = {"spec": {"enforcement": {"admission": said}}}
        world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
        world.run(minutes=1)
        assert (consumed(world), status(world)["exceededAt"]) == (before, exceeded_at)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")


def test_a_pod_that_the_weights_no_longer_name_counts_until_it_ends_and_no_longer(world):
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": 100, "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
        "weights": [{"resource": "cpu", "weight": 1}],
    }
    create(world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
    world.run(seconds=5)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=5)
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": {"weights": None}})
    world.run(minutes=1)
    world.processes["operator-0"].crash(restart_after=20)
    world.run(minutes=9)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    assert "uncertaintyGpuHours" not in status(world)


# -- statuses of pods, and Nodes ---------------------------------------------------------------------------------------


def lasted(world: World, name: str) -> float:
    """Seconds since its container started."""
    pod = world.api.local_api.get(POD, "default", name)
    assert pod is not None
    (row,) = pod["status"]["containerStatuses"]
    return (world.clock.now() - datetime.fromisoformat(row["state"]["running"]["startedAt"])).total_seconds()


def forge(world: World, name: str, **status: Any) -> dict[str, Any]:
    """Write a pod's status as its tenant; returns what its kubelet had written."""
    pod = world.api.local_api.get(POD, "default", name)
    assert pod is not None
    world.api.local_api.merge_patch(POD, "default", name, {"status": status}, "status")
    return pod["status"]


ENDED_LONG_AGO = {"startedAt": "2001-01-01T00:00:00Z", "finishedAt": "2001-01-01T00:00:01Z", "exitCode": 0}
FORGED = {
    "a phase": {"phase": "Succeeded"},
    "without containers": {"phase": "Failed", "containerStatuses": None},
    "an end long ago": {
        "phase": "Succeeded",
        "containerStatuses": [{"name": "main", "state": {"terminated": ENDED_LONG_AGO}}],
    },
}


@pytest.mark.parametrize("how", FORGED)
def test_a_pod_whose_status_says_for_a_while_that_it_ended_counts_without_a_gap(world, how):
    """A tenant with the right to write pods/status; the kubelet writes it again."""
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=5)
    before = forge(world, "one", **FORGED[how])
    world.run(minutes=4)
    forge(world, "one", **before)
    world.run(minutes=20)
    assert status(world)["gpusInUse"] == "1"
    world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"labels": {"x": "y"}}})
    assert consumed(world) == pytest.approx(lasted(world, "one"), abs=301), "written at least every 5 minutes"


def test_a_pod_that_seems_to_have_ended_before_a_restart_counts_without_a_gap(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=5)
    before = forge(world, "one", phase="Succeeded")
    world.run(seconds=10)
    world.processes["operator-0"].crash(restart_after=30)
    forge(world, "one", **before)
    world.run(minutes=20)
    assert consumed(world) == pytest.approx(lasted(world, "one"), abs=301)


def test_an_end_that_lies_before_the_last_write_is_not_believed_after_a_restart(world):
    """A host whose clock is behind by an hour, or a tenant who writes pods/status."""
    a_budget(world)
    a_team_pod(world, "one")
    world.run(hours=2)
    ran_for = lasted(world, "one")
    world.processes["operator-0"].crash(restart_after=30)
    ended = {"startedAt": "2001-01-01T00:00:00Z", "finishedAt": (world.clock.now() - HOUR).isoformat(), "exitCode": 0}
    forge(world, "one", phase="Succeeded", containerStatuses=[{"name": "main", "state": {"terminated": ended}}])
    world.run(minutes=5)
    assert consumed(world) == pytest.approx(ran_for, abs=120)


def test_pods_of_a_node_that_is_deleted_and_registers_again_go_on(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=5)
    node = world.api.local_api.get(NODE, "", "node-0")
    world.api.local_api.delete(NODE, "", "node-0")
    world.run(seconds=10)
    if world.api.local_api.get(NODE, "", "node-0") is None:
        again = {key: node[key] for key in ("apiVersion", "kind", "spec", "status")}
        world.api.local_api.create(
            NODE, {**again, "metadata": {"name": "node-0", "labels": node["metadata"]["labels"]}}
        )
    world.run(minutes=20)
    assert status(world)["gpusInUse"] == "1"
    assert consumed(world) == pytest.approx(lasted(world, "one"), abs=301)


def test_a_pod_that_only_claims_to_be_static_is_evicted(world):
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0)
    pod = a_pod("one", labels=CPU)
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    world.api.local_api.create(POD, pod)
    world.run(minutes=10)
    assert world.api.local_api.get(POD, "default", "one") is None


# -- Jobs that cannot be suspended -------------------------------------------------------------------------------------


OWNERS = ("finished", "being deleted")


@pytest.mark.parametrize("owner", OWNERS)
def test_a_pod_that_names_a_job_which_cannot_stop_it_is_named_and_others_are_paused(world, owner):
    a_budget(world, hours="0.1", action="Pause", gracePeriodSeconds=0)
    meta = {"finalizers": ["example.org/keep"]} if owner == "being deleted" else {}
    a_job(world, "decoy", run_for="1s", **meta)
    world.run(minutes=1)
    decoy = world.api.local_api.get(JOB, "default", "decoy")
    uid = decoy["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "decoy", "uid": uid, "controller": True}
    if owner == "being deleted":
        world.api.local_api.delete(JOB, "default", "decoy")
    forged = a_pod("a-forged", labels=CPU, restartPolicy="Never")
    forged["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    forged["metadata"]["ownerReferences"] = [reference]
    world.api.local_api.create(POD, forged)
    a_job(world, "train")
    world.run(minutes=8)
    assert world.api.local_api.get(POD, "default", "a-forged") is not None
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert suspended(world, "train")
    assert condition(world, "Degraded") == ("True", "PauseUnavailable")


def test_a_pod_with_the_longest_name_and_odd_annotations_is_evicted_and_named(world):
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0)
    pod = a_pod("a" * 253, labels=CPU)
    pod["metadata"]["annotations"] = {
        "tgp.io/do-not-disrupt": "\uff11\uff10m",
        "tgp.io/paused-at": "\u0662",
        "tgp.io/paused-by": "\u00fc/",
    }
    world.api.local_api.create(POD, pod)
    world.run(minutes=8)
    assert world.api.local_api.get(POD, "default", "a" * 253) is None
    assert reasons(world).count("Evicted") == 2, "on the pod, and on its budget"
    assert status(world)["largest"][0]["pod"] == "a" * 253


def test_a_finalizer_that_is_removed_while_no_operator_runs_frees_the_pod_and_not_its_hours(world):
    a_budget(world)
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": {"accounting": "Exact"}})
    a_team_pod(world, "one")
    world.run(minutes=5)
    ran_for = lasted(world, "one")
    world.processes["operator-0"].crash(restart_after=60)
    world.api.local_api.merge_patch(POD, "default", "one", {"metadata": {"finalizers": None}})
    world.api.local_api.delete(POD, "default", "one", grace_seconds=0)
    world.run(minutes=3)
    assert ran_for <= consumed(world) <= ran_for + 90
