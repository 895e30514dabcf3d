"""The market in one line: the cheapest GPU-hour that could be bought of the models most widely on sale, and which way
each has gone.
"""

from collections import Counter
from datetime import datetime, timedelta

from tgp.controllers.market import Market
from tgp.core.model.book import SeriesKey
from tgp.core.model.wish import Kinds, Wish
from tgp.core.rules.ranking import rank
from tgp.surfaces.terminal.scene import Stall, Ware

SHOWN = 10
COMPARED_WITH = timedelta(hours=1)
ANYTHING = Wish(kinds=Kinds.EITHER)  # that a class could buy: no containers, nothing sold out, no unchecked hosts
NOISE = 0.01  # of a price: less is no way at all


def stall(market: Market, now: datetime) -> Stall:
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
    wares = [
        Ware(gpu, price, key.provider, key.spot, _way(market, key, now))
        for gpu, (price, key) in sorted(cheapest.items(), key=lambda pair: pair[1][0])
        if gpu in widest
    ]
    return Stall(len(ranking), len(market.book.sources), tuple(wares))


def _way(market: Market, key: SeriesKey, now: datetime) -> int:
    """1: dearer than an hour ago, -1: cheaper, 0: neither, or nobody knows."""
    buckets = [bucket for bucket in market.history.recent(key, now) if now - bucket.start <= COMPARED_WITH]
    if not buckets:
        return 0
    change = buckets[-1].last - buckets[0].last
    return 0 if abs(change) <= NOISE * buckets[0].last else (1 if change > 0 else -1)
