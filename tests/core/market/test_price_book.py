"""The price book: one frozen snapshot per change, in one total order."""

import random
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import DOLLAR, NOW, PATIENT, AListing, a_book, an_offer, offers_of
from tgp.core.model import price_book as books
from tgp.core.model.offer import Stock, Trust
from tgp.core.model.price_book import BAD_SHAPE, LISTED_TWICE, TOO_MANY, PriceBook, SeriesKey

LATER = NOW + timedelta(minutes=7)


def test_an_empty_book_has_no_source():
    book = PriceBook()

    assert (len(book), book.sources, book.offers, list(book.rows()), dict(book.cheapest())) == (0, (), (), [], {})
    assert book.state("acme") is None
    assert book.of("acme") == ()


def test_the_cheapest_is_first_then_the_surest_then_the_most_trusted():
    dear = an_offer("dear", hourly_microusd=3 * DOLLAR)
    unsure = an_offer("unsure", stock=Stock.LIKELY)
    stranger = an_offer("stranger", trust=Trust.ANY)
    plain = an_offer("plain")

    assert a_book(dear, unsure, stranger, plain).offers == (plain, stranger, unsure, dear)


@PATIENT
@given(st.lists(offers_of("acme"), max_size=12), st.lists(offers_of("zeta"), max_size=12), st.randoms())
def test_the_order_does_not_depend_on_who_came_first(ours, theirs, luck):
    """Nor on the order within a listing: equal worlds give equal books."""
    one = PriceBook().with_listing("a", AListing(tuple(ours)), NOW).with_listing("z", AListing(tuple(theirs)), NOW)
    luck.shuffle(ours)
    luck.shuffle(theirs)
    other = PriceBook().with_listing("z", AListing(tuple(theirs)), NOW).with_listing("a", AListing(tuple(ours)), NOW)

    assert [row.offer.key for row in one.rows()] == [row.offer.key for row in other.rows()]
    prices = [row.offer.hourly_microusd for row in one.rows()]
    assert prices == sorted(prices)


@PATIENT
@given(st.lists(offers_of("acme"), max_size=20), st.lists(offers_of("zeta"), max_size=20))
def test_the_arrays_say_what_the_offers_say(ours, theirs):
    book = PriceBook().with_listing("a", AListing(tuple(ours)), NOW).with_listing("z", AListing(tuple(theirs)), NOW)
    columns, words = book.columns, book.columns.words

    assert len(columns) == len(book)
    for number, offer in enumerate(book.offers):
        assert words.gpus[columns.gpu[number]] == offer.gpu
        assert words.providers[columns.provider[number]] == offer.provider
        assert words.archs[columns.arch[number]] == offer.arch
        assert words.wheres[columns.where[number]] == (offer.region, offer.place, offer.country)
        assert columns.price[number] == offer.hourly_microusd
        assert columns.spot[number] == offer.spot
        assert columns.stock[number] == offer.stock
        assert columns.trust[number] == offer.trust
        assert book.row(number).source == {"acme": "a", "zeta": "z"}[offer.provider]


def test_a_new_listing_replaces_the_old_one_and_the_old_book_stays():
    before = a_book(an_offer("old"))
    after = before.with_listing("acme", AListing((an_offer("new"),)), LATER)

    assert [offer.sku for offer in before.offers] == ["old"]
    assert [offer.sku for offer in after.offers] == ["new"]
    assert after.number == before.number + 1
    assert after.row(0).seen_at == LATER


def test_a_book_cannot_be_written_to():
    book = a_book(an_offer())

    with pytest.raises(ValueError, match="read-only"):
        book.columns.price[0] = 0


def test_a_source_that_errs_is_unknown_and_not_empty():
    """Its last offers keep serving, and say how old they are."""
    book = a_book(an_offer()).with_failure("acme", "it answered 503", LATER).with_failure("other", "no route", LATER)
    known, never_seen = book.sources

    assert len(book) == 1
    assert (known.known, known.why, known.failures) == (True, "it answered 503", 1)
    assert known.age(LATER) == timedelta(minutes=7)
    assert (never_seen.known, never_seen.age(LATER), never_seen.why) == (False, None, "no route")


def test_a_source_that_recovers_forgets_its_failures():
    book = a_book().with_failure("acme", "x" * 10_000, NOW).with_failure("acme", "again", NOW)
    assert book.state("acme").failures == 2

    state = book.with_listing("acme", AListing(), LATER).state("acme")
    assert (state.failures, state.why, state.failed_at, state.seen_at) == (0, "", None, LATER)


def test_a_long_complaint_is_cut():
    assert len(a_book().with_failure("acme", "x" * 10_000, NOW).state("acme").why) == books.LONGEST_WHY


def test_a_clock_set_back_makes_nothing_younger_than_new():
    assert a_book().state("acme").age(NOW - timedelta(hours=3)) == timedelta(0)


def test_a_source_that_no_class_uses_leaves():
    book = a_book(an_offer()).with_listing("b", AListing((an_offer(provider="b"),)), NOW)

    assert [row.source for row in book.without("acme").rows()] == ["b"]
    assert book.without("absent").offers == book.offers
    assert len(book.without("acme").without("b")) == 0


