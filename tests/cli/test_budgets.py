"""`tgp budgets` and `tgp why budget/x`, beside an operator that counts."""

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import click
import pytest

from tests.cli.money_world import WorldServices
from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.test_budgets import a_budget, a_team_pod, begin, condition, reasons, status
from tgp.adapters.kube.connect import Connection
from tgp.api.resource import CONFIG_MAP, GPU_WORKLOAD_BUDGET, NODE, POD
from tgp.interfaces.cli.budgets import until
from tgp.services.budgets import BudgetService
from tgp.services.cluster_reads import ClusterReads
from tgp.sim.clock import WorldClock
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import KUBERNETES, World


class BudgetWorld(WorldServices):
    @asynccontextmanager
    async def budgets(self, _kubeconfig: str, _context: str) -> AsyncIterator[BudgetService]:
        http = self.world.visitor(KUBERNETES)
        entropy = SeededEntropy(self.world.seed, "person")
        yield BudgetService(ClusterReads(Connection(http, self.world.clock, entropy, "https://x", "c", NAMESPACE_NAME)))

    def said(self, *words: str, code: int = 0) -> str:
        result = self.tgp(*words)
        assert result.exit_code == code, result.output
        return result.output

    def told(self, *words: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.said(*words, "-o", "json", code=code))
        return found


@pytest.fixture
def cluster() -> Iterator[BudgetWorld]:
    with World("budget commands") as world:
        begin(world)
        yield BudgetWorld(world)


def test_without_a_budget_it_says_so(cluster):
    assert "No budget exists" in cluster.said("budgets")


def test_every_budget_is_a_line_with_a_bar_and_the_worst_is_next(cluster):
    a_budget(cluster.world, hours=1)
    a_budget(cluster.world, "roomy", action="Evict")
    a_team_pod(cluster.world, "one")
    cluster.world.run(minutes=31)

    shown = cluster.said("budgets")
    lines = shown.splitlines()
    assert lines[0].split()[:4] == ["NAMESPACE", "NAME", "USE", "USED"]
    assert any("roomy" in line and "□" * 12 in line and "Evict" in line for line in lines)
    assert any("team-a" in line and "■■■■■■□□□□□□" in line for line in lines), shown
    used, left = next(line.replace("%", "% ").split("%")[1].split()[:2] for line in lines if "team-a" in line)
    assert Decimal(used) + Decimal(left) == 1, "what is used and what is left add up to the quota"
    assert "next: tgp why budget/default/team-a" in shown
    told = {item["name"]: item for item in cluster.told("budgets")["items"]}
    assert told["team-a"]["usedGpuHours"] == pytest.approx(0.5, abs=0.02)
    assert told["team-a"]["exhaustedAt"] is not None
    assert cluster.told("budgets", "-n", "others")["items"] == []


def test_why_names_the_pods_that_run_those_that_are_gone_and_what_happens_next(cluster):
    world = cluster.world
    a_budget(world, hours=1, action="Evict", gracePeriodSeconds=60)
    a_team_pod(world, "short", run_for="5m")
    world.run(minutes=7)
    world.api.local_api.delete(POD, "default", "short")
    a_team_pod(world, "first")
    world.run(minutes=10)
    a_team_pod(world, "second")
    world.run(minutes=5)

    told = cluster.told("why", "budget/team-a")
    assert [row["pod"] for row in told["running"]] == ["first", "second"]
    assert [row["pod"] for row in told["ended"]] == ["short"]
    assert told["next"]["action"] == "Evict"
    assert told["next"]["pods"][0] == "default/first", "most used first"
    shown = cluster.said("why", "budget/team-a")
    for words in ("within the quota", "first: 0.2", "short: 0.0", "GPU-hours every hour", "are evicted, in this order"):
        assert words in shown
    assert "did you mean default/team-a" in cluster.said("why", "budget/others/team-a", code=1)
    world.run(minutes=45)
    assert "the action Evict has begun" in cluster.said("why", "budget/team-a"), "its pods are gone"


def test_small_amounts_are_shown_with_two_digits_and_the_time_of_the_end_of_hours_stays(cluster):
    world = cluster.world
    a_budget(world, hours="0.002", window=1)
    a_team_pod(world, "one", run_for="14s")
    world.run(minutes=10)
    assert "0.0038 of 0.002 GPU-hours in the last 1h" in cluster.said("why", "budget/team-a")
    assert "one: 0.0038 GPU-hours" in cluster.said("why", "budget/team-a")
    assert re.search(r"194 % +0\.0038 +0 ", cluster.said("budgets"))
    told = status(world)
    assert told["exhaustedAt"] == told["exceededAt"]
    assert told["asOf"] > told["exceededAt"]


