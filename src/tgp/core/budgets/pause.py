"""Pausing beyond the quota: which Jobs can be suspended, what is written on what is paused, and until when it stays.

A Job that runs by itself is suspended and resumed. One that another controller manages would be resumed at once by it,
and a Deployment, a StatefulSet or a bare pod knows no pause: these are only annotated, for other controllers to see.
"""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.pattern import matches
from tgp.api.resource import JOB, LEGACY_BUDGET
from tgp.api.values import rfc3339
from tgp.core.budgets.resume import HeldBack
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import Job

PAUSED_AT = "tgp.io/paused-at"
PAUSED_BY = "tgp.io/paused-by"  # the budget, as namespace/name
PAUSED_PRIORITY = "tgp.io/paused-priority"  # of a Job's pods, which are gone while it is paused
LEGACY_PAUSED_AT = "budget.zxuhan.dev/paused-at"
LEGACY_PAUSED_BY = "budget.zxuhan.dev/paused-by"
MARKS = (PAUSED_AT, PAUSED_BY, PAUSED_PRIORITY, LEGACY_PAUSED_AT, LEGACY_PAUSED_BY)
PRIORITY = r"^-?[0-9]{1,10}$"  # a 32-bit number
KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE = f"{KUEUE_GROUP}/queue-name"  # on Jobs whose suspension Kueue decides
# Groups of Kubernetes itself: of its controllers only those of CronJobs own Jobs, and they resume none.
BUILT_IN = frozenset(
    {
        "",
        "apps",
        "autoscaling",
        "batch",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
NAMES_SHOWN = 5


class Unpaused(msgspec.Struct, frozen=True):
    """Pods that should be paused, and run on."""

    owner: str  # such as "ReplicaSet web"; empty: none
    manager: str = ""  # of a Job: the controller that would resume it


def paused_at(annotations: Mapping[str, str]) -> datetime | None:
    """None: it is not paused by us."""
    written = annotations.get(PAUSED_AT)
    try:
        moment = datetime.fromisoformat(written) if written is not None else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def manager_group(job: Job) -> str:
    """The API group of the controller that the Job says would undo a suspension; empty: it names none."""
    if KUEUE in job.labels:
        return KUEUE_GROUP
    group = job.controller.api_version.rpartition("/")[0] if job.controller is not None else ""
    return "" if group in BUILT_IN else group


def manager_of(job: Job, groups: Container[str] | None) -> str:
    """The controller that would undo a suspension; empty: none.

    `groups`: those of which the API server has kinds; None: not known, then the Job is believed. A label or an owner of
    a group that is not installed manages nothing: otherwise a word in its metadata would free any Job from pauses.
    """
    group, owner = manager_group(job), job.controller
    if not group or (groups is not None and group not in groups):
        return ""
    return f"{owner.kind} {owner.name}" if KUEUE not in job.labels and owner is not None else "Kueue"


def job_key(pod: Pod) -> ObjectKey | None:
    """The Job that it belongs to; None: another owner, or none."""
    owner = pod.controller
    of_job = owner is not None and (owner.kind, owner.api_version) == (JOB.kind, JOB.api_version)
    return ObjectKey(pod.key.namespace, owner.name) if owner is not None and of_job else None


def of_mirror(budget: KubeObject[Any]) -> bool:
    return any(owner.controller and owner.api_version == LEGACY_BUDGET.api_version for owner in budget.owners)


def marks(budget: ObjectKey, now: datetime, *, mirror: bool, priority: int = 0) -> dict[str, str]:
    """The annotations of something that this budget pauses; a mirror's carry the names of the legacy kind as well."""
    written = {PAUSED_AT: rfc3339(now), PAUSED_BY: str(budget)}
    if priority:
        written[PAUSED_PRIORITY] = str(priority)
    if mirror:
        written |= {LEGACY_PAUSED_AT: rfc3339(now), LEGACY_PAUSED_BY: budget.name}
    return written


def pause_change(annotations: Mapping[str, str], *, suspend: bool) -> dict[str, Any]:
    """A merge patch."""
    change: dict[str, Any] = {"metadata": {"annotations": dict(annotations)}}
    return {**change, "spec": {"suspend": True}} if suspend else change


def resume_change(annotations: Mapping[str, str], *, resume: bool) -> dict[str, Any]:
    """The merge patch that takes our marks off; `resume`: and lets the Job run."""
    change: dict[str, Any] = {"metadata": {"annotations": dict.fromkeys(name for name in MARKS if name in annotations)}}
    return {**change, "spec": {"suspend": False}} if resume else change


def held_back(job: Job, milli: int, groups: Container[str] | None) -> HeldBack | None:
    """A Job that we suspended, as what it will use, `milli` per pod; None: it is not ours to resume."""
    since = paused_at(job.annotations)
    if since is None or not job.suspended or job.finished or job.deleting or manager_of(job, groups):
        return None
    return HeldBack(job.key, uid_text(job.uid), since, milli * job.pods, priority=_priority(job))


def _priority(job: Job) -> int:
    """As we wrote it; a user may have edited it since."""
    written = job.annotations.get(PAUSED_PRIORITY, "")
    return int(written) if matches(written, PRIORITY) else 0


def unpaused_text(running: Iterable[tuple[Pod, Unpaused]]) -> str:
    """Which pods run on although they should be paused, why, and what to set instead; empty: none."""
    managed: dict[str, str] = {}
    others: list[str] = []
    for pod, why in sorted(running, key=lambda each: each[0].key):
        if why.manager:
            managed[why.owner] = why.manager
        else:
            others.append(f"{pod.key.name} ({why.owner})" if why.owner else pod.key.name)
    said = []
    if others:
        said.append(
            f"Pods that keep running because they cannot be paused: {_some(others)}. Only Jobs can be "
            "suspended: run the work as a Job, or set enforcement.action: Evict."
        )
    if managed:
        names = [f"{job} ({manager})" for job, manager in managed.items()]
        said.append(
            f"Only annotated, because their controller would resume them: {_some(names)}. Stop them there, or set "
            "enforcement.action: Evict."
        )
    return " ".join(said)


def _some(names: list[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