def test_an_offer_listed_twice_counts_once_at_the_higher_price():
    """Whichever price is right, the shown price is never below the bill."""
    book = a_book(an_offer(), an_offer(hourly_microusd=2 * DOLLAR), an_offer("b"))

    assert [(offer.sku, offer.hourly_microusd) for offer in book.offers] == [("b", DOLLAR), ("a", 2 * DOLLAR)]
    assert book.state("acme").dropped == {LISTED_TWICE: 1}


def test_a_flood_is_cut_to_the_cheapest(monkeypatch):
    monkeypatch.setattr(books, "MOST_OFFERS", 3)
    flood = tuple(an_offer(f"{price}", hourly_microusd=price) for price in range(10, 0, -1))

    book = PriceBook().with_listing("acme", AListing(flood, {"bad price": 2}), NOW)

    assert [offer.hourly_microusd for offer in book.offers] == [1, 2, 3]
    assert book.state("acme").dropped == {"bad price": 2, TOO_MANY: 7}


@pytest.mark.parametrize(
    "nonsense",
    [
        {"hourly_microusd": -1},
        {"hourly_microusd": 10**30},
        {"gpu_count": 0},
        {"gpu_count": 10**12},
        {"vcpus": -1},
        {"memory_gib": 10**20},
        {"gpu_memory_gib": 1 << 40},
    ],
)
def test_nonsense_that_slipped_through_is_left_out_and_counted(nonsense):
    book = a_book(an_offer("good"), an_offer("bad", **nonsense))

    assert [offer.sku for offer in book.offers] == ["good"]
    assert book.state("acme").dropped == {BAD_SHAPE: 1}


def test_words_that_repeat_are_kept_once():
    """Each offer's words come from its own piece of an answer; 50,000 copies of `us-west-1` are megabytes."""
    offers = [an_offer(f"{number}", place=b"us-west-1".decode(), host=b"h1".decode()) for number in (1, 2)]
    assert offers[0].place is not offers[1].place

    first, second = a_book(*offers).offers

    assert first.place is second.place
    assert first.host is second.host


def test_the_best_price_is_that_of_one_gpu_of_what_is_on_sale():
    book = a_book(
        an_offer("one", hourly_microusd=500_000),
        an_offer("eight", hourly_microusd=3_200_001, gpu_count=8),
        an_offer("gone", hourly_microusd=1, stock=Stock.NONE),
        an_offer("bid", hourly_microusd=200_000, spot=True),
    )

    assert dict(book.cheapest()) == {
        SeriesKey("acme", "A100-80GB-SXM", "us-west", spot=False): 400_001,
        SeriesKey("acme", "A100-80GB-SXM", "us-west", spot=True): 200_000,
    }


@PATIENT
@given(st.lists(offers_of("acme"), max_size=25), st.lists(offers_of("zeta"), max_size=25))
def test_the_best_prices_are_the_least_of_each_series(ours, theirs):
    book = PriceBook().with_listing("a", AListing(tuple(ours)), NOW).with_listing("z", AListing(tuple(theirs)), NOW)
    best = {}
    for offer in book.offers:
        if offer.stock is not Stock.NONE:
            key = SeriesKey(offer.provider, offer.gpu, offer.region, offer.spot)
            best[key] = min(offer.per_gpu_microusd, best.get(key, offer.per_gpu_microusd))

    assert list(book.cheapest().items()) == sorted(best.items())


def test_two_keys_of_one_provider_are_two_sources():
    """The same machine under two accounts is on sale twice."""
    book = a_book(an_offer(), source="acme/one").with_listing("acme/two", AListing((an_offer(),)), NOW)

    assert [row.source for row in book.rows()] == ["acme/one", "acme/two"]


def test_a_large_book_is_bound_in_order():
    luck = random.Random(7)
    offers = tuple(an_offer(f"{number}", hourly_microusd=luck.randrange(1, 10**6)) for number in range(5_000))

    prices = a_book(*offers).columns.price

    assert np.all(prices[:-1] <= prices[1:])


def test_a_source_that_shows_the_same_again_is_only_seen_later():
    """Most looks do. Whatever is left undone then, the book is the one that was made from nothing."""
    ours = AListing((an_offer("dear", hourly_microusd=3 * DOLLAR), an_offer("cheap")))
    theirs = AListing((an_offer("between", hourly_microusd=2 * DOLLAR),))
    before = PriceBook().with_listing("a", ours, NOW).with_listing("z", theirs, NOW)
    again = before.with_listing("a", ours, LATER)
    from_nothing = PriceBook().with_listing("z", theirs, NOW).with_listing("a", ours, LATER)

    assert again.number == before.number + 1
    assert list(again.rows()) == list(from_nothing.rows())
    assert again.sources == from_nothing.sources
    assert again.state("a") == from_nothing.state("a")
    assert before.state("a").seen_at == NOW  # a book is never changed
