"""Which offers match a query, best first, and why each of the others does not.

One pass over the price book, no side effects, and a total order: equal books and queries give equal results. Every
rejected offer has exactly one reason, the first that applies in the order of `RejectReason`: from what can never fit
to what nearly does, so that the last reasons name the nearest misses.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property

import msgspec

from tgp.core.market.offer_filters import NO_POLICY, RULES, FilterInput
from tgp.core.market.ranking_messages import miss_words, region_hints, summary, unknown_words
from tgp.core.model.arrays import Index, Tiny, np
from tgp.core.model.offer_query import OfferQuery, RejectReason, Selection
from tgp.core.model.price_book import OfferRow, PriceBook, SourceState

MISSES_SHOWN = 3  # nearest misses in an explanation; more is a list
UNKNOWN_SHOWN = 3
_REASONS = tuple(RejectReason)
_REGION = RejectReason.WRONG_REGION
_FITS = len(_REASONS)  # in the array of reasons: none


class Miss(msgspec.Struct, frozen=True):
    """One offer that was rejected."""

    row: OfferRow
    reason: RejectReason
    words: str  # which offer, and by how much it missed


class Ranking:
    """The answer. Rows are made when they are read: most readers want the first few.

    An empty book is judged without arrays: an operator without offers does not load numpy.
    """

    def __init__(self, asked: FilterInput) -> None:
        self._asked = asked
        self._book = asked.book

    def __len__(self) -> int:
        """How many match."""
        return len(self.fitting) if self._book else 0

    def __iter__(self) -> Iterator[OfferRow]:
        """What matches, best first."""
        return map(self._book.row, self.fitting.tolist()) if self._book else iter(())

    @property
    def query(self) -> OfferQuery:
        """The query it was ranked by."""
        return self._asked.query

    @property
    def fitting(self) -> Index:
        """Rows of the book that match, best first."""
        return self._judged[0]

    @property
    def reasons(self) -> Tiny:
        """By row of the book: the place of its reason in RejectReason; their number where it fits."""
        return self._judged[1]

    @cached_property
    def _judged(self) -> tuple[Index, Tiny]:
        reasons = np.full(len(self._book), _FITS, np.int8)
        rows: Index = np.arange(len(self._book))
        for code, rule in enumerate(RULES.values()):
            if not len(rows):
                break
            fails = rule(self._asked, rows)
            if fails.any():
                reasons[rows[fails]] = code
                rows = rows[~fails]
        return _in_order(self._asked, rows), reasons

    @property
    def best(self) -> OfferRow | None:
        return self._book.row(int(self.fitting[0])) if len(self) else None

    def first(self, count: int) -> tuple[OfferRow, ...]:
        return tuple(map(self._book.row, self.fitting[:count].tolist())) if self._book else ()

    @cached_property
    def by_source(self) -> Mapping[str, int]:
        """How many fit, of each source."""
        if not self._book:
            return {state.source: 0 for state in self._book.sources}
        counts = np.bincount(self._book.source_of[self.fitting], minlength=len(self._book.sources)).tolist()
        return {state.source: count for state, count in zip(self._book.sources, counts, strict=True)}

    def first_of_each_kind(self) -> tuple[OfferRow, ...]:
        """Of each GPU model, source and kind (spot or not) the best that fits; the best of them first."""
        if not self._book:
            return ()
        columns, fitting = self._book.columns, self.fitting
        sources = self._book.source_of[fitting].astype(np.int64)
        kinds = (sources * len(columns.words.gpus) + columns.gpu[fitting]) * 2 + columns.spot[fitting]
        _, firsts = np.unique(kinds, return_index=True)
        return tuple(map(self._book.row, fitting[np.sort(firsts)].tolist()))

    @cached_property
    def passed(self) -> Mapping[RejectReason, int]:
        """How many offers were rejected for which reason, the most frequent first."""
        if not self._book:
            return {}
        counts = np.bincount(self.reasons, minlength=_FITS + 1)[:_FITS].tolist()
        found = [(reason, count) for reason, count in zip(_REASONS, counts, strict=True) if count]
        return dict(sorted(found, key=lambda each: (-each[1], _REASONS.index(each[0]))))

    def passed_of(self, source: str) -> Mapping[RejectReason, int]:
        """The same of one source, in the order of the reasons."""
        place = next((number for number, state in enumerate(self._book.sources) if state.source == source), -1)
        counts = np.bincount(self.reasons[self._book.source_of == place], minlength=_FITS + 1)[:_FITS].tolist()
        return {reason: count for reason, count in zip(_REASONS, counts, strict=True) if count}

    def misses(self) -> Iterator[Miss]:
        """Every offer that was rejected, the cheapest first, each with its reason."""
        return map(self._miss, np.flatnonzero(self.reasons != _FITS).tolist())

    def nearest(self, count: int = MISSES_SHOWN) -> tuple[Miss, ...]:
        """The cheapest offer of each of the nearest reasons, the nearest first."""
        if not self._book:
            return ()
        missed = np.flatnonzero(self.reasons != _FITS)
        _, firsts = np.unique(self.reasons[missed], return_index=True)  # by reason, so the farthest first
        return tuple(map(self._miss, missed[firsts][::-1][:count].tolist()))

    @cached_property
    def unknown(self) -> tuple[SourceState, ...]:
        """Sources in use that could not be read the last time. Their offers are unknown, not absent."""
        return tuple(state for state in self._book.sources if state.why and self._uses(state.source))

    def explain(self) -> tuple[str, ...]:
        """A few lines for users: what matches, or the nearest misses, and which sources could not be read."""
        lines = [summary(self.best, len(self), len(self._book), self.passed)]
        if self.best is None:
            lines += [miss.words for miss in self.nearest()]
        lines += [unknown_words(state, self._asked.now) for state in self.unknown[:UNKNOWN_SHOWN]]
        return tuple(lines)

    def _uses(self, source: str) -> bool:
        policy = self._asked.policy(source)
        return policy is not None and policy.enabled

    def _miss(self, number: int) -> Miss:
        row, reason = self._book.row(number), _REASONS[self.reasons[number]]
        words = miss_words(reason, row, self._asked.query, self._asked.now)
        return Miss(row, reason, "; ".join((words, *self.unknown_regions)) if reason is _REGION else words)

    @cached_property
    def unknown_regions(self) -> tuple[str, ...]:
        """Of the names of regions in the query, those that mean nothing, each with the nearest ones."""
        query = self._asked.query
        own = (name for policy in (query.policies or {}).values() for name in policy.regions)
        return tuple(region_hints((*query.regions, *query.class_regions, *own), self._asked.columns.words.wheres))


def rank(book: PriceBook, query: OfferQuery, now: datetime) -> Ranking:
    """Everything in the book, judged by one query at one moment."""
    return Ranking(FilterInput(book, query, now))


def _in_order(asked: FilterInput, rows: Index) -> Index:
    """By price and then the provider's priority, or the other way round; equal ones stay in the book's order."""
    if not len(rows) or asked.query.policies is None:
        return rows
    priorities = np.array(
        [(asked.policy(state.source) or NO_POLICY).priority for state in asked.book.sources], np.int64
    )
    priority, price = priorities[asked.book.source_of[rows]], asked.columns.price[rows]
    keys = (priority, price) if asked.query.selection is Selection.PRICE else (price, priority)  # the last counts first
    return rows[np.lexsort(keys)]
