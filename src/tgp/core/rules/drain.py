"""Who still has to leave a Node before its machine goes, whom to ask now, and how long anybody is waited for.

Pods leave through the Eviction API, tier by tier, so that what others lean on stays longest: ordinary pods, then pods
of DaemonSets, then critical pods, then critical pods of DaemonSets. Whoever carries `tgp.io/do-not-disrupt`, or is held
by a PodDisruptionBudget, is waited for until the grace is over; then the machine goes all the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint, untolerated
from tgp.core.model.workload import DisruptionBudget

DISRUPTED = Taint("tgp.io/disrupted", "NoSchedule")
CORDONED = "tgp.io/cordoned"  # it was we who made it unschedulable: a machine that stays is given free again
CRITICAL_PRIORITY = 2_000_000_000  # system-cluster-critical; system-node-critical lies above it

UNREACHABLE_FOR = timedelta(minutes=5)  # Kubernetes itself evicts from a silent node after that long
OUTLIVED = timedelta(minutes=1)  # past its own grace on a silent node: nobody will ever say that it ended
STUCK = timedelta(
    minutes=10
)  # past its own grace on a live node: its kubelet cannot end it, and the machine's end will
LAST_CALL_AT_MOST = timedelta(minutes=5)
CORDONED_WITHIN = timedelta(minutes=5)  # a Node that cannot be patched must not keep an empty machine on the bill
ASK_AGAIN = timedelta(seconds=10)  # a budget that holds a pod back may let it go at any moment, and tells nobody
LOOK_AGAIN = timedelta(minutes=1)
NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Drain:
    """What is left to do. First the cordon, then the evictions; a pod that is not let go yet is asked again later."""

    done: bool  # the machine may go
    reason: str  # of the condition Drained
    message: str  # tells no remaining time: equal worlds give equal words, and a quiet object is not written
    cordon: dict[str, Any] | None = None  # a merge patch, under the Node's resourceVersion; None: it is as it should be
    evict: tuple[Pod, ...] = ()  # ask them, at their own grace
    force: tuple[Pod, ...] = ()  # their last call, do-not-disrupt or not; whoever a budget still holds is cut off later
    waiting: tuple[str, ...] = ()  # who is waited for and why; once the grace is over: who was cut off
    next_look: timedelta | None = None  # None: there is nothing to wait for


def drain(
    node: Node | None,  # None: there is no Node, or no machine behind it
    pods: Iterable[Pod],
    now: datetime,
    began: datetime,
    grace: timedelta | None,  # None: for ever
    *,
    protected: bool = False,  # nobody is asked before the last call, as if all carried do-not-disrupt
    budgets: Iterable[DisruptionBudget] = (),  # only for the words: the API server judges
) -> Drain:
    """Equal worlds give equal answers, in the order of the pods' names."""
    if node is None:
        return Drain(True, "NodeGone", "there is no Node to drain")
    change = cordon(node)
    if (silent := silent_for(node, now)) is not None and silent >= UNREACHABLE_FOR:
        minutes = UNREACHABLE_FOR // timedelta(minutes=1)
        why = f"Node {node.name} has been unreachable for {minutes} minutes or longer: it counts as drained"
        return Drain(True, "NodeUnreachable", why, change)
    staying = (pod for pod in pods if pod.node == node.name and _must_leave(pod, began))
    left = sorted(
        (pod for pod in staying if not _as_good_as_gone(pod, now, alive=node.ready is True)), key=lambda pod: pod.key
    )
    if not left:
        return _empty(node, change, late=now >= began + CORDONED_WITHIN)
    return _Wait(node, change, now, began, grace, protected, tuple(budgets)).go_on(left)


def cordon(node: Node) -> dict[str, Any] | None:
    """The merge patch that keeps new pods off; None: it is so already. Taints of others stay."""
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
    """As they stand in a Node's spec; `timeAdded` is for show and goes, since a merge patch replaces the whole list."""
    return [
        {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {}) for taint in taints
    ]


def silent_for(node: Node, now: datetime) -> timedelta | None:
    """How long its kubelet has not been well; None: it is, or nobody can tell since when it is not."""
    if node.ready is True or node.unreadable:
        return None
    since = node.ready_since or node.created_at
    return None if since is None else now - since


def tier(pod: Pod) -> int:
    """When it is its turn, from 0."""
    return 2 * (pod.priority >= CRITICAL_PRIORITY) + pod.of_daemon_set


