"""What is done to pods beyond the quota: evicted, paused, or only reported. Once each, and never early."""

from datetime import datetime, timedelta

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.budgets.pauser import ASKED_AGAIN, Pauser
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.core.budgets.assess import Assessment, assess
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.budgets.victims import back_by, back_within, static, victims
from tgp.core.model.facts import BudgetNoted, FactSubject, PodEnforced
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.ports.clock import Clock
from tgp.ports.cluster import Blocked, Cluster, Forbidden, Refused
from tgp.ports.journal import Journal

STRICTEST_FIRST = ("Evict", "Pause", "AlertOnly")
WAITED_FOR = timedelta(
    seconds=10
)  # a stricter budget of the same pods that is due acts within it, or is not waited for
SHOWN_WITHIN = timedelta(minutes=1)  # that a pod was told to go


class BudgetEnforcer:
    """Of several budgets of a pod the strictest acts, and once: the others find the pod on its way out."""

    def __init__(
        self, pauser: Pauser, tracker: BudgetTracker, *, cluster: Cluster, journal: Journal, clock: Clock
    ) -> None:
        self._tracker = tracker
        self._told_to_go: dict[bytes, datetime] = {}  # pods that a budget of this process has evicted; when
        self._pauser = pauser
        self._cluster = cluster
        self._journal = journal
        self._clock = clock

    def due(self, memory: BudgetMemory, now: datetime) -> bool:
        """Over quota for the grace period, counted from the stored time: a restart changes nothing."""
        since = memory.told.exceeded_at
        return since is not None and now >= since + timedelta(seconds=memory.spec.enforcement.grace_period_seconds)

    def waits(self, memory: BudgetMemory, now: datetime) -> bool:
        """Whether a stricter budget of the same pods is due, and acts first."""
        due, action = _due_at(memory, now), memory.spec.enforcement.action
        if due is None or action not in STRICTEST_FIRST or now >= due + WAITED_FOR:
            return False
        others = (other for namespace in memory.namespaces for other in self._tracker.over(namespace))
        stricter = STRICTEST_FIRST[: STRICTEST_FIRST.index(action)]
        return any(
            other.spec.enforcement.action in stricter
            and not other.archived
            and not memory.pods.keys().isdisjoint(other.pods)
            and (at := _due_at(other, now)) is not None
            and at <= now
            and (other.enforced_at is None or other.enforced_at < at)
            for other in others
        )

    async def enforce(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> bool:
        """Whether something was done. What only reports does so by `report`, once that is written."""
        assert record.value is not None
        last, since = record.value.status.last_enforcement_at, memory.told.exceeded_at
        assert since is not None, "only beyond the quota"
        action = memory.spec.enforcement.action
        if action == "AlertOnly":
            return last is None or last < since
        memory.enforced_at = now
        begun = seconds(since) + memory.spec.enforcement.grace_period_seconds
        by = back_by(memory.account.rolls, begun, seen.now)
        told_before = by - back_within(memory.account.rolls)  # what was told to stop before had its chance
        memory.blocked = {uid: again for uid, again in memory.blocked.items() if uid in memory.pods}
        passed = {uid for uid, again in memory.blocked.items() if again > now}
        self._told_to_go = {uid: at for uid, at in self._told_to_go.items() if now < at + SHOWN_WITHIN}
        if action == "Pause":
            return await self._pause(record, memory, seen.now, by=by, since=told_before, blocked=passed)
        passed |= {uid for uid, pod in memory.pods.items() if (memory.evicted.not_before(pod) or now) > now}
        acted = False
        chosen = victims(
            memory.pods,
            memory.account,
            memory.limits,
            seen.now,
            by=by,
            passed=passed,
            stopping=self._told_to_go,
            grace=memory.spec.enforcement.pod_grace_period_seconds,
            since=told_before,
        )
        for victim in chosen:
            for pod in victim.pods:
                acted = await self._evict(record, memory, pod, now) or acted
        return acted

    def report(self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory) -> None:
        if memory.spec.enforcement.action == "AlertOnly":
            message = "The quota is used up. No pod is stopped: the action is AlertOnly"
            self._journal.note(BudgetNoted(budget_subject(record), "QuotaExceeded", message, warning=True))

    async def _pause(
        self,
        record: KubeObject[GPUWorkloadBudget],
        memory: BudgetMemory,
        now: int,
        *,
        by: int,
        since: int,
        blocked: set[bytes],
    ) -> bool:
        passed = blocked | self._pauser.passed(memory, since)
        stopping = self._pauser.stopping(memory, since) | (self._told_to_go.keys() & memory.pods.keys())
        acted = False
        chosen = victims(memory.pods, memory.account, memory.limits, now, by=by, passed=passed, stopping=stopping)
        for victim in chosen:
            acted = await self._pauser.pause(record, memory, victim, self._clock.now()) or acted
        return acted

    async def _evict(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, pod: Pod, now: datetime
    ) -> bool:
        grace = memory.spec.enforcement.pod_grace_period_seconds
        if grace is None and pod.deleting:  # with more time than its own, which only a stated grace shortens
            grace = pod.grace_seconds
        if static(pod):
            return self._passed_over(
                record, memory, pod, now, f"a static pod: remove its manifest from Node {pod.node}"
            )
        if short_uid(pod) in self._told_to_go:  # by another budget, meanwhile
            return False
        self._told_to_go[short_uid(pod)] = now
        evicted = False
        try:
            await self._cluster.evict(
                pod.key, uid=uid_text(pod.uid), grace=None if grace is None else timedelta(seconds=grace)
            )
            evicted = True
        except (Blocked, Refused, Forbidden) as error:
            why = "a PodDisruptionBudget protects it" if isinstance(error, Blocked) else str(error)
            return self._passed_over(record, memory, pod, now, why)
        finally:
            if not evicted:
                self._told_to_go.pop(short_uid(pod), None)
        memory.blocked.pop(short_uid(pod), None)
        memory.evicted.evicted(pod, now)
        self._tell(record, pod, "Evicted", "was evicted")
        return True

    def _passed_over(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, pod: Pod, now: datetime, why: str
    ) -> bool:
        """The next in order go instead; nothing was done."""
        if short_uid(pod) not in memory.blocked:
            self._tell(record, pod, "EvictionBlocked", f"was not evicted ({why})")
        memory.blocked[short_uid(pod)] = now + ASKED_AGAIN
        return False

    def _tell(self, record: KubeObject[GPUWorkloadBudget], pod: Pod, outcome: str, what: str) -> None:
        """On the pod, and on its budget."""
        about = FactSubject(POD, pod.key, uid_text(pod.uid))
        told = f"Pod {what}: budget {record.key.name} is used up"
        self._journal.note(PodEnforced(about, record.key, "Evict", outcome, told))
        message = f"Pod {pod.key.name} {what}: the quota is used up"
        self._journal.note(BudgetNoted(budget_subject(record), outcome, message, warning=True))


def _due_at(memory: BudgetMemory, now: datetime) -> datetime | None:
    """When its grace period is over; None: the quota is not used up. That may be true and not be written yet."""
    since = memory.told.exceeded_at
    if since is None and assess(memory.limits, memory.account, seconds(now), exceeded=False).exceeded:
        since = now
    return None if since is None else since + timedelta(seconds=memory.spec.enforcement.grace_period_seconds)


def budget_subject(record: KubeObject[GPUWorkloadBudget]) -> FactSubject:
    return FactSubject(GPU_WORKLOAD_BUDGET, record.key, record.uid_text)
