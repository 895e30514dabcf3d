"""GPUWorkloadBudgets: what pods used is kept in the status; beyond the quota they are acted on, once each."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs, to_builtins

from tgp.adapters.kube.event_channel import EventChannel
from tgp.api.budget import WINDOW_HOURS_MAX, GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.api.values import rfc3339
from tgp.controllers.budgets.admission import PolicyCheck, set_label
from tgp.controllers.budgets.archive import AccountArchive
from tgp.controllers.budgets.enforcer import BudgetEnforcer, budget_subject
from tgp.controllers.budgets.gated_pods import GatedPods
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.budgets.pauser import Pauser
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.status_writer import StatusWriter
from tgp.core.budgets.account import HOUR, USED
from tgp.core.budgets.admission import closed
from tgp.core.budgets.archive import ACCOUNT_FINALIZER, KeptAccount, kept, kept_until
from tgp.core.budgets.assess import Assessment, assess, hours_text
from tgp.core.budgets.ended import largest
from tgp.core.budgets.packing import NewerAccount, packed_to_fit
from tgp.core.budgets.pause import unpaused_text
from tgp.core.budgets.quota import limits_of, spec_problem, window_of
from tgp.core.budgets.reset import reset_asked
from tgp.core.budgets.spans import seconds
from tgp.core.budgets.status import (
    ACCOUNT_LOST,
    DEGRADED,
    GATHERED,
    IDLE_AFTER,
    READY,
    Told,
    Trouble,
    alert_text,
    conditions,
    inherited_text,
    look_again,
    pace_of,
    parts,
    raised,
    unpriced_text,
    worth_writing,
)
from tgp.core.budgets.victims import NextAct, back_by, next_act, run_on, run_on_text
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.facts import AlertRaised, BudgetNoted
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Forbidden, NotFound, View
from tgp.ports.journal import Journal

STALE_AFTER = 300.0  # seconds without a word of the API server about pods
ITS_TURN = timedelta(seconds=1)  # after a look at whether a stricter budget has acted
EMPTY_AGAIN = timedelta(seconds=30)  # after lists without any pod
NEWER = (
    "A newer version of the operator wrote this account: this version does not change it, and enforces nothing. "
    "Next: update the operator."
)
CLAIMS = (
    "{} devices by ResourceClaims (DRA): their GPUs are not counted. To count them, request the GPUs as a resource."
)
FULL = (
    "Too many running pods: the {} smallest are tracked together. If one ends while the operator is down, it counts "
    "until the operator runs again. Next: split the budget."
)
STALE = "No pod updates from the API server; every pod counts as running until updates return."
BLOCKED = "Pods that should be {0} cannot be {0} now: {1}. Their Events say why. They are tried again every minute."
LOST = "The account was missing or could not be read. It was rebuilt from the pods that exist: real use may be higher."


class BudgetReconciler:
    def __init__(
        self,
        budgets: View[KubeObject[GPUWorkloadBudget]],
        tracker: BudgetTracker,
        status_writer: StatusWriter,
        archive: AccountArchive,
        pauser: Pauser,
        *,
        spend_log: SpendLog,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        silent_for: Callable[[], float],
        list_pods_and_nodes: Callable[[], Awaitable[None]],
        list_budgets: Callable[[], Awaitable[None]],
        counted: EventChannel,
        gated: GatedPods,
        policies: PolicyCheck,
        namespace: str,  # the operator's
    ) -> None:
        self._budgets = budgets
        self._tracker = tracker
        self._status_writer = status_writer
        self._archive = archive
        self._spend_log = spend_log
        self._machine_ends_read = False
        self._pauser = pauser
        self._enforcer = BudgetEnforcer(pauser, tracker, cluster=cluster, journal=journal, clock=clock)
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._silent_for = silent_for
        self._list_pods_and_nodes = list_pods_and_nodes
        self._list_budgets = list_budgets
        self._counted = counted
        self._gated = gated
        self._policies = policies
        self._namespace = namespace

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._budgets.get(key)
        if record is None and self._tracker.held(key) is not None:
            await self._list_budgets()
            record = self._budgets.get(key)
        if record is None:
            await self._keep(key, self._tracker.held(key))
            self._tracker.forget(key)
            return None
        if record.deleting and ACCOUNT_FINALIZER not in record.finalizers:
            return None
        if not record.deleting and ACCOUNT_FINALIZER not in record.finalizers:
            await self._finalize(record, (*record.finalizers, ACCOUNT_FINALIZER))
            return self._clock.now()  # by the next reconcile, which sees this write
        if record.value is None:
            await self._leave_unread(record)
            return None
        problem = spec_problem(record.value.spec, key.namespace, self._namespace)
        if not record.deleting and await set_label(self._cluster, record, counts=problem is None):
            return self._clock.now()  # by the next reconcile, which sees this write
        if problem is not None:
            self._ignore(record, newer=False)
            await self._leave_alone(record, record.value, *problem)
            return None
        try:
            memory = await self._memory_of(record, record.value)
        except NewerAccount:
            self._ignore(record, newer=True)
            await self._leave_alone(record, record.value, "NewerAccount", NEWER)
            return None
        asked_again = await self._policies.look(record.value.spec)
        now = self._clock.now()
        if memory is None or not self._tracker.close_missing(memory):
            return now + EMPTY_AGAIN
        if record.deleting:
            await self._keep(key, memory)
            await self._leave(record)
            return None
        restored = bool(memory.written) and _edited(record.value, memory)
        if memory.changed_at is not None and now < memory.changed_at + GATHERED and not restored:
            return memory.changed_at + GATHERED
        memory.limits = limits_of(memory.spec, seconds(now))
        self._reset(record, memory, now)
        seen = assess(memory.limits, memory.account, seconds(now), exceeded=memory.told.exceeded_at is not None)
        if not seen.exceeded:
            memory.forget_enforcement()
        saying = self._saying(record, memory, seen, now)
        changed = memory.changed_at is not None or restored
        pace = pace_of(self._tracker.busy)
        if worth_writing(memory.told, saying, memory.limits, seen, changed=changed, pace=pace):
            await self._write(record, memory, seen, saying)
            if restored:
                message = "Another client changed or removed the account or the result in the status: it is restored"
                self._journal.note(BudgetNoted(budget_subject(record), "AccountRestored", message, warning=True))
            if self._enforcer.due(memory, now):
                return now  # by the next reconcile, which sees this write
        elif (
            self._enforcer.due(memory, now)
            and not self._enforcer.waits(memory, now)
            and await self._enforcer.enforce(record, memory, seen, now)
        ):
            # Meanwhile pods may be gone.
            seen = assess(memory.limits, memory.account, seconds(self._clock.now()), exceeded=True)
            saying = self._saying(record, memory, seen, now)
            await self._write(record, memory, seen, saying, {"lastEnforcementAt": rfc3339(now)})
            self._enforcer.report(record, memory)
        return _earliest(self._next_look(record, memory, seen, now), asked_again)

    async def _memory_of(self, record: KubeObject[GPUWorkloadBudget], budget: GPUWorkloadBudget) -> BudgetMemory | None:
        """None: pods of the account are not shown, and no list is believed. Raises NewerAccount."""
        new = self._tracker.held(record.key, record.uid_text) is None
        if new and not self._machine_ends_read:
            with suppress(Forbidden):
                await self._spend_log.recent(self._clock.now())
            self._machine_ends_read = True
        before = await self._archive.find(record.key, budget.spec.gpu_resource_name) if new else None
        memory = self._tracker.memory_of(record, budget, before, listed_again=False)
        if memory is None or memory.missing:  # what one list does not show may be there: ask for another
            await self._list_pods_and_nodes()
            memory = self._tracker.memory_of(record, budget, before, listed_again=True)
        if memory is not None:
            await self._pauser.look(memory)
        return memory

    # -- its end -------------------------------------------------------------------------------------------------------

    async def _leave(self, record: KubeObject[GPUWorkloadBudget]) -> None:
        """Once its account is kept."""
        await self._finalize(record, tuple(each for each in record.finalizers if each != ACCOUNT_FINALIZER))

    async def _keep(self, key: ObjectKey, memory: BudgetMemory | None) -> None:
        if memory is None or memory.archived:
            return
        now = self._clock.now()
        told, memory.account.version = memory.told, self._tracker.version
        account = kept(memory.account, memory.spec.gpu_resource_name, seconds(now), told.exceeded_at, told.alerted)
        await self._archive.keep(key, memory.uid, account, now)
        memory.archived = True
        for namespace in memory.namespaces:
            self._counted.send(namespace)

    async def _finalize(self, record: KubeObject[GPUWorkloadBudget], finalizers: tuple[str, ...]) -> None:
        change = {"metadata": {"finalizers": list(finalizers)}}
        version = str(record.resource_version)
        with suppress(NotFound):  # already deleted
            await self._cluster.patch(
                GPU_WORKLOAD_BUDGET, record.key, change, resource_version=version, uid=record.uid_text
            )

    def _reset(self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, now: datetime) -> None:
        """Begin again where a person asked for it, once."""
        asked = reset_asked(record.annotations, memory.reset_at, now, memory.account.reset_at)
        if asked is None:
            return
        used = hours_text(memory.account.used(USED, seconds(now)))
        memory.account.reset(seconds(now))
        memory.lost_until = None
        memory.largest, memory.reset_at, memory.changed_at = (), asked.at, memory.changed_at or now - GATHERED
        message = f"{asked.who} reset the account at {rfc3339(asked.at)}: {used} GPU-hours no longer count"
        self._journal.note(BudgetNoted(budget_subject(record), "AccountReset", message, warning=True))

    # -- what is told --------------------------------------------------------------------------------------------------

    def _saying(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> Told:
        before = memory.told
        return Told(
            seen.now,
            seen.used,
            (before.exceeded_at or now.replace(microsecond=0)) if seen.exceeded else None,
            raised(memory.spec, memory.limits, memory.account, seen, before.alerted),
            record.generation,
            self._trouble(memory),
            self._pauser.paused(memory),
            len(self._gated.of_budget(record.key, memory.spec)),
            not (memory.tracked or seen.used) and now >= _idle_from(record, now),
            hours_text(seen.quota),
            sum(uid in memory.pods for uid in memory.blocked) if memory.stops_pods else 0,
            seen.usd_quota is not None and seen.unpriced > 0,
        )

    def _trouble(self, memory: BudgetMemory) -> Trouble | None:
        """The first that holds gives the reason; the message tells of all."""
        troubles = list(self._troubles(memory))
        if not troubles:
            return None
        more = (f"{each.reason}: {each.message}" for each in troubles[1:])
        return structs.replace(troubles[0], message=" ".join((troubles[0].message, *more)))

    def _troubles(self, memory: BudgetMemory) -> Iterator[Trouble]:
        if memory.lost_until is not None and self._clock.now() < memory.lost_until:
            yield Trouble(ACCOUNT_LOST, LOST)
        if self._silent_for() > STALE_AFTER:
            yield Trouble("CacheStale", STALE)
        if memory.blocked:
            names = ", ".join(sorted(memory.pods[uid].key.name for uid in memory.blocked if uid in memory.pods))
            if names and memory.stops_pods:
                paused = memory.spec.enforcement.action == "Pause"
                done = "paused" if paused else "evicted"
                yield Trouble("PauseBlocked" if paused else "EvictionBlocked", BLOCKED.format(done, names))
        if memory.spec.enforcement.action == "Evict" and memory.closed and (running := self._run_on(memory)):
            yield Trouble("EvictedPodsRun", running)
        if memory.closed and (owners := memory.evicted.told()):
            yield Trouble("OwnerRecreates", owners)
        if running := unpaused_text(self._pauser.unpaused(memory)):
            yield Trouble("PauseUnavailable", running)
        if (trouble := self._policies.trouble(memory.spec)) is not None:
            yield trouble
        if memory.as_one:
            yield Trouble("AccountFull", FULL.format(memory.as_one))
        if memory.claiming:
            pods = len(memory.claiming)
            yield Trouble("ClaimsNotCounted", CLAIMS.format(f"{pods} pod uses" if pods == 1 else f"{pods} pods use"))

    def _run_on(self, memory: BudgetMemory) -> str:
        return run_on_text(run_on(memory.pods.values(), seconds(self._clock.now())))

    async def _write(
        self,
        record: KubeObject[GPUWorkloadBudget],
        memory: BudgetMemory,
        seen: Assessment,
        saying: Told,
        more: dict[str, Any] | None = None,
    ) -> None:
        """One conditional write of everything. Until it succeeds the spans stay to be written."""
        memory.account.version = self._tracker.version
        memory.account.advance(seen.now - int(min(self._silent_for(), seen.now)))  # all changes until then are in it
        closed = set(memory.unwritten)
        account, memory.as_one = packed_to_fit(memory.account)
        said = {
            **parts(memory.spec, seen, saying, account),
            "trackedPods": memory.tracked,
            "largest": to_builtins(largest(memory.largest, memory.account.begins(seen.now))) or None,
            "resetAt": rfc3339(memory.reset_at) if memory.reset_at is not None else None,
            **(more or {}),
        }
        updates = conditions(memory.spec, seen, saying, _next_act(memory, seen, saying))
        waiting, memory.changed_at = memory.changed_at, None  # what changes from here on is for the next write
        written = False
        try:
            await self._status_writer.write(record, updates, said)
            written = True
        finally:
            if not written:
                memory.changed_at = waiting or memory.changed_at
        new = [name for name in saying.alerted if name not in memory.told.alerted]
        unpriced = saying.unpriced and not memory.told.unpriced
        memory.told, memory.written = saying, account
        memory.unwritten -= closed
        for namespace in memory.namespaces:
            self._counted.send(namespace)
        for name in new:
            self._journal.note(AlertRaised(budget_subject(record), name, alert_text(name, seen)))
        if unpriced:
            self._journal.note(BudgetNoted(budget_subject(record), "PriceMissing", unpriced_text(seen), warning=True))
        if memory.kept is not None:
            if seen.used:
                message = inherited_text(memory.spec, seen, memory.kept.at)
                self._journal.note(BudgetNoted(budget_subject(record), "Inherited", message))
            memory.kept = None
            await self._archive.drop(record.key, memory.spec.gpu_resource_name)

    def _ignore(self, record: KubeObject[GPUWorkloadBudget], *, newer: bool) -> None:
        """What others hold in its namespace need not wait for it."""
        if not self._tracker.settled(record.key, record.uid_text) or self._tracker.held(record.key) is not None:
            self._tracker.leave_alone(record.key, record.uid_text, newer=newer)
            self._counted.send(record.key.namespace)

    async def _leave_alone(
        self, record: KubeObject[GPUWorkloadBudget], budget: GPUWorkloadBudget, reason: str, why: str
    ) -> None:
        if record.deleting:  # kept as it is, for a version that can read it
            spec = budget.spec
            await self._keep_text(record, spec.gpu_resource_name, window_of(spec.quota), budget.status.account or "")
            await self._leave(record)
            return
        await self._status_writer.write(
            record, [ConditionUpdate(READY, False, reason, why), ConditionUpdate(DEGRADED, True, reason, why)]
        )

    async def _leave_unread(self, record: KubeObject[GPUWorkloadBudget]) -> None:
        """A newer version has written its spec. Once it is deleted its account is kept, as every version has it."""
        self._ignore(record, newer=True)
        if not record.deleting:
            return
        try:
            spec = (await self._cluster.read(GPU_WORKLOAD_BUDGET, record.key)).get("spec") or {}
        except NotFound:
            return
        resource, quota, account = spec.get("gpuResourceName"), spec.get("quota"), record.status.get("account")
        hours = quota.get("windowHours") if isinstance(quota, dict) else None
        window = hours * HOUR if isinstance(hours, int) and 0 < hours <= WINDOW_HOURS_MAX else 0
        if isinstance(resource, str) and isinstance(account, str):
            await self._keep_text(record, resource, window, account)
        await self._leave(record)

    async def _keep_text(self, record: KubeObject[GPUWorkloadBudget], resource: str, window: int, text: str) -> None:
        """As the status has it. One that never counted leaves what one before it used."""
        if text:
            now = self._clock.now()
            account = KeptAccount(resource, seconds(now), kept_until(window, seconds(now)), text)
            await self._archive.keep(record.key, record.uid_text, account, now)

    def _next_look(
        self, record: KubeObject[GPUWorkloadBudget], memory: BudgetMemory, seen: Assessment, now: datetime
    ) -> datetime | None:
        pace = pace_of(self._tracker.busy)
        again = look_again(memory.spec, memory.limits, memory.account, seen, memory.told, pace=pace)
        moments = [now + timedelta(seconds=again - seen.now)] if again is not None else []
        if not memory.tracked and now < _idle_from(record, now):
            moments.append(_idle_from(record, now))
        if memory.told.exceeded_at is not None:
            due = memory.told.exceeded_at + timedelta(seconds=memory.spec.enforcement.grace_period_seconds)
            moments.append(due if due > now else _back_at(memory, seen, due))
            moments += memory.blocked.values()
            moments += [now + ITS_TURN] if self._enforcer.waits(memory, now) else []
            again_at = (memory.evicted.not_before(pod) for pod in memory.pods.values())
            moments += [each for each in again_at if each is not None and each > now]
        moments += [memory.lost_until] if memory.lost_until is not None and memory.lost_until > now else []
        if self._trouble(memory) != memory.told.trouble:
            moments.append(now)
        return min(moments, default=None)


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((each for each in moments if each is not None), default=None)


def _next_act(memory: BudgetMemory, seen: Assessment, saying: Told) -> NextAct | None:
    reached_at = seconds(saying.exceeded_at) if saying.exceeded_at is not None else seen.exhausted_at
    if reached_at is None:
        return None
    rules = memory.spec.enforcement
    return next_act(memory.pods, memory.account, memory.limits, rules, seen.now, reached_at=reached_at)


def _edited(budget: GPUWorkloadBudget, memory: BudgetMemory) -> bool:
    """Whether others have changed what was counted, or the verdict by which new pods are admitted."""
    status, told = budget.status, memory.told
    return status.account != memory.written or closed(budget) != memory.closed or status.exceeded_at != told.exceeded_at


def _idle_from(record: KubeObject[GPUWorkloadBudget], now: datetime) -> datetime:
    """When a budget that no pod has matched says so."""
    return (record.created_at or now) + IDLE_AFTER


def _back_at(memory: BudgetMemory, seen: Assessment, begun: datetime) -> datetime:
    return begun + timedelta(seconds=back_by(memory.account.rolls, seconds(begun), seen.now) - seconds(begun))
