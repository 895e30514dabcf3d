"""The catalogue as a market: prices per GPU times GPUs, one offer per place, and nothing that makes no sense."""

from typing import Any

import pytest

from tests.contracts.clouds.runpod.answers import CARD, a_card, reply
from tgp.adapters.clouds.runpod import catalog
from tgp.core.model.cloud_errors import CannotTell, OrderRefused
from tgp.core.model.offer import Stock, Trust
from tgp.ports.cloud import Listing


def listing(*cards: Any, cloud: str = "SECURE", count: int = 1) -> Listing:
    return catalog.listing([catalog.read(reply(200, {"gpus": list(cards)}), cloud, count)])


def test_a_pod_costs_its_gpus_times_the_price_of_one():
    """The catalogue quotes one GPU; an adapter that forgets to multiply buys eight for the price of one."""
    (offer,) = listing(a_card(), count=4).offers

    assert (offer.gpu_count, offer.hourly_microusd) == (4, 4 * 690_000)
    assert catalog.parts_of(offer.sku) == (CARD, 4, "SECURE")


def test_each_cloud_has_its_own_price_trust_and_size():
    (secure,) = listing(a_card(), cloud="SECURE").offers
    (community,) = listing(a_card(dataCenters=None), cloud="COMMUNITY").offers

    assert (secure.hourly_microusd, secure.trust) == (690_000, Trust.DATACENTER)
    assert (community.hourly_microusd, community.trust, community.place) == (340_000, Trust.ANY, catalog.ANYWHERE)
    assert secure.key != community.key


def test_a_pod_larger_than_any_machine_is_no_offer():
    assert listing(a_card(), count=5) == Listing((), {})
    assert listing(a_card(), cloud="COMMUNITY", count=3) == Listing((), {})


def test_a_cloud_that_does_not_sell_a_card_drops_nothing():
    assert listing(a_card(secure=False, price={"secure": 0, "community": 0.34})) == Listing((), {})


@pytest.mark.parametrize(
    ("level", "stock"),
    [
        ("HIGH", Stock.CONFIRMED),
        ("MEDIUM", Stock.LIKELY),
        ("LOW", Stock.LIKELY),
        ("NONE", Stock.NONE),
        ("PLENTY", Stock.UNKNOWN),
        (None, Stock.UNKNOWN),
        (7, Stock.UNKNOWN),
    ],
)
def test_availability_is_told_per_data_centre(level: Any, stock: Stock):
    (offer,) = listing(a_card(dataCenters=[{"id": "US-TX-3", "availability": level}])).offers

    assert (offer.place, offer.region, offer.country, offer.stock) == ("US-TX-3", "us-central", "US", stock)


def test_what_is_sold_out_everywhere_still_shows_its_price():
    """The API leaves the list of data centres out then."""
    card = a_card(availability="NONE")
    del card["dataCenters"]

    (offer,) = listing(card).offers
    assert (offer.place, offer.stock, offer.hourly_microusd) == (catalog.ANYWHERE, Stock.NONE, 690_000)


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        (a_card(id="Quantum Abacus"), "unknown GPU"),
        (a_card(memory=80), "unknown GPU"),
        (a_card(id=None), "bad shape"),
        (a_card(memory="24"), "bad shape"),
        (a_card(maxCount=None), "bad shape"),
        (a_card(maxCount={"secure": 4000}), "bad shape"),
        (a_card(dataCenters="EU-RO-1"), "bad shape"),
        (a_card(dataCenters=[{"id": "../../etc", "availability": "HIGH"}]), "bad shape"),
        (a_card(dataCenters=[None]), "bad shape"),
        (a_card(price=None), "bad shape"),
        (a_card(price={"community": 0.3}), "bad price"),
        (a_card(price={"secure": 0}), "bad price"),
        (a_card(price={"secure": -1}), "bad price"),
        (a_card(price={"secure": "cheap"}), "bad price"),
        (a_card(price={"secure": 1e12}), "bad price"),
        (a_card(price={"secure": True}), "bad price"),
        ("not a card", "bad shape"),
        (None, "bad shape"),
    ],
)
def test_what_makes_no_sense_is_dropped_and_counted_and_spoils_nothing_else(card: Any, reason: str):
    found = listing(card, a_card(id="NVIDIA L4", memory=24))

    assert [offer.gpu for offer in found.offers] == ["L4"]
    assert found.dropped == {reason: 1}


def test_a_price_that_is_sane_for_one_and_a_fortune_for_four_is_dropped():
    assert listing(a_card(price={"secure": 300}), count=4).dropped == {"bad price": 1}


def test_a_card_listed_twice_is_offered_once():
    found = listing(a_card(), a_card())

    assert len(found.offers) == 1
    assert found.dropped == {"repeated": 1}


def test_a_catalogue_of_another_shape_is_unknown():
    for body in ({}, {"gpus": None}, {"gpus": {}}, [], None, {"gpus": [{}] * 1_001}):
        with pytest.raises(CannotTell):
            catalog.read(reply(200, body), "SECURE", 1)


@pytest.mark.parametrize("sku", ["", "::", "RTX 4090", "x:2:SPOT", ":2:SECURE", "x:two:SECURE", "x:²:SECURE"])
def test_an_offer_of_another_provider_is_not_ordered(sku: str):
    with pytest.raises(OrderRefused):
        catalog.parts_of(sku)


@pytest.mark.parametrize(
    ("versions", "stock"),
    [
        ([{"version": "12.8", "available": True}], Stock.CONFIRMED),
        ([{"version": "12.11", "available": True}], Stock.CONFIRMED),  # above 12.8: it is no decimal
        ([{"version": "13.0", "available": True}, {"version": "12.4", "available": True}], Stock.CONFIRMED),
        ([{"version": "12.8", "available": False}, {"version": "12.4", "available": True}], Stock.NONE),
        ([{"version": "12.4", "available": True}], Stock.NONE),
        ([{"version": None, "available": True}], Stock.NONE),
        ([], Stock.CONFIRMED),  # not told
        (None, Stock.CONFIRMED),
    ],
)
def test_hosts_that_are_too_old_for_an_order_are_no_stock(versions, stock):
    page = catalog.read(reply(200, {"gpus": [a_card(cudaVersions=versions)]}), "SECURE", 1)

    assert {offer.stock for offer in catalog.listing([page]).offers} == {stock}


def test_what_the_catalogue_does_not_tell_is_asked_for_by_the_order():
    page = catalog.read(reply(200, {"gpus": [a_card()]}), "SECURE", 1)
    (offer,) = catalog.listing([page]).offers

    assert (offer.vcpus, offer.memory_gib, offer.sized_by_order) == (0, 0, True)
