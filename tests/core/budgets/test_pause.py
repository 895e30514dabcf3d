"""What can be paused, what is written on it, and what is said about the rest."""

from datetime import UTC, datetime

import pytest

from tgp.core.budgets.pause import (
    KUEUE,
    PAUSED_AT,
    PAUSED_PRIORITY,
    Unpaused,
    held_back,
    job_key,
    manager_of,
    marks,
    paused_at,
    resume_change,
    unpaused_text,
)
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef, Pod
from tgp.core.model.resources import Resources
from tgp.core.model.workload import Job

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
BUDGET = ObjectKey("ml", "team-a")
KEY = ObjectKey("ml", "train")
INSTALLED = {"apps", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io"}  # API groups


def owned(kind: str, name: str, version: str = "") -> tuple[OwnerRef, ...]:
    return (OwnerRef(kind, name, "uid", version, controller=True),)


@pytest.mark.parametrize(
    ("job", "manager"),
    [
        (Job(key=KEY), ""),
        (Job(key=KEY, owners=owned("CronJob", "nightly", "batch/v1")), ""),
        (Job(key=KEY, labels={KUEUE: "team"}), "Kueue"),
        (Job(key=KEY, owners=owned("JobSet", "llm", "jobset.x-k8s.io/v1alpha2")), "JobSet llm"),
    ],
)
def test_a_job_with_a_manager_is_not_ours_to_suspend(job, manager):
    assert manager_of(job, INSTALLED) == manager
    assert manager_of(job, None) == manager, "while it is not known what is installed"


@pytest.mark.parametrize(
    ("job", "groups"),
    [
        (Job(key=KEY, labels={KUEUE: "team"}), {"jobset.x-k8s.io"}),
        (Job(key=KEY, owners=owned("JobSet", "llm", "jobset.x-k8s.io/v1alpha2")), {"kueue.x-k8s.io"}),
        (Job(key=KEY, owners=owned("Job", "../..", "a b/../v1")), INSTALLED),
        (Job(key=KEY, owners=owned("ConfigMap", "boss", "v1")), INSTALLED),
        (Job(key=KEY, owners=owned("StatefulSet", "boss", "apps/v1")), None),
    ],
)
def test_a_manager_that_is_not_installed_or_manages_no_jobs_is_none(job, groups):
    assert manager_of(job, groups) == ""


def test_only_a_job_of_kubernetes_itself_is_a_job():
    assert job_key(Pod(key=KEY, owners=owned("Job", "train", "batch/v1"))) == KEY
    assert job_key(Pod(key=KEY, owners=owned("Job", "train", "batch.volcano.sh/v1alpha1"))) is None
    assert job_key(Pod(key=KEY)) is None


def test_what_we_wrote_is_read_again_and_taken_off():
    written = marks(BUDGET, NOW, mirror=True, priority=7)
    assert paused_at(written) == NOW
    assert resume_change(written, resume=True) == {
        "metadata": {"annotations": dict.fromkeys(written)},
        "spec": {"suspend": False},
    }
    assert paused_at({PAUSED_AT: "soon"}) is paused_at({}) is None
    assert marks(BUDGET, NOW, mirror=False) == {
        "tgp.io/paused-at": "2026-01-05T10:00:00Z",
        "tgp.io/paused-by": "ml/team-a",
    }


def test_a_suspended_job_waits_as_what_its_pods_will_use():
    job = Job(
        key=KEY,
        uid="u",
        suspended=True,
        parallelism=3,
        requests=Resources(500),
        annotations=marks(BUDGET, NOW, mirror=False, priority=-5),
    )
    held = held_back(job, job.requests.milli("cpu"), INSTALLED)
    assert held is not None
    assert (held.milli, held.priority, held.since) == (1500, -5, NOW)


@pytest.mark.parametrize("written", ["--5", "-", "5-", "²", "9" * 5000, "high"])
def test_a_priority_that_a_user_has_written_over_counts_as_none(written):
    job = Job(key=KEY, suspended=True, annotations={**marks(BUDGET, NOW, mirror=False), PAUSED_PRIORITY: written})
    held = held_back(job, 1000, INSTALLED)
    assert held is not None
    assert held.priority == 0


@pytest.mark.parametrize(
    "changes", [{"suspended": False}, {"annotations": {}}, {"finished": True}, {"labels": {KUEUE: "q"}}]
)
def test_a_job_that_we_did_not_suspend_is_not_ours_to_resume(changes):
    mine = {"suspended": True, "annotations": {**marks(BUDGET, NOW, mirror=False), PAUSED_PRIORITY: "?"}}
    assert held_back(Job(key=KEY, **{**mine, **changes}), 1000, INSTALLED) is None


def test_pods_that_run_on_are_named_with_what_to_do():
    pods = [(Pod(key=ObjectKey("ml", f"web-{number}")), Unpaused("ReplicaSet web")) for number in range(7)]
    said = unpaused_text([*pods, (Pod(key=ObjectKey("ml", "x")), Unpaused("Job train", "Kueue"))])
    assert said == (
        "Pods that keep running because they cannot be paused: web-0 (ReplicaSet web), web-1 (ReplicaSet web), "
        "web-2 (ReplicaSet web), web-3 (ReplicaSet web), web-4 (ReplicaSet web) and 2 more. "
        "Only Jobs can be suspended: run the work as a Job, or set enforcement.action: Evict. Only annotated, "
        "because their controller would resume them: Job train (Kueue). Stop them there, or set "
        "enforcement.action: Evict."
    )
    assert unpaused_text([]) == ""
