"""What is known of one budget: its account, a copy of the status, and ahead of it by the spans not written yet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tgp.api.budget import EndedPod, GPUWorkloadBudgetSpec
from tgp.core.budgets.account import BudgetAccount
from tgp.core.budgets.admission import STOPPING
from tgp.core.budgets.archive import KeptAccount
from tgp.core.budgets.assess import Limits
from tgp.core.budgets.ended import ended_pod, largest
from tgp.core.budgets.recreation import OwnerEvictions
from tgp.core.budgets.spans import Sighting, short_uid
from tgp.core.budgets.status import Told
from tgp.core.budgets.weights import Weights
from tgp.core.model.labels import Selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod

PLAIN = ("cpu", "memory")  # resources that no device claim stands for


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
    # Until when use that was lost may count: the account could not be read, and was made again from what is there.
    lost_until: datetime | None = None
    kept: KeptAccount | None = None  # of a deleted budget of this name, to be dropped once it is in our own account
    archived: bool = False  # the budget is being deleted, and its account is kept
    pods: dict[bytes, Pod] = field(default_factory=dict)  # the open ones
    # Those that count no longer, and are still there: until when they counted.
    finished: dict[bytes, int] = field(default_factory=dict)
    waiting: set[bytes] = field(default_factory=set)  # pods without a Node that it selects, or did once
    waited: dict[bytes, int] = field(default_factory=dict)  # open pods without a start: when one last came without
    changed_at: datetime | None = None  # since when spans wait to be written
    # A list did not show them: closed if pods are shown.
    missing: dict[bytes, tuple[Pod, Sighting]] = field(default_factory=dict)
    unwritten: set[bytes] = field(default_factory=set)  # closed since the last write of the account
    as_one: int = 0  # pods that the account has no room for, and holds as one
    claiming: set[bytes] = field(default_factory=set)  # pods whose devices no request shows
    evicted: OwnerEvictions = field(default_factory=OwnerEvictions)
    blocked: dict[bytes, datetime] = field(default_factory=dict)  # evictions and pauses to be asked for again then
    enforced_at: datetime | None = None  # when this process last looked whom to stop
    covers: Callable[[str], bool] = lambda _namespace: True  # whether pods of this namespace may belong to it
    largest: tuple[EndedPod, ...] = ()
    reset_at: datetime | None = None  # what was asked for last, and done

    @property
    def namespaces(self) -> set[str]:
        """Where pods of it are, and its own."""
        return {self.key.namespace, *(pod.key.namespace for pod in self.pods.values())}

    @property
    def tracked(self) -> int:
        return len(self.account.open) + len(self.finished) - len(self.waiting & self.account.open.keys())

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

    def forget_enforcement(self) -> None:
        """It is open: what was asked for while it was closed is of no use any more."""
        self.evicted.forget()
        self.blocked.clear()

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

    def note_waiting(self, pod: Pod) -> None:
        """One that asks for what is counted, before it has a Node: an edit of its labels does not free it."""
        if not pod.node and self.weights.units(pod.requests) and self.belongs(pod):
            self.waiting.add(short_uid(pod))

    def let_go(self, uid: bytes, now: int) -> None:
        """It runs on, and counts no longer: the budget selects others now."""
        self.waiting.discard(uid)
        self.waited.pop(uid, None)
        self.missing.pop(uid, None)
        self.pods.pop(uid, None)
        if uid in self.account.staying:
            self.forget_finished(uid)
        self.account.let_go(uid, now)

    def finish_with_machine(self, uid: bytes, end: int) -> None:
        """Its machine or its Node is gone, and the pod is still there: it may run again."""
        self.finished[uid] = end
        self.account.stay(uid, end)

    def forget_finished(self, uid: bytes) -> None:
        """It is gone, or counts no longer."""
        self.finished.pop(uid, None)
        self.account.leave(uid)

    def see(self, pod: Pod, seen: Sighting, now: int, since: int | None = None) -> bool:
        """Whether that opened, cut or closed a span; if it closed one, what the pod used is kept by its name."""
        held = self.account.open.get(seen.uid)
        if seen.start is not None or seen.end is not None:
            self.waited.pop(seen.uid, None)
        changed = self.account.see(seen, now, since)
        name = str(pod.key) if self.spec.namespace_selector is not None else pod.key.name
        if changed and (row := ended_pod(name, held, seen)) is not None:
            self.largest = largest((*self.largest, row), self.account.begins(now))
        return changed
