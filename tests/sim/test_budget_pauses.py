"""The action Pause in a whole world: Jobs are suspended and resumed in order; what cannot be paused is said."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.an_operator import create
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, condition, pods, reasons, status
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, GPU_WORKLOAD_BUDGET, JOB, LEGACY_BUDGET, POD
from tgp.core.budgets.pause import KUEUE, KUEUE_GROUP, LEGACY_PAUSED_AT, LEGACY_PAUSED_BY, PAUSED_AT, PAUSED_BY
from tgp.ports.cluster import Refused
from tgp.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World("budget-pauses") as world:
        begin(world)
        yield world


@pytest.fixture
def elected() -> Iterator[World]:
    """It holds the Lease."""
    with World("budget-pauses") as world:
        begin(world, elects=True)
        yield world


def a_job(
    world: World,
    name: str,
    *,
    parallelism: int = 1,
    run_for: str = "",
    written: dict[str, str] | None = None,
    **meta: Any,
) -> None:
    """`written`: annotations that its user gives its pods."""
    container = {"name": "main", "image": "work:1", "resources": {"requests": {"cpu": "1"}}}
    annotations = {**(written or {}), **({"sim.tgp.io/run-for": run_for} if run_for else {})}
    template = {
        "metadata": {"labels": CPU, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 20, "template": template}
    manifest = {"metadata": {"name": name, "namespace": "default", **meta}, "spec": spec}
    world.api.local_api.create(JOB, {"apiVersion": "batch/v1", "kind": "Job", **manifest})


def job(world: World, name: str) -> dict[str, Any]:
    found = world.api.local_api.get(JOB, "default", name)
    assert found is not None
    return found


def suspended(world: World, name: str) -> bool:
    return bool(job(world, name)["spec"].get("suspend"))


def marks(thing: dict[str, Any]) -> dict[str, str]:
    written = thing["metadata"].get("annotations") or {}
    return {name: value for name, value in written.items() if name.startswith(("tgp.io/", "budget.zxuhan.dev/"))}


def events(world: World, kind: str, reason: str) -> int:
    found = world.api.local_api.objects(CORE_EVENT)
    return sum(
        int(each.get("count") or 1)
        for each in found
        if (each["involvedObject"]["kind"], each["reason"]) == (kind, reason)
    )


def edit(world: World, name: str = "team-a", **spec: Any) -> None:
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", name, {"spec": spec})


def exhaust(world: World, *names: str, hours: str = "0.2", window: int = 1, **enforcement: Any) -> None:
    """A budget, and Jobs that run until it is used up and they are paused."""
    a_budget(world, hours=hours, window=window, **{"action": "Pause", "gracePeriodSeconds": 0, **enforcement})
    for name in names:
        a_job(world, name)
        world.run(seconds=2)
    world.run(minutes=15)


def test_a_job_is_suspended_and_goes_on_by_itself_when_hours_come_back(world):
    exhaust(world, "train")
    assert suspended(world, "train")
    assert set(marks(job(world, "train"))) == {PAUSED_AT, PAUSED_BY}
    assert marks(job(world, "train"))[PAUSED_BY] == "default/team-a"
    assert pods(world) == []
    assert status(world)["pausedPods"] == 1
    assert (events(world, "Job", "Paused"), events(world, "GPUWorkloadBudget", "Paused")) == (1, 1)
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")
    world.run(minutes=75)
    assert events(world, "Job", "Resumed") >= 1
    assert len(pods(world)) == 1 or suspended(world, "train"), "it may be paused again: the quota is small"


def test_paused_jobs_go_on_one_after_another_the_oldest_first(world):
    exhaust(world, "first", "second", "third")
    names = ("first", "second", "third")
    assert [suspended(world, name) for name in names] == [True] * 3
    edit(world, quota={"gpuHours": "0.41"})  # what is left lasts one of them for ten minutes
    world.run(minutes=1)
    assert [suspended(world, name) for name in names] == [False, True, True]
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=1)
    assert [suspended(world, name) for name in names] == [False] * 3
    assert "pausedPods" not in status(world)
    assert not any(marks(job(world, name)) for name in names)


@pytest.mark.parametrize("how", ["off", "deleted", "raised"])
def test_turned_off_deleted_or_raised_a_budget_lets_everything_go(world, how):
    exhaust(world, "first", "second")
    assert suspended(world, "first")
    if how == "off":
        edit(world, enforcement={"action": "AlertOnly"})
    elif how == "raised":
        edit(world, quota={"gpuHours": "100"})
    else:
        world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(seconds=60)
    assert not suspended(world, "first")
    assert not suspended(world, "second")


def test_what_two_budgets_hold_goes_on_when_both_are_open(world):
    a_budget(world, "small", hours="0.1", window=1, action="Pause", gracePeriodSeconds=0)
    a_budget(world, "large", hours="0.1", window=1, action="Pause", gracePeriodSeconds=0)
    a_job(world, "train")
    world.run(minutes=10)
    assert suspended(world, "train")
    assert events(world, "Job", "Paused") == 1, "the strictest acts, once"
    edit(world, "small", quota={"gpuHours": "100"})
    world.run(minutes=2)
    assert suspended(world, "train")
    edit(world, "large", quota={"gpuHours": "100"})
    world.run(minutes=1)
    assert not suspended(world, "train")


def install_kueue(world: World) -> None:
    names = {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    spec = {"group": KUEUE_GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    create(world, CUSTOM_RESOURCE_DEFINITION, f"workloads.{KUEUE_GROUP}", spec=spec)
    world.run(seconds=5)


def test_a_job_of_kueue_is_annotated_and_not_suspended_and_that_is_said(world):
    install_kueue(world)
    a_budget(world, hours="0.1", window=24, action="Pause", gracePeriodSeconds=0)
    a_job(world, "queued")
    change = {"metadata": {"labels": {KUEUE: "team"}}}
    world.api.local_api.merge_patch(JOB, "default", "queued", change)
    world.run(minutes=10)
    assert not suspended(world, "queued")
    assert PAUSED_AT in marks(job(world, "queued"))
    assert PAUSED_AT in marks(pods(world)[0])
    assert condition(world, "Degraded") == ("True", "PauseUnavailable")
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=1)
    assert not marks(job(world, "queued"))
    assert not marks(pods(world)[0])
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_a_pod_with_a_priority_gets_the_two_annotations_that_the_shipped_policy_allows(world):
    a_budget(world, hours="0.1", window=1, action="Pause", gracePeriodSeconds=0)
    a_team_pod(world, "urgent", priorityClassName="system-cluster-critical")
    world.run(minutes=10)
    assert set(marks(pods(world)[0])) == {PAUSED_AT, PAUSED_BY}


@pytest.mark.parametrize("refused", [(POD, "bare"), (JOB, "first")])
def test_what_a_policy_does_not_let_us_pause_is_said_and_the_next_job_is_paused_instead(world, refused):
    kind, _ = refused
    shipped = OperatorCluster.patch

    async def refusing(self: OperatorCluster, resource: Any, key: Any, change: Any, **more: Any) -> Any:
        if (resource, key.name) == refused and PAUSED_AT in change["metadata"].get("annotations", {}):
            raise Refused("ValidatingAdmissionPolicy 'frozen' denied request")
        return await shipped(self, resource, key, change, **more)

    a_budget(world, hours="0.5", window=24, action="Pause", gracePeriodSeconds=0)
    if kind == JOB:
        a_job(world, "first")
    else:
        a_team_pod(world, "bare")
    world.run(minutes=1)
    a_job(world, "train")
    with patch.object(OperatorCluster, "patch", refusing):
        world.run(minutes=20)
    assert suspended(world, "train")
    assert condition(world, "Degraded") == ("True", "PauseBlocked")
    rows = status(world)["conditions"]
    assert next(row["message"] for row in rows if row["type"] == "Degraded").startswith("Pods that should be paused")
    assert events(world, kind.kind, "PauseBlocked") == 1
    world.run(minutes=2)
    assert PAUSED_AT in marks(job(world, "first") if kind == JOB else pods(world)[0]), "it is asked again every minute"
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=1)
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_what_cannot_be_paused_is_annotated_and_said_and_the_next_job_goes_instead(elected):
    world = elected
    a_budget(world, hours="0.4", window=24, action="Pause", gracePeriodSeconds=0)
    labels = {**CPU, "app": "web"}
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    create(world, DEPLOYMENT, "web", "default", spec=spec)
    a_team_pod(world, "bare")
    world.run(minutes=1)
    a_job(world, "train")
    world.run(minutes=12)
    assert condition(world, "QuotaExceeded")[0] == "True"
    assert suspended(world, "train")
    annotated = [pod for pod in pods(world) if PAUSED_AT in marks(pod)]
    assert len(annotated) == 2
    rows = status(world)["conditions"]
    (said,) = [row["message"] for row in rows if row["type"] == "Degraded"]
    assert "Pods that keep running because they cannot be paused: bare, web-" in said
    assert "Evict" in said
    assert status(world)["pausedPods"] == 3
    assert reasons(world).count("PauseUnavailable") == 5, "each once, on the pod and on the budget, and the condition"
    a_team_pod(world, "late")
    world.run(seconds=20)
    (said,) = [row["message"] for row in status(world)["conditions"] if row["type"] == "Degraded"]
    assert "Pods that keep running because they cannot be paused: bare, late, web-" in said


@pytest.mark.parametrize("at", ["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "later"])
def test_marks_that_a_user_gives_the_pods_of_a_job_do_not_keep_it_running(world, at):
    a_budget(world, hours="0.1", window=24, action="Pause", gracePeriodSeconds=0)
    a_team_pod(world, "bare")
    world.run(minutes=10)
    assert condition(world, "QuotaExceeded")[0] == "True"
    a_job(world, "train", written={PAUSED_AT: at, PAUSED_BY: "default/team-a"})
    world.run(minutes=5)
    assert suspended(world, "train")


@pytest.mark.parametrize("where", ["others", "default"])
def test_a_budget_that_cannot_count_holds_nothing_back(world, where):
    """Such as one over several namespaces that a tenant writes: it works only in the operator's namespace."""
    wrong = {
        "selector": {"matchLabels": CPU},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "quota": {"gpuHours": 1, "windowHours": 1},
        "enforcement": {"action": "AlertOnly"},
        "gpuResourceName": "cpu",
    }
    create(world, GPU_WORKLOAD_BUDGET, "wrong", where, spec=wrong)
    exhaust(world, "train")
    assert suspended(world, "train")
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=2)
    assert not suspended(world, "train")


