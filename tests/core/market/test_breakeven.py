"""Rent or own: exact, and never a number where owning never pays."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.market.breakeven import BreakEven, Owning, Renting, break_even, hours, two_digits

DOLLAR = 1_000_000
PRICES = st.integers(1, 1000 * DOLLAR)


def test_the_early_document_s_numbers():
    """$800 against $0.35 to $0.45 an hour: between about 1,800 and 2,300 hours."""
    found = break_even(Owning(800 * DOLLAR), Renting(350_000, 450_000))

    assert found == BreakEven(Fraction(80_000, 45), Fraction(80_000, 35))
    assert [two_digits(end) for end in (found.soonest, found.latest)] == [1800, 2300]
    assert [two_digits(end) for end in (found.jobs(10).soonest, found.jobs(10).latest)] == [180, 230]
    assert [two_digits(end) for end in (found.jobs(50).soonest, found.jobs(50).latest)] == [36, 46]


def test_electricity_makes_owning_pay_later():
    owning = Owning(800 * DOLLAR, watts=250, kwh_microusd=300_000)

    assert owning.electricity_microusd == 75_000
    assert hours(owning, 475_000) == 2000


@pytest.mark.parametrize(("rent", "pays"), [(74_999, False), (75_000, False), (75_001, True)])
def test_owning_never_pays_where_electricity_costs_as_much_as_the_rent(rent, pays):
    assert (hours(Owning(800 * DOLLAR, 250, 300_000), rent) is not None) == pays


def test_a_range_of_rents_may_end_in_never():
    found = break_even(Owning(800 * DOLLAR, 250, 300_000), Renting(70_000, 475_000))

    assert found == BreakEven(Fraction(2000), None)
    assert found.days(Fraction(8)) == BreakEven(Fraction(250), None)


@given(hardware=PRICES, rent=PRICES, watts=st.integers(0, 2000), kwh=st.integers(0, DOLLAR))
def test_at_break_even_both_have_cost_the_same(hardware, rent, watts, kwh):
    owning = Owning(hardware, watts, kwh)

    found = hours(owning, rent)

    if found is None:
        assert owning.electricity_microusd >= rent
    else:
        assert hardware + found * owning.electricity_microusd == found * rent


@given(low=PRICES, more=st.integers(0, DOLLAR), hardware=PRICES)
def test_the_higher_the_rent_the_sooner_owning_pays(low, more, hardware):
    found = break_even(Owning(hardware), Renting(low, low + more))

    assert found.soonest <= found.latest


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0, 0),
        (Fraction(1, 3), Fraction(33, 100)),
        ("9.96", 10),
        (99, 99),
        ("99.5", 100),
        (1849, 1800),
        (1850, 1900),
        ("4.87", "4.9"),
        ("0.0004561", "0.00046"),
    ],
)
def test_two_digits_are_rounded_half_up(value, rounded):
    assert two_digits(Fraction(value)) == Fraction(rounded)


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**12))
def test_two_digits_are_within_a_twentieth_of_the_truth(value):
    assert abs(two_digits(value) - value) * 20 <= value
