"""Which pods go when a budget is used up: a minimal prefix of one fixed order."""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from tgp.core.budgets.account import USD, USED, BudgetAccount, OpenPod
from tgp.core.budgets.assess import Limits
from tgp.core.model.pod import Pod
from tgp.core.requests.protection import pod_protection

BACK_WITHIN = 24  # parts of the window: by then use shall be back at the quota
AT_LEAST = 600  # seconds
LATE = 60  # seconds by which an end may be later than from an eviction now


class Victim(msgspec.Struct, frozen=True):
    """One pod, or all pods of one Job: they stand and fall together."""

    pods: tuple[Pod, ...]
    milli: int
    rate: int


def back_within(window: int) -> int:
    """Seconds within which use shall be back at the quota."""
    return max(window // BACK_WITHIN, AT_LEAST)


def back_by(window: int, since: int, now: int) -> int:
    """Until when use shall be back at the quota; `since`: when enforcement began."""
    length = back_within(window)
    return since + length * ((max(now, since) - since) // length + 1)


def victims(
    running: Mapping[bytes, Pod],
    account: BudgetAccount,
    limits: Limits,
    now: int,
    *,
    by: int,
    passed: Container[bytes] = (),
    stopping: Container[bytes] = (),
    grace: int | None = None,
) -> tuple[Victim, ...]:
    """As few as bring use back to the quota until `by`; all of them if that is not enough.

    Those in `passed` cannot go now: the next in order go instead. Those in `stopping` will stop, as if they were being
    deleted: their Job is suspended, say. `grace`: seconds that an evicted pod has to end; None: its own.
    """
    lasts = by - now
    open_ = {uid: account.open[uid] for uid in running if uid in account.open and account.open[uid].start is not None}
    leaving = [
        open_[uid] for uid, pod in running.items() if (leaves(pod, now, grace) or uid in stopping) and uid in open_
    ]
    over = account.used(USED, by) - limits.used - lasts * sum(pod.milli for pod in leaving)
    dear = 0
    if limits.usd is not None:
        dear = account.used(USD, by) - limits.usd - lasts * sum(pod.rate or 0 for pod in leaving)
    chosen: list[Victim] = []
    able = {
        uid: pod
        for uid, pod in running.items()
        if uid in open_ and uid not in passed and uid not in stopping and not leaves(pod, now, grace)
    }
    for victim in order(able, open_, now):
        if over <= 0 and dear <= 0:
            break
        chosen.append(victim)
        over -= lasts * victim.milli
        dear -= lasts * victim.rate
    return tuple(chosen)


def leaves(pod: Pod, now: int, grace: int | None = None) -> bool:
    """Whether it is being deleted, and ends no later than if it was evicted now.

    One that was deleted with a year of grace runs on: without this rule that would protect it from every eviction.
    """
    own = pod.grace_seconds if grace is None else grace
    ends = pod.deletion_requested_at  # the API server writes here when its grace is over
    return ends is not None and ends.timestamp() <= now + own + LATE


def order(running: Mapping[bytes, Pod], open_: Mapping[bytes, OpenPod], now: int) -> list[Victim]:
    """Lowest priority first, then most used, then by name; pods that ask not to be disrupted come last."""
    groups: dict[object, list[bytes]] = {}
    for uid, pod in running.items():
        owner = pod.controller
        groups.setdefault(owner.uid if owner is not None and owner.kind == "Job" else uid, []).append(uid)
    ranked = sorted(groups.values(), key=lambda uids: _rank([running[uid] for uid in uids], uids, open_, now))
    return [_victim([running[uid] for uid in uids], [open_[uid] for uid in uids]) for uids in ranked]


def _rank(
    pods: Sequence[Pod], uids: Iterable[bytes], open_: Mapping[bytes, OpenPod], now: int
) -> tuple[bool, int, int, tuple[str, str]]:
    used = sum(pod.milli * (now - pod.start) for pod in (open_[uid] for uid in uids) if pod.start is not None)
    moment = datetime.fromtimestamp(now, UTC)
    kept = any(pod_protection(pod, moment) is not None for pod in pods)
    return kept, max(pod.priority for pod in pods), -used, min((pod.key.namespace, pod.key.name) for pod in pods)


def _victim(pods: Sequence[Pod], open_: Sequence[OpenPod]) -> Victim:
    return Victim(tuple(pods), sum(pod.milli for pod in open_), sum(pod.rate or 0 for pod in open_))
