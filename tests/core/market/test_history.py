"""What the cheapest GPU cost."""

import tracemalloc
from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import NOW, PATIENT, an_offer
from tgp.core.model.history import COARSE, FINE, Bucket, PriceHistory
from tgp.core.model.offer import Stock
from tgp.core.model.price_book import SeriesKey

KEY = SeriesKey("acme", "A100-80GB-SXM", "us-west", spot=False)
MINUTE = timedelta(minutes=1)


def at(price: int, sku: str = "a", **said):
    return an_offer(sku, hourly_microusd=price, **said)


def test_a_bucket_keeps_the_low_the_high_and_the_last():
    history = PriceHistory()
    for price, minute in ((5, 0), (9, 2), (3, 4), (4, 6)):
        history.note([at(price)], NOW + minute * MINUTE)

    assert history.recent(KEY, NOW + 7 * MINUTE) == (Bucket(NOW, FINE, 3, 9, 4),)


def test_a_listing_counts_by_its_cheapest_gpu_that_is_on_sale():
    history = PriceHistory()
    history.note([at(8, gpu_count=4), at(3, "b"), at(1, "c", stock=Stock.NONE), at(1, "d", spot=True)], NOW)

    assert [bucket.last for bucket in history.recent(KEY, NOW)] == [2]
    assert list(history) == [KEY, KEY._replace(spot=True)]


def test_two_days_are_kept_fine_and_two_weeks_hourly():
    history = PriceHistory()
    end = NOW + timedelta(days=20)
    moment = NOW
    while moment < end:
        history.note([at(7)], moment)
        moment += FINE

    fine, whole = history.recent(KEY, end), history.whole(KEY, end)

    assert len(fine) == 2 * 24 * 6 - 1  # the ten minutes that begin now have no price yet
    assert len([bucket for bucket in whole if bucket.length == COARSE]) == 12 * 24 - 1  # and the oldest hour has left
    assert end - whole[0].start <= timedelta(days=14)
    steps = [(former.start + former.length, latter.start) for former, latter in pairwise(whole)]
    assert all(ends <= begins for ends, begins in steps), "no stretch is told twice"


def test_what_was_not_on_sale_has_no_price():
    history = PriceHistory()
    history.note([at(7)], NOW)
    history.note([], NOW + 30 * MINUTE)
    history.note([at(8)], NOW + 60 * MINUTE)

    assert [bucket.start for bucket in history.recent(KEY, NOW + 60 * MINUTE)] == [NOW, NOW + 60 * MINUTE]
    assert history.recent(KEY, NOW + timedelta(days=5)) == ()
    assert history.whole(KEY, NOW + timedelta(days=30)) == ()
    assert history.recent(KEY._replace(gpu="RTX4090"), NOW) == history.whole(KEY._replace(gpu="RTX4090"), NOW) == ()


def test_nonsense_leaves_no_trace():
    history = PriceHistory()
    history.note([at(10**15), at(1, "b", gpu_count=0), at(-1, "c")], NOW)

    assert list(history) == []


def test_the_longest_unseen_series_is_forgotten_first():
    history = PriceHistory(most_series=2)
    history.note([at(1, region="us-west")], NOW)
    history.note([at(1, region="us-east")], NOW + MINUTE)
    history.note([at(1, region="us-west")], NOW + 2 * MINUTE)
    history.note([at(1, region="ca")], NOW + 3 * MINUTE)

    assert [key.region for key in history] == ["ca", "us-west"]
    assert len(history) == 2


def test_a_clock_set_back_a_little_goes_on_and_far_ahead_is_dropped():
    history = PriceHistory()
    history.note([at(1)], NOW)
    history.note([at(2)], NOW - 30 * MINUTE)
    assert [(bucket.start, bucket.last) for bucket in history.recent(KEY, NOW)] == [(NOW, 2)]

    history.note([at(3)], NOW + timedelta(days=400))
    history.note([at(4)], NOW)
    assert [bucket.last for bucket in history.whole(KEY, NOW)] == [4]


@PATIENT
@given(st.lists(st.tuples(st.integers(-3_000, 3_000), st.integers(1, 9)), max_size=60))
def test_whatever_the_clock_does_buckets_are_in_order_and_few(notes):
    history, moment = PriceHistory(), NOW
    for minutes, price in notes:
        moment += minutes * MINUTE
        history.note([at(price)], moment)
        buckets = history.recent(KEY, moment)

        assert len(buckets) <= 288
        assert all(former.start < latter.start for former, latter in pairwise(buckets))
        assert all(bucket.low <= bucket.last <= bucket.high for bucket in buckets)


def test_a_full_series_is_small():
    """2,000 of them must fit into what one process may weigh."""
    history = PriceHistory()
    tracemalloc.start()
    try:
        for step in range(14 * 24 * 6):
            history.note([at(1_000_000 + step)], NOW + step * FINE)
        weight, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert weight < 15_000
