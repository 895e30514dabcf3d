"""Pauses pods beyond the quota: suspends their Job where that lasts, and annotates what cannot be paused."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, JOB, POD, Resource
from tgp.controllers.budgets.api_groups import ApiGroups
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
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.budgets.victims import Victim
from tgp.core.model.facts import BudgetNoted, FactSubject, PodEnforced
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import Job
from tgp.ports.cluster import Cluster, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

PAUSE = "Pause"
ASKED_AGAIN = timedelta(minutes=1)  # after an eviction or a pause that was refused
SHOWN_WITHIN = timedelta(minutes=1)  # of a pod's creation: its Job


class Pauser:
    def __init__(self, jobs: Store[Job], groups: ApiGroups, cluster: Cluster, journal: Journal) -> None:
        self._jobs = jobs
        self._groups = groups
        self._cluster = cluster
        self._journal = journal

    # -- what is there -------------------------------------------------------------------------------------------------

    async def look(self, memory: BudgetMemory) -> None:
        """Ask which managers of its Jobs are installed, before any of the questions below."""
        if memory.spec.enforcement.action == PAUSE:
            jobs = (self._job(pod) for pod in memory.pods.values())
            await self._groups.look(job for job in jobs if job is not None)

    def passed(self, memory: BudgetMemory, since: int) -> set[bytes]:
        """Pods that were annotated and run on: they cannot be paused, or their Job's manager has not stopped them."""
        found = set()
        for uid, pod in self._annotated(memory):
            at = paused_at(pod.annotations)
            if self._suspendable(pod) is None or at is None or seconds(at) < since:
                found.add(uid)
        return found

    def stopping(self, memory: BudgetMemory, since: int) -> set[bytes]:
        """Pods whose Job was suspended since then, or whose Job's manager was told to stop it since then."""
        passed = self.passed(memory, since)
        told = {uid for uid, _ in self._annotated(memory) if uid not in passed}
        return told | {uid for uid, pod in memory.pods.items() if self._is_stopped(pod, since)}

    def unpaused(self, memory: BudgetMemory) -> Iterator[tuple[Pod, Unpaused]]:
        """Pods that this budget should have paused, and that run on."""
        for _, pod in self._annotated(memory):
            if not pod.deleting and pod.annotations.get(PAUSED_BY) == str(memory.key):
                owner, job = pod.controller, self._job(pod)
                named = f"{owner.kind} {owner.name}" if owner is not None else ""
                yield pod, Unpaused(named, manager_of(job, self._groups.known) if job is not None else "")

    def paused(self, memory: BudgetMemory) -> int:
        """Pods that are paused by this budget: annotated, or stopped with their Job."""
        name = str(memory.key)
        own = self._jobs.by_index(PAUSED_JOBS, memory.key.namespace)
        jobs = own if memory.spec.namespace_selector is None else self._jobs.values()
        mine = (job for job in jobs if job.annotations.get(PAUSED_BY) == name)
        stopped = sum(job.pods for job in mine if held_back(job, 0, self._groups.known) is not None)
        return stopped + sum(pod.annotations.get(PAUSED_BY) == name for pod in memory.pods.values())

    def _annotated(self, memory: BudgetMemory) -> Iterable[tuple[bytes, Pod]]:
        """Pods of a Job that we suspend are never annotated by us: marks in its template are its user's."""
        for uid, pod in memory.pods.items():
            if PAUSED_AT in pod.annotations:
                job = self._suspendable(pod)
                if job is None or manager_of(job, self._groups.known):
                    yield uid, pod

    def _suspendable(self, pod: Pod) -> Job | None:
        """Its Job, if suspending it stops the pod; None: it has none, or its Job controls no pods any more.

        A pod can name any Job as its owner: one that is finished or suspended, say, and leaves it running.
        """
        job = self._job(pod)
        return None if job is None or job.deleting or job.finished or job.suspended else job

    def _is_stopped(self, pod: Pod, since: int) -> bool:
        """Whether its Job was suspended by us since then: it is being deleted, or will be soon."""
        job = self._job(pod)
        if job is None or not job.suspended or job.deleting or job.finished:
            return False
        at = paused_at(job.annotations)
        return at is not None and seconds(at) >= since

    def _job(self, pod: Pod) -> Job | None:
        key, owner = job_key(pod), pod.controller
        job = self._jobs.get(key) if key is not None else None
        return job if job is not None and owner is not None and uid_text(job.uid) == owner.uid else None

    # -- what is done --------------------------------------------------------------------------------------------------

    async def pause(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, victim: Victim, now: datetime
    ) -> bool:
        """Whether something was done. The Job of a new pod may not be shown yet: it is looked at again soon."""
        first, mirror = victim.pods[0], of_mirror(record)
        on_pod = marks(record.key, now, mirror=mirror)
        on_job = marks(record.key, now, mirror=mirror, priority=max(pod.priority for pod in victim.pods))
        if job_key(first) is not None and self._job(first) is None and _is_new(first, now):
            return False
        job = self._suspendable(first)
        if job is None:
            acted, why = False, "only Jobs can" if job_key(first) is None else "its Job does not control it any more"
            for pod in victim.pods:
                what = f"cannot be paused: {why}"
                acted = await self._annotate_pod(record, memory, pod, on_pod, what, now=now) or acted
            return acted
        manager = manager_of(job, self._groups.known)
        try:
            if not manager or PAUSED_AT not in job.annotations:
                await self._patch(JOB, job, pause_change(on_job, suspend=not manager))
        except (Refused, Forbidden) as error:
            self._passed_over(record, memory, JOB, job, victim.pods, error=error, now=now)
            return False
        for pod in victim.pods:
            memory.blocked.pop(short_uid(pod), None)
        if not manager:
            self._tell(record, JOB, job, "Paused", "is suspended")
            return True
        for pod in victim.pods:
            what = f"is only annotated: {manager} would resume its Job"
            await self._annotate_pod(record, memory, pod, on_pod, what, now=now)
        return True

    async def _annotate_pod(
        self,
        record: KubeObject[GPUWorkloadBudget],
        memory: BudgetMemory,
        pod: Pod,
        written: Mapping[str, str],
        what: str,
        *,
        now: datetime,
    ) -> bool:
        if PAUSED_AT in pod.annotations:
            return False
        try:
            await self._patch(POD, pod, pause_change(written, suspend=False))
        except NotFound:
            return False
        except (Refused, Forbidden) as error:
            self._passed_over(record, memory, POD, pod, (pod,), error=error, now=now)
            return False
        memory.blocked.pop(short_uid(pod), None)
        self._tell(record, POD, pod, "PauseUnavailable", what)
        return True

    def _passed_over(
        self,
        record: KubeObject[GPUWorkloadBudget],
        memory: BudgetMemory,
        resource: Resource,
        thing: Job | Pod,
        pods: Iterable[Pod],
        *,
        error: Exception,
        now: datetime,
    ) -> None:
        """The API server refuses the change: the next in order go instead, and it is asked again."""
        uids = [short_uid(pod) for pod in pods]
        if not any(uid in memory.blocked for uid in uids):
            self._tell(record, resource, thing, "PauseBlocked", f"was not paused ({error})")
        memory.blocked |= dict.fromkeys(uids, now + ASKED_AGAIN)

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


def _is_new(pod: Pod, now: datetime) -> bool:
    return pod.created_at is None or now < pod.created_at + SHOWN_WITHIN
