"""Which pods go when a budget is used up: a minimal prefix of one fixed order."""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from tgp.api.budget import Enforcement
from tgp.api.resource import NODE
from tgp.api.values import rfc3339
from tgp.core.budgets.account import USD, USED, BudgetAccount, OpenPod
from tgp.core.budgets.admission import STOPPING
from tgp.core.budgets.assess import Limits
from tgp.core.model.pod import Pod
from tgp.core.requests.protection import pod_protection

BACK_WITHIN = 24  # parts of the window: by then use shall be back at the quota
AT_LEAST = 600  # seconds
NAMES_SHOWN = 3
LATE = 60  # seconds by which an end may be later than from an eviction now
LONG_GRACE = 300  # seconds: what runs on for longer after its eviction is told


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
    since: int = 0,
) -> tuple[Victim, ...]:
    """As few as bring use back to the quota until `by`; all of them if that is not enough.

    Those in `passed` cannot go now: the next in order go instead. Those in `stopping` will stop, as if they were being
    deleted: their Job is suspended, say. `grace`: seconds that an evicted pod has to end; None: its own. What was told
    to go before `since` and still runs had its chance: the next in order go, too.
    """
    lasts = by - now
    open_ = {uid: account.open[uid] for uid in running if uid in account.open and account.open[uid].start is not None}
    leaving = [
        open_[uid]
        for uid, pod in running.items()
        if uid in open_ and (uid in stopping or (leaves(pod, now, grace) and not _lingers(pod, since, grace)))
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
    for victim in order(able, open_, now, account.begins(now)):
        if over <= 0 and dear <= 0:
            break
        chosen.append(victim)
        over -= lasts * victim.milli
        dear -= lasts * victim.rate
    return tuple(chosen)


class NextAct(msgspec.Struct, frozen=True):
    """What happens if everything runs on."""

    at: int
    action: str
    pods: tuple[Pod, ...] = ()  # in the order in which they go
    begun: bool = False  # it was done at least once since the quota was reached


def next_act(
    running: Mapping[bytes, Pod],
    account: BudgetAccount,
    limits: Limits,
    rules: Enforcement,
    now: int,
    *,
    reached_at: int,
) -> NextAct:
    """`reached_at`: when the quota is used up, or was."""
    begun = reached_at + rules.grace_period_seconds
    at = max(begun, now)
    if rules.action not in STOPPING:
        return NextAct(at, rules.action)
    by, grace = back_by(account.rolls, begun, at), rules.pod_grace_period_seconds
    going = victims(running, account, limits, at, by=by, grace=grace)
    return NextAct(at, rules.action, tuple(pod for victim in going for pod in victim.pods))


def static(pod: Pod) -> bool:
    """Whether only its kubelet can end it. The annotation alone is not believed: every tenant can write it."""
    return pod.mirror and pod.controller is not None and pod.controller.kind == NODE.kind


def leaves(pod: Pod, now: int, grace: int | None = None) -> bool:
    """Whether it is being deleted, and ends no later than if it was evicted now.

    One that was deleted with a year of grace runs on: without this rule that would protect it from every eviction.
    """
    own = pod.grace_seconds if grace is None else grace
    ends = pod.deletion_requested_at  # the API server writes here when its grace is over
    return ends is not None and ends.timestamp() <= now + own + LATE


def _lingers(pod: Pod, since: int, grace: int | None) -> bool:
    """Whether it was told to go before that, and has more time than that to end."""
    own = pod.grace_seconds if grace is None else grace
    ends = pod.deletion_requested_at
    return ends is not None and own > LATE and ends.timestamp() - own < since


def run_on(running: Iterable[Pod], now: int) -> dict[str, datetime]:
    """By name: pods that were told to go and may run on for long; until when."""
    ends = {pod.key.name: pod.deletion_requested_at for pod in running}
    return {name: end for name, end in ends.items() if end is not None and end.timestamp() > now + LONG_GRACE}


def run_on_text(running: Mapping[str, datetime]) -> str:
    """Which evicted pods run on, until when, and what to set; empty: none."""
    if not running:
        return ""
    names = [f"{name} (at most until {rfc3339(running[name])})" for name in sorted(running)]
    rest = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return (
        f"Evicted pods still run and count, because their own grace period is long: {', '.join(names[:NAMES_SHOWN])}"
        f"{rest}. To end them sooner set enforcement.podGracePeriodSeconds."
    )


def order(running: Mapping[bytes, Pod], open_: Mapping[bytes, OpenPod], now: int, begin: int) -> list[Victim]:
    """Lowest priority first, then most used since `begin`, then by name; those not to be disrupted come last."""
    groups: dict[object, list[bytes]] = {}
    for uid, pod in running.items():
        owner = pod.controller
        groups.setdefault(owner.uid if owner is not None and owner.kind == "Job" else uid, []).append(uid)
    used = {uid: open_[uid].used(begin, now) for uid in running}
    ranked = sorted(groups.values(), key=lambda uids: _rank([running[uid] for uid in uids], uids, used, now))
    return [_victim([running[uid] for uid in uids], [open_[uid] for uid in uids]) for uids in ranked]


def _rank(
    pods: Sequence[Pod], uids: Iterable[bytes], used: Mapping[bytes, int], now: int
) -> tuple[bool, int, int, tuple[str, str]]:
    most = sum(used[uid] for uid in uids)
    moment = datetime.fromtimestamp(now, UTC)
    kept = any(pod_protection(pod, moment) is not None for pod in pods)
    return kept, max(pod.priority for pod in pods), -most, min((pod.key.namespace, pod.key.name) for pod in pods)


def _victim(pods: Sequence[Pod], open_: Sequence[OpenPod]) -> Victim:
    return Victim(tuple(pods), sum(pod.milli for pod in open_), sum(pod.rate or 0 for pod in open_))
