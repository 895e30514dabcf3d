"""Which pods still have to leave a Node before its machine is terminated, which to evict now, and how long to wait.

Pods leave through the Eviction API, tier by tier, so that what others depend on stays longest: ordinary pods, then pods
of DaemonSets, then critical pods, then critical pods of DaemonSets. Protected pods, or those blocked by a
PodDisruptionBudget, are waited for until the grace period ends; then the machine is terminated all the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.api.values import is_rfc3339
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint, untolerated
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.requests.protection import pod_protection

DISRUPTED = Taint("tgp.io/disrupted", "NoSchedule")
CORDONED = "tgp.io/cordoned"  # tgp made it unschedulable: a machine that stays is uncordoned again
BEGAN = "tgp.io/drain-began"  # of a request: when pods were first evicted from its machine, which was idle
CRITICAL_PRIORITY = 2_000_000_000  # system-cluster-critical; system-node-critical lies above it

UNREACHABLE_FOR = timedelta(minutes=5)  # Kubernetes itself evicts from a silent node after that long
OUTLIVED = timedelta(minutes=1)  # past its own grace on a silent node: no kubelet will report its end
STUCK = timedelta(
    minutes=10
)  # past its own grace on a live node: its kubelet cannot stop it; terminating the machine does
LAST_CALL_AT_MOST = timedelta(minutes=5)
CORDONED_WITHIN = timedelta(minutes=5)  # a Node that cannot be patched must not keep an empty machine billed
ASK_AGAIN = timedelta(seconds=10)  # a budget that blocks an eviction may allow it at any moment, without an event
LOOK_AGAIN = timedelta(minutes=1)
NAMES_SHOWN = 3


class Drain(msgspec.Struct, frozen=True):
    """What is left to do. First the cordon, then the evictions; a blocked eviction is tried again later."""

    done: bool  # the machine may be terminated
    reason: str  # of the condition Drained
    message: str  # names no remaining time: an unchanged object is not written
    cordon: dict[str, Any] | None = None  # a merge patch, under the Node's resourceVersion; None: nothing to change
    evict: tuple[Pod, ...] = ()  # evict them, with their own grace
    force: tuple[
        Pod, ...
    ] = ()  # last eviction before the end, do-not-disrupt or not; blocked pods end with the machine
    waiting: tuple[
        str, ...
    ] = ()  # pods that are waited for and why; after the grace period: pods that end with the machine
    next_look: timedelta | None = None  # None: there is nothing to wait for


def began_at(annotations: Mapping[str, str]) -> datetime | None:
    """When a pool began to evict pods from an idle machine, whose request was to be deleted once they were gone.

    None: it did not, or it cannot be read.
    """
    at = annotations.get(BEGAN, "")
    return datetime.fromisoformat(at.upper()) if is_rfc3339(at) else None


def drain(
    node: Node | None,  # None: there is no Node, or no machine behind it
    pods: Iterable[Pod],
    now: datetime,
    began: datetime,
    grace: timedelta | None,  # None: without limit
    *,
    budgets: Iterable[PodDisruptionBudget] = (),  # only for the message: the API server decides
) -> Drain:
    """Deterministic: in the order of the pods' names."""
    if node is None:
        return Drain(True, "NodeGone", "Machine has no Node to drain.")
    change = cordon(node)
    if (silent := silent_for(node, now)) is not None and silent >= UNREACHABLE_FOR:
        minutes = UNREACHABLE_FOR // timedelta(minutes=1)
        why = f"Node {node.name} has been unreachable for {minutes} minutes or longer; treated as drained."
        return Drain(True, "NodeUnreachable", why, change)
    staying = (pod for pod in pods if pod.node == node.name and _must_leave(pod, began))
    left = sorted(
        (pod for pod in staying if not _as_good_as_gone(pod, now, alive=node.ready is True)), key=lambda pod: pod.key
    )
    if not left:
        return _empty(node, change, late=now >= began + CORDONED_WITHIN)
    return _Wait(node, change, now, began, grace, tuple(budgets)).go_on(left)


def cordon(node: Node) -> dict[str, Any] | None:
    """The merge patch that keeps new pods off; None: already cordoned. Other taints stay."""
    if node.unreadable:
        return None  # its taints are not known, and a patch would replace them all
    change: dict[str, Any] = {}
    if not node.cordoned:
        change["metadata"] = {"annotations": {CORDONED: "true"}}
        change["spec"] = {"unschedulable": True}
    if DISRUPTED not in node.taints:
        change.setdefault("spec", {})["taints"] = written(
            (*(taint for taint in node.taints if taint.key != DISRUPTED.key), DISRUPTED)
        )
    return change or None


def written(taints: Iterable[Taint]) -> list[dict[str, str]]:
    """As in a Node's spec; `timeAdded` is informational and dropped, since a merge patch replaces the whole list."""
    return [
        {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {}) for taint in taints
    ]


def silent_for(node: Node, now: datetime) -> timedelta | None:
    """How long its kubelet has not been ready; None: it is ready, or the time is unknown."""
    if node.ready is True or node.unreadable:
        return None
    since = node.ready_since or node.created_at
    return None if since is None else now - since


