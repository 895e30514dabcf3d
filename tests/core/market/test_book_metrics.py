"""The book as metrics: few labels, and nothing that looks better than it is."""

from datetime import timedelta

from prometheus_client import CollectorRegistry

from tests.core.market.offers import NOW, AListing, an_offer
from tgp.adapters.telemetry.market import BookCollector
from tgp.core.model.price_book import PriceBook


def samples(book: PriceBook) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(BookCollector(lambda: book, lambda: NOW))
    return registry


def test_a_source_that_was_never_heard_has_no_age():
    """Zero seconds would look like the freshest of all."""
    found = samples(PriceBook().with_failure("acme/keys/A", "no answer", NOW))

    assert found.get_sample_value("tgp_offers_age_seconds", {"provider": "acme"}) is None
    assert found.get_sample_value("tgp_sources_failing", {"provider": "acme"}) == 1
    assert found.get_sample_value("tgp_offers", {"provider": "acme"}) == 0


def test_the_oldest_listing_of_a_provider_is_its_age():
    book = PriceBook().with_listing("acme/keys/A", AListing((an_offer(),)), NOW - timedelta(minutes=9))
    book = book.with_listing("acme/keys/B#1a2b3c4d", AListing((an_offer(),)), NOW)
    book = book.with_failure("acme/keys/C", "no answer", NOW)

    assert samples(book).get_sample_value("tgp_offers_age_seconds", {"provider": "acme"}) == 540


def test_a_hundred_sources_are_as_many_series_as_their_providers():
    book = PriceBook()
    for number in range(100):
        book = book.with_listing(f"acme/secret-{number}/K", AListing((an_offer(),), {"bad price": 1}), NOW)
    lines = [sample for family in samples(book).collect() for sample in family.samples]

    assert len(lines) == 6
