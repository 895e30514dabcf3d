"""What the cheapest GPU cost: fine for two days, hourly for two weeks, and never more than 20 MB of it.

A series follows the lowest price of one GPU an hour for a provider, model, region and kind. A period in which nothing
was offered has no bucket: absence is not a price.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from tgp.core.model.offer import Offer, Stock
from tgp.core.model.price_book import SeriesKey, sane

FINE = timedelta(minutes=10)
FINE_FOR = timedelta(hours=48)
COARSE = timedelta(hours=1)
COARSE_FOR = timedelta(days=14)
MOST_SERIES = 2_000  # at most 624 buckets of 16 bytes each: 20 MB; eight providers have some 800 in use


class Bucket(msgspec.Struct, frozen=True):
    """What was seen from `start` on, for as long as the bucket is."""

    start: datetime
    length: timedelta
    low: int  # micro-dollars
    high: int
    last: int


class _Ring:
    """Buckets of one length, oldest first; each at most once, none older than the span. Four small integers each."""

    __slots__ = ("_highs", "_lasts", "_length", "_lows", "_most", "_numbers")

    def __init__(self, length: timedelta, span: timedelta) -> None:
        self._length = length
        self._most = span // length
        self._numbers = array("i")  # of buckets since 1970, ascending
        self._lows = array("i")
        self._highs = array("i")
        self._lasts = array("i")

    def note(self, at: datetime, price: int) -> None:
        number = int(at.timestamp() // self._length.total_seconds())
        newest = self._numbers[-1] if self._numbers else None
        if newest is not None and newest - number >= self._most:  # a clock was far ahead: what it dated is worthless
            self._forget(len(self._numbers))
            newest = None
        if newest is None or number > newest:
            self._append(number, price)
        else:  # still the same bucket; or the clock was set back a little, and the current bucket goes on
            self._lows[-1] = min(self._lows[-1], price)
            self._highs[-1] = max(self._highs[-1], price)
            self._lasts[-1] = price

    def buckets(self, now: datetime) -> list[Bucket]:
        """Those within the span before now: a series without new prices expires all the same."""
        step = self._length.total_seconds()
        oldest = now.timestamp() - self._most * step
        return [
            Bucket(datetime.fromtimestamp(number * step, UTC), self._length, low, high, last)
            for number, low, high, last in zip(self._numbers, self._lows, self._highs, self._lasts, strict=True)
            if number * step > oldest
        ]

    def _append(self, number: int, price: int) -> None:
        for column, value in zip(self._columns(), (number, price, price, price), strict=True):
            column.append(value)
        self._forget(bisect_right(self._numbers, number - self._most))

    def _forget(self, count: int) -> None:
        for column in self._columns():
            del column[:count]

    def _columns(self) -> tuple["array[int]", ...]:
        return self._numbers, self._lows, self._highs, self._lasts


class _Series:
    __slots__ = ("coarse", "fine", "seen_at")

    def __init__(self, seen_at: datetime) -> None:
        self.fine = _Ring(FINE, FINE_FOR)
        self.coarse = _Ring(COARSE, COARSE_FOR)
        self.seen_at = seen_at


class PriceHistory:
    """One writer, many readers; what readers get does not change."""

    def __init__(self, most_series: int = MOST_SERIES) -> None:
        self._most = most_series
        self._series: dict[SeriesKey, _Series] = {}  # the longest unseen first

    def __len__(self) -> int:
        return len(self._series)

    def note(self, offers: Iterable[Offer], at: datetime) -> None:
        """Record the prices of one listing. Beyond the bound, the series longest without a price is dropped."""
        for key, price in sorted(_cheapest(offers).items()):
            series = self._series.pop(key, None) or _Series(at)
            series.seen_at = at
            series.fine.note(at, price)
            series.coarse.note(at, price)
            self._series[key] = series
        while len(self._series) > self._most:
            del self._series[next(iter(self._series))]

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(sorted(self._series))

    def recent(self, key: SeriesKey, now: datetime) -> tuple[Bucket, ...]:
        """The last two days in steps of ten minutes, oldest first; empty: never seen."""
        series = self._series.get(key)
        return () if series is None else tuple(series.fine.buckets(now))

    def whole(self, key: SeriesKey, now: datetime) -> tuple[Bucket, ...]:
        """Hourly steps until the fine ones begin, then those; oldest first."""
        series = self._series.get(key)
        if series is None:
            return ()
        fine = series.fine.buckets(now)
        if not fine:
            return tuple(series.coarse.buckets(now))
        begins = fine[0].start
        return (*(each for each in series.coarse.buckets(now) if each.start + each.length <= begins), *fine)


def _cheapest(offers: Iterable[Offer]) -> dict[SeriesKey, int]:
    """The lowest price of one GPU in each series; what is sold out has none."""
    best: dict[SeriesKey, int] = {}
    for offer in offers:
        if offer.stock != Stock.NONE and sane(offer):
            key = SeriesKey(offer.provider, offer.gpu, offer.region, offer.spot)
            best[key] = min(offer.per_gpu_microusd, best.get(key, offer.per_gpu_microusd))
    return best
