"""The price book: all offers, from all sources, at one moment. One frozen snapshot for each change.

A source is a provider under one key. Each adds its listing when it has one; a source that fails keeps its last
listing, which shows its age: it is *unknown*, never *empty*. Every reader sees the same rows in the same total
order: the cheapest first, then the most certain stock, the best trust, the source's name, and the provider's names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from tgp.core.model.arrays import Small, np
from tgp.core.model.columns import Columns, columns_of, joined, ordered
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.prices import HIGHEST_HOURLY

MOST_OFFERS = 100_000  # of one source: five times what the largest marketplace lists; the cheapest are kept
LONGEST_WHY = 300  # characters of an error's text
TOO_MANY = "too many"
LISTED_TWICE = "listed twice"
BAD_SHAPE = "bad shape"
# GPUs, virtual CPUs, GiB: anything above is an error, and would overflow the arrays' integers
MOST_OF_ANYTHING = 1 << 30
INTERNED_FIELDS = (
    "provider",
    "place",
    "region",
    "country",
    "gpu",
    "arch",
    "host",
    "type_name",
    "no_driver",
    "priced_on",
)


class OfferListing(Protocol):
    """What a provider listed: the part of the port's type that the book reads."""

    @property
    def offers(self) -> tuple[Offer, ...]: ...

    @property
    def dropped(self) -> Mapping[str, int]: ...


class SeriesKey(NamedTuple):
    """What identifies a price series."""

    provider: str
    gpu: str
    region: str
    spot: bool


class OfferRow(NamedTuple):
    """One line of the book."""

    offer: Offer
    source: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class SourceState:
    """How well a source is known."""

    source: str
    offers: int = 0
    seen_at: datetime | None = None  # of the last whole listing; None: there was none yet
    failed_at: datetime | None = None  # of the last failure, if it came after the last listing
    failing_since: datetime | None = None  # of the first one since then
    failures: int = 0  # in a row, up to now
    why: str = ""  # of the last failure; empty: the last poll succeeded
    quota: bool = False  # of the last failure: the provider's API quota is used up
    dropped: Mapping[str, int] = field(default_factory=dict)  # why → offers left out of the last listing
    priced_on: str = ""  # not empty: prices are from tables, the oldest of that day

    @property
    def known(self) -> bool:
        """Was it ever seen? If not, nothing can be concluded from its having no offers."""
        return self.seen_at is not None

    def age(self, now: datetime) -> timedelta | None:
        """Of its offers; None: it was never seen. Never negative, even after a clock was set back."""
        return None if self.seen_at is None else max(now - self.seen_at, timedelta(0))


@dataclass(frozen=True, slots=True, eq=False)
class _SourceOffers:
    state: SourceState
    offers: tuple[Offer, ...]  # in the total order
    columns: Columns | None  # None: no offers


