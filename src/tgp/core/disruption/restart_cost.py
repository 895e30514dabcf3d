"""What it costs to move a pod to another machine: work that is lost, and time that is paid until it runs again.

A pod that runs to completion loses what it has done since its last checkpoint, or since its start. Everything else is
taken to serve: it loses the time until its successor has started. An annotation that cannot be read counts as absent,
and the pod gets an Event.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from tgp.api.field_error import Invalid
from tgp.api.values import duration, is_rfc3339
from tgp.core.disruption.causes import Standing
from tgp.core.disruption.machine_state import pods_to_move
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import NOTHING, Resources
from tgp.core.pools.planner.classes import CHECKPOINT_EVERY, gang_name
from tgp.core.pools.planner.sources import PODS

CHECKPOINTED_AT = "tgp.io/checkpointed-at"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
START_UP = timedelta(minutes=10)  # of a pod on a machine that is there: the image is pulled, the model is loaded
COST_UNIT, PRIORITY_UNIT = 1 << 27, 1 << 25  # of deletion cost and priority: so much weighs as one more restart
LEAST_WEIGHT, MOST_WEIGHT = 0.1, 10.0
MOST_DIGITS = 11  # of a deletion cost, which is a 32-bit number
SHOWN = 64  # characters of a value that cannot be read
HOUR = timedelta(hours=1)
NO_GANGS: Mapping[str, frozenset[str]] = {}


def restart_cost(pod: Pod, allocatable: Resources, hourly_microusd: float, now: datetime) -> int:
    """In micro-dollars, on a machine with so much allocatable and of that price."""
    hours = (lost_work(pod, now) + START_UP) / HOUR
    return round(hours * share_of(pod, allocatable) * hourly_microusd * weight_of(pod))


class Restarts:
    """What it costs to restart pods of machines whose price is known. With one pod of a gang all of it restarts."""

    def __init__(
        self, machines: Iterable[Standing], now: datetime, gang_members: Mapping[str, frozenset[str]] = NO_GANGS
    ) -> None:
        """`gang_members`: uids by gang. Those on machines without a price cost as much as the others on average."""
        self.of_pod: dict[str, int] = {}  # by uid
        gangs: dict[str, list[int]] = {}
        for each in machines:
            room = each.machine.node.allocatable if each.machine.node is not None else NOTHING
            for pod in pods_to_move(each.machine.pods):
                cost = self.of_pod[uid_text(pod.uid)] = restart_cost(pod, room, each.expected_microusd, now)
                if gang := gang_name(pod):
                    gangs.setdefault(gang, []).append(cost)
        self._of_gang = {
            gang: sum(costs) * max(len(gang_members.get(gang, ())), len(costs)) // len(costs)
            for gang, costs in gangs.items()
        }

    def together(self, pods: Iterable[Pod]) -> int:
        """In micro-dollars, if all of these are moved."""
        gangs, alone = set[str](), 0
        for pod in pods:
            if gang := gang_name(pod):
                gangs.add(gang)
            else:
                alone += self.of_pod[uid_text(pod.uid)]
        return alone + sum(self._of_gang[gang] for gang in gangs)


def lost_work(pod: Pod, now: datetime) -> timedelta:
    """Never more than the pod's age."""
    since = pod.started_at or pod.accepted_at or pod.created_at
    age = max(now - since, timedelta(0)) if since is not None else timedelta(0)
    known = [*_since_checkpoint(pod.annotations, now), *_half_interval(pod.annotations)]
    if known:
        return min(age, *known)
    return age if pod.runs_to_completion else timedelta(0)


def share_of(pod: Pod, allocatable: Resources) -> float:
    """Of its machine: the largest share that it takes of any resource."""
    amounts = ((amount, allocatable.of(name)) for name, amount in pod.requests.items() if name != PODS)
    return min(max((amount / there for amount, there in amounts if there > 0), default=0.0), 1.0)


def weight_of(pod: Pod) -> float:
    """Karpenter's measure: 1 for a pod without priority and deletion cost."""
    written = pod.annotations.get(DELETION_COST, "")
    cost = int(written) if _is_number(written) else 0
    return min(max(1 + cost / COST_UNIT + pod.priority / PRIORITY_UNIT, LEAST_WEIGHT), MOST_WEIGHT)


def unreadable(annotations: Mapping[str, str]) -> Iterator[str]:
    """What is ignored, and why, in text for users."""
    every, at = annotations.get(CHECKPOINT_EVERY), annotations.get(CHECKPOINTED_AT)
    if every is not None and not [*_half_interval(annotations)]:
        yield f"Annotation {CHECKPOINT_EVERY} is ignored: {every[:SHOWN]!r} is no duration, such as 30m"
    if at is not None and not is_rfc3339(at):
        yield f"Annotation {CHECKPOINTED_AT} is ignored: {at[:SHOWN]!r} is no time, such as 2026-01-31T12:00:00Z"


def _since_checkpoint(annotations: Mapping[str, str], now: datetime) -> Iterator[timedelta]:
    text = annotations.get(CHECKPOINTED_AT, "")
    if is_rfc3339(text):
        yield max(now - datetime.fromisoformat(text.upper()), timedelta(0))


def _half_interval(annotations: Mapping[str, str]) -> Iterator[timedelta]:
    """What is lost on average."""
    try:
        yield max(duration(annotations[CHECKPOINT_EVERY], CHECKPOINT_EVERY), timedelta(0)) / 2
    except (KeyError, Invalid, OverflowError):
        return


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return len(text) <= MOST_DIGITS and digits.isascii() and digits.isdigit()