def test_why_counts_pods_of_the_account_that_are_not_shown(cluster):
    world = cluster.world
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=2)
    world.processes["operator-0"].crash(restart_after=600)
    world.api.local_api.delete(POD, "default", "one", grace_seconds=0)
    assert re.search(r"\nrunning +1 pod not shown", cluster.said("why", "budget/team-a"))


def test_simulate_says_now_from_when_or_never(cluster):
    world = cluster.world
    a_budget(world, hours=2)
    a_team_pod(world, "one", run_for="90m")
    world.run(minutes=100)

    assert "fits now" in cluster.said("budgets", "simulate", "--gpus", "1", "--hours", "0.4", "-l", "team=a")
    later = cluster.said("budgets", "simulate", "--gpus", "2", "--hours", "0.5", "-l", "team=a", code=1)
    assert "fits from" in later
    never = cluster.told("budgets", "simulate", "--gpus", "4", "--hours", "1", "-l", "team=a", code=1)
    assert never["items"][0]["never"]
    assert "no budget would count it" in cluster.said("budgets", "simulate", "-l", "team=b")


def test_what_simulate_promises_is_kept(cluster):
    world = cluster.world
    a_budget(world, hours="0.5", window=1)
    a_team_pod(world, "one", run_for="20m")
    world.run(minutes=25)
    told = cluster.told("budgets", "simulate", "--gpus", "1", "--hours", "0.4", "-l", "team=a", code=1)
    at = datetime.fromisoformat(told["items"][0]["from"])
    world.run(seconds=(at - world.clock.now()).total_seconds())
    a_team_pod(world, "two", run_for="24m")
    for _ in range(26):
        world.run(minutes=1)
        assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")


def test_hours_on_top_are_granted_with_their_reason(cluster):
    world = cluster.world
    a_budget(world, hours="0.1")
    a_team_pod(world, "one")
    world.run(minutes=10)
    assert "top-up default/team-a" in cluster.said("why", "budget/team-a")

    said = cluster.said("budgets", "top-up", "team-a", "--gpu-hours", "20", "--until", "3d", "--reason", "a deadline")
    assert "its quota is 20.1 GPU-hours until then" in said
    world.run(seconds=5)
    assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")
    assert "a deadline" in cluster.said("why", "budget/team-a")
    cluster.said("budgets", "top-up", "default/team-a", "--gpu-hours", "5", "--until", "friday")
    found = world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", "team-a")
    assert [row["gpuHours"] for row in found["spec"]["quota"]["extra"]] == ["20", "5"]
    past = cluster.said("budgets", "top-up", "team-a", "--gpu-hours", "5", "--until", "2001-01-01", code=2)
    assert "is in the past" in past
    cluster.said("budgets", "top-up", "team-a", "--gpu-hours", "none", "--until", "friday", code=2)


def test_simulate_says_never_only_of_what_is_larger_than_the_quota(cluster):
    a_budget(cluster.world, hours="0.5", window=1)
    a_team_pod(cluster.world, "one")
    cluster.world.run(minutes=40)
    asked = ("budgets", "simulate", "--gpus", "0.1", "--hours", "0.1")
    assert "does not fit while everything that runs now keeps running." in cluster.said(*asked, code=1)
    (item,) = cluster.told(*asked, code=1)["items"]
    assert (item["from"], item["never"]) == (None, False)
    assert "never fits" in cluster.said("budgets", "simulate", "--gpus", "4", code=1)


def test_reset_asks_first_and_names_who_did_it(cluster):
    world = cluster.world
    a_budget(world, hours="0.1")
    a_team_pod(world, "one", run_for="9m")
    world.run(minutes=12)
    assert "Nothing was reset" in cluster.said("budgets", "reset", "team-a", code=2)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert "0.15 GPU-hours no longer count" in cluster.said("budgets", "reset", "team-a", "--yes")
    world.run(seconds=5)
    assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")
    assert "AccountReset" in reasons(world)
    world.run(seconds=5)
    told = cluster.told("budgets", "reset", "team-a", "--yes")
    assert (told["kind"], told["name"], bool(told["by"])) == ("BudgetReset", "team-a", True)
    assert status(world)["resetAt"] == told["resetAt"], "it is done once that is said"
    world.processes["operator-0"].crash(restart_after=600)
    world.run(seconds=5)
    assert "is not reset yet" in cluster.said("budgets", "reset", "team-a", "--yes", code=1)


