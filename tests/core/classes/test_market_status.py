"""What of the market is worth writing into a class's status, whatever stands there already."""

from datetime import timedelta
from typing import Any

import pytest

from tests.core.market.offers import NOW, AListing, a_book, an_offer
from tgp.api.values import rfc3339
from tgp.core.classes.market_status import (
    AVAILABLE_MOST,
    OUTAGE_REPORTED_AFTER,
    PRICES_AT_MOST_EVERY,
    ProviderStanding,
    judged_again_at,
    known_enough,
    summary,
    worth_writing,
)
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.price_book import PriceBook
from tgp.core.model.source import Source
from tgp.core.model.source_status import KeyState, SourceStatus

FRESH = ConditionUpdate("OffersFresh", True, "Fresh", "")
UNTOLD = ConditionUpdate("OffersFresh", None, "NotAsked", "")
LATER = NOW + timedelta(minutes=6)


def a_status(price: object = "2.00", offers: object = 3, updated: object = rfc3339(NOW)) -> dict[str, Any]:
    row = {"credentialsValid": True, "bootMode": "native", "offers": offers, "lastPricingUpdate": updated}
    gpus = [{"gpuType": "A10", "provider": "acme", "spot": False, "gpuCount": 1, "pricePerHour": price}]
    return {"providers": {"acme": row}, "availableGPUs": gpus}


def a_standing(book: PriceBook, key: KeyState | None = None) -> ProviderStanding:
    source_status = SourceStatus("acme", "Acme", (), sells_spot=False, key=key or KeyState(valid=True))
    return ProviderStanding("acme", Source("acme", "keys", "k"), source_status, book.state("acme"), fitting=len(book))


@pytest.mark.parametrize("odd", ["NaN", "", "-1", "1e9", None, 7, {"a": 1}, "9" * 40])
def test_a_price_that_makes_no_sense_is_overwritten_and_not_believed(odd):
    assert worth_writing(a_status(price=odd), a_status(), LATER)


@pytest.mark.parametrize("odd", ["yesterday", "2026-11-16T12:00:00", 7, ["x"], "9999-12-31T23:59:59Z"])
def test_a_moment_that_makes_no_sense_holds_nothing_back(odd):
    assert worth_writing(a_status(price="1.00", updated=odd), a_status(), LATER)


@pytest.mark.parametrize("odd", [[], {"gpuType": []}, "x", None, [{"gpuType": [], "pricePerHour": {}}, 3]])
def test_rows_of_any_shape_are_overwritten(odd):
    assert worth_writing({**a_status(), "availableGPUs": odd}, a_status(), LATER)
    assert worth_writing({**a_status(), "providers": odd}, a_status(), LATER)


def test_noise_is_not_worth_a_write_and_neither_is_a_price_that_was_written_just_now():
    assert not worth_writing(a_status("2.00"), a_status("2.03"), LATER)
    assert not worth_writing(a_status("2.00"), a_status("3.00"), NOW + PRICES_AT_MOST_EVERY / 2)
    assert worth_writing(a_status("2.00"), a_status("3.00"), LATER)


def test_a_status_from_a_clock_that_was_ahead_does_not_silence_the_prices_for_a_day():
    ahead = rfc3339(NOW + timedelta(days=1))
    assert worth_writing(a_status("2.00", updated=ahead), a_status("3.00"), NOW)


def test_what_an_earlier_process_knew_of_a_provider_that_only_fails_is_kept_as_old_as_it_is():
    failing = PriceBook().with_failure("acme", "no answer", NOW)
    held = a_status()
    found = summary([a_standing(failing)], (), NOW, held)

    assert found["availableGPUs"] == held["availableGPUs"]
    assert found["providers"]["acme"]["offers"] == 3
    assert found["providers"]["acme"]["lastPricingUpdate"] == rfc3339(NOW)

    later = summary([a_standing(failing)], (), NOW + timedelta(minutes=31), held)
    assert later["availableGPUs"] == [], "offers older than half an hour are never bought"
    assert later["providers"]["acme"]["offers"] == 0
    assert later["providers"]["acme"]["lastPricingUpdate"] == rfc3339(NOW)


def test_what_is_known_of_a_provider_that_refuses_the_key_is_not_kept():
    refused = a_standing(PriceBook(), KeyState(valid=False, why="401"))
    found = summary([refused], (), NOW, a_status())

    assert found["availableGPUs"] == []
    assert "offers" not in found["providers"]["acme"]


def test_a_class_is_judged_once_a_silent_provider_has_been_silent_for_long_enough():
    failing = a_standing(PriceBook().with_failure("acme", "no answer", NOW))

    assert known_enough([failing], {}, None, NOW), "nothing is known of it: nothing to lose"
    assert known_enough([failing], a_status(), UNTOLD, NOW), "nor here"
    assert not known_enough([failing], a_status(), FRESH, NOW)
    assert known_enough([failing], a_status(), FRESH, NOW + OUTAGE_REPORTED_AFTER)
    assert known_enough([a_standing(a_book(an_offer()))], a_status(), FRESH, NOW)
    assert judged_again_at([failing], NOW) == NOW + OUTAGE_REPORTED_AFTER
    assert judged_again_at([failing], NOW + OUTAGE_REPORTED_AFTER) is None


def test_a_class_is_not_judged_while_a_provider_it_knew_is_still_being_asked():
    asked = a_standing(PriceBook())

    assert known_enough([asked], {}, None, NOW)
    assert not known_enough([asked], a_status(), FRESH, NOW)
    assert not known_enough([asked], a_status(), UNTOLD, NOW)


def test_the_list_of_gpus_is_bounded_whatever_was_kept():
    many = [{"gpuType": f"G{number:03}", "provider": "acme", "pricePerHour": "1.00"} for number in range(300)]
    failing = a_standing(PriceBook().with_failure("acme", "no answer", NOW))
    found = summary([failing], (), NOW, {**a_status(), "availableGPUs": many})

    assert len(found["availableGPUs"]) == AVAILABLE_MOST


def test_offers_of_a_source_grow_old_from_its_failure_on_when_the_clock_was_set_back():
    book = PriceBook().with_listing("acme", AListing((an_offer(),)), NOW + timedelta(days=1))
    state = book.with_failure("acme", "no answer", NOW).state("acme")

    assert state is not None
    assert state.age(NOW + timedelta(minutes=11)) == timedelta(minutes=11)
