"""The forms of an amount: a price in its own way, where little is never shown as nothing; what was spent in one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model import money

AMOUNTS = (0, 42, 4_200, 5_000, 59_000, 419_400, 690_000, 999_999, 2_397_000, 1_234_567_890)


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        pytest.param(form, texts.split(), id=form.__name__)
        for form, texts in [
            (money.exact, "$0.00 $0.000042 $0.0042 $0.005 $0.059 $0.4194 $0.69 $0.999999 $2.397 $1234.56789"),
            (money.about, "$0.00 $0.000042 $0.0042 $0.005 $0.059 $0.419 $0.69 $1.00 $2.40 $1234.57"),
            (money.amount, "0.00 0.0000 0.0042 0.0050 0.059 0.419 0.69 1.000 2.40 1,234.57"),
            (money.dollars, "$0.00 $0.0000 $0.0042 $0.0050 $0.059 $0.419 $0.69 $1.000 $2.40 $1,234.57"),
            (money.to_the_cent, "0.00 0.00 0.00 0.01 0.06 0.42 0.69 1.00 2.40 1,234.57"),
            (money.total, "$0.00 $0.00 $0.00 $0.01 $0.06 $0.42 $0.69 $1.00 $2.40 $1,234.57"),
            (money.cents, "0.00 0.00 0.00 0.01 0.06 0.42 0.69 1.00 2.40 1234.57"),
            (
                money.decimal,
                "0.000000 0.000042 0.004200 0.005000 0.059000 0.419400 0.690000 0.999999 2.397000 1234.567890",
            ),
        ]
    ],
)
def test_an_amount_has_these_forms(form, texts):
    assert [form(amount) for amount in AMOUNTS] == texts


@given(st.integers(0, 10**15))
def test_what_was_spent_has_two_decimals_and_is_the_same_in_every_form(microusd):
    assert money.total(microusd).removeprefix("$") == money.to_the_cent(microusd)
    assert money.to_the_cent(microusd).replace(",", "") == money.cents(microusd)


def test_a_saving_below_nothing_keeps_its_sign():
    assert [money.to_the_cent(amount) for amount in (-4_999, -5_000, -1_234_500_000)] == ["0.00", "-0.01", "-1,234.50"]


@pytest.mark.parametrize(
    ("microusd", "text"),
    [(4_200, "0.42 cents"), (10_000, "1 cent"), (427_000, "42.7 cents"), (999_999, "$1.00"), (1_200_000, "$1.20")],
)
def test_a_distance_below_a_dollar_is_in_cents(microusd, text):
    assert money.distance(microusd) == text


def test_a_limit_is_rounded_up():
    assert [money.cents(amount, up=True) for amount in (0, 1, 10_000, 10_001)] == ["0.00", "0.01", "0.01", "0.02"]
