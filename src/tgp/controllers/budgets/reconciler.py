"""GPUWorkloadBudgets: what pods used is kept in the status; beyond the quota they are acted on, once each."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import to_builtins

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.api.values import rfc3339
from tgp.controllers.budgets.tracker import BudgetMemory, BudgetTracker
from tgp.controllers.status_writer import StatusWriter
from tgp.core.budgets.account import USED
from tgp.core.budgets.assess import Assessment, assess, hours_text
from tgp.core.budgets.ended import largest
from tgp.core.budgets.packing import NewerAccount, pack
from tgp.core.budgets.quota import limits_of, spec_problem
from tgp.core.budgets.reset import reset_asked
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.budgets.status import (
    DEGRADED,
    GATHERED,
    IDLE_AFTER,
    READY,
    Told,
    Trouble,
    alert_text,
    conditions,
    look_again,
    parts,
    raised,
    worth_writing,
)
from tgp.core.budgets.victims import back_by, victims
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.facts import AlertRaised, BudgetNoted, FactSubject, PodEnforced
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.ports.clock import Clock
from tgp.ports.cluster import Blocked, Cluster, View
from tgp.ports.journal import Journal

STALE_AFTER = 300.0  # seconds without a word of the API server about pods
ASKED_AGAIN = timedelta(minutes=1)  # after an eviction that a PodDisruptionBudget blocked
EMPTY_AGAIN = timedelta(seconds=30)  # after lists without any pod
NEWER = "A newer version of the operator has counted here: this one leaves the account alone, and enforces nothing"
PAUSE = "This version counts and warns, and pauses nothing: use the action Evict to stop pods beyond the quota"
LOST = "The account could not be read. It was made again from the pods that are still there: use may be higher"


class BudgetReconciler:
    def __init__(
        self,
        budgets: View[KubeObject[GPUWorkloadBudget]],
        tracker: BudgetTracker,
        status_writer: StatusWriter,
        *,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        silent_for: Callable[[], float],
        list_pods: Callable[[], Awaitable[None]],
        namespace: str,  # the operator's
    ) -> None:
        self._budgets = budgets
        self._tracker = tracker
        self._status_writer = status_writer
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._silent_for = silent_for
        self._list_pods = list_pods
        self._namespace = namespace

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._budgets.get(key)
        if record is None:
            self._tracker.forget(key)
            return None
        if record.value is None or record.deleting:
            return None
        if (problem := spec_problem(record.value.spec, key.namespace, self._namespace)) is not None:
            await self._leave_alone(record, *problem)
            return None
        try:
            memory = self._tracker.memory_of(record, record.value, listed_again=False)
            if memory is None or memory.missing:  # what one list does not show may be there: ask for another
                await self._list_pods()
                memory = self._tracker.memory_of(record, record.value, listed_again=True)
        except NewerAccount:
            await self._leave_alone(record, "NewerAccount", NEWER)
            return None
        now = self._clock.now()
        if memory is None or not self._tracker.close_missing(memory):
            return now + EMPTY_AGAIN
        restored = bool(memory.written) and record.value.status.account != memory.written
        if memory.changed_at is not None and now < memory.changed_at + GATHERED and not restored:
            return memory.changed_at + GATHERED
        memory.limits = limits_of(memory.spec, seconds(now))
        self._reset(record, memory, now)
        seen = assess(memory.limits, memory.account, seconds(now), exceeded=memory.told.exceeded_at is not None)
        saying = self._saying(record, memory, seen, now)
        changed = memory.changed_at is not None or restored
        if worth_writing(memory.told, saying, memory.limits, seen, changed=changed):
            await self._write(record, memory, seen, saying)
            if restored:
                message = "The account in the status was changed or removed by others, and is restored"
                self._journal.note(BudgetNoted(_subject(record), "AccountRestored", message, warning=True))
            if self._may_act(memory, now):
                return now  # by the next reconcile, which sees this write
        elif self._may_act(memory, now) and await self._enforce(record, memory, seen, now):
            await self._write(record, memory, seen, saying, {"lastEnforcementAt": rfc3339(now)})
        return self._next_look(record, memory, seen, now)

    def _reset(self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, now: datetime) -> None:
        """Begin again where a person asked for it, once."""
        asked = reset_asked(record.annotations, memory.reset_at)
        if asked is None:
            return
        used = hours_text(memory.account.used(USED, seconds(now)))
        memory.account.reset(seconds(now))
        memory.largest, memory.reset_at, memory.changed_at = (), asked.at, memory.changed_at or now - GATHERED
        message = f"{asked.who} reset the account at {rfc3339(asked.at)}: {used} GPU-hours count no longer"
        self._journal.note(BudgetNoted(_subject(record), "AccountReset", message, warning=True))

    # -- what is told --------------------------------------------------------------------------------------------------

    def _saying(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> Told:
        before = memory.told
        trouble = self._trouble(memory)
        return Told(
            seen.now,
            seen.used,
            (before.exceeded_at or now.replace(microsecond=0)) if seen.exceeded else None,
            raised(memory.spec, memory.limits, seen, before.alerted),
            record.generation,
            trouble.reason if trouble is not None else "",
            not (memory.tracked or seen.used) and now >= _idle_from(record, now),
        )

    def _trouble(self, memory: BudgetMemory) -> Trouble | None:
        if memory.lost:
            return Trouble("AccountLost", LOST)
        if self._silent_for() > STALE_AFTER:
            return Trouble("CacheStale", "The API server sends no changes of pods: use is counted as if none ended")
        if memory.blocked:
            names = ", ".join(sorted(memory.pods[uid].key.name for uid in memory.blocked if uid in memory.pods))
            if names:
                return Trouble("EvictionBlocked", f"PodDisruptionBudgets keep pods that should go: {names}")
        if memory.spec.enforcement.action == "Pause":
            return Trouble("PauseUnavailable", PAUSE)
        return None

    async def _write(
        self,
        record: KubeObject[GPUWorkloadBudget],
        memory: BudgetMemory,
        seen: Assessment,
        saying: Told,
        more: dict[str, Any] | None = None,
    ) -> None:
        """One conditional write of everything. Until it succeeds the spans stay to be written."""
        waiting, memory.account.version = memory.changed_at, self._tracker.version
        account = pack(memory.account)
        said = {
            **parts(memory.spec, seen, saying, account),
            "trackedPods": memory.tracked,
            "largest": to_builtins(largest(memory.largest, memory.account.begins(seen.now))) or None,
            "resetAt": rfc3339(memory.reset_at) if memory.reset_at is not None else None,
            **(more or {}),
        }
        updates = conditions(memory.spec, seen, self._trouble(memory), idle=saying.idle)
        await self._status_writer.write(record, updates, said)
        new = [name for name in saying.alerted if name not in memory.told.alerted]
        memory.told, memory.written = saying, account
        if memory.changed_at == waiting:
            memory.changed_at = None
        for name in new:
            self._journal.note(AlertRaised(_subject(record), name, alert_text(name, seen)))

    async def _leave_alone(self, record: KubeObject[GPUWorkloadBudget], reason: str, why: str) -> None:
        await self._status_writer.write(
            record, [ConditionUpdate(READY, False, reason, why), ConditionUpdate(DEGRADED, True, reason, why)]
        )

    def _next_look(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> datetime | None:
        again = look_again(memory.spec, memory.limits, memory.account, seen, memory.told)
        moments = [now + timedelta(seconds=again - seen.now)] if again is not None else []
        if not memory.tracked and now < _idle_from(record, now):
            moments.append(_idle_from(record, now))
        if memory.told.exceeded_at is not None:
            due = memory.told.exceeded_at + timedelta(seconds=memory.spec.enforcement.grace_period_seconds)
            moments.append(due if due > now else _back_at(memory, seen, due))
            moments += memory.blocked.values()
        trouble = self._trouble(memory)
        if (trouble.reason if trouble is not None else "") != memory.told.trouble:
            moments.append(now)
        return min(moments, default=None)

    # -- what is done --------------------------------------------------------------------------------------------------

    def _may_act(self, memory: BudgetMemory, now: datetime) -> bool:
        """Over quota for the grace period, counted from the stored time: a restart changes nothing."""
        since = memory.told.exceeded_at
        return since is not None and now >= since + timedelta(seconds=memory.spec.enforcement.grace_period_seconds)

    async def _enforce(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> bool:
        """Whether something was done."""
        assert record.value is not None
        last, since = record.value.status.last_enforcement_at, memory.told.exceeded_at
        assert since is not None, "only beyond the quota"
        if memory.spec.enforcement.action != "Evict":
            if last is not None and last >= since:
                return False
            message = f"The quota is used up. No pod is stopped: the action is {memory.spec.enforcement.action}"
            self._journal.note(BudgetNoted(_subject(record), "QuotaExceeded", message, warning=True))
            return True
        begun = seconds(since) + memory.spec.enforcement.grace_period_seconds
        by = back_by(memory.account.rolls, begun, seen.now)
        memory.blocked = {uid: again for uid, again in memory.blocked.items() if uid in memory.pods}
        passed = {uid for uid, again in memory.blocked.items() if again > now}
        acted = False
        for victim in victims(memory.pods, memory.account, memory.limits, seen.now, by=by, passed=passed):
            for pod in victim.pods:
                acted = await self._evict(record, memory, pod, now) or acted
        return acted

    async def _evict(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, pod: Pod, now: datetime
    ) -> bool:
        grace = memory.spec.enforcement.pod_grace_period_seconds
        try:
            await self._cluster.evict(
                pod.key, uid=uid_text(pod.uid), grace=None if grace is None else timedelta(seconds=grace)
            )
        except Blocked:
            if short_uid(pod) not in memory.blocked:
                self._tell(record, pod, "EvictionBlocked", "should go, and a PodDisruptionBudget keeps it")
            memory.blocked[short_uid(pod)] = now + ASKED_AGAIN
            return False
        memory.blocked.pop(short_uid(pod), None)
        self._tell(record, pod, "Evicted", "was evicted")
        return True

    def _tell(self, record: KubeObject[GPUWorkloadBudget], pod: Pod, outcome: str, what: str) -> None:
        """On the pod, and on its budget."""
        about = FactSubject(POD, pod.key, uid_text(pod.uid))
        self._journal.note(PodEnforced(about, record.key, "Evict", outcome))
        message = f"Pod {pod.key.name} {what}: the quota is used up"
        self._journal.note(BudgetNoted(_subject(record), outcome, message, warning=True))


def _idle_from(record: KubeObject[GPUWorkloadBudget], now: datetime) -> datetime:
    """When a budget that no pod has matched says so."""
    return (record.created_at or now) + IDLE_AFTER


def _back_at(memory: BudgetMemory, seen: Assessment, begun: datetime) -> datetime:
    return begun + timedelta(seconds=back_by(memory.account.rolls, seconds(begun), seen.now) - seconds(begun))


def _subject(record: KubeObject[GPUWorkloadBudget]) -> FactSubject:
    return FactSubject(GPU_WORKLOAD_BUDGET, record.key, record.uid_text)