@dataclass(frozen=True, slots=True, eq=False)
class PriceBook:
    """Immutable: a change makes a new one. `with_…` are pure, and take as long as a sort."""

    number: int = 0  # one more with each change
    offers: tuple[Offer, ...] = ()  # of all sources, in the total order
    sources: tuple[SourceState, ...] = ()  # by name
    _by_source: Mapping[str, _SourceOffers] = field(default_factory=dict)
    _arrays: tuple[Columns, Small] | None = None  # None: no offers, and numpy need not be loaded for them

    def __len__(self) -> int:
        return len(self.offers)

    @property
    def columns(self) -> Columns:
        """The offers as arrays."""
        return columns_of(()) if self._arrays is None else self._arrays[0]

    @property
    def source_of(self) -> Small:
        """Offer → place in sources."""
        return np.zeros(0, np.int32) if self._arrays is None else self._arrays[1]

    def with_listing(self, source: str, listing: OfferListing, seen_at: datetime) -> "PriceBook":
        """The book after a source was read completely: its old offers are replaced by these."""
        offers, dropped = _shelved(listing)
        oldest = min((offer.priced_on for offer in offers if offer.priced_on), default="")
        state = SourceState(source, len(offers), seen_at, dropped=dropped, priced_on=oldest)
        before = self._by_source.get(source)
        if before is not None and before.offers == offers:  # most polls return what the last one did
            return self._restated(replace(before, state=state))
        return self._with(_SourceOffers(state, offers, columns_of(offers) if offers else None))

    def with_failure(self, source: str, why: str, at: datetime, *, quota: bool = False) -> "PriceBook":
        """The book after a source could not be read: its offers stay, with their age."""
        held = self._by_source.get(source) or _SourceOffers(SourceState(source), (), None)
        held = replace(held, state=replace(_failed(held.state, why, at), quota=quota))
        return self._restated(held) if source in self._by_source else self._with(held)

    def without(self, source: str) -> "PriceBook":
        """The book without a source that no class uses any more."""
        return _bound({name: held for name, held in self._by_source.items() if name != source}, self.number + 1)

    def state(self, source: str) -> SourceState | None:
        """None: no such source was ever polled."""
        held = self._by_source.get(source)
        return None if held is None else held.state

    def of(self, source: str) -> tuple[Offer, ...]:
        """One source's offers, in the total order."""
        held = self._by_source.get(source)
        return () if held is None else held.offers

    def row(self, number: int) -> OfferRow:
        state = self.sources[self.source_of[number]]
        assert state.seen_at is not None  # it has offers
        return OfferRow(self.offers[number], state.source, state.seen_at)

    def rows(self) -> Iterator[OfferRow]:
        return map(self.row, range(len(self.offers)))

    def cheapest(self) -> Mapping[SeriesKey, int]:
        """The lowest price of one GPU an hour for each provider, model, region and kind.

        Sold-out offers, and GPUs without a driver on Talos, do not count.
        """
        if not self.offers:
            return MappingProxyType({})
        columns, words = self.columns, self.columns.words
        rows = np.flatnonzero((columns.stock != Stock.NONE.value) & columns.driven)
        if not len(rows):
            return MappingProxyType({})
        regions = tuple(dict.fromkeys(region for region, _, _ in words.wheres))
        region = np.array([regions.index(region) for region, _, _ in words.wheres])[columns.where[rows]]
        shape = (len(words.providers), len(words.gpus), len(regions), 2)
        series = np.ravel_multi_index((columns.provider[rows], columns.gpu[rows], region, columns.spot[rows]), shape)
        per_gpu = -(-columns.price[rows] // columns.gpu_count[rows])
        order = np.argsort(series, kind="stable")
        distinct, starts = np.unique(series[order], return_index=True)
        lowest = np.minimum.reduceat(per_gpu[order], starts).tolist()
        names = zip(*(axis.tolist() for axis in np.unravel_index(distinct, shape)), strict=True)
        best = {
            SeriesKey(words.providers[provider], words.gpus[gpu], regions[place], bool(spot)): price
            for (provider, gpu, place, spot), price in zip(names, lowest, strict=True)
        }
        return MappingProxyType(dict(sorted(best.items())))

    def _restated(self, held: _SourceOffers) -> "PriceBook":
        """The same offers in the same order, with another state of one source."""
        name = held.state.source
        return replace(
            self,
            number=self.number + 1,
            sources=tuple(held.state if state.source == name else state for state in self.sources),
            _by_source=MappingProxyType({**self._by_source, name: held}),
        )

    def _with(self, held: _SourceOffers) -> "PriceBook":
        return _bound({**self._by_source, held.state.source: held}, self.number + 1)


def _failed(state: SourceState, why: str, at: datetime) -> SourceState:
    """Nothing in it is later than the failure: after a clock was set back, offers grow old from now on at least."""
    return replace(
        state,
        seen_at=min(state.seen_at, at) if state.seen_at is not None else None,
        failed_at=at,
        failing_since=min(state.failing_since or at, at),
        failures=state.failures + 1,
        why=why[:LONGEST_WHY],
    )


def _bound(by_source: Mapping[str, _SourceOffers], number: int) -> PriceBook:
    """All source listings as one book. Each is in order already; ties between them go by the source's name."""
    named = [by_source[name] for name in sorted(by_source)]
    states = tuple(held.state for held in named)
    names = MappingProxyType({held.state.source: held for held in named})
    columns = [held.columns for held in named if held.columns is not None]
    if not columns:
        return PriceBook(number, (), states, names)
    together = joined(columns)
    source = np.repeat(np.arange(len(named), dtype=np.int32), [len(held.offers) for held in named])
    # lexsort is stable: what is equal stays in the order of sources, and of each source's own listing
    order = np.lexsort((source, -together.trust, together.stock, together.price))
    offers = [offer for held in named for offer in held.offers]
    return PriceBook(
        number,
        tuple([offers[place] for place in order.tolist()]),
        states,
        names,
        (ordered(together, order), source[order]),
    )


def _shelved(listing: OfferListing) -> tuple[tuple[Offer, ...], Mapping[str, int]]:
    """A listing in the total order, each key once, with shared strings, and what was left out."""
    dropped = dict(listing.dropped)
    offers = sorted(filter(sane, listing.offers), key=_order)
    if odd := len(listing.offers) - len(offers):
        dropped[BAD_SHAPE] = dropped.get(BAD_SHAPE, 0) + odd
    # the more expensive one stays
    by_key = {(offer.provider, offer.sku, offer.place, offer.spot): offer for offer in offers}
    if twice := len(offers) - len(by_key):
        dropped[LISTED_TWICE] = dropped.get(LISTED_TWICE, 0) + twice
        offers = sorted(by_key.values(), key=_order)
    if (over := len(offers) - MOST_OFFERS) > 0:
        dropped[TOO_MANY] = dropped.get(TOO_MANY, 0) + over
        del offers[MOST_OFFERS:]
    return tuple(_sharing(offers)), MappingProxyType(dropped)


def sane(offer: Offer) -> bool:
    """A second check after the adapters' parsing: an offer with implausible values is never bought."""
    if not (0 <= offer.hourly_microusd <= HIGHEST_HOURLY and 0 < offer.gpu_count <= MOST_OF_ANYTHING):
        return False
    sizes = (offer.gpu_memory_gib, offer.vcpus, offer.memory_gib, offer.disk_gib)
    return all(0 <= each <= MOST_OF_ANYTHING for each in sizes)


def _order(offer: Offer) -> tuple[int, int, int, str, str, bool, str]:
    return (
        offer.hourly_microusd,
        offer.stock,
        -offer.trust,
        offer.sku,
        offer.place,
        offer.spot,
        offer.provider,
    )


def _sharing(offers: Sequence[Offer]) -> Iterator[Offer]:
    """The same offers with one copy of each repeated string: adapters create a new copy for every offer."""
    known: dict[str, str] = {}
    for offer in offers:
        shared = {}
        for name in INTERNED_FIELDS:
            text = getattr(offer, name)
            kept = known.setdefault(text, text)
            if kept is not text:
                shared[name] = kept
        yield msgspec.structs.replace(offer, **shared) if shared else offer