def _empty(node: Node, change: dict[str, Any] | None, *, late: bool) -> Drain:
    """A Node that still takes pods is not empty for long: the machine goes once the cordon was seen to stand."""
    said = f"no pod has to leave {node.name} any more"
    if change is None or late:
        return Drain(True, "Drained", said, change)
    return Drain(False, "Cordoning", f"{said}; it is kept free of new ones", change, next_look=ASK_AGAIN)


@dataclass(frozen=True, slots=True)
class _Wait:
    """A drain that pods have still to answer."""

    node: Node
    change: dict[str, Any] | None
    now: datetime
    began: datetime
    grace: timedelta | None
    protected: bool
    budgets: tuple[DisruptionBudget, ...]

    @property
    def until(self) -> datetime | None:
        return None if self.grace is None else self.began + self.grace

    def go_on(self, left: Sequence[Pod]) -> Drain:
        if self.until is not None and self.now >= self.until:
            cut = tuple(self._words(pod) for pod in left)
            said = f"the grace was over at {_minute(self.until)}: {_pods(len(left))} cut off with the machine"
            return Drain(True, "GraceOver", f"{said}: {_some(cut)}", self.change, waiting=cut)
        turn = min(tier(pod) for pod in left)
        present = [pod for pod in left if tier(pod) == turn]
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
            self._next_look(calls.values(), busy=bool(evict or force or any(pod.deleting for pod in present))),
        )

    def _may_be_asked(self, pod: Pod) -> bool:
        return not (pod.deleting or pod.do_not_disrupt or self.protected)

    def _last_call(self, pod: Pod) -> datetime | None:
        """From then on it is asked whatever it carries: it shall end by itself, and not by loss of power."""
        if self.grace is None:
            return None
        own = timedelta(seconds=pod.grace_seconds)
        return self.began + self.grace - min(own, LAST_CALL_AT_MOST, self.grace / 2)

    def _next_look(self, calls: Iterable[datetime], *, busy: bool) -> timedelta:
        moments = [call for call in calls if call > self.now] + ([self.until] if self.until is not None else [])
        pause = ASK_AGAIN if busy or self.change else LOOK_AGAIN
        return min([pause, *(moment - self.now for moment in moments)])

    def _message(self, waiting: Sequence[str], later: int) -> str:
        when = "for as long as it takes" if self.until is None else f"until {_minute(self.until)}"
        rest = f"; {_pods(later)} after that" if later else ""
        return f"{_pods(len(waiting))} to leave {self.node.name}, waited for {when}: {_some(waiting)}{rest}"

    def _words(self, pod: Pod) -> str:
        if pod.deletion_requested_at is not None:
            return f"{pod.key} (ending, due {pod.deletion_requested_at:%H:%M:%S} UTC)"
        if pod.do_not_disrupt:
            return f"{pod.key} (do-not-disrupt)"
        if self.protected:
            return f"{pod.key} (its machine is do-not-disrupt)"
        holding = sorted(str(budget.key) for budget in self.budgets if _holds(budget, pod))
        return f"{pod.key} (held by PodDisruptionBudget {holding[0]})" if holding else f"{pod.key} (asked to leave)"


def _must_leave(pod: Pod, began: datetime) -> bool:
    """Not what the kubelet owns, what has ended, or what asked to stay until the end.

    Whoever tolerates our taint by name asked to stay. Whoever tolerates everything did not mean to: such a pod is asked
    to leave, once. Its successor may land here again and is let be, and so are DaemonSets' pods, which always would.
    """
    if pod.mirror or pod.finished:
        return False
    if untolerated((DISRUPTED,), pod.tolerations) is not None:
        return True
    if any(toleration.key == DISRUPTED.key and toleration.covers(DISRUPTED) for toleration in pod.tolerations):
        return False
    return not pod.of_daemon_set and (pod.created_at is None or pod.created_at <= began)


def _as_good_as_gone(pod: Pod, now: datetime, *, alive: bool) -> bool:
    """Asked to end, and long past it. A pod's deletion timestamp lies at the end of its grace, not at the asking."""
    due = pod.deletion_requested_at
    return due is not None and now - due >= (STUCK if alive else OUTLIVED)


def _holds(budget: DisruptionBudget, pod: Pod) -> bool:
    same_room = budget.key.namespace == pod.key.namespace
    return same_room and budget.disruptions_allowed <= 0 and budget.selector.selects(pod.labels)


def _some(words: Sequence[str]) -> str:
    rest = len(words) - NAMES_SHOWN
    return ", ".join(words[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
