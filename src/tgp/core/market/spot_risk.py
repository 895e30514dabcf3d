"""How likely a spot machine is lost to a higher bid within an hour, judged by its price history.

Each past ten minutes is taken as a start: had we bid the same multiple of that moment's price, would the next hour's
highest price have been above it? A share of such starts, pulled towards even odds while there are few.
"""

from collections.abc import Sequence
from datetime import timedelta

from tgp.core.model.history import FINE, Bucket

WITHIN = timedelta(hours=1)
FEWEST_STARTS = 36  # six hours of them: a shorter history says nothing
DOUBT = 1  # one assumed loss and one assumed success (Laplace smoothing): the result is never 0 or 1


def overtaken_within_an_hour(series: Sequence[Bucket], bid_microusd: int) -> float | None:
    """The chance, 0 to 1, that the price rises above a bid within an hour. None: the history is too short.

    `series` is a spot price in fine steps, oldest first, and bid and prices are for the same thing. A bid below the
    present price has lost already.
    """
    if not series or bid_microusd < 0:
        return None
    present = series[-1].last
    if bid_microusd < present:
        return 1.0
    starts = lost = 0
    for place, start in enumerate(series):
        highest = _highest_after(series, place)
        if highest is None:
            continue
        starts += 1
        # the same multiple of the price as now, in whole numbers: highest / start.last > bid / present
        lost += highest * present > bid_microusd * start.last
    if starts < FEWEST_STARTS:
        return None
    return (lost + DOUBT) / (starts + 2 * DOUBT)


def _highest_after(series: Sequence[Bucket], place: int) -> int | None:
    """The highest price in the hour after a bucket; None where that hour was not seen to its end."""
    ends = series[place].start + FINE + WITHIN
    seen = [each for each in series[place + 1 : place + 1 + WITHIN // FINE] if each.start < ends]
    if len(seen) < WITHIN // FINE:
        return None
    return max(each.high for each in seen)