def test_a_reset_of_the_future_is_not_done_and_blocks_none(cluster):
    world = cluster.world
    a_budget(world)
    a_team_pod(world, "one", run_for="9m")
    world.run(minutes=12)
    change = {"metadata": {"annotations": {"tgp.io/reset": "2099-01-01T00:00:00Z mallory"}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    world.run(minutes=6)
    assert "AccountReset" not in reasons(world)
    cluster.said("budgets", "reset", "team-a", "--yes")
    assert status(world)["consumedGpuHours"] == "0"


def test_the_bar_is_of_the_nearer_limit(cluster):
    """A pod with one of 64 CPUs of a Node that costs $64 an hour."""
    world = cluster.world
    price = {"metadata": {"annotations": {"tgp.io/hourly-price": "64"}}}
    world.api.local_api.merge_patch(NODE, "", "node-0", price)
    a_budget(world, hours=1000)
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": {"quota": {"usd": "1"}}})
    a_team_pod(world, "one")
    world.run(minutes=31)
    shown = cluster.said("budgets")
    assert "■■■■■■□□□□□□ 51 %" in shown, shown
    assert re.search(r"used +■■■■■■□□□□□□ 51 % of \$1: 0\.5.* of 1000 GPU-hours", cluster.said("why", "budget/team-a"))


def test_hours_on_top_may_be_any_quantity(cluster):
    a_budget(cluster.world)
    extra = [{"gpuHours": "500m", "until": "2099-01-01T00:00:00Z"}]
    change = {"spec": {"quota": {"extra": extra}}}
    cluster.world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    cluster.world.run(seconds=5)
    (item,) = cluster.told("budgets")["items"]
    assert (item["quotaGpuHours"], item["extra"][0]["gpuHours"]) == (100.5, 0.5)
    assert "0.5 GPU-hours until" in cluster.said("why", "budget/team-a")


@pytest.fixture
def evening(monkeypatch) -> None:
    """Worlds begin three hours before the end of a day."""
    monkeypatch.setattr("tgp.sim.world.WorldClock", partial(WorldClock, start=datetime(2026, 1, 5, 21, tzinfo=UTC)))


def test_a_month_is_reported_by_the_day_from_pages_that_are_written_once(evening, cluster):
    world = cluster.world
    a_budget(world)
    a_team_pod(world, "one")
    world.run(hours=4)
    pages = [row for row in world.api.local_api.objects(CONFIG_MAP) if "budget-days" in row["metadata"]["name"]]
    assert len(pages) == 1
    day = pages[0]["metadata"]["name"].removeprefix("tgp-budget-days-")
    world.processes["operator-0"].crash(restart_after=5)
    world.run(minutes=10)

    rows = list(csv.DictReader(io.StringIO(cluster.said("budgets", "report", "--month", day[:7], "-o", "csv"))))
    assert [row["budget"] for row in rows] == ["team-a"] * len(rows)
    assert rows[0]["day"] == day
    total = sum(float(row["gpu_hours"]) for row in rows)
    assert total == pytest.approx(4.1, abs=0.1)
    assert "team-a" in cluster.said("budgets", "report")
    assert "No budget used anything" in cluster.said("budgets", "report", "--month", "2001-01")
    cluster.said("budgets", "report", "--month", "soon", code=2)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("friday", "2026-11-21T00:00:00"),
        ("Tuesday", "2026-11-18T00:00:00"),
        ("2026-11-30", "2026-12-01T00:00:00"),
        ("2026-11-20T18:00:00+02:00", "2026-11-20T16:00:00"),
        ("36h", "2026-11-19T00:00:00"),
        ("3d", "2026-11-20T12:00:00"),
    ],
)
def test_until_is_read_as_people_write_it(written, meant):
    now = datetime(2026, 11, 17, 12, tzinfo=UTC)
    assert until(written, now) == datetime.fromisoformat(meant).replace(tzinfo=UTC)


@pytest.mark.parametrize("written", ["soon", "2026-11-31", "2026-11-01", "0h"])
def test_an_until_that_means_nothing_is_refused(written):
    with pytest.raises(click.BadParameter):
        until(written, datetime(2026, 11, 17, 12, tzinfo=UTC))


def test_what_is_unsure_names_pods_since_when_and_the_hours_of_those_that_are_gone(cluster):
    world = cluster.world
    a_budget(world)
    for name in ("gone", "silent"):
        a_team_pod(world, name)
    world.run(minutes=10)
    world.processes["operator-0"].crash(restart_after=600)
    world.api.local_api.delete(POD, "default", "gone", grace_seconds=0)
    world.run(minutes=15)
    world.cluster.power_off("node-0")
    world.run(minutes=5)
    said = " ".join(cluster.said("why", "budget/team-a").split())
    assert re.search(r"the Nodes of these pods do not report: silent \(since \d\d:\d\d:\d\dZ\)", said), said
    assert re.search(r"and between \d\d:00:00Z and \d\d:00:00Z no operator watched for a while", said), said
