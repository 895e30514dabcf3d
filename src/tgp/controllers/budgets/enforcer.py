"""What is done to pods beyond the quota: evicted, paused, or only reported. Once each, and never early."""

from datetime import datetime, timedelta

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.budgets.pauser import Pauser
from tgp.core.budgets.assess import Assessment
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.budgets.victims import back_by, back_within, victims
from tgp.core.model.facts import BudgetNoted, FactSubject, PodEnforced
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.ports.clock import Clock
from tgp.ports.cluster import Blocked, Cluster, Forbidden, Refused
from tgp.ports.journal import Journal

ASKED_AGAIN = timedelta(minutes=1)  # after an eviction that a PodDisruptionBudget blocked


class BudgetEnforcer:
    def __init__(self, pauser: Pauser, *, cluster: Cluster, journal: Journal, clock: Clock) -> None:
        self._pauser = pauser
        self._cluster = cluster
        self._journal = journal
        self._clock = clock

    def due(self, memory: BudgetMemory, now: datetime) -> bool:
        """Over quota for the grace period, counted from the stored time: a restart changes nothing."""
        since = memory.told.exceeded_at
        return since is not None and now >= since + timedelta(seconds=memory.spec.enforcement.grace_period_seconds)

    async def enforce(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> bool:
        """Whether something was done."""
        assert record.value is not None
        last, since = record.value.status.last_enforcement_at, memory.told.exceeded_at
        assert since is not None, "only beyond the quota"
        action = memory.spec.enforcement.action
        if action == "AlertOnly":
            if last is not None and last >= since:
                return False
            message = "The quota is used up. No pod is stopped: the action is AlertOnly"
            self._journal.note(BudgetNoted(budget_subject(record), "QuotaExceeded", message, warning=True))
            return True
        begun = seconds(since) + memory.spec.enforcement.grace_period_seconds
        by = back_by(memory.account.rolls, begun, seen.now)
        if action == "Pause":
            return await self._pause(record, memory, seen.now, by)
        memory.blocked = {uid: again for uid, again in memory.blocked.items() if uid in memory.pods}
        passed = {uid for uid, again in memory.blocked.items() if again > now}
        passed |= {uid for uid, pod in memory.pods.items() if (memory.evicted.not_before(pod) or now) > now}
        acted = False
        grace = memory.spec.enforcement.pod_grace_period_seconds
        chosen = victims(memory.pods, memory.account, memory.limits, seen.now, by=by, passed=passed, grace=grace)
        for victim in chosen:
            for pod in victim.pods:
                acted = await self._evict(record, memory, pod, now) or acted
        return acted

    async def _pause(self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, now: int, by: int) -> bool:
        since = by - back_within(memory.account.rolls)  # what was annotated before had its chance
        passed, stopping = self._pauser.passed(memory, since), self._pauser.stopping(memory, since)
        acted = False
        chosen = victims(memory.pods, memory.account, memory.limits, now, by=by, passed=passed, stopping=stopping)
        for victim in chosen:
            acted = await self._pauser.pause(record, victim, self._clock.now()) or acted
        return acted

    async def _evict(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, pod: Pod, now: datetime
    ) -> bool:
        grace = memory.spec.enforcement.pod_grace_period_seconds
        if grace is None and pod.deleting:  # with more time than its own, which only a stated grace shortens
            grace = pod.grace_seconds
        try:
            await self._cluster.evict(
                pod.key, uid=uid_text(pod.uid), grace=None if grace is None else timedelta(seconds=grace)
            )
        except (Blocked, Refused, Forbidden) as error:  # the next in order go instead
            if short_uid(pod) not in memory.blocked:
                what = "a PodDisruptionBudget keeps it" if isinstance(error, Blocked) else f"cannot be evicted: {error}"
                self._tell(record, pod, "EvictionBlocked", f"should go, and {what}")
            memory.blocked[short_uid(pod)] = now + ASKED_AGAIN
            return False
        memory.blocked.pop(short_uid(pod), None)
        memory.evicted.evicted(pod, now)
        self._tell(record, pod, "Evicted", "was evicted")
        return True

    def _tell(self, record: KubeObject[GPUWorkloadBudget], pod: Pod, outcome: str, what: str) -> None:
        """On the pod, and on its budget."""
        about = FactSubject(POD, pod.key, uid_text(pod.uid))
        told = f"Pod {what}: budget {record.key.name} is used up"
        self._journal.note(PodEnforced(about, record.key, "Evict", outcome, told))
        message = f"Pod {pod.key.name} {what}: the quota is used up"
        self._journal.note(BudgetNoted(budget_subject(record), outcome, message, warning=True))


def budget_subject(record: KubeObject[GPUWorkloadBudget]) -> FactSubject:
    return FactSubject(GPU_WORKLOAD_BUDGET, record.key, record.uid_text)
