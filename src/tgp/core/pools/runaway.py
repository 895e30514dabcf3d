"""Machines that were paid and never usable: after each, nothing more is bought for the same pods for a while.

And pods that fit by our count, and that the scheduler refuses all the same: nothing more is bought for them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import attempts_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.orders import anchor_of
from tgp.core.requests.chosen_offer import offer_of

PAUSES = (timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=4))  # after the first, second, third machine
DISAGREED_AFTER = timedelta(minutes=5)  # the scheduler refuses a pod on a Node where it fits by our count
DISAGREED_FOR = timedelta(hours=1)
MOST_REMEMBERED = 10_000  # pods


@dataclass(frozen=True, slots=True)
class UnusableMachine:
    """One machine that was paid and never usable."""

    token: str
    offer: str  # its key
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a plan must not do: buy for these pods at all, or these offers for those."""

    refused: Mapping[str, str] = field(default_factory=dict)  # pod uid → why
    not_for: Mapping[str, frozenset[str]] = field(default_factory=dict)  # pod uid → offer keys
    until: datetime | None = None  # when the first of them ends


def unusable_machines(record: KubeObject[GPURequest]) -> list[UnusableMachine]:
    """Of one request, as its attempts tell."""
    if record.value is None or record.value.status.ready_at is not None:
        return []
    return [
        UnusableMachine(each.token, offer_of(each.offer).key, each.ended_at)
        for each in attempts_of(record)
        if _unusable(each) and each.offer is not None and each.ended_at is not None
    ]


def _unusable(attempt: Attempt) -> bool:
    return attempt.outcome == "Failed" and attempt.launched_at is not None


class Runaways:
    """Unusable machines by the pods they were bought for. A new process learns them from failed requests again."""

    def __init__(self) -> None:
        self._machines: dict[str, dict[str, UnusableMachine]] = {}  # pod uid → token → machine

    def learn(self, record: KubeObject[GPURequest], pods: Iterable[str]) -> None:
        """`pods`: uids that the machine was bought for, as far as known; its anchor always is."""
        for machine in unusable_machines(record):
            for uid in {anchor_of(record), *pods} - {""}:
                self._machines.setdefault(uid, {})[machine.token] = machine
        while len(self._machines) > MOST_REMEMBERED:
            del self._machines[next(iter(self._machines))]

    def refusals(self, waiting: Iterable[str], now: datetime) -> Refusals:
        """For pods (and slots) that wait; the others are forgotten."""
        self._machines = {uid: known for uid in waiting if (known := self._remembered(uid, now))}
        refused, not_for, ends = {}, {}, []
        for uid, known in self._machines.items():
            until = paused_until(known.values())
            not_for[uid] = frozenset(each.offer for each in known.values())
            if now < until:
                ends.append(until)
                refused[uid] = refusal(len(known), until)
        return Refusals(refused, not_for, min(ends, default=None))

    def _remembered(self, uid: str, now: datetime) -> dict[str, UnusableMachine]:
        """After the last and longest pause the count begins again."""
        known = self._machines.get(uid, {})
        return {} if len(known) >= len(PAUSES) and now >= paused_until(known.values()) else known


def paused_until(machines: Collection[UnusableMachine]) -> datetime:
    return max(each.ended_at for each in machines) + PAUSES[min(len(machines), len(PAUSES)) - 1]


def refusal(count: int, until: datetime) -> str:
    machines = "A machine that was bought for this pod was" if count == 1 else f"{count} machines for this pod were"
    reason = "MachinesUnusable" if count >= len(PAUSES) else "MachineUnusable"  # another reason is told at once
    return f"{reason}: {machines} never usable; nothing more is bought for it before {rfc3339(until)}"


class Disagreements:
    """Pods that have room on a Ready Node by our count while the scheduler refuses them."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], datetime] = {}  # (pod uid, Node) → since when it has been so
        self._refused: dict[str, tuple[datetime, str]] = {}  # family of pods → until when, and why

    def learn(
        self, placed: Mapping[str, str], waiting: Mapping[str, Pod], own: Mapping[str, bool], now: datetime
    ) -> None:
        """`placed`: of the last plan, pod uid → Node; `own`: Nodes, and whether the machine was bought by a pool."""
        pairs = {(uid, node) for uid, node in placed.items() if node in own and uid in waiting}
        held = {pair: since for pair, since in self._since.items() if pair[0] in waiting}
        lasting = {pair for pair in held if now >= held[pair] + DISAGREED_AFTER}
        self._since = {pair: held.get(pair, now) for pair in pairs | lasting}
        for uid, node in lasting:
            if own.get(node):
                why = f"SchedulerDisagrees: the scheduler refuses it on Node {node}, where it fits by count"
                self._refused.setdefault(family(waiting[uid]), (now + DISAGREED_FOR, why))
        self._refused = {name: held for name, held in self._refused.items() if now < held[0]}

    def refused_at(self, node: str, now: datetime) -> frozenset[str]:
        """Pods for which the room on this Node does not count any more."""
        return frozenset(
            uid for (uid, name), since in self._since.items() if name == node and now >= since + DISAGREED_AFTER
        )

    def refusals(self, waiting: Iterable[Pod]) -> dict[str, str]:
        pairs = ((uid_text(pod.uid), self._refused.get(family(pod))) for pod in waiting)
        return {uid: held[1] for uid, held in pairs if held is not None}

    def next_change(self, now: datetime) -> datetime | None:
        moments = [since + DISAGREED_AFTER for since in self._since.values()]
        moments += [until for until, _ in self._refused.values()]
        return min((each for each in moments if each > now), default=None)


def family(pod: Pod) -> str:
    """Pods made from one template by one controller; a pod without one stands alone."""
    owner = pod.controller
    return owner.uid if owner is not None and owner.uid else uid_text(pod.uid)
