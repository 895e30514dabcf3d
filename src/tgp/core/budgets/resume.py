"""Which of the things that a budget holds back go on: paused Jobs, and pods behind a scheduling gate.

Not all at once, or the budget would be used up again at once: one more goes only while what is left lasts.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from tgp.core.budgets.account import USD, USED, BudgetAccount
from tgp.core.budgets.assess import Limits
from tgp.core.model.object_key import ObjectKey

LASTS = 48  # parts of the window: what is left must last so long for all that runs, and for one more
AT_LEAST = 600  # seconds


class HeldBack(msgspec.Struct, frozen=True):
    """One Job, or one pod: what it will use once it goes on."""

    key: ObjectKey
    uid: str
    since: datetime  # when it was paused; of a gated pod: when it was created
    milli: int
    rate: int = 0  # micro-dollars an hour, as far as it is known
    priority: int = 0


class OnTheWay(msgspec.Struct, frozen=True):
    """What was let go or created, and has not started: the account does not count it yet."""

    milli: int = 0
    rate: int = 0


def lasting(window: int) -> int:
    """Seconds for which what is left must last."""
    return max(window // LASTS, AT_LEAST)


def order(held: Iterable[HeldBack]) -> list[HeldBack]:
    """Highest priority first, then the one that has waited longest, then by name."""
    return sorted(held, key=lambda each: (-each.priority, each.since, each.key))


def resume(
    held: Iterable[HeldBack],
    account: BudgetAccount,
    limits: Limits,
    now: int,
    *,
    on_the_way: OnTheWay = OnTheWay(),  # noqa: B008 - frozen
) -> tuple[HeldBack, ...]:
    """Those that may go on now, for a budget that is open. None overtakes: the first that must wait stops the rest.

    One that would use the whole quota sooner goes when nothing else uses any of it.
    """
    length = lasting(account.window)
    room = [limits.used - account.used(USED, now + length) - on_the_way.milli * length]
    most = [limits.used]
    if limits.usd is not None:
        room.append(limits.usd - account.used(USD, now + length) - on_the_way.rate * length)
        most.append(limits.usd)
    going: list[HeldBack] = []
    for each in order(held):
        needs = [each.milli * length, each.rate * length][: len(room)]
        if any(left < min(need, limit) for left, need, limit in zip(room, needs, most, strict=True)):
            break
        going.append(each)
        room = [left - need for left, need in zip(room, needs, strict=True)]
    return tuple(going)
