"""The safety bench: its demand is what it says it is, and a day of it loses no money."""

import pytest

from bench.safety import rates
from bench.safety.demand import MARKETS, wishes
from bench.safety.run import main
from tgp.sim.faults import Fault

HOURS = 10  # one world; the full number by `python -m bench safety --hours 5000`


@pytest.mark.parametrize("market", range(MARKETS))
def test_five_to_twenty_are_wanted_at_any_time_and_ten_an_hour(market):
    asked = list(wishes(market, 10 * 3600))

    for moment in range(600, 36_000, 60):
        assert 5 <= sum(wish.at <= moment < wish.until + 1 for wish in asked) <= 20
    assert len(asked) >= 100


def test_storms_over_one_market_meet_the_same_wishes():
    """Otherwise what the storm cost could not be told from what was wanted."""
    assert list(wishes(3, 7200)) == list(wishes(3 + MARKETS, 7200))


def test_every_rate_has_a_reason():
    tables = (rates.WEATHER, rates.PROVIDER, rates.KUBELETS)
    rows = [row for table in tables for row in table.values()]
    for row in (*rows, rates.STRIPPED, rates.ENDED_AT_THE_CONSOLE, rates.WIPED):
        assert row.rate > 0
        assert row.why
    assert set(rates.WEATHER) == set(Fault) - LEFT_OUT


LEFT_OUT = {
    Fault.TWICE,  # no way on which a call is delivered twice is known
    Fault.API_WEBHOOK,  # a webhook out of reach refuses like a busy server
    Fault.WATCH_SILENT,  # half-open streams are drawn by the network already
    Fault.WATCH_GONE_INSIDE,  # the other form of a 410
}


def test_hours_of_storms_lose_no_money(capfd):
    code = main(["--hours", str(HOURS), "--seed", "1"])
    said = capfd.readouterr().out
    told = dict(pair.split("=") for pair in said.splitlines()[-1].removeprefix("safety ").split())

    assert code == 0, said
    assert (told["duplicates"], told["overruns"]) == ("0", "0")
    assert float(told["orphan_s"]) <= 300
    assert int(told["launches"]) >= 10 * HOURS
    assert int(told["handovers"]) >= HOURS
