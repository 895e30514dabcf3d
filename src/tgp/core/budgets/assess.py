"""What a budget's account means now and next: used, left, how fast, beyond the quota or not, and until when.

One function answers status, metrics, enforcement and people alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal

import msgspec

from tgp.core.budgets.account import BUCKETS, USD, USED, BudgetAccount
from tgp.core.model.arrays import Ints, np

MILLI_SECONDS = 3_600_000  # milli-GPU-seconds of a GPU-hour
USD_SECONDS = 3600  # micro-dollars an hour times seconds, of a micro-dollar
REOPENS_BELOW = 99  # percent of the quota: use must fall below it before a budget is open again
FORECAST = "forecast"
_PLACES = Decimal("0.000001")


class Limits(msgspec.Struct, frozen=True):
    """A quota in the units of the account, as it holds at one moment."""

    used: int
    usd: int | None = None  # None: money has no limit
    lapses_at: int | None = None  # when hours on top of it lapse; None: none are granted


class Assessment(msgspec.Struct, frozen=True):
    now: int
    used: int
    left: int
    unsure: int
    unpriced: int
    usd: int
    milli: int  # in use now
    pods: int  # that are placed or running
    exceeded: bool
    exhausted_at: int | None  # when the quota is used up if everything runs on; None: not within a window
    next_change_at: int | None  # no later than `exceeded` can change by itself; None: not within a window
    quota: int  # with all hours on top
    usd_quota: int | None = None  # None: money has no limit

    @property
    def moves(self) -> bool:
        """Whether use changes while time passes and nothing else happens."""
        return self.used > 0 or self.milli > 0

    def reaches(self, percent: int) -> bool:
        """Whether so much of the nearer limit is used: of hours, or of money."""
        pairs = ((self.used, self.quota), (self.usd, self.usd_quota))
        return any(limit is not None and used > 0 and used * 100 >= limit * percent for used, limit in pairs)

    @property
    def share(self) -> float:
        """Used of the nearer limit."""
        hours = self.used / self.quota
        return hours if not self.usd_quota else max(hours, self.usd / self.usd_quota)


def assess(limits: Limits, account: BudgetAccount, now: int, *, exceeded: bool) -> Assessment:
    """`exceeded`: what was told last. A budget that was closed opens again only well below its quota."""
    used, unsure, usd, unpriced = account.all_used(now)
    hours = _course(account, USED, limits.used, used, now)
    courses = [hours] if limits.usd is None else [hours, _course(account, USD, limits.usd, usd, now)]
    over = any(course.over(exceeded=exceeded) for course in courses)
    rises = [course.reaches(course.limit) for course in courses]
    if over:
        falls = [course.falls() for course in courses if course.over(exceeded=True)]
        known = [fall for fall in falls if fall is not None]
        change = max(known) if len(known) == len(falls) else None
    else:
        change = min((course.may_reach(course.limit) for course in courses), default=None, key=_last)
    change = min(change, limits.lapses_at, key=_last)
    return Assessment(
        now,
        used,
        max(0, limits.used - used),
        unsure,
        unpriced,
        usd,
        hours.rate,
        len(account.open),
        over,
        now if over else min(rises, default=None, key=_last),
        change,
        limits.used,
        limits.usd,
    )


def reached_at(limits: Limits, account: BudgetAccount, now: int, percent: int) -> int | None:
    """No later than when use can reach so much of a limit; None: not within a window."""
    courses = [_course(account, USED, limits.used, account.used(USED, now), now)]
    if limits.usd is not None:
        courses.append(_course(account, USD, limits.usd, account.used(USD, now), now))
    moments = (course.may_reach(-(-course.limit * percent // 100)) for course in courses)
    return min(moments, default=None, key=_last)


def _course(account: BudgetAccount, series: int, limit: int, used: int, now: int) -> "_Course":
    kind = _WindowCourse if account.period is None else _PeriodCourse
    return kind(account, series, limit, used, now)


def _last(moment: int | None) -> float:
    return float("inf") if moment is None else moment


class _Course(ABC):
    """How use of one series goes on if no pod starts or ends."""

    def __init__(self, account: BudgetAccount, series: int, limit: int, used: int, now: int) -> None:
        self._account, self._series, self._now, self.limit, self._used = account, series, now, limit, used
        place = 1 if series == USED else 2  # of the amount in an OpenPod
        self._open = [(pod[0], pod[place] or 0) for pod in account.open.values() if pod[0] is not None]
        self.rate = sum([amount for _, amount in self._open])

    def over(self, *, exceeded: bool) -> bool:
        bound = self.limit * REOPENS_BELOW if exceeded else self.limit * 100
        return self._used * 100 >= bound

    @abstractmethod
    def may_reach(self, amount: int) -> int | None:
        """No later than when use is so much; None: not as far as this looks."""

    @abstractmethod
    def reaches(self, amount: int) -> int | None:
        """When use is so much, to the second."""

    @abstractmethod
    def falls(self) -> int | None:
        """When use is well below the limit again; None: not while what is open stays so."""


class _PeriodCourse(_Course):
    """Of a calendar: use only rises until the next period begins, and then begins at nothing."""

    def may_reach(self, amount: int) -> int | None:
        return self.reaches(amount)

    def reaches(self, amount: int) -> int | None:
        if self._used >= amount:
            return self._now
        at = self._now - (self._used - amount) // self.rate if self.rate else self._turns_at()
        return at if at < self._turns_at() else None

    def falls(self) -> int | None:
        return self._turns_at()

    def _turns_at(self) -> int:
        account = self._account
        assert account.period is not None, "a calendar"
        return account.turns_at if self._now < account.turns_at else account.period.bounds(self._now)[1]


class _WindowCourse(_Course):
    """Of a rolling window: known at every edge of a bucket."""

    _known: tuple[Ints, Ints, Ints] | None = None

    def may_reach(self, amount: int) -> int | None:
        """As if the oldest bucket left only as a whole."""
        if self._used >= amount:
            return self._now
        if not self._can_reach(amount):
            return None
        edges, closed, opened = self._course()
        whole = np.concatenate((closed[:1] + self._leaving(), closed[:-1]))  # until each edge
        found = np.flatnonzero(whole + opened >= amount)
        if not len(found):
            return None
        number = int(found[0])
        before = self._now if number == 0 else int(edges[number - 1])
        return _first(before, int(edges[number]), lambda at: int(whole[number]) + self._opened(at) >= amount)

    def reaches(self, amount: int) -> int | None:
        if self._used >= amount:
            return self._now
        if not self._can_reach(amount):
            return None
        edges, closed, opened = self._course()
        found = np.flatnonzero(closed + opened >= amount)
        if not len(found):
            return None
        number = int(found[0])
        before = self._now if number == 0 else int(edges[number - 1])
        return _first(before, int(edges[number]), lambda at: self._at(at) >= amount)

    def falls(self) -> int | None:
        edges, closed, opened = self._course()
        bound = -(-self.limit * REOPENS_BELOW // 100)
        found = np.flatnonzero(closed + opened < bound)
        if not len(found):
            return None
        number = int(found[0])
        before = self._now if number == 0 else int(edges[number - 1])
        return _first(before, int(edges[number]), lambda at: self._at(at) < bound)

    def _can_reach(self, amount: int) -> bool:
        """False: not even if nothing leaves the window."""
        return bool(self.rate) and self._used + self._leaving() + self.rate * self._account.window >= amount

    def _course(self) -> tuple[Ints, Ints, Ints]:
        """At each edge from the next one on until all is gone: closed use, open use."""
        if self._known is not None:
            return self._known
        width, sums = self._account.width, self._account.sums[self._series]
        bucket = self._now // width
        gone = max(bucket - self._account.newest, 0)
        edges = (bucket + 1 + np.arange(BUCKETS + 1, dtype=np.int64)) * width
        after = np.zeros(BUCKETS + 1, np.int64)  # what is left at each edge
        kept = sums[gone + 1 :]
        if len(kept):
            after[: len(kept)] = kept[::-1].cumsum()[::-1]
        self._known = edges, after, self._opened_at(edges)
        return self._known

    def _leaving(self) -> int:
        """The bucket that is partly outside the window now."""
        gone = max(self._now // self._account.width - self._account.newest, 0)
        return int(self._account.sums[self._series][gone]) if gone <= BUCKETS else 0

    def _opened_at(self, moments: Ints) -> Ints:
        if not self._open:
            return np.zeros(len(moments), np.int64)
        window = self._account.window
        since = self._account.since
        pairs = np.array(sorted((max(start, since), amount) for start, amount in self._open), np.int64)
        starts, amounts = pairs[:, 0], pairs[:, 1]
        total = np.concatenate(([0], amounts.cumsum()))
        weighted = np.concatenate(([0], (amounts * (starts - self._now)).cumsum()))  # from now: sums stay small
        full = np.searchsorted(starts, moments - window)  # these have filled the window
        partly = (total[-1] - total[full]) * (moments - self._now) - (weighted[-1] - weighted[full])
        opened: Ints = total[full] * window + partly
        return opened

    def _opened(self, at: int) -> int:
        begin = self._account.begins(at)
        return sum(amount * (at - max(start, begin)) for start, amount in self._open)

    def _at(self, at: int) -> int:
        return self._account.closed(self._series, at) + self._opened(at)


def _first(before: int, at: int, holds: Callable[[int], bool]) -> int:
    """The first second after `before` at which it holds; it holds at `at`."""
    while at - before > 1:
        middle = (before + at) // 2
        if holds(middle):
            at = middle
        else:
            before = middle
    return at


def hours_text(milli_seconds: int) -> str:
    """GPU-hours as a decimal with at most six places: a valid quantity."""
    return decimal_text(Decimal(milli_seconds) / MILLI_SECONDS)


def gpus_text(milli: int) -> str:
    return decimal_text(Decimal(milli) / 1000)


def usd_text(amount: int) -> str:
    return decimal_text(Decimal(amount) / USD_SECONDS / 1_000_000)


def decimal_text(number: Decimal) -> str:
    text = f"{number.quantize(_PLACES):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
