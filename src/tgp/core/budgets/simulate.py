"""Whether more GPUs would fit into a budget, and from when: if everything that runs now runs on."""

import msgspec

from tgp.core.budgets.account import BUCKETS, USED, BudgetAccount
from tgp.core.budgets.assess import Limits
from tgp.core.model.arrays import Ints, np


class BudgetFit(msgspec.Struct, frozen=True):
    needs: int  # milli-GPU-seconds
    at: int | None  # the earliest start with which the quota is not reached before the end; None: there is none
    too_large: bool = False  # not even with nothing else running


def fit(
    account: BudgetAccount, limits: Limits, now: int, *, milli: int, lasts: int, opens_at: int | None = None
) -> BudgetFit:
    """For so many thousandths of a GPU and so many seconds. `opens_at`: of a budget beyond its quota, when it is not.

    Money is not looked at: the price is not known yet.
    """
    needs = milli * lasts
    if milli * min(lasts, account.window) >= limits.used:
        return BudgetFit(needs, None, too_large=True)
    search = _in_window if account.period is None else _in_period
    return BudgetFit(needs, search(account, limits, max(now, opens_at or now), milli, lasts))


def _in_period(account: BudgetAccount, limits: Limits, now: int, milli: int, lasts: int) -> int | None:
    """Now, or when the next period begins."""
    assert account.period is not None, "a calendar"
    turn = account.period.bounds(now)[1]
    rate = milli + sum(pod.milli for pod in account.open.values() if pod.start is not None)
    after = rate * max(0, lasts - (turn - now)) < limits.used
    if after and account.used(USED, now) + rate * min(lasts, turn - now) < limits.used:
        return now
    return turn if rate * lasts < limits.used else None


def _in_window(account: BudgetAccount, limits: Limits, now: int, milli: int, lasts: int) -> int | None:
    """At edges of buckets. Between two of them use is at most what is closed at the first and open at the second."""
    width, first = account.width, (now // account.width + 1) * account.width
    many = BUCKETS + 1 + -(-min(lasts, account.window) // width)
    edges = np.array([now, *(first + width * number for number in range(many + 1))], np.int64)
    closed = np.array([account.closed(USED, int(edge)) for edge in edges], np.int64)
    opened = np.array([account.opened(USED, int(edge)) for edge in edges], np.int64)
    highest: Ints = closed[:-1] + opened[1:]  # until the next edge
    for number in range(BUCKETS + 1):
        start = int(edges[number])
        end = min(int(np.searchsorted(edges, start + lasts)), len(highest))
        added = milli * np.minimum(edges[number + 1 : end + 1] - start, lasts)
        if int((highest[number:end] + added).max()) < limits.used:
            return start
    return None
