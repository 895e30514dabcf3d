"""Lets go of what budgets hold in a namespace: paused Jobs go on one by one, marks without a reason are taken off.

One reconcile for a whole namespace, because a thing that two budgets hold goes on when both let it go. Its state is in
the objects alone, so a new process takes off what an earlier one has left.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import JOB, POD
from tgp.controllers.budgets.api_groups import ApiGroups
from tgp.controllers.budgets.indexes import BUDGET_PODS, PAUSED_JOBS, marked, unplaced
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.budgets.releases import HOLD, RELEASE, Outcome, Releases
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.core.budgets.admission import EXACT, LABEL, LABEL_OF_SEVERAL
from tgp.core.budgets.pause import PAUSED_AT, PAUSED_BY, held_back, manager_of, resume_change
from tgp.core.budgets.quota import spec_problem
from tgp.core.budgets.resume import HeldBack, resume
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.model.facts import FactSubject, PodEnforced
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED, Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import Job
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.journal import Journal

LOOK_AGAIN = timedelta(seconds=15)  # hours come back second by second
AT_ONCE = timedelta(milliseconds=200)  # another client has just changed it
STARTS_WITHIN = timedelta(seconds=60)  # a Job that went on has its pods by then, or none is coming


class HoldsReconciler:
    """Keys are namespaces."""

    def __init__(
        self,
        budgets: Store[KubeObject[GPUWorkloadBudget]],
        pods: Store[Pod],
        jobs: Store[Job],
        tracker: BudgetTracker,
        groups: ApiGroups,
        *,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        home: str,  # the operator's namespace
    ) -> None:
        self._home = home
        self._groups = groups
        self._budgets = budgets
        self._pods = pods
        self._jobs = jobs
        self._tracker = tracker
        self._releases = Releases(cluster, journal)
        self._journal = journal
        self._clock = clock
        self._gone_on: dict[
            str, tuple[Job, datetime]
        ] = {}  # by uid: Jobs that went on, whose pods may not be there yet

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        namespace, now = key.name, self._clock.now()
        self._forget(now)
        jobs = [job for job in self._jobs.by_index(PAUSED_JOBS, namespace) if not self._is_stale(job)]
        pods = self._pods.by_index(BUDGET_PODS, marked(namespace))
        uncounted = self._uncounted(namespace)
        if not jobs and not pods and not uncounted:
            return None
        if not self._all_counted(namespace):
            return now + LOOK_AGAIN
        late = False
        for pod in uncounted:
            late = not await self._change_pod(pod, finalizers((*pod.finalizers, COUNTED)), now, HOLD) or late
        for pod in pods:
            late = not await self._look_at_pod(pod, now) or late
        if late:
            return now + AT_ONCE
        await self._groups.look(jobs)
        going = self._going(namespace, jobs, seconds(now))
        for job in jobs:
            await self._look_at_job(job, going=uid_text(job.uid) in going, now=now)
        return now + LOOK_AGAIN

    def _all_counted(self, namespace: str) -> bool:
        """A new process has looked at every account: before that nothing is known to be open."""
        records = (each for each in self._budgets.values() if self._may_cover(each, namespace) and not each.deleting)
        return all(self._tracker.settled(each.key, each.uid_text) for each in records)

    def _exact_for_newer(self, namespace: str) -> bool:
        """Whether a budget that only a newer version can read counts pods there exactly, as its label says."""
        return any(
            each.labels.get(label, "").endswith(EXACT)
            for each in self._budgets.values()
            for label in ((LABEL, LABEL_OF_SEVERAL) if each.key.namespace == namespace else (LABEL_OF_SEVERAL,))
            if self._tracker.of_newer(each.key, each.uid_text)
        )

    def _paused_by_newer(self, job: Job) -> bool:
        key = _key(job.annotations.get(PAUSED_BY, ""))
        record = self._budgets.get(key)
        return record is not None and self._tracker.of_newer(key, record.uid_text)

    def _may_cover(self, record: KubeObject[GPUWorkloadBudget], namespace: str) -> bool:
        """One that cannot count never will be taken up: it holds nothing, least of all in other namespaces."""
        spec = record.value.spec if record.value is not None else None
        if spec is not None and spec_problem(spec, record.key.namespace, self._home) is not None:
            return False
        return record.key.namespace == namespace or (spec is not None and spec.namespace_selector is not None)

    # -- Jobs ----------------------------------------------------------------------------------------------------------

    def _going(self, namespace: str, jobs: Iterable[Job], now: int) -> set[str]:
        """The uids of suspended Jobs that no budget holds any more."""
        holders = {uid_text(job.uid): self._holders(job) for job in jobs}
        open_ = {uid for uid, budgets in holders.items() if not any(each.closed for each in budgets)}
        allowed: dict[ObjectKey, set[str]] = {}
        for memory in self._tracker.over(namespace):
            if memory.stops_pods and not memory.closed:
                waiting = [job for job in jobs if uid_text(job.uid) in open_ and memory in holders[uid_text(job.uid)]]
                groups = self._groups.known
                found = (held_back(job, memory.weights.units(job.requests), groups) for job in waiting)
                held = [each for each in found if each is not None]
                allowed[memory.key] = {each.uid for each in self._resumed(memory, held, now)}
        return {uid for uid in open_ if all(uid in allowed[memory.key] for memory in holders[uid])}

    def _resumed(self, memory: BudgetMemory, held: list[HeldBack], now: int) -> tuple[HeldBack, ...]:
        if not held:
            return ()
        return resume(held, memory.account, memory.limits, now, on_the_way=self._on_the_way(memory))

    def _holders(self, job: Job) -> list[BudgetMemory]:
        """Budgets that its pods would belong to; the one that paused it may select labels that only pods have."""
        by = job.annotations.get(PAUSED_BY)
        return [
            memory
            for memory in self._tracker.over(job.key.namespace)
            if memory.stops_pods
            and (memory.selects(job.pod_labels) or str(memory.key) == by)
            and memory.weights.units(job.requests)
        ]

    def _on_the_way(self, memory: BudgetMemory) -> int:
        """Of this budget: pods that are placed and have not started, pods without a place, Jobs without pods."""
        placed = sum(
            pod.milli for uid, pod in memory.account.open.items() if pod.start is None and uid not in memory.waiting
        )
        coming = [
            pod for pod in self._unplaced(memory) if memory.belongs(pod) and not pod.finished and not pod.deleting
        ]
        shown = {owner.uid for pod in (*coming, *memory.pods.values()) if (owner := pod.controller) is not None}
        jobs = [job for uid, (job, _) in self._gone_on.items() if uid not in shown and memory.selects(job.pod_labels)]
        waiting = sum(memory.weights.units(pod.requests) for pod in coming)
        return placed + waiting + sum(memory.weights.units(job.requests) * job.pods for job in jobs)

    def _unplaced(self, memory: BudgetMemory) -> Iterable[Pod]:
        if memory.spec.namespace_selector is None:
            return self._pods.by_index(BUDGET_PODS, unplaced(memory.key.namespace))
        return (pod for pod in self._pods.values() if not pod.node)

    async def _look_at_job(self, job: Job, *, going: bool, now: datetime) -> None:
        if job.finished or job.deleting or self._paused_by_newer(job):
            return
        if manager_of(job, self._groups.known):
            if not self._still_held(job.annotations.get(PAUSED_BY, "")):
                await self._change_job(job, now, resume=False)
        elif not job.suspended:  # resumed by others: our marks say nothing any more
            await self._change_job(job, now, resume=False)
        elif going and await self._change_job(job, now, resume=True):
            self._gone_on[uid_text(job.uid)] = job, now
            self._tell(job)

    async def _change_job(self, job: Job, now: datetime, *, resume: bool) -> bool:
        """Whether it was changed. One that was not is looked at again soon."""
        change = resume_change(job.annotations, resume=resume)
        return await self._releases.change(JOB, job, change, now) == Outcome.DONE

    def _tell(self, job: Job) -> None:
        budget = _key(job.annotations.get(PAUSED_BY, ""))
        message = f"Job {job.key.name} is resumed: no budget pauses it any more"
        about = FactSubject(JOB, job.key, uid_text(job.uid))
        self._journal.note(PodEnforced(about, budget, "Pause", "Resumed", message, warning=False))

    def _is_stale(self, job: Job) -> bool:
        """The view does not show yet that it went on."""
        went = self._gone_on.get(uid_text(job.uid))
        return went is not None and went[0].resource_version == job.resource_version

    def _forget(self, now: datetime) -> None:
        self._gone_on = {uid: went for uid, went in self._gone_on.items() if now < went[1] + STARTS_WITHIN}

    # -- pods ----------------------------------------------------------------------------------------------------------

    async def _look_at_pod(self, pod: Pod, now: datetime) -> bool:
        """Take off what has no reason any more. False: its kubelet has changed it meanwhile."""
        if COUNTED in pod.finalizers and self._is_counted(pod):
            return await self._change_pod(pod, finalizers(each for each in pod.finalizers if each != COUNTED), now)
        if PAUSED_AT not in pod.annotations or pod.over or pod.deleting:
            return True
        by = self._tracker.held(_key(pod.annotations.get(PAUSED_BY, "")))
        if self._still_held(pod.annotations.get(PAUSED_BY, "")) and by is not None and short_uid(pod) in by.pods:
            return True
        return await self._change_pod(pod, resume_change(pod.annotations, resume=False), now)

    async def _change_pod(self, pod: Pod, change: Mapping[str, Any], now: datetime, reason: str = RELEASE) -> bool:
        return await self._releases.change(POD, pod, change, now, reason=reason) != Outcome.OUTDATED

    def _uncounted(self, namespace: str) -> list[Pod]:
        """Pods of budgets that count exactly, without the finalizer."""
        found: dict[ObjectKey, Pod] = {}
        for memory in self._tracker.over(namespace):
            if memory.holds_pods:
                unplaced_ = self._pods.by_index(BUDGET_PODS, unplaced(namespace))
                for pod in (*memory.pods.values(), *unplaced_):
                    asks = memory.belongs(pod) and memory.weights.units(pod.requests) > 0
                    if asks and COUNTED not in pod.finalizers and not pod.finished and not pod.deleting:
                        found[pod.key] = pod
        return [found[key] for key in sorted(found)]

    def _is_counted(self, pod: Pod) -> bool:
        """No budget needs it any more: each that counts exactly has closed its span, and written that."""
        if self._exact_for_newer(pod.key.namespace):
            return False
        uid = short_uid(pod)
        exact = [each for each in self._tracker.over(pod.key.namespace) if each.holds_pods and each.belongs(pod)]
        return not exact or (
            pod.over and all(uid not in memory.account.open and uid not in memory.unwritten for memory in exact)
        )

    def _still_held(self, budget: str) -> bool:
        """Whether the budget that has annotated it still says so."""
        memory = self._tracker.held(_key(budget))
        return memory is not None and memory.stops_pods and memory.closed and memory.spec.enforcement.action == "Pause"

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        if new is None or (new.finished and COUNTED not in new.finalizers):
            return ()
        held = COUNTED in new.finalizers
        marked_ = PAUSED_AT in new.annotations or (held and (old is None or new.over or old.labels != new.labels))
        wanted = not held and any(
            each.holds_pods and each.belongs(new) for each in self._tracker.over(new.key.namespace)
        )
        return (_namespace(new),) if marked_ or wanted else ()

    def of_job(self, old: Job | None, new: Job | None) -> Iterable[ObjectKey]:
        return [_namespace(each) for each in (new or old,) if each is not None and PAUSED_AT in each.annotations]

    def of_budget(
        self, old: KubeObject[GPUWorkloadBudget] | None, new: KubeObject[GPUWorkloadBudget] | None
    ) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        memory = self._tracker.held(changed.key)
        return [ObjectKey("", each) for each in ({changed.key.namespace} if memory is None else memory.namespaces)]


def finalizers(names: Iterable[str]) -> dict[str, Any]:
    return {"metadata": {"finalizers": list(names)}}


def _namespace(thing: Pod | Job) -> ObjectKey:
    return ObjectKey("", thing.key.namespace)


def _key(text: str) -> ObjectKey:
    """Of a budget that is written as namespace/name."""
    namespace, _, name = text.rpartition("/")
    return ObjectKey(namespace, name)
