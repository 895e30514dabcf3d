"""The market in one line: the cheapest GPU-hour of the models with most offers, and the trend of each price."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from tgp.controllers.market.reconciler import MarketState
from tgp.core.market.ranking import rank
from tgp.core.model.arrays import np
from tgp.core.model.columns import BOOT_MODES
from tgp.core.model.offer import Stock
from tgp.core.model.offer_query import TALOS_BOOTS, Kinds, OfferQuery
from tgp.core.model.price_book import PriceBook, SeriesKey
from tgp.interfaces.terminal.snapshot import MarketSummary, PriceRow

SHOWN = 10
COMPARED_WITH = timedelta(hours=1)
ANYTHING = OfferQuery(
    kinds=Kinds.EITHER
)  # what a class could buy: no containers, no sold-out offers, no unverified hosts
NOISE = 0.01  # of a price: a smaller change is no trend


def market_summary(market: MarketState, now: datetime) -> MarketSummary:
    cheapest: dict[str, tuple[int, SeriesKey]] = {}
    spread: Counter[str] = Counter()
    ranking = rank(market.book, ANYTHING, now)
    for row in ranking.first_of_each_kind():
        offer = row.offer
        spread[offer.gpu] += 1
        if offer.gpu not in cheapest or offer.per_gpu_microusd < cheapest[offer.gpu][0]:
            key = SeriesKey(offer.provider, offer.gpu, offer.region, offer.spot)
            cheapest[offer.gpu] = offer.per_gpu_microusd, key
    widest = sorted(cheapest, key=lambda gpu: (-spread[gpu], gpu))[:SHOWN]
    prices = [
        PriceRow(gpu, price, key.provider, key.spot, _trend(market, key, now))
        for gpu, (price, key) in sorted(cheapest.items(), key=lambda pair: pair[1][0])
        if gpu in widest
    ]
    return MarketSummary(len(ranking), len(market.book.sources), tuple(prices))


def machine_prices(book: PriceBook) -> Mapping[tuple[str, int], int]:
    """The cheapest machine of each GPU model and number of GPUs, in micro-dollars an hour."""
    columns = book.columns
    bootable = np.array([mode in TALOS_BOOTS for mode in BOOT_MODES], np.bool_)[columns.boot]
    rows = np.flatnonzero((columns.stock != Stock.NONE.value) & columns.driven & bootable)
    kinds = columns.gpu[rows].astype(np.int64) << 32 | columns.gpu_count[rows]
    distinct, firsts = np.unique(kinds, return_index=True)  # a book has the cheapest first
    return {
        (columns.words.gpus[kind >> 32], kind & 0xFFFF_FFFF): int(columns.price[rows[first]])
        for kind, first in zip(distinct.tolist(), firsts.tolist(), strict=True)
    }


def _trend(market: MarketState, key: SeriesKey, now: datetime) -> int:
    """1: more expensive than an hour ago, -1: cheaper, 0: neither, or unknown."""
    buckets = [bucket for bucket in market.history.recent(key, now) if now - bucket.start <= COMPARED_WITH]
    if not buckets:
        return 0
    change = buckets[-1].last - buckets[0].last
    return 0 if abs(change) <= NOISE * buckets[0].last else (1 if change > 0 else -1)
