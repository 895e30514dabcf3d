"""The accounts in memory: each is a copy of its budget's status, and ahead of it by the spans not written yet.

Pods and Nodes are heard of event by event, because the moment at which a change arrives bounds what a kubelet says.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.api.common import LabelSelector
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.requests.indexes import NODES_BY_MACHINE, PODS_BY_NODE
from tgp.core.budgets.account import REST, UNSURE, USED, BudgetAccount, OpenPod, take_up
from tgp.core.budgets.archive import ACCOUNT_FINALIZER, KeptAccount, inherited
from tgp.core.budgets.belonging import covers, selector_of
from tgp.core.budgets.packing import NotAnAccount, unpack
from tgp.core.budgets.pause import PAUSED_AT
from tgp.core.budgets.quota import counted_by, fresh_account, limits_of
from tgp.core.budgets.spans import (
    STATUS_DELAY,
    WATCH_DELAY,
    Sighting,
    counts,
    machine_ended,
    off_time,
    seconds,
    short_uid,
    sight,
    sight_gone,
    sight_in_list,
    silent_since,
    whole_seconds,
)
from tgp.core.budgets.status import ACCOUNT_LOST, DEGRADED, NOTHING_MATCHES, READY, Told, Trouble
from tgp.core.budgets.weights import model_of, weights_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.spend import MachineEnd, end_key
from tgp.core.model.workload import Job, Namespace
from tgp.core.requests.node_metadata import PRICE, off_since
from tgp.core.requests.node_state import read_provider_id
from tgp.ports.clock import Clock

EVERY = ""
WRITTEN_WITHIN = timedelta(minutes=5)  # of a new budget: its first account
EMPTY_BELIEVED_AFTER = 3600.0  # seconds for which no list has shown any pod


class BudgetTracker:
    """`silent_for`: seconds since the pods' view was last confirmed. `watched_until`: of the leader before us."""

    def __init__(
        self,
        pods: Store[Pod],
        nodes: Store[Node],
        namespaces: Store[Namespace],
        machine_ends: Store[MachineEnd],
        clock: Clock,
        *,
        silent_for: Callable[[], float],
        watched_until: Callable[[], datetime | None],
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._namespaces = namespaces
        self._machine_ends = machine_ends
        self._clock = clock
        self._silent_for = silent_for
        self._watched_until = watched_until
        self._budgets: dict[str, dict[ObjectKey, BudgetMemory]] = {}  # by namespace; EVERY: those over several
        self._left_alone: dict[ObjectKey, tuple[str, bool]] = {}  # uid, and whether a newer version counts there
        self._reported: dict[
            str, int
        ] = {}  # by Node that was silent: the earliest moment at which it can have reported again
        self._empty_since: float | None = None  # boot time; None: pods and Nodes are shown

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

    @property
    def busy(self) -> int:
        """Budgets whose pods are placed or running."""
        return sum(bool(memory.account.open) for _, memory in self.memories())

    def forget(self, key: ObjectKey) -> None:
        self._left_alone.pop(key, None)
        for namespace in (key.namespace, EVERY):
            self._budgets.get(namespace, {}).pop(key, None)

    def leave_alone(self, key: ObjectKey, uid: str, *, newer: bool) -> None:
        """Nothing is counted for it: its spec is wrong, or a newer version of the operator has written it."""
        self.forget(key)
        self._left_alone[key] = uid, newer

    def settled(self, key: ObjectKey, uid: str) -> bool:
        """Whether its account is taken up, or known to be left alone."""
        return self.held(key, uid) is not None or self._left_alone.get(key, ("", False))[0] == uid

    def of_newer(self, key: ObjectKey, uid: str) -> bool:
        """Whether only a newer version of the operator knows what it holds."""
        return self._left_alone.get(key) == (uid, True)

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
            own = unpack(status.account, seconds(now)) if status.account else None
            account = own if own is not None else fresh_account(spec.quota, made_at)
        except NotAnAccount:
            account, lost = fresh_account(spec.quota, made_at), True
        if not status.account:
            lost = _removed(record, budget, now)
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
            _lost_until(budget, timedelta(seconds=account.window), now if lost else None),
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
            and ((counts(pod, memory.weights) and memory.belongs(pod)) or short_uid(pod) in known)
        }
        placed = all(pod.over or not pod.node or self._node_of(pod) for pod in pods.values())
        shown = placed and pods.keys() >= account.open.keys() - {REST}
        if not shown and (not listed_again or self._shows_nothing()):
            return None
        watched = self._watched_until()
        alive_until = max(account.at, seconds(watched) - WATCH_DELAY) if watched is not None else account.at
        counted = {uid: account.ended.get(uid, account.at) for uid in pods}
        listed = list(self._listed(memory, pods, seconds(now), alive_until))
        staying = {each.uid for each in listed if each.end is not None and not pods[each.uid].over}
        changed = take_up(
            account,
            listed,
            seconds(now),
            alive_until=alive_until,
            seen={uid: pod.resource_version for uid, pod in pods.items()},
            staying=staying,
            returned=dict(self._returned(account, pods, seconds(now))),
        )
        memory.pods = {uid: pod for uid, pod in pods.items() if uid in account.open}
        if memory.closed and status.last_enforcement_at is not None:
            memory.evicted.take_up(memory.pods.values(), status.last_enforcement_at)
        ends = {each.uid: each.end or 0 for each in listed}
        memory.finished = {uid: max(counted[uid], ends.get(uid, 0)) for uid, pod in pods.items() if pod.over}
        memory.finished |= {uid: account.ended.get(uid, seconds(now)) for uid in staying | account.staying}
        memory.unwritten = set(memory.finished) if changed else set()
        memory.claiming = {short_uid(pod) for pod in self._pods.values() if memory.claims(pod)}
        memory.changed_at = now if changed or lost or before is not None or not status.account else None
        for pod in self._pods.values():
            self._waits(memory, pod, now)
        return memory

    def _listed(self, memory: BudgetMemory, pods: dict[bytes, Pod], now: int, alive_until: int) -> Iterator[Sighting]:
        for uid, pod in pods.items():
            if uid in memory.account.ended and pod.released:
                continue
            there, held = self._nodes.get(ObjectKey("", pod.node)), memory.account.open.get(uid)
            node = self._node_of(pod)
            seen = _as_counted(held, pod, memory, sight_in_list(pod, memory.weights, now, node))
            if node is not None or seen.end is not None or not pod.node:
                yield seen
            elif (ended := self._machine_ended(there)) is not None:
                yield msgspec.structs.replace(seen, end=min(ended, now), sure_until=silent_since(there))
            elif held is not None or seen.start is not None:
                # Nothing runs on a Node that is gone. No list says since when.
                known = alive_until if held is None or held.sure_until is None else min(alive_until, held.sure_until)
                yield msgspec.structs.replace(seen, end=now, sure_until=known)

    def _returned(
        self, account: BudgetAccount, pods: dict[bytes, Pod], now: int
    ) -> Iterator[tuple[bytes, tuple[int, int] | None]]:
        """Pods whose machine had ended, on record, and whose Node reports: when it was off; None: it never was."""
        for uid, pod in pods.items():
            node = self._nodes.get(ObjectKey("", pod.node))
            off = off_time(node, account.at - STATUS_DELAY, now, account.ended.get(uid))
            if off is not None or (node is not None and node.ready is not None and self._entered_at(node)):
                yield uid, off

    def _respecify(
        self, memory: BudgetMemory, record: KubeObject[GPUWorkloadBudget], spec: GPUWorkloadBudgetSpec
    ) -> None:
        """A changed spec holds at once for what runs; hours already used stay.

        A pod that counts by labels it no longer has stays: no selector of before matched what it has now.
        """
        now = self._clock.now()
        belonged = {short_uid(pod) for pod in self._pods.values() if memory.belongs(pod)}
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
            if short_uid(pod) in belonged and not memory.belongs(pod):
                memory.let_go(short_uid(pod), seconds(now))
                continue
            self._waits(memory, pod, now)
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
        remarked = old is not None and new is not None and _marks(old) != _marks(new)
        woken = [key for key, memory in budgets.items() if self._note(memory, old, new, now) or remarked]
        if changed.claims_devices:
            woken += [key for key, memory in budgets.items() if _claim(memory, changed, gone=new is None)]
        return woken

    def of_job(self, old: Job | None, new: Job | None) -> Iterable[ObjectKey]:
        """The budgets that show how many pods are paused."""
        marked = [each for each in (old, new) if each is not None and PAUSED_AT in each.annotations]
        return list(self._of(marked[0].key.namespace)) if marked else ()

    def _note(self, memory: BudgetMemory, old: Pod | None, new: Pod | None, now: datetime) -> bool:
        if new is None:
            assert old is not None, "what is gone was there"
            memory.waiting.discard(short_uid(old))
            return self._gone(memory, old, now)
        if not new.node or not (counts(new, memory.weights) or short_uid(new) in memory.account.open):
            return self._waits(memory, new, now)
        if old is not None and old.over and new.over and short_uid(new) not in memory.account.open:
            return False
        # A pod that was there, and did not count, came by an edit of its labels.
        edited = old is not None and counts(old, memory.weights) and not memory.belongs(old)
        return self._see(memory, new, now, since=self._edited_since(now) if edited else None)

    def _waits(self, memory: BudgetMemory, pod: Pod, now: datetime) -> bool:
        """One without a Node. If an edit of its labels would free it, the account keeps it: a new process knows it.

        Of a budget that counts exactly every such pod: none of them can go unseen, and cost what it did not use.
        """
        uid = short_uid(pod)
        if pod.over and uid in memory.account.open:
            return self._see(memory, pod, now)
        memory.note_waiting(pod)
        kept = memory.holds_pods or not memory.belongs(pod)
        if uid not in memory.waiting or uid in memory.account.open or not kept or pod.over:
            return False
        memory.account.see(Sighting(uid, memory.weights.units(pod.requests)), seconds(now))
        memory.pods[uid] = pod
        memory.changed_at = memory.changed_at or now
        return True

    def _edited_since(self, now: datetime) -> int:
        """No stamp says when labels were edited: after a view that was out of date, as early as it can have been."""
        silent = int(min(self._silent_for(), 1e9))
        return seconds(now) - (silent if silent > STATUS_DELAY else 0)

    def _see(self, memory: BudgetMemory, pod: Pod, now: datetime, *, since: int | None = None) -> bool:
        uid, node = short_uid(pod), self._node_of(pod)
        known = uid in memory.account.open
        over = uid in memory.finished and not known
        if over and (pod.over or pod.released):
            return False
        if not (known or over or uid in memory.waiting or memory.belongs(pod)):
            return False
        if node is None and not known:
            return False  # its Node is gone, or will be shown soon
        if over and node is not None and node.ready is None:
            return False  # nothing shows that it runs until its Node reports
        silent = int(min(self._silent_for(), 1e9))
        if over:
            return self._goes_on(memory, pod, sight(pod, memory.weights, seconds(now), silent, node), now)
        memory.missing.pop(uid, None)
        held = memory.account.open.get(uid)
        began, waited = held.began if held is not None else None, memory.waited.get(uid, 0)
        found = sight(pod, memory.weights, seconds(now), silent, node, began=began, waited=waited)
        seen = _as_counted(held, pod, memory, found)
        changed = memory.see(pod, seen, seconds(now), since)
        if seen.start is None and seen.end is None:
            memory.waited[uid] = seconds(now) - silent
        if since is not None and not known and seen.start is not None:
            memory.account.charge(UNSURE, max(seen.start, since), seen.end or seconds(now), seen.milli)
        memory.waiting.discard(uid)
        if uid in memory.account.open:
            memory.pods[uid] = pod
        else:
            memory.pods.pop(uid, None)
            memory.finished[uid] = seen.end or seconds(now)
            if changed:
                memory.unwritten.add(uid)
        if changed:
            memory.changed_at = memory.changed_at or now
        return changed

    def _goes_on(self, memory: BudgetMemory, pod: Pod, seen: Sighting, now: datetime) -> bool:
        """It was shown as ended, or its Node as gone, and runs: all of it counts but the time its machine was off."""
        off = self._off_time(pod, seconds(now))
        memory.account.reopen(seen, memory.finished.pop(seen.uid), seconds(now), off)
        memory.unwritten.discard(seen.uid)
        memory.pods[seen.uid] = pod
        memory.changed_at = memory.changed_at or now
        return True

    def _gone(self, memory: BudgetMemory, last: Pod, now: datetime) -> bool:
        uid = short_uid(last)
        known = memory.pods.pop(uid, None)
        if uid in memory.finished:
            memory.forget_finished(uid)
        elif uid in memory.account.open:
            # The removal itself came with a later state. A list without it tells only that it went since the last one.
            unheard = int(min(self._silent_for(), 1e9)) if known is last else None
            sure = seconds(now) - unheard if unheard is not None else None
            held = memory.account.open[uid]
            gone = sight_gone(last, memory.weights, whole_seconds(now), self._sure(last, sure), began=held.began)
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
        for uid in list(memory.missing):
            self._close(memory, uid)
        return True

    def _close(self, memory: BudgetMemory, uid: bytes) -> None:
        last, gone = memory.missing.pop(uid)
        held, now = memory.account.open.get(uid), seconds(self._clock.now())
        memory.see(last, gone, now)
        if memory.pods.pop(uid, None) is not None:  # its Node is gone, and the pod is still there
            counted_from = held.start or 0 if held is not None else 0
            memory.finish_with_machine(uid, max(gone.end or now, counted_from))
            memory.unwritten.add(uid)

    def _shows_nothing(self) -> bool:
        """A list without any pod or Node proves nothing, unless it stays so: a cluster may really have none."""
        if len(self._pods) and len(self._nodes):
            self._empty_since = None
            return False
        if self._empty_since is None:
            self._empty_since = self._clock.boottime()
        return self._clock.boottime() - self._empty_since < EMPTY_BELIEVED_AFTER

    def _node_of(self, pod: Pod) -> Node | None:
        """None: it is gone, or its machine is; or it was not shown yet."""
        node = self._nodes.get(ObjectKey("", pod.node))
        return node if self._machine_ended(node) is None else None

    def _machine_ended(self, node: Node | None) -> int | None:
        return machine_ended(node, self._entered_at(node))

    def _entered_at(self, node: Node | None) -> datetime | None:
        """When its machine was gone by the spend record; None: it is not in it."""
        marked = read_provider_id(node.provider_id) if node is not None else None
        entered = self._machine_ends.get(end_key(marked[1])) if marked is not None else None
        return entered.at if entered is not None else None

    def _off_time(self, pod: Pod, now: int) -> tuple[int, int] | None:
        """When the pod's machine was off, until its Node was seen to report again; None: no record says so."""
        return off_time(self._nodes.get(ObjectKey("", pod.node)), self._reported.get(pod.node, 0), now)

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
        if new is None or new.ready is None:
            self._reported.pop(changed.name, None)
        elif old is not None and old.ready is None:
            late = max(STATUS_DELAY, int(min(self._silent_for(), 1e9)))
            self._reported[changed.name] = seconds(self._clock.now()) - late
        return self._of_node(changed, old, new)

    def of_machine_end(self, _old: MachineEnd | None, new: MachineEnd | None) -> Iterable[ObjectKey]:
        """Budgets whose pods ran on this machine, whose Node is still there."""
        if new is None or not any(self._budgets.values()):
            return ()
        left = self._nodes.by_index(NODES_BY_MACHINE, new.key.name)
        return [key for node in left for key in self._of_node(node, node, node)]

    def _of_node(self, changed: Node, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        now = self._clock.now()
        woken: dict[ObjectKey, None] = {}
        for pod in self._pods.by_index(PODS_BY_NODE, changed.key.name):
            for key, memory in self._of(pod.key.namespace).items():
                if not pod.finished and counts(pod, memory.weights) and self._moved(memory, pod, old, new, now):
                    woken[key] = None
        return woken

    def _moved(self, memory: BudgetMemory, pod: Pod, old: Node | None, new: Node | None, now: datetime) -> bool:
        ended = self._machine_ended(new)
        if new is not None and ended is None:
            return self._see(memory, pod, now)
        uid = short_uid(pod)
        if uid not in memory.account.open:
            return False
        if ended is not None:
            end, began = min(ended, seconds(now)), memory.account.open[uid].began
            memory.missing[uid] = pod, sight_gone(pod, memory.weights, end, silent_since(new), began=began)
            memory.changed_at = memory.changed_at or now
            self._close(memory, uid)
            return True
        assert old is not None, "what is gone was there"
        # A removal that was seen is newer than all that was known. A list without the Node has to be confirmed.
        listed = old.resource_version <= self._nodes.version
        sure = self._sure(pod, seconds(now) - int(min(self._silent_for(), 1e9))) if listed else silent_since(old)
        began = memory.account.open[uid].began
        memory.missing[uid] = pod, sight_gone(pod, memory.weights, seconds(now), sure, began=began)
        memory.changed_at = memory.changed_at or now
        if not listed:
            self._close(memory, uid)
        return True


def _as_counted(held: OpenPod | None, pod: Pod, memory: BudgetMemory, seen: Sighting) -> Sighting:
    """One that the weights no longer name, and that counted already, goes on as it did until it ends."""
    if held is None or any(memory.weights.asked(pod)):
        return seen
    return msgspec.structs.replace(seen, milli=held.milli, rate=held.rate)


def _marks(pod: Pod) -> tuple[bool, bool]:
    """What else a budget tells of its pods: it is paused; it was told to go."""
    return PAUSED_AT in pod.annotations, pod.deleting


def _claim(memory: BudgetMemory, pod: Pod, *, gone: bool) -> bool:
    """Whether the number of pods with device claims has changed."""
    before, uid = len(memory.claiming), short_uid(pod)
    if memory.claims(pod) and not gone:
        memory.claiming.add(uid)
    else:
        memory.claiming.discard(uid)
    return len(memory.claiming) != before


def _removed(record: KubeObject[GPUWorkloadBudget], budget: GPUWorkloadBudget, now: datetime) -> bool:
    """Whether others removed its account: the first is written right after our finalizer, unless the spec is wrong."""
    refused = any((each.type, each.status) == (READY, "False") for each in budget.status.conditions)
    old = record.created_at is not None and now >= record.created_at + WRITTEN_WITHIN
    return old and not refused and ACCOUNT_FINALIZER in record.finalizers


def _lost_until(budget: GPUWorkloadBudget, window: timedelta, lost_at: datetime | None) -> datetime | None:
    """Until when use that was lost would count, now or before another process took the account up; None: none was."""
    degraded = [each for each in budget.status.conditions if (each.type, each.reason) == (DEGRADED, ACCOUNT_LOST)]
    told_at = degraded[0].last_transition_time if degraded and degraded[0].status == "True" else None
    since = [each for each in (lost_at, told_at) if each is not None]
    return max(since) + window if since else None


def _told(budget: GPUWorkloadBudget, account: BudgetAccount) -> Told:
    """What the status says, in the account's own units: equal use is no reason to write."""
    status = budget.status
    if status.as_of is None:
        return Told(exceeded_at=status.exceeded_at, alerted=status.alerted, paused=status.paused_pods)
    at = seconds(status.as_of)
    degraded = [each for each in status.conditions if each.type == DEGRADED and each.status == "True"]
    idle = any((each.type, each.reason) == (READY, NOTHING_MATCHES) for each in status.conditions)
    return Told(
        at,
        account.used(USED, at),
        status.exceeded_at,
        status.alerted,
        status.observed_generation,
        Trouble(degraded[0].reason, degraded[0].message) if degraded else None,
        status.paused_pods,
        status.gated_pods,
        idle,
        str(status.quota_gpu_hours or ""),
        status.blocked_pods,
        status.unpriced_gpu_hours is not None,
    )


def _same(old: Node, new: Node) -> bool:
    def told(node: Node) -> object:
        return node.ready is None, off_since(node), node.annotations.get(PRICE), node.allocatable, model_of(node)

    return told(old) == told(new)