def test_a_mirror_writes_the_legacy_annotations_as_well(world):
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": "0.1", "windowHours": 24},
        "enforcement": {"action": "Pause", "gracePeriodSeconds": 0},
        "gpuResourceName": "cpu",
    }
    create(world, LEGACY_BUDGET, "team-a", "default", spec=spec)
    world.run(seconds=10)
    a_job(world, "train")
    world.run(minutes=10)
    assert set(marks(job(world, "train"))) == {PAUSED_AT, PAUSED_BY, LEGACY_PAUSED_AT, LEGACY_PAUSED_BY}
    world.api.local_api.delete(LEGACY_BUDGET, "default", "team-a")
    world.run(minutes=2)
    assert not suspended(world, "train")
    assert not marks(job(world, "train"))


def test_a_job_that_a_person_suspended_or_resumed_is_left_to_them(world):
    a_job(world, "by-hand")
    world.api.local_api.merge_patch(JOB, "default", "by-hand", {"spec": {"suspend": True}})
    exhaust(world, "train", hours="0.1", window=24)
    world.api.local_api.merge_patch(JOB, "default", "train", {"spec": {"suspend": False}})
    world.run(minutes=1)
    assert suspended(world, "train"), "the quota is still used up"
    assert events(world, "Job", "Paused") == 2
    edit(world, quota={"gpuHours": "100"})
    world.run(minutes=1)
    assert not suspended(world, "train")
    assert suspended(world, "by-hand"), "it was not paused by a budget"


def test_pauses_survive_a_restart_and_what_changed_meanwhile_is_let_go(world):
    exhaust(world, "train")
    world.processes["operator-0"].crash(restart_after=30)
    world.run(minutes=2)
    assert suspended(world, "train")
    world.processes["operator-0"].crash(restart_after=120)
    edit(world, enforcement={"action": "AlertOnly"})
    world.run(minutes=4)
    assert not suspended(world, "train")


def test_a_finished_job_keeps_its_pods_and_is_not_touched(world):
    a_budget(world, hours="0.18", window=24, action="Pause", gracePeriodSeconds=60)
    a_job(world, "short", run_for="5m")
    a_team_pod(world, "bare", run_for="6m10s")
    world.run(minutes=20)
    assert condition(world, "QuotaExceeded")[0] == "True"
    assert not suspended(world, "short")
    assert [pod for pod in world.api.local_api.objects(POD) if PAUSED_AT in marks(pod)] == []