def tier(pod: Pod) -> int:
    """The order of eviction, from 0."""
    return 2 * (pod.priority >= CRITICAL_PRIORITY) + pod.of_daemon_set


def _empty(node: Node, change: dict[str, Any] | None, *, late: bool) -> Drain:
    """A Node that accepts pods does not stay empty: the machine is terminated once the cordon was observed."""
    message = f"No pod is left to evict from Node {node.name}"
    if change is None or late:
        return Drain(True, "Drained", message, change)
    return Drain(False, "Cordoning", f"{message}; waiting for the cordon", change, next_look=ASK_AGAIN)


class _Wait(msgspec.Struct, frozen=True):
    """A drain with pods left."""

    node: Node
    change: dict[str, Any] | None
    now: datetime
    began: datetime
    grace: timedelta | None
    budgets: tuple[PodDisruptionBudget, ...]

    @property
    def until(self) -> datetime | None:
        return None if self.grace is None else self.began + self.grace

    def go_on(self, left: Sequence[Pod]) -> Drain:
        if self.until is not None and self.now >= self.until:
            cut = tuple(self._words(pod) for pod in left)
            message = f"Grace period ended at {_minute(self.until)}; {_pods(len(left))} are terminated with the machine"
            return Drain(True, "GraceOver", f"{message}: {_some(cut)}", self.change, waiting=cut)
        lowest = min(tier(pod) for pod in left)
        present = [pod for pod in left if tier(pod) == lowest]
        calls = {pod.key: call for pod in left if not pod.deleting and (call := self._last_call(pod)) is not None}
        called = {key for key, call in calls.items() if self.now >= call}
        evict = tuple(pod for pod in present if self._may_be_asked(pod) and pod.key not in called)
        force = tuple(pod for pod in left if pod.key in called)
        waiting = tuple(self._words(pod) for pod in present)
        return Drain(
            False,
            "Draining",
            self._message(waiting, len(left) - len(present)),
            self.change,
            evict,
            force,
            waiting,
            self._next_look(present, calls.values(), busy=bool(evict or force or any(pod.deleting for pod in present))),
        )

    def _may_be_asked(self, pod: Pod) -> bool:
        return not pod.deleting and pod_protection(pod, self.now) is None

    def _last_call(self, pod: Pod) -> datetime | None:
        """From then on it is evicted whatever its annotations: it should stop cleanly, not by loss of power."""
        if self.grace is None:
            return None
        own = timedelta(seconds=pod.grace_seconds)
        return self.began + self.grace - min(own, LAST_CALL_AT_MOST, self.grace / 2)

    def _next_look(self, present: Iterable[Pod], calls: Iterable[datetime], *, busy: bool) -> timedelta:
        free = (own.until for pod in present if (own := pod_protection(pod, self.now)) is not None)
        moments = [each for each in (*calls, *free, self.until) if each is not None and each > self.now]
        pause = ASK_AGAIN if busy or self.change else LOOK_AGAIN
        return min([pause, *(moment - self.now for moment in moments)])

    def _message(self, waiting: Sequence[str], later: int) -> str:
        when = "without a time limit" if self.until is None else f"until {_minute(self.until)}"
        rest = f"; then {_pods(later)} more" if later else ""
        return f"Waiting {when} for {_pods(len(waiting))} to leave Node {self.node.name}: {_some(waiting)}{rest}"

    def _words(self, pod: Pod) -> str:
        if pod.deletion_requested_at is not None:
            return f"{pod.key} (terminating, due {pod.deletion_requested_at:%H:%M:%S} UTC)"
        if (protection := pod_protection(pod, self.now)) is not None:
            until = "" if protection.until is None else f" until {_minute(protection.until)}"
            return f"{pod.key} (do-not-disrupt{until})"
        holding = sorted(str(budget.key) for budget in self.budgets if budget.blocks(pod))
        return (
            f"{pod.key} (blocked by PodDisruptionBudget {holding[0]})" if holding else f"{pod.key} (eviction requested)"
        )


def _must_leave(pod: Pod, began: datetime) -> bool:
    """Not mirror pods, ended pods, or pods that asked to stay until the end.

    A pod that tolerates our taint by name asked to stay. A pod that tolerates everything did not: it is evicted once.
    Its successor may be scheduled here again and stays, and so do DaemonSets' pods, which always would.
    """
    if pod.mirror or pod.over:
        return False
    if untolerated((DISRUPTED,), pod.tolerations) is not None:
        return True
    if any(toleration.key == DISRUPTED.key and toleration.covers(DISRUPTED) for toleration in pod.tolerations):
        return False
    return not pod.of_daemon_set and (pod.created_at is None or pod.created_at <= began)


def _as_good_as_gone(pod: Pod, now: datetime, *, alive: bool) -> bool:
    """Deleted, and long past it. A pod's deletion timestamp is the end of its grace, not the time of the request."""
    due = pod.deletion_requested_at
    return due is not None and now - due >= (STUCK if alive else OUTLIVED)


def _some(words: Sequence[str]) -> str:
    rest = len(words) - NAMES_SHOWN
    return ", ".join(words[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
