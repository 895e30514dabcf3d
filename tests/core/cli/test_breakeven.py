"""`tgp breakeven` as people type it."""

import json

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tgp.core.market.breakeven import Renting
from tgp.interfaces.cli.breakeven import breakeven
from tgp.services.market_answers import Prices

SEED = ("--gpu", "RTX3090", "--hardware", "800", "--price", "0.35..0.45")


class Market:
    """Remembers what it was asked for."""

    def __init__(self, prices: Prices | None = None) -> None:
        self.asked: list[str] = []
        self._prices = prices

    async def gpu_prices(self, gpu: str, _kubeconfig: str, _context: str) -> Prices | None:
        self.asked.append(gpu)
        return self._prices


def typed(*arguments: str, market: Market | None = None, width: int = 80):
    return CliRunner().invoke(breakeven, arguments, obj=market or Market(), env={"COLUMNS": str(width)})


def test_with_the_early_document_s_inputs_it_prints_its_table():
    result = typed(*SEED)

    assert result.exit_code == 0
    rows = [line.split("  ") for line in result.output.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells[2:6] == [
        ["Job Duration", "Jobs to Break Even", "Total GPU Hours"],
        ["1 hour", "1,800 \N{EN DASH} 2,300", "1,800 \N{EN DASH} 2,300"],
        ["10 hours", "180 \N{EN DASH} 230", "1,800 \N{EN DASH} 2,300"],
        ["50 hours", "36 \N{EN DASH} 46", "1,800 \N{EN DASH} 2,300"],
    ]
    assert result.output.startswith("RTX3090: $800 to own, $0.35 \N{EN DASH} $0.45 an hour to rent (given)\n")
    assert "At 1 hour a day owning pays after 4.9 \N{EN DASH} 6.3 years" in result.output
    assert "Electricity is not counted" in result.output
    assert result.output.endswith("next: tgp offers --gpu RTX3090\n")


@pytest.mark.parametrize("how", ["json", "yaml"])
def test_programs_get_exact_numbers(how):
    result = typed(*SEED, "--hours-per-day", "2", "-o", how)
    said = json.loads(result.output) if how == "json" else YAML(typ="safe", pure=True).load(result.output)

    assert said["hours"] == {"soonest": 1777.8, "latest": 2285.7}
    assert said["days"] == {"soonest": 888.9, "latest": 1142.9}
    assert said["rentUsdPerHour"] == {"low": 0.35, "high": 0.45}
    assert said["jobs"][2] == {"hours": 50, "jobs": {"soonest": 35.6, "latest": 45.7}}


def test_electricity_is_counted_when_both_halves_are_given():
    result = typed(*SEED[:4], "--price", "0.475", "--watts", "250", "--kwh", "0.30", "--hours-per-day", "8")

    assert "2,000" in result.output
    assert "At 8 hours a day owning pays after 8.2 months" in result.output
    assert "250 W at $0.30 are $0.075 an hour" in result.output


@pytest.mark.parametrize(
    ("price", "words"),
    [("0.05", "Rent: the electricity alone costs as much"), ("0.05..0.475", "highest rent, never against the lowest")],
)
def test_where_owning_never_pays_it_says_so_and_shows_no_number(price, words):
    result = typed(*SEED[:4], "--price", price, "--watts", "250", "--kwh", "0.30")

    assert words in " ".join(result.output.split())
    assert "never" in result.output
    said = json.loads(typed(*SEED[:4], "--price", price, "--watts", "250", "--kwh", "0.30", "-o", "json").output)
    assert said["hours"]["latest"] is None


def test_without_a_price_the_market_is_asked_and_named():
    market = Market(Prices(Renting(200_000, 400_000), "14 offers of 3 providers, seen 9 s ago"))

    result = typed("--gpu", "rtx 3090", "--hardware", "800", market=market, width=120)

    assert market.asked == ["RTX3090"]
    assert "14 offers of 3 providers" in result.output
    assert "2,000 \N{EN DASH} 4,000" in result.output


def test_with_a_price_no_provider_is_asked():
    market = Market()
    typed(*SEED, market=market)

    assert market.asked == []


def test_a_gpu_without_offers_is_an_error():
    result = typed("--gpu", "A100", "--hardware", "9000")

    assert result.exit_code == 1
    assert "give a --price" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpu", "RTX39", "--hardware", "800", "--price", "1"), "RTX3090"),
        ((*SEED[:2], "--hardware", "0", "--price", "1"), "'0' is not a number above 0"),
        ((*SEED[:2], "--hardware", "nan", "--price", "1"), "not a number"),
        ((*SEED[:2], "--hardware", "1e99", "--price", "1"), "not a number"),
        ((*SEED[:2], "--hardware", "9" * 5000, "--price", "1"), "not a number"),
        ((*SEED[:4], "--price", "-1"), "not a price"),
        ((*SEED[:4], "--price", "0.45..0.35"), "the lower price comes first"),
        ((*SEED[:4], "--price", "0.35.."), "write 0.40 or 0.35..0.45"),
        ((*SEED[:4], "--price", "Infinity"), "not a number"),
        ((*SEED, "--watts", "250"), "must be given together"),
        ((*SEED, "--kwh", "0.3"), "must be given together"),
        ((*SEED, "--hours-per-day", "25"), "up to 24"),
        ((*SEED, "--hours-per-day", "0"), "above 0"),
    ],
)
def test_nonsense_is_refused_with_2_and_the_option_s_name(arguments, words):
    result = typed(*arguments)

    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert len(result.output) < 1000
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_no_line_is_longer_than_the_terminal(width):
    lines = typed(*SEED, "--watts", "10", "--kwh", "0.1", width=width).output.splitlines()

    assert max(map(len, lines)) <= width
