"""The accounts in memory: each is a copy of its budget's status, and ahead of it by the spans not written yet.

Pods and Nodes are heard of event by event, because the moment at which a change arrives bounds what a kubelet says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from tgp.adapters.kube.store import Store
from tgp.api.budget import EndedPod, GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.api.common import LabelSelector
from tgp.controllers.requests.indexes import PODS_BY_NODE
from tgp.core.budgets.account import USED, BudgetAccount, take_up
from tgp.core.budgets.archive import KeptAccount, inherited
from tgp.core.budgets.assess import Limits
from tgp.core.budgets.belonging import covers, selector_of
from tgp.core.budgets.ended import ended_pod, largest
from tgp.core.budgets.packing import NotAnAccount, unpack
from tgp.core.budgets.pause import PAUSED_AT
from tgp.core.budgets.quota import counted_by, fresh_account, limits_of
from tgp.core.budgets.recreation import OwnerEvictions
from tgp.core.budgets.spans import (
    Sighting,
    counts,
    seconds,
    short_uid,
    sight,
    sight_gone,
    sight_in_list,
    silent_since,
)
from tgp.core.budgets.status import DEGRADED, NOTHING_MATCHES, READY, Told
from tgp.core.budgets.weights import Weights, model_of, weights_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.labels import Selector
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.workload import Job, Namespace
from tgp.ports.clock import Clock

EVERY = ""
STOPPING = ("Evict", "Pause")  # actions that stop pods
PLAIN = ("cpu", "memory")  # resources that no device claim stands for
EMPTY_BELIEVED_AFTER = 3600.0  # seconds for which no list has shown any pod


@dataclass(slots=True, eq=False)
class BudgetMemory:
    key: ObjectKey
    uid: str
    generation: int
    spec: GPUWorkloadBudgetSpec
    selector: Selector
    weights: Weights
    limits: Limits
    account: BudgetAccount
    written: str  # the account as the status holds it
    told: Told
    lost: bool = False  # the account could not be read, and was made again from what is there
    kept: KeptAccount | None = None  # of a deleted budget of this name, to be dropped once it is in our own account
    archived: bool = False  # the budget is being deleted, and its account is kept
    pods: dict[bytes, Pod] = field(default_factory=dict)  # the open ones
    finished: set[bytes] = field(default_factory=set)  # those that count no longer, and are still there
    changed_at: datetime | None = None  # since when spans wait to be written
    # A list did not show them: closed if pods are shown.
    missing: dict[bytes, tuple[Pod, Sighting]] = field(default_factory=dict)
    unwritten: set[bytes] = field(default_factory=set)  # closed since the last write of the account
    claiming: set[bytes] = field(default_factory=set)  # pods whose devices no request shows
    evicted: OwnerEvictions = field(default_factory=OwnerEvictions)
    blocked: dict[bytes, datetime] = field(default_factory=dict)  # evictions to be asked for again then
    covers: Callable[[str], bool] = lambda _namespace: True  # whether pods of this namespace may belong to it
    largest: tuple[EndedPod, ...] = ()
    reset_at: datetime | None = None  # what was asked for last, and done

    @property
    def namespaces(self) -> set[str]:
        """Where pods of it are, and its own."""
        return {self.key.namespace, *(pod.key.namespace for pod in self.pods.values())}

    @property
    def tracked(self) -> int:
        return len(self.account.open) + len(self.finished)

    @property
    def stops_pods(self) -> bool:
        return self.spec.enforcement.action in STOPPING and not self.archived

    @property
    def holds_pods(self) -> bool:
        """Pods stay until their span is written."""
        return self.spec.accounting == "Exact" and not self.archived

    @property
    def closed(self) -> bool:
        """It is used up, and that is written."""
        return self.told.exceeded_at is not None

    def claims(self, pod: Pod) -> bool:
        """Whether it is of this budget, and its devices are not counted: they stand in claims, not in requests."""
        asks = self.spec.gpu_resource_name in PLAIN or self.weights.units(pod.requests)
        unseen = pod.claims_devices and not asks
        return unseen and not pod.finished and self.belongs(pod)

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.selector.selects(labels)

    def runs(self, uid: bytes) -> bool:
        """Whether the account counts it from second to second."""
        return uid in self.account.open and self.account.open[uid].start is not None

    def belongs(self, pod: Pod) -> bool:
        return self.covers(pod.key.namespace) and self.selects(pod.labels)

    def see(self, pod: Pod, seen: Sighting, now: int, since: int | None = None) -> bool:
        """Whether that opened, cut or closed a span; if it closed one, what the pod used is kept by its name."""
        held = self.account.open.get(seen.uid)
        changed = self.account.see(seen, now, since)
        name = str(pod.key) if self.spec.namespace_selector is not None else pod.key.name
        if changed and (row := ended_pod(name, held, seen)) is not None:
            self.largest = largest((*self.largest, row), self.account.begins(now))
        return changed


class BudgetTracker:
    """`silent_for`: seconds since the pods' view was last confirmed. `watched_until`: of the leader before us."""

    def __init__(
        self,
        pods: Store[Pod],
        nodes: Store[Node],
        namespaces: Store[Namespace],
        clock: Clock,
        *,
        silent_for: Callable[[], float],
        watched_until: Callable[[], datetime | None],
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._namespaces = namespaces
        self._clock = clock
        self._silent_for = silent_for
        self._watched_until = watched_until
        self._budgets: dict[str, dict[ObjectKey, BudgetMemory]] = {}  # by namespace; EVERY: those over several
        self._empty_since: float | None = None  # boot time; None: pods are shown

    @property
    def version(self) -> int:
        """Every change of a pod up to this one is in the accounts."""
        return self._pods.version

    def memories(self) -> Iterator[tuple[ObjectKey, BudgetMemory]]:
        for budgets in self._budgets.values():
            yield from budgets.items()

    def over(self, namespace: str) -> list[BudgetMemory]:
        """Of the budgets that pods of this namespace may belong to."""
        return list(self._of(namespace).values())

    def accounts(self) -> Iterator[tuple[ObjectKey, BudgetAccount]]:
        for key, memory in self.memories():
            yield key, memory.account

    def forget(self, key: ObjectKey) -> None:
        for namespace in (key.namespace, EVERY):
            self._budgets.get(namespace, {}).pop(key, None)

    def _of(self, namespace: str) -> dict[ObjectKey, BudgetMemory]:
        """The budgets to which pods of this namespace may belong."""
        own, every = self._budgets.get(namespace, {}), self._budgets.get(EVERY)
        return {**own, **every} if every else own

    def start_over(self) -> None:
        """The API server's history went back: versions of pods mean nothing any more."""
        for _, memory in self.memories():
            memory.account.version = 0

    # -- budgets -------------------------------------------------------------------------------------------------------

    def held(self, key: ObjectKey, uid: str = "") -> BudgetMemory | None:
        """The memory of this budget; None: it has none yet."""
        memory = self._of(key.namespace).get(key)
        return memory if memory is not None and uid in ("", memory.uid) else None

    def memory_of(
        self,
        record: KubeObject[GPUWorkloadBudget],
        budget: GPUWorkloadBudget,
        kept: KeptAccount | None = None,
        *,
        listed_again: bool,
    ) -> BudgetMemory | None:
        """None: pods of the account are not shown, and another list has to confirm that. `kept`: of its name.

        Raises NewerAccount if a newer version of the operator counts here.
        """
        home = record.key.namespace if budget.spec.namespace_selector is None else EVERY
        held = self._budgets.get(home, {}).get(record.key)
        if held is None or held.uid != record.uid_text:
            taken = self._taken_up(record, budget, kept, listed_again=listed_again)
            if taken is None:
                return None
            held = taken
            self.forget(record.key)
            self._budgets.setdefault(home, {})[record.key] = held
        elif held.generation != record.generation:
            self._respecify(held, record, budget.spec)
        return held

    def _taken_up(
        self,
        record: KubeObject[GPUWorkloadBudget],
        budget: GPUWorkloadBudget,
        kept: KeptAccount | None,
        *,
        listed_again: bool,
    ) -> BudgetMemory | None:
        now, spec, status = self._clock.now(), budget.spec, budget.status
        made_at = seconds(record.created_at or now)
        lost = False
        try:
            account = unpack(status.account) if status.account else fresh_account(spec.quota, made_at)
        except NotAnAccount:
            account, lost = fresh_account(spec.quota, made_at), True
        told = _told(budget, account)
        known_since = account.at if status.account and not lost else 0
        before = inherited(kept, spec.gpu_resource_name, known_since, made_at)
        if before is not None and kept is not None:
            account, lost = before, False
            told = Told(exceeded_at=kept.exceeded_at, alerted=kept.alerted)
        account = counted_by(account, spec.quota)
        if account.version > self._pods.version:
            account.version = 0  # of another history
        memory = BudgetMemory(
            record.key,
            record.uid_text,
            record.generation,
            spec,
            selector_of(spec.selector),
            weights_of(spec),
            limits_of(spec, seconds(now)),
            account,
            status.account or "",
            told,
            lost,
            kept if before is not None else None,
            covers=self._covers(record.key.namespace, spec.namespace_selector),
            largest=status.largest,
            reset_at=status.reset_at,
        )
        known = set(account.open) | set(account.ended)
        pods = {
            short_uid(pod): pod
            for pod in self._pods.values()
            if (spec.namespace_selector is not None or memory.covers(pod.key.namespace))
            and counts(pod, memory.weights)
            and (memory.belongs(pod) or short_uid(pod) in known)
        }
        if not pods.keys() >= account.open.keys() and (not listed_again or self._shows_nothing()):
            return None
        watched = self._watched_until()
        written = account.at
        changed = take_up(
            account,
            list(self._listed(memory, pods, seconds(now))),
            seconds(now),
            alive_until=max(written, seconds(watched)) if watched is not None else written,
            seen={uid: pod.resource_version for uid, pod in pods.items()},
        )
        memory.pods = {uid: pod for uid, pod in pods.items() if uid in account.open}
        memory.finished = {uid for uid, pod in pods.items() if pod.over}
        memory.unwritten = set(memory.finished) if changed else set()
        memory.claiming = {short_uid(pod) for pod in self._pods.values() if memory.claims(pod)}
        memory.changed_at = now if changed or lost or before is not None or not status.account else None
        return memory

    def _listed(self, memory: BudgetMemory, pods: dict[bytes, Pod], now: int) -> Iterator[Sighting]:
        for uid, pod in pods.items():
            node = self._nodes.get(ObjectKey("", pod.node))
            seen = sight_in_list(pod, memory.weights, now, node)
            if node is not None or seen.end is not None:
                yield seen
            elif uid in memory.account.open:  # nothing runs on a Node that is gone
                yield msgspec.structs.replace(seen, end=now, sure_until=memory.account.open[uid].sure_until)

    def _respecify(
        self, memory: BudgetMemory, record: KubeObject[GPUWorkloadBudget], spec: GPUWorkloadBudgetSpec
    ) -> None:
        """A changed spec holds at once for what runs; hours already used stay."""
        now = self._clock.now()
        memory.generation, memory.spec = record.generation, spec
        memory.selector, memory.weights, memory.limits = (
            selector_of(spec.selector),
            weights_of(spec),
            limits_of(spec, seconds(now)),
        )
        memory.covers = self._covers(record.key.namespace, spec.namespace_selector)
        memory.account = counted_by(memory.account, spec.quota)
        memory.claiming = {short_uid(pod) for pod in self._pods.values() if memory.claims(pod)}
        for pod in self._pods.values():
            if memory.covers(pod.key.namespace) and not pod.finished and counts(pod, memory.weights):
                self._see(memory, pod, now, since=seconds(now))
        memory.changed_at = memory.changed_at or now

    def _covers(self, home: str, several: LabelSelector | None) -> Callable[[str], bool]:
        wanted = selector_of(several) if several is not None else None

        def of(namespace: str) -> bool:
            found = self._namespaces.get(ObjectKey("", namespace))
            return covers(home, wanted, namespace, found.labels if found is not None else None)

        return of

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterable[ObjectKey]:
        """Budgets over several namespaces, to which this one's pods belong by an edit of its labels."""
        if new is None or (old is not None and old.labels == new.labels):
            return ()
        now = self._clock.now()
        since = seconds(now) if old is not None else None
        woken: dict[ObjectKey, None] = {}
        for key, memory in self._budgets.get(EVERY, {}).items():
            there = [pod for pod in self._pods.values() if pod.key.namespace == new.key.name and not pod.finished]
            for pod in there if memory.covers(new.key.name) else ():
                if counts(pod, memory.weights) and self._see(memory, pod, now, since=since):
                    woken[key] = None
        return woken

    # -- pods ----------------------------------------------------------------------------------------------------------

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        """The budgets in whose accounts this opens or closes something."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        budgets = self._of(changed.key.namespace)
        if not budgets:
            return ()
        now = self._clock.now()
        remarked = (
            old is not None and new is not None and (PAUSED_AT in old.annotations) != (PAUSED_AT in new.annotations)
        )
        woken = [key for key, memory in budgets.items() if self._note(memory, old, new, now) or remarked]
        if changed.claims_devices:
            woken += [key for key, memory in budgets.items() if _claim(memory, changed, gone=new is None)]
        return woken

    def of_job(self, old: Job | None, new: Job | None) -> Iterable[ObjectKey]:
        """The budgets that show how many pods are paused."""
        marked = [each for each in (old, new) if each is not None and PAUSED_AT in each.annotations]
        return list(self._budgets.get(marked[0].key.namespace, ())) if marked else ()

    def _note(self, memory: BudgetMemory, old: Pod | None, new: Pod | None, now: datetime) -> bool:
        if new is None:
            assert old is not None, "what is gone was there"
            return self._gone(memory, old, now)
        if not counts(new, memory.weights):
            return False
        if old is not None and old.over and short_uid(new) not in memory.account.open:
            return False
        # A pod that was there, and did not count, came by an edit of its labels.
        edited = old is not None and counts(old, memory.weights) and not memory.belongs(old)
        return self._see(memory, new, now, since=seconds(now) if edited else None)

    def _see(self, memory: BudgetMemory, pod: Pod, now: datetime, *, since: int | None = None) -> bool:
        uid, node = short_uid(pod), self._nodes.get(ObjectKey("", pod.node))
        known = uid in memory.account.open
        if not known and (uid in memory.finished or not memory.belongs(pod)):
            return False
        if node is None and not known:
            return False  # its Node is gone, or will be shown soon
        silent = int(min(self._silent_for(), 1e9))
        memory.missing.pop(uid, None)
        seen = sight(pod, memory.weights, seconds(now), silent, node)
        changed = memory.see(pod, seen, seconds(now), since)
        if uid in memory.account.open:
            memory.pods[uid] = pod
        else:
            memory.pods.pop(uid, None)
            memory.finished.add(uid)
            if changed:
                memory.unwritten.add(uid)
        if changed:
            memory.changed_at = memory.changed_at or now
        return changed

    def _gone(self, memory: BudgetMemory, last: Pod, now: datetime) -> bool:
        uid = short_uid(last)
        known = memory.pods.pop(uid, None)
        if uid in memory.finished:
            memory.finished.discard(uid)
        elif uid in memory.account.open:
            # The removal itself came with a later state. A list without it tells only that it went since the last one.
            unheard = int(min(self._silent_for(), 1e9)) if known is last else None
            sure = seconds(now) - unheard if unheard is not None else None
            gone = sight_gone(last, memory.weights, seconds(now), self._sure(last, sure))
            if sure is None:
                memory.see(last, gone, seconds(now))
            else:
                gone = gone if gone.start is not None else msgspec.structs.replace(gone, start=sure)
                memory.missing[uid] = last, gone
        else:
            return False
        memory.changed_at = memory.changed_at or now
        return True

    def close_missing(self, memory: BudgetMemory) -> bool:
        """Close what a second list does not show either; whether that was believed."""
        if memory.missing and self._shows_nothing():
            return False
        for last, gone in memory.missing.values():
            memory.see(last, gone, seconds(self._clock.now()))
        memory.missing.clear()
        return True

    def _shows_nothing(self) -> bool:
        """A list without any pod proves nothing, unless it stays so: a cluster may really have none."""
        if len(self._pods):
            self._empty_since = None
            return False
        if self._empty_since is None:
            self._empty_since = self._clock.boottime()
        return self._clock.boottime() - self._empty_since < EMPTY_BELIEVED_AFTER

    def _sure(self, pod: Pod, until: int | None) -> int | None:
        silent = silent_since(self._nodes.get(ObjectKey("", pod.node)))
        known = [each for each in (until, silent) if each is not None]
        return min(known) if known else None

    # -- Nodes ---------------------------------------------------------------------------------------------------------

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        """Budgets whose pods run there: the Node falls silent, reports again, has another price, or is gone."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and _same(old, new):
            return ()
        now = self._clock.now()
        woken: dict[ObjectKey, None] = {}
        for pod in self._pods.by_index(PODS_BY_NODE, changed.key.name):
            for key, memory in self._of(pod.key.namespace).items():
                if not pod.finished and counts(pod, memory.weights) and self._moved(memory, pod, old, new, now):
                    woken[key] = None
        return woken

    def _moved(self, memory: BudgetMemory, pod: Pod, old: Node | None, new: Node | None, now: datetime) -> bool:
        if new is not None:
            return self._see(memory, pod, now)
        uid = short_uid(pod)
        if uid not in memory.account.open:
            return False
        memory.see(pod, sight_gone(pod, memory.weights, seconds(now), silent_since(old)), seconds(now))
        memory.pods.pop(uid, None)
        memory.finished.add(uid)
        memory.unwritten.add(uid)
        memory.changed_at = memory.changed_at or now
        return True


def _claim(memory: BudgetMemory, pod: Pod, *, gone: bool) -> bool:
    """Whether the number of pods with device claims has changed."""
    before, uid = len(memory.claiming), short_uid(pod)
    if memory.claims(pod) and not gone:
        memory.claiming.add(uid)
    else:
        memory.claiming.discard(uid)
    return len(memory.claiming) != before


def _told(budget: GPUWorkloadBudget, account: BudgetAccount) -> Told:
    """What the status says, in the account's own units: equal use is no reason to write."""
    status = budget.status
    if status.as_of is None:
        return Told(exceeded_at=status.exceeded_at, alerted=status.alerted, paused=status.paused_pods)
    at = seconds(status.as_of)
    degraded = next((each.reason for each in status.conditions if each.type == DEGRADED and each.status == "True"), "")
    idle = any((each.type, each.reason) == (READY, NOTHING_MATCHES) for each in status.conditions)
    return Told(
        at,
        account.used(USED, at),
        status.exceeded_at,
        status.alerted,
        status.observed_generation,
        degraded,
        status.paused_pods,
        status.gated_pods,
        idle,
    )


def _same(old: Node, new: Node) -> bool:
    def told(node: Node) -> object:
        return node.ready is None, node.annotations.get("tgp.io/hourly-price"), node.allocatable, model_of(node)

    return told(old) == told(new)
