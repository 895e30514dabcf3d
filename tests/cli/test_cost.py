"""`tgp cost`: records and estimates, divided at the edges of months, adding up to the cent."""

import csv
import io
import json
from datetime import datetime

import msgspec
import pytest

from tests.cli.money_world import MoneyWorld
from tgp.core.model.spend import SpendEntry, line_of


def an_entry(**fields) -> SpendEntry:
    usual = {
        "uid": "u-1",
        "attempt": 1,
        "request": "team-a/train",
        "pool": "team-a/big",
        "node_class": "box",
        "provider": "vultr",
        "gpu": "L40S",
        "gpus": 1,
        "began": datetime.fromisoformat("2025-10-31T12:00:00Z"),
        "ended": datetime.fromisoformat("2025-11-01T12:00:00Z"),
        "microusd": 24_000_001,
    }
    return SpendEntry(**{**usual, **fields})


def record(money: MoneyWorld, month: str, *entries: SpendEntry) -> None:
    money.spend(month, **{entry.key: line_of(entry) for entry in entries})


def bill(money: MoneyWorld, *words: str) -> dict:
    result = money.tgp("cost", "-o", "json", *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def by_group(document: dict) -> dict[str, float]:
    return {item["group"]: item["usd"] for item in document["items"]}


def test_a_cluster_that_never_spent_anything_is_told_so(money):
    result = money.tgp("cost")

    assert result.exit_code == 0
    assert "No cost so far." in result.output


def test_a_life_over_the_edge_of_a_month_counts_in_both_and_adds_up(money):
    record(money, "2025-11", an_entry())
    document = bill(money)

    assert by_group(document) == {"2025-10": 12.0, "2025-11": 12.000001}
    assert document["total"]["usd"] == 24.000001
    assert document["total"]["machines"] == 1
    assert by_group(bill(money, "--month", "2025-11")) == {"vultr": 12.000001}
    assert bill(money, "--month", "2025-12")["items"] == []


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("provider", {"vultr": 24.000001, "gcp": 3.0}),
        ("namespace", {"team-a": 24.000001, "team-b": 3.0}),
        ("pool", {"team-a/big": 24.000001, "(none)": 3.0}),
        ("class", {"box": 27.000001}),
        ("gpu", {"L40S": 24.000001, "H100": 3.0}),
    ],
)
def test_the_same_money_by_whatever_is_asked(money, by, groups):
    other = an_entry(uid="u-2", request="team-b/x", pool="", provider="gcp", gpu="H100", gpus=8, microusd=3_000_000)
    record(money, "2025-11", an_entry(), other)
    document = bill(money, "--by", by)

    assert by_group(document) == groups
    assert document["total"]["usd"] == 27.000001
    assert document["total"]["gpuHours"] == 24 + 8 * 24


@pytest.mark.parametrize(
    ("by", "names"), [("pool", "pool/team-a/big\n"), ("class", "class/box\n"), ("gpu", "H100\nL40S\n")]
)
def test_groups_are_named_as_other_commands_take_them(money, by, names):
    record(money, "2025-11", an_entry(), an_entry(uid="u-2", request="team-b/x", pool="", gpu="H100", gpus=8))
    result = money.tgp("cost", "--by", by, "-o", "name")

    assert "".join(sorted(result.output.splitlines(keepends=True))) == names


def test_wide_cuts_nothing(money):
    group = "x" * 120
    record(money, "2025-11", an_entry(gpu=group))

    assert group in money.tgp("cost", "--by", "gpu", "-o", "wide").output


def test_what_cheaper_machines_saved_is_shown_by_month(money):
    assert "SAVED" not in money.tgp("cost").output
    record(money, "2025-11", an_entry(microusd=24_000_000, replaced_microusd=34_000_000))
    document = bill(money)
    result = money.tgp("cost")

    assert {item["group"]: item["savedUsd"] for item in document["items"]} == {"2025-10": 5.0, "2025-11": 5.0}
    assert document["total"]["savedUsd"] == 10.0
    assert "SAVED is what replaced machines would have cost" in result.output


def test_what_runs_still_is_an_estimate_and_marked(money):
    money.request()
    money.world.run(hours=2)
    machine = next(iter(money.simulated.fleet.machines.values()))
    document = bill(money)
    total = document["total"]
    result = money.tgp("cost")

    assert total["runningUsd"] == total["usd"]
    assert total["usd"] == pytest.approx(2 * machine.rate_microusd / 1_000_000, rel=0.01)
    assert document["usdPerHourNow"] == machine.rate_microusd / 1_000_000
    assert "RUNNING is the estimated cost" in result.output


def test_a_machine_that_is_recorded_is_not_counted_again_by_its_request(money):
    request = money.request()
    uid = request["metadata"]["uid"]
    record(money, "2025-11", an_entry(uid=uid, microusd=5_000_000))

    assert bill(money)["total"]["usd"] == 5.0


def test_since_is_a_day_or_a_length(money):
    record(money, "2025-11", an_entry())

    assert bill(money, "--since", "2025-11-01")["total"]["usd"] == 12.000001
    assert bill(money, "--since", "1h")["total"]["usd"] == 0
    assert bill(money, "--since", "9999d")["total"]["usd"] == 24.000001


def test_a_spreadsheet_gets_rows_and_no_formula(money):
    record(money, "2025-11", an_entry(gpu="=1+1"))
    rows = list(csv.reader(io.StringIO(money.tgp("cost", "--by", "gpu", "-o", "csv").output)))

    assert rows == [
        ["gpu", "machines", "gpu_hours", "usd", "running_usd", "saved_usd"],
        ["'=1+1", "1", "24.0000", "24.000001", "0.000000", "0.000000"],
    ]


def test_a_damaged_line_is_reported_and_not_counted(money):
    money.spend("2025-11", **{"u-9-1": "not a line", an_entry().key: line_of(an_entry())})
    result = money.tgp("cost")

    assert "u-9-1" in result.output
    assert "24.00" in result.output


def test_a_moment_without_length_costs_what_was_charged(money):
    entry = an_entry()
    record(money, "2025-10", msgspec.structs.replace(entry, ended=entry.began, microusd=7))

    assert by_group(bill(money)) == {"2025-10": 0.000007}


@pytest.mark.parametrize(
    "words",
    [("--month", "2025-13"), ("--month", "x"), ("--since", "yesterday"), ("--month", "2025-11", "--since", "1h")],
)
def test_wrong_use_names_the_option(money, words):
    result = money.tgp("cost", *words)

    assert result.exit_code == 2
    assert words[0] in result.output
