"""What a walk with real money refuses before anybody is asked anything."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import an_offer
from tgp.core.model.offer import Stock, Trust
from tools.live.asked import MOST_MICROUSD, Refusal, read
from tools.live.choice import cheapest

ROOT = Path(__file__).parents[2]
KEY = {"LAMBDA_LABS_API_KEY": "opens-nothing"}
GOOD = {"PROVIDER": "lambda", "MAX_USD": "1", **KEY}


def test_with_provider_key_and_cap_it_would_start_and_only_looks():
    asked = read(GOOD)

    assert (asked.provider, asked.cap_microusd, asked.yes) == ("lambdalabs", 1_000_000, False)
    assert "opens-nothing" not in repr(asked)


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, "PROVIDER: one of lambdalabs, paperspace, vultr, gcp"),
        ({}, "MAX_USD: what an hour"),
        (GOOD | {"PROVIDER": "acme"}, "PROVIDER: one of"),
        (GOOD | {"PROVIDER": "simulated"}, "nothing is real there"),
        (GOOD | {"PROVIDER": "webhook"}, "your own machines"),
        (GOOD | {"PROVIDER": "runpod"}, "it starts containers"),
        (GOOD | {"PROVIDER": "vast.ai"}, "it starts containers"),
        (GOOD | {"MAX_USD": ""}, "MAX_USD"),
        (GOOD | {"MAX_USD": "0"}, "MAX_USD: more than 0"),
        (GOOD | {"MAX_USD": "-1"}, "MAX_USD"),
        (GOOD | {"MAX_USD": "1e3"}, "MAX_USD"),
        (GOOD | {"MAX_USD": "1000"}, "at most 20.00"),
        (GOOD | {"LAMBDA_LABS_API_KEY": " "}, "LAMBDA_LABS_API_KEY: the key of the account that pays"),
        (GOOD | {"SETTINGS": "sshKeyName: x"}, "SETTINGS"),
        (GOOD | {"SETTINGS": '{"sshKeyNam": 3}'}, "SETTINGS"),
    ],
)
def test_it_does_not_start_without_everything_it_needs(environ, why):
    with pytest.raises(Refusal, match=why):
        read(environ)


def test_all_that_is_missing_is_said_at_once():
    with pytest.raises(Refusal) as refused:
        read({"PROVIDER": "vultr"})

    assert "MAX_USD" in str(refused.value)
    assert "VULTR_API_KEY" in str(refused.value)


def test_the_program_ends_with_two_and_without_a_traceback():
    ended = subprocess.run(
        [sys.executable, "-m", "tools.live"], cwd=ROOT, env={}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "does not start without" in ended.stderr
    assert "Traceback" not in ended.stderr


@given(prices=st.lists(st.integers(1, 3 * MOST_MICROUSD), max_size=8), cap=st.integers(1, MOST_MICROUSD))
def test_an_hour_of_what_is_rented_is_below_the_cap(prices, cap):
    """The cap is a promise, not a preference."""
    chosen = cheapest([an_offer(hourly_microusd=price) for price in prices], cap)

    assert (chosen is not None) == any(price < cap for price in prices)
    assert chosen is None or chosen.hourly_microusd == min(prices)


@pytest.mark.parametrize("flaw", [{"spot": True}, {"stock": Stock.NONE}, {"trust": Trust.ANY}])
def test_what_may_be_taken_back_is_sold_out_or_a_strangers_is_not_rented(flaw):
    assert cheapest([an_offer(hourly_microusd=5, **flaw)], 10) is None
