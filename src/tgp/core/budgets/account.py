"""What a budget has counted: closed spans as sums per bucket, open pods one by one. Exact integers.

The window has 720 buckets, and one more that is partly outside it. In that one at most `peak` times the seconds inside
still counts, so use is exact at every edge of a bucket and never below the truth in between. Beside the buckets stand
the sums of 31 days by the hour: a longer window tomorrow refunds nothing. Where a calendar's period counts instead of a
window, the buckets are emptied when the next one begins, and what ran across that moment counts from it on.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from tgp.core.budgets.period import LONGEST, Period
from tgp.core.budgets.spans import UID_BYTES, Sighting
from tgp.core.model.arrays import Ints, np

BUCKETS = 720
HOUR = 3600
HOURS_KEPT = 31 * 24
ENDED_KEPT = 90  # seconds for which a pod that ended is remembered by name
MOST_STAYING = 1_000  # pods that are remembered for longer: 17,000 characters of the status
NEVER = 1 << 62
COUNTED_BEFORE = 60  # seconds: what ended longer than this before the last write was in it
REST = b"\xff" * UID_BYTES  # instead of a uid: open pods that an account has no room for one by one

# The series of an account. Time is in milli-GPU-seconds, money in micro-dollars an hour times seconds.
USED, UNSURE, USD, UNPRICED = range(4)
SERIES = 4
NONE_RETURNED: Mapping[bytes, tuple[int, int] | None] = MappingProxyType({})
PEAKED = (USED, USD)  # these hold against a limit: what is outside the window leaves second by second


class OpenPod(NamedTuple):
    """A pod that is placed or running. What ran before a resize or a change of price is closed already."""

    start: int | None  # None: it has not started
    milli: int
    rate: int | None = None  # micro-dollars an hour; None: the Node has no price
    sure_until: int | None = None  # None: its Node reports
    first: int | None = None  # when it started, where its span was cut; None: it was not
    before: int = 0  # what it used from there until its start here, in milli-GPU-seconds: that is closed already

    @property
    def began(self) -> int | None:
        """When it started; None: it has not."""
        return self.start if self.first is None else self.first

    def cut(self, now: int) -> "OpenPod":
        """The same, open from now on."""
        if self.start is None or now <= self.start:
            return self
        before = self.before + self.milli * (now - self.start)
        return self._replace(start=now, first=self.start if self.first is None else self.first, before=before)

    def used(self, begin: int, now: int) -> int:
        """Since `begin`, to name it by. Of what it used before a cut, the part of that time."""
        if self.start is None:
            return 0
        used = self.milli * max(0, now - max(self.start, begin))
        if self.first is not None and begin < self.start:
            used += self.before * (self.start - max(self.first, begin)) // (self.start - self.first)
        return used

    def amount(self, series: int) -> int:
        """What it adds to a series every second."""
        if series == USD:
            return self.rate or 0
        counted = {USED: True, UNSURE: self.sure_until is not None, UNPRICED: self.rate is None}[series]
        return self.milli if counted else 0


def _table(columns: int, rows: int = SERIES) -> Ints:
    return np.zeros((rows, columns), np.int64)


@dataclass(slots=True, eq=False)
class BudgetAccount:
    """Changed in place by its one owner; the budget's status holds a packed copy."""

    width: int  # seconds of a bucket
    at: int  # the moment of the last change: all that was seen until then is in it
    version: int = 0  # of the pod list that it was counted from; 0: unknown
    sums: Ints = field(default_factory=lambda: _table(BUCKETS + 1))
    peaks: Ints = field(default_factory=lambda: _table(BUCKETS + 1, len(PEAKED)))
    hourly: Ints = field(default_factory=lambda: _table(HOURS_KEPT + 1))
    open: dict[bytes, OpenPod] = field(default_factory=dict)
    ended: dict[bytes, int] = field(default_factory=dict)  # when
    staying: set[bytes] = field(default_factory=set)  # of these: until their objects are gone, they may run again
    newest: int = -1  # the bucket in the last column, counted from the epoch
    newest_hour: int = -1
    period: Period | None = None  # None: a rolling window
    reset_at: int = 0  # what was used before it counts no longer
    since: int = 0  # the same, and of a calendar at least the beginning of its period
    turns_at: int = NEVER  # when the next period begins

    def __post_init__(self) -> None:
        if self.newest < 0:
            self.newest, self.newest_hour = self.at // self.width, self.at // HOUR
        begin, self.turns_at = self.period.bounds(self.at) if self.period is not None else (0, NEVER)
        self.since = max(begin, self.reset_at)

    @property
    def window(self) -> int:
        """Seconds that it looks back; of a calendar at least its longest period."""
        return self.width * BUCKETS

    @property
    def rolls(self) -> int:
        """Seconds of a rolling window, out of which hours come back all the time; 0: a calendar, where none do."""
        return self.window if self.period is None else 0

    def begins(self, now: int) -> int:
        """Since when use counts at this moment."""
        if self.period is not None and now >= self.turns_at:
            return self.period.bounds(now)[0]
        return max(now - self.window, self.since)

    def reset(self, at: int) -> None:
        """Begin again: pods that run count from here on. What they used before stays in the hours of the day."""
        self.advance(at)
        self.reset_at = self.since = at
        self.sums[:], self.peaks[:] = 0, 0

    # -- time moves on -------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Drop what no window of today can see, and forget who ended long ago. Time never goes back here."""
        if now <= self.at:
            return
        if self.period is not None and now >= self.turns_at:
            self.since, self.turns_at = self.period.bounds(now)
            self.sums[:], self.peaks[:] = 0, 0
        if (steps := now // self.width - self.newest) > 0:
            self.newest += steps
            for table in (self.sums, self.peaks):
                _shift(table, steps)
        if (steps := now // HOUR - self.newest_hour) > 0:
            self.newest_hour += steps
            _shift(self.hourly, steps)
        self.at = now
        if self.ended:
            kept = now - ENDED_KEPT
            self.ended = {uid: end for uid, end in self.ended.items() if end > kept or uid in self.staying}

    # -- pods come and go ----------------------------------------------------------------------------------------------

    def see(self, seen: Sighting, now: int, since: int | None = None) -> bool:
        """Take a pod's state over; whether that opened, cut or closed a span. `since`: it did not count before."""
        self.advance(now)
        if seen.uid in self.ended:
            return False
        held = self.open.get(seen.uid)
        if seen.end is not None:
            return self._close(seen, held, now, since)
        cut = held
        if held is not None and held.start is not None and (held.milli, held.rate) != (seen.milli, seen.rate):
            self.charge_pod(held, held.start, now)  # the span is cut here
            cut = held.cut(now)
        if cut is not None and cut.start is not None:
            after = cut._replace(milli=seen.milli, rate=seen.rate, sure_until=seen.sure_until)
        else:
            start = seen.start
            if start is not None and since is not None and held is None:
                start = max(start, since)
            after = OpenPod(start, seen.milli, seen.rate, seen.sure_until)
        self.open[seen.uid] = after
        return after != held

    def _close(self, seen: Sighting, held: OpenPod | None, now: int, since: int | None) -> bool:
        assert seen.end is not None, "only what has ended is closed"
        self.open.pop(seen.uid, None)
        self.ended[seen.uid] = max(seen.end, now)
        start = held.start if held is not None and held.start is not None else seen.start
        if start is None:
            return held is not None
        if since is not None and held is None:
            start = max(start, since)
        milli, rate = (
            (held.milli, held.rate) if held is not None and held.start is not None else (seen.milli, seen.rate)
        )
        self.charge_pod(OpenPod(start, milli, rate, seen.sure_until), start, seen.end)
        return True

    def let_go(self, uid: bytes, now: int) -> None:
        """It counts until now, and may count again later: it has not ended."""
        self.advance(now)
        pod = self.open.pop(uid, None)
        if pod is not None and pod.start is not None:
            self.charge_pod(pod, pod.start, now)

    def stay(self, uid: bytes, end: int) -> None:
        """It ended with its machine or its Node, and its object is still there: its end is kept until `leave`."""
        if uid in self.staying or len(self.staying) < MOST_STAYING:
            self.staying.add(uid)
            self.ended[uid] = end

    def leave(self, uid: bytes) -> None:
        """Its object is gone, or it counts no longer."""
        self.staying.discard(uid)

    def reopen(self, seen: Sighting, since: int, now: int, off: tuple[int, int] | None = None) -> None:
        """It was shown as ended at `since`, and runs: what it used meanwhile counts, and is unsure.

        `off`: between these moments its machine was off, and that time does not count.
        """
        self.advance(now)
        self.ended.pop(seen.uid, None)
        self.leave(seen.uid)
        start = since
        if off is not None and since < off[1]:
            start = off[1]
            if seen.start is not None:
                self.charge_pod(OpenPod(since, seen.milli, seen.rate, since), since, off[0])
        if seen.start is not None:
            self.charge(UNSURE, start, now, seen.milli)
        self.open[seen.uid] = OpenPod(None if seen.start is None else start, seen.milli, seen.rate, seen.sure_until)

    def skip(self, uid: bytes, begin: int, end: int) -> None:
        """An open pod did not run between these moments: its machine was off. Nothing, if it started later."""
        held = self.open[uid]
        if held.start is not None and held.start <= begin < end:
            self.charge_pod(held, held.start, begin)
            self.open[uid] = held.cut(begin)._replace(start=end)

    def charge_pod(self, pod: OpenPod, start: int, end: int) -> None:
        """Add what it used between these moments."""
        if pod.sure_until is not None:
            self.charge(UNSURE, max(start, pod.sure_until), end, pod.milli)
        if pod.rate is None:
            self._charge(start, end, ((USED, pod.milli), (UNPRICED, pod.milli)))
        else:
            self._charge(start, end, ((USED, pod.milli), (USD, pod.rate)))

    def close_open(self, now: int) -> None:
        """Close what is open now, and let it go on from now."""
        self.advance(now)
        for uid, pod in self.open.items():
            if pod.start is not None:
                self.charge_pod(pod, pod.start, now)
                self.open[uid] = pod.cut(now)

    def resume_open(self, since: int) -> None:
        """What is open did not count between its start and `since`."""
        for uid, pod in self.open.items():
            if pod.start is not None:
                self.open[uid] = pod._replace(start=max(pod.start, since))

    def with_rest(self, keep: int) -> "BudgetAccount":
        """A copy in which so many open pods are left, and the smallest are one: closed until now, and open from now.

        Those that started just now stay: a process that takes the copy up counts them from their start.
        """
        able = [
            uid for uid, pod in self.open.items() if pod.start is not None and pod.start <= self.at - COUNTED_BEFORE
        ]
        smallest = sorted(able, key=lambda uid: (self.open[uid].milli, uid))[: max(len(self.open) - keep, 0)]
        copy = replace(
            self, sums=self.sums.copy(), peaks=self.peaks.copy(), hourly=self.hourly.copy(), open=dict(self.open)
        )
        pods = [copy.open.pop(uid) for uid in smallest]
        for pod in pods:
            assert pod.start is not None, "chosen above"
            copy.charge_pod(pod, pod.start, self.at)
        if pods:
            rates = [pod.rate for pod in pods if pod.rate is not None]
            copy.open[REST] = OpenPod(self.at, sum(pod.milli for pod in pods), sum(rates) if rates else None)
        return copy

    # -- sums ----------------------------------------------------------------------------------------------------------

    def charge(self, series: int, start: int, end: int, amount: int) -> None:
        """Add one closed span."""
        self._charge(start, end, ((series, amount),))

    def _charge(self, start: int, end: int, amounts: tuple[tuple[int, int], ...]) -> None:
        """The same span in several series."""
        if start >= end:
            return
        self.advance(end)
        since = max(self.since, start)
        if (place := _place(self.newest - BUCKETS, self.width, since, end)) is not None:
            for series, amount in amounts:
                _add(self.sums[series], self.width, place, amount)
                if series in PEAKED:
                    touched = self.peaks[PEAKED.index(series), place[0] : place[1] + 1]
                    touched += amount
        if (place := _place(self.newest_hour - HOURS_KEPT, HOUR, start, end)) is not None:
            for series, amount in amounts:
                _add(self.hourly[series], HOUR, place, amount)

    def fold(self, series: int, starts: Ints, ends: Ints, amounts: Ints) -> None:
        """Add many closed spans to the buckets at once."""
        touched = _add_many(self.sums[series], (self.newest - BUCKETS, self.width), starts, ends, amounts)
        if series in PEAKED:
            self.peaks[PEAKED.index(series)] += touched

    def closed(self, series: int, now: int) -> int:
        """What closed spans used in the window that ends now. Never below the truth, exact at the edges."""
        sums = self.sums[series]
        gone = now // self.width - self.newest  # buckets that have left since the last change
        if gone > BUCKETS or now >= self.turns_at:
            return 0
        gone = max(gone, 0)
        oldest = int(sums[gone])
        if oldest and series in PEAKED:
            inside = self.width - now % self.width
            oldest = min(oldest, int(self.peaks[PEAKED.index(series), gone]) * inside)
        return oldest + int(sums[gone + 1 :].sum())

    def opened(self, series: int, now: int) -> int:
        """What open pods used in the window that ends now."""
        return self._opened(now)[series]

    def _opened(self, now: int) -> tuple[int, int, int, int]:
        """Of every series, by one look at each pod."""
        begin = self.begins(now)
        used = unsure = usd = unpriced = 0
        for start, milli, rate, sure_until, _, _ in self.open.values():
            if start is None or start >= now or begin >= now:
                continue
            lasts = now - (max(begin, start))
            used += milli * lasts
            if rate is None:
                unpriced += milli * lasts
            else:
                usd += rate * lasts
            if sure_until is not None and sure_until < now:
                unsure += milli * min(lasts, now - sure_until)
        return used, unsure, usd, unpriced

    def all_used(self, now: int) -> tuple[int, ...]:
        """Of every series, in their order."""
        return tuple(opened + self.closed(series, now) for series, opened in enumerate(self._opened(now)))

    def used(self, series: int, now: int) -> int:
        return self.closed(series, now) + self.opened(series, now)

    # -- another window ------------------------------------------------------------------------------------------------

    def with_window(self, width: int, period: Period | None = None) -> "BudgetAccount":
        """The same use by other buckets. What an hour used counts until the whole hour has left.

        What is older than the hours that are kept is in the buckets alone: of each, until the whole bucket has left.
        """
        if (width, period) == (self.width, self.period):
            return self
        other = BudgetAccount(
            width, self.at, self.version, open=self.open, ended=self.ended, period=period, reset_at=self.reset_at
        )
        other.staying = self.staying
        other.hourly, other.newest_hour = self.hourly, self.newest_hour
        oldest = (self.newest_hour - HOURS_KEPT) * HOUR
        last = np.minimum(oldest + (np.arange(HOURS_KEPT + 1) + 1) * HOUR, self.at + 1)
        kept = last > other.since
        for series in range(SERIES):
            other.fold(series, last[kept] - 1, last[kept], self.hourly[series, kept])
        if other.since < oldest:
            self._fold_older(other, oldest)
        return other

    def _fold_older(self, other: "BudgetAccount", oldest: int) -> None:
        """Add what was used before the first hour that is kept; of the bucket that ends after it, without its hours."""
        ends = (np.arange(BUCKETS + 1) + self.newest - BUCKETS + 1) * self.width
        older = (ends - self.width < oldest) & (ends > other.since)
        for series in range(SERIES):
            sums = self.sums[series, older]
            if len(sums):
                whole = max(0, (int(ends[older][-1]) - oldest) // HOUR)  # hours that are in the last of them
                sums[-1] = max(0, sums[-1] - self.hourly[series, :whole].sum())
            other.fold(series, ends[older] - 1, ends[older], sums)

    def unsure_between(self, now: int) -> tuple[int, int] | None:
        """The first and last of the whole hours in which use of closed spans is unsure; None: none that counts now."""
        (found,) = np.nonzero(self.hourly[UNSURE])
        hours = (found + self.newest_hour - HOURS_KEPT) * HOUR
        hours = hours[hours + HOUR > self.begins(now)]
        return (int(hours[0]), int(hours[-1]) + HOUR) if len(hours) else None

    # -- by the day ----------------------------------------------------------------------------------------------------

    def between(self, series: int, begin: int, end: int, now: int) -> int:
        """What was used from one whole hour to another, of the last 31 days and until now; whether reset or not."""
        first = max(0, begin // HOUR - self.newest_hour + HOURS_KEPT)
        last = max(0, end // HOUR - self.newest_hour + HOURS_KEPT)
        total = int(self.hourly[series, first:last].sum())
        for pod in self.open.values():
            amount = pod.amount(series)
            start = pod.start if series != UNSURE or pod.sure_until is None else max(pod.start or 0, pod.sure_until)
            if pod.start is not None and start is not None:
                total += amount * max(0, min(end, now) - max(start, begin))
        return total


def fresh(window_hours: int | None, at: int, period: Period | None = None) -> BudgetAccount:
    """An account that has counted nothing yet, of a budget that counts from `at`."""
    return BudgetAccount(width_of(window_hours, period), at, period=period)


def width_of(window_hours: int | None, period: Period | None = None) -> int:
    """Seconds of a bucket. The hours of a window, or a period."""
    hours = window_hours if period is None else LONGEST[period.calendar]
    assert hours is not None, "a quota has a window or a calendar"
    return -(-hours * HOUR // BUCKETS)


def take_up(
    account: BudgetAccount,
    listed: Iterable[Sighting],
    now: int,
    *,
    alive_until: int,
    seen: Mapping[bytes, int],
    staying: Collection[bytes] = (),
    returned: Mapping[bytes, tuple[int, int] | None] = NONE_RETURNED,
) -> bool:
    """Continue from an account that another process wrote, by one complete list of the pods; whether it changed.

    `alive_until`: the last moment at which that process is known to have watched. `seen`: by uid the version of a
    listed pod; what the account's own list already showed is in it. `staying`: listed pods that ended with their
    machine. `returned`: those whose machine had ended, on record, and whose Node reports: when it was off; None: never.

    | in the account | in the list | what follows |
    | open | running | goes on from its recorded start |
    | open | finished | closed with its own end |
    | open, never started | running or finished | its own start, its own end |
    | open | gone | closed now; sure until the other process, or its Node, was last heard of |
    | open, never started | gone | from the last write until now, all of it unsure |
    | ended | running, by a later state | it goes on: it was not its end |
    | ended | running, and returned | the same, without the time that its machine was off |
    | ended | anything else | nothing |
    | absent | finished before the last write | nothing: it was counted |
    | absent | finished later, or running | from its start, if that is later than the last write; else from that write |
    | charged as one | none of those that were in it, or too few | from the last write until now, unsure |

    What was open at the last write had not ended before it. A stamp that says so is of a wrong clock: then it started
    with that write, or ended now.
    """
    written, version = account.at, account.version
    rest = account.open.pop(REST, None)
    ended = account.ended  # as of the last write, however long ago that is
    account.advance(now)
    here, changed = {each.uid: each for each in listed}, False
    for uid, pod in list(account.open.items()):
        if uid not in here:
            heard = min(alive_until, now) if pod.sure_until is None else min(alive_until, pod.sure_until, now)
            if pod.start is None:  # it may have started at once
                heard = min(heard, written)
            gone = Sighting(uid, pod.milli, written if pod.start is None else pod.start, now, heard, pod.rate)
            changed = account.see(gone, now) or changed
    for uid, each in here.items():
        off = returned.get(uid)
        if uid in account.open:
            if off is not None and off[0] >= written - COUNTED_BEFORE:
                account.skip(uid, *off)
            bounded = _since_written(each, account.open[uid], written, min(alive_until, now), now)
            changed = account.see(bounded, now) or changed
            until = bounded.end
        elif uid in ended:
            until = ended[uid]
            if each.end is None and (uid in returned or 0 < version < seen.get(uid, 0)):
                account.reopen(each, until, now, off)
                until, changed = None, True
        elif each.end is not None and (each.end <= written - COUNTED_BEFORE or 0 < seen.get(uid, 0) <= version):
            until = max(each.end, written)
        else:
            later = each.start is None or each.start > written - COUNTED_BEFORE
            since = None if later else max(written, off[1] if off is not None else 0)
            changed = account.see(each, now, since) or changed
            until = each.end
            if rest is not None and not later:
                rest = rest._replace(milli=rest.milli - each.milli, rate=(rest.rate or 0) - (each.rate or 0))
        if until is not None and (uid in staying or each.end is None):
            account.stay(uid, until)
    if rest is not None:
        _close_rest(account, rest, now)
    return changed or rest is not None


def _since_written(seen: Sighting, held: OpenPod, written: int, alive_until: int, now: int) -> Sighting:
    """Without stamps of before the last write, by more than a report may be late: it was open then."""
    earliest = written - COUNTED_BEFORE
    start, end, sure_until = seen.start, seen.end, seen.sure_until
    if held.start is None and start is not None and start < earliest:
        start = written
    if end is not None and end < earliest:
        heard = alive_until if held.start is not None else written
        end, sure_until = now, heard if held.sure_until is None else min(heard, held.sure_until)
    return Sighting(seen.uid, seen.milli, start, end, sure_until, seen.rate)


def _close_rest(account: BudgetAccount, rest: OpenPod, now: int) -> None:
    """What no listed pod explains has gone: nothing says when."""
    if rest.start is not None and rest.milli > 0:
        gone = rest._replace(rate=max(rest.rate or 0, 0) or None, sure_until=rest.start)
        account.charge_pod(gone, rest.start, now)


def _shift(table: Ints, steps: int) -> None:
    width = table.shape[1]
    if steps >= width:
        table[:] = 0
        return
    table[:, :-steps] = table[:, steps:].copy()
    table[:, -steps:] = 0


def _place(base: int, width: int, start: int, end: int) -> tuple[int, int, int, int] | None:
    """The first and last column of a span, and its seconds in each; None: it ended before the first of all, `base`."""
    start = max(start, base * width)
    if start >= end:
        return None
    first, last = start // width, (end - 1) // width
    if first == last:
        return first - base, last - base, end - start, 0
    return first - base, last - base, (first + 1) * width - start, end - last * width


def _add(row: Ints, width: int, place: tuple[int, int, int, int], amount: int) -> None:
    first, last, head, tail = place
    row[first] = row.item(first) + amount * head  # Python's integers: they are added faster than numpy's
    if last > first:
        row[last] = row.item(last) + amount * tail
        if last - first > 1:
            whole = row[first + 1 : last]
            whole += amount * width


def _add_many(row: Ints, scale: tuple[int, int], starts: Ints, ends: Ints, amounts: Ints) -> Ints:
    """Add spans; returns for each column the amounts of the spans that touch it."""
    base, width = scale
    begin = base * width
    kept = ends > np.maximum(starts, begin)
    starts, ends, amounts = np.maximum(starts[kept], begin), ends[kept], amounts[kept]
    first, last = starts // width - base, (ends - 1) // width - base
    whole, touched = np.zeros(len(row) + 1, np.int64), np.zeros(len(row) + 1, np.int64)
    np.add.at(row, first, amounts * ((first + base + 1) * width - starts))
    np.subtract.at(row, last, amounts * ((last + base + 1) * width - ends))
    np.add.at(whole, first + 1, amounts)
    np.subtract.at(whole, last + 1, amounts)
    np.add.at(touched, first, amounts)
    np.subtract.at(touched, last + 1, amounts)
    row += width * np.cumsum(whole[:-1])
    return np.cumsum(touched[:-1])
