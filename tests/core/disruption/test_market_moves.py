"""Prices move all the time; only what may change an answer is worth another search."""

import msgspec
import pytest

from tests.core.disruption.exchange_worlds import an_offer
from tgp.core.disruption.market_moves import lowest_prices, moved
from tgp.core.model.offer import Stock

BEFORE = lowest_prices((an_offer("a", 2.00), an_offer("b", 2.50), an_offer("big", 8.00, gpus=8)))


@pytest.mark.parametrize(
    ("offers", "matters"),
    [
        pytest.param((("a", 2.00, 4), ("b", 2.50, 4), ("big", 8.00, 8)), False, id="the same"),
        pytest.param((("a", 2.01, 4), ("b", 2.50, 4), ("big", 8.00, 8)), False, id="half a percent"),
        pytest.param((("a", 1.95, 4), ("b", 2.50, 4), ("big", 8.00, 8)), True, id="cheaper"),
        pytest.param((("a", 2.05, 4), ("b", 2.50, 4), ("big", 8.00, 8)), True, id="more expensive"),
        pytest.param((("a", 2.00, 4), ("b", 2.20, 4), ("big", 8.00, 8)), False, id="another one is cheaper still"),
        pytest.param((("c", 2.00, 4), ("big", 8.00, 8)), False, id="another offer of the kind, at its price"),
        pytest.param((("a", 2.00, 4),), True, id="a kind is gone"),
        pytest.param((("a", 2.00, 4), ("big", 8.00, 8), ("small", 1.00, 1)), True, id="a kind is new"),
    ],
)
def test_a_price_matters_that_moves_the_lowest_of_its_kind(offers, matters):
    now = lowest_prices(an_offer(sku, dollars, gpus=gpus) for sku, dollars, gpus in offers)

    assert moved(BEFORE, now) is matters


def test_many_small_steps_count_from_the_last_search():
    steps = [lowest_prices((an_offer("a", 2.00 + 0.01 * step),)) for step in range(4)]

    assert [moved(steps[0], each) for each in steps] == [False, False, False, True]


def test_what_is_sold_out_has_no_price():
    gone = msgspec.structs.replace(an_offer("a", 2.00), stock=Stock.NONE)

    assert lowest_prices((gone, an_offer("b", 2.50))) == lowest_prices((an_offer("b", 2.50),))
