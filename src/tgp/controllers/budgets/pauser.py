"""Pauses pods beyond the quota: suspends their Job where that lasts, and annotates what cannot be paused."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, JOB, POD, Resource
from tgp.controllers.budgets.indexes import PAUSED_JOBS
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.core.budgets.pause import (
    PAUSED_AT,
    PAUSED_BY,
    Unpaused,
    held_back,
    job_key,
    manager_of,
    marks,
    of_mirror,
    pause_change,
    paused_at,
)
from tgp.core.budgets.spans import seconds
from tgp.core.budgets.victims import Victim
from tgp.core.model.facts import BudgetNoted, FactSubject, PodEnforced
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import Job
from tgp.ports.cluster import Cluster, NotFound
from tgp.ports.journal import Journal

PAUSE = "Pause"


class Pauser:
    def __init__(self, jobs: Store[Job], cluster: Cluster, journal: Journal) -> None:
        self._jobs = jobs
        self._cluster = cluster
        self._journal = journal

    # -- what is there -------------------------------------------------------------------------------------------------

    def passed(self, memory: BudgetMemory, since: int) -> set[bytes]:
        """Pods that were annotated and run on: they cannot be paused, or their Job's manager has not stopped them."""
        found = set()
        for uid, pod in self._annotated(memory):
            at = paused_at(pod.annotations)
            if job_key(pod) is None or at is None or seconds(at) < since:
                found.add(uid)
        return found

    def stopping(self, memory: BudgetMemory, since: int) -> set[bytes]:
        """Pods whose Job is suspended, or whose Job's manager was told to stop it since then."""
        passed = self.passed(memory, since)
        told = {uid for uid, _ in self._annotated(memory) if uid not in passed}
        return told | {uid for uid, pod in memory.pods.items() if (job := self._job(pod)) is not None and job.suspended}

    def unpaused(self, memory: BudgetMemory) -> Iterator[tuple[Pod, Unpaused]]:
        """Pods that this budget should have paused, and that run on."""
        for _, pod in self._annotated(memory):
            if not pod.deleting and pod.annotations.get(PAUSED_BY) == str(memory.key):
                owner, job = pod.controller, self._job(pod)
                named = f"{owner.kind} {owner.name}" if owner is not None else ""
                yield pod, Unpaused(named, manager_of(job) if job is not None else "")

    def paused(self, memory: BudgetMemory) -> int:
        """Pods that are paused by this budget: annotated, or stopped with their Job."""
        name = str(memory.key)
        own = self._jobs.by_index(PAUSED_JOBS, memory.key.namespace)
        jobs = own if memory.spec.namespace_selector is None else self._jobs.values()
        mine = (job for job in jobs if job.annotations.get(PAUSED_BY) == name)
        stopped = sum(job.pods for job in mine if held_back(job, 0) is not None)
        return stopped + sum(pod.annotations.get(PAUSED_BY) == name for pod in memory.pods.values())

    def _annotated(self, memory: BudgetMemory) -> Iterable[tuple[bytes, Pod]]:
        """Pods of a Job that we suspend are never annotated by us: marks in its template are its user's."""
        for uid, pod in memory.pods.items():
            if PAUSED_AT in pod.annotations and ((job := self._job(pod)) is None or manager_of(job)):
                yield uid, pod

    def _job(self, pod: Pod) -> Job | None:
        key, owner = job_key(pod), pod.controller
        job = self._jobs.get(key) if key is not None else None
        return job if job is not None and owner is not None and uid_text(job.uid) == owner.uid else None

    # -- what is done --------------------------------------------------------------------------------------------------

    async def pause(self, record: KubeObject[GPUWorkloadBudget], victim: Victim, now: datetime) -> bool:
        """Whether something was done. A Job that no view shows yet is looked at again soon."""
        first = victim.pods[0]
        written = marks(record.key, now, mirror=of_mirror(record), priority=max(pod.priority for pod in victim.pods))
        if job_key(first) is None:
            acted = False
            for pod in victim.pods:
                acted = await self._annotate_pod(record, pod, written, "cannot be paused: only Jobs can") or acted
            return acted
        job = self._job(first)
        if job is None or job.deleting or job.finished or job.suspended:
            return False
        if not (manager := manager_of(job)):
            await self._patch(JOB, job, pause_change(written, suspend=True))
            self._tell(record, JOB, job, "Paused", "is suspended")
            return True
        if PAUSED_AT not in job.annotations:
            await self._patch(JOB, job, pause_change(written, suspend=False))
        for pod in victim.pods:
            await self._annotate_pod(record, pod, written, f"is only annotated: {manager} would resume its Job")
        return True

    async def _annotate_pod(
        self, record: KubeObject[GPUWorkloadBudget], pod: Pod, written: Mapping[str, str], what: str
    ) -> bool:
        if PAUSED_AT in pod.annotations:
            return False
        try:
            await self._patch(POD, pod, pause_change(written, suspend=False))
        except NotFound:
            return False
        self._tell(record, POD, pod, "PauseUnavailable", what)
        return True

    async def _patch(self, resource: Resource, thing: Job | Pod, change: Mapping[str, Any]) -> None:
        await self._cluster.patch(
            resource, thing.key, change, resource_version=str(thing.resource_version), uid=uid_text(thing.uid)
        )

    def _tell(
        self, record: KubeObject[GPUWorkloadBudget], resource: Resource, thing: Job | Pod, outcome: str, what: str
    ) -> None:
        """On the Job or the pod, and on its budget."""
        message = f"{resource.kind} {thing.key.name} {what}"
        about = FactSubject(resource, thing.key, uid_text(thing.uid))
        self._journal.note(
            PodEnforced(about, record.key, PAUSE, outcome, f"{message}. Budget {record.key.name} is used up")
        )
        budget = FactSubject(GPU_WORKLOAD_BUDGET, record.key, record.uid_text)
        self._journal.note(BudgetNoted(budget, outcome, f"{message}: the quota is used up", warning=True))
