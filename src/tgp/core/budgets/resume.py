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
    priority: int = 0


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
    on_the_way: int = 0,
) -> tuple[HeldBack, ...]:
    """Those that may go on now, for a budget that is open. None overtakes: the first that must wait stops the rest.

    `on_the_way`: milli-GPUs that were let go or created and have not started, so that the account does not count them.
    Where money is limited, too, each is expected to cost what the budget's GPU-hours have cost so far. One that would
    use the whole quota sooner goes when nothing else uses any of it.
    """
    length = lasting(account.window)
    used, usd = account.used(USED, now), account.used(USD, now)

    def needed(milli: int) -> list[int]:
        hours = milli * length
        return [hours] if limits.usd is None else [hours, hours * usd // used if used else 0]

    most = [limits.used] if limits.usd is None else [limits.used, limits.usd]
    room = [
        limit - account.used(series, now + length) - needs
        for limit, series, needs in zip(most, (USED, USD), needed(on_the_way), strict=False)
    ]
    going: list[HeldBack] = []
    for each in order(held):
        needs = needed(each.milli)
        if any(left < min(need, limit) for left, need, limit in zip(room, needs, most, strict=True)):
            break
        going.append(each)
        room = [left - need for left, need in zip(room, needs, strict=True)]
    return tuple(going)
