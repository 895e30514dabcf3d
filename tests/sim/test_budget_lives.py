"""A budget's own life: deleted, created again, restored. What was used stays with its name."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, create
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, consumed, ran, reasons, status
from tgp.api.resource import CONFIG_MAP, GPU_WORKLOAD_BUDGET, LEGACY_BUDGET
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.core.budgets.archive import ACCOUNT_FINALIZER, ARCHIVE
from tgp.core.budgets.days import read_days
from tgp.sim.clock import WorldClock
from tgp.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World("budget-lives") as world:
        begin(world)
        yield world


def delete(world: World, name: str = "team-a") -> None:
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", name)
    world.run(seconds=10)
    assert world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", name) is None


def archived(world: World) -> dict[str, str]:
    found = world.api.local_api.get(CONFIG_MAP, NAMESPACE_NAME, ARCHIVE)
    return dict((found or {}).get("data") or {})


def test_a_budget_that_comes_back_goes_on_from_what_was_used(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    delete(world)
    assert list(archived(world)) == ["default_team-a_cpu"]
    world.run(minutes=30)
    a_budget(world)
    world.run(seconds=10)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    assert reasons(world).count("Inherited") == 1
    assert archived(world) == {}
    world.processes["operator-0"].crash(restart_after=10)
    world.run(minutes=2)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    assert reasons(world).count("Inherited") == 1


def test_what_runs_while_there_is_no_budget_is_not_charged_and_counts_again_with_the_next(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=10)
    delete(world)
    world.run(minutes=20)
    a_budget(world)
    world.run(minutes=10)
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(seconds=10)
    a_budget(world)
    world.run(seconds=5)
    assert consumed(world) == pytest.approx(20 * 60, abs=60)


def test_another_resource_or_a_late_return_begins_at_zero(world):
    a_budget(world, window=1)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=12)
    delete(world)
    world.run(minutes=61)
    a_budget(world, window=1)
    assert consumed(world) == 0
    assert "Inherited" not in reasons(world)


def test_a_budget_deleted_by_force_or_while_the_operator_is_away_is_kept_too(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    change = {"metadata": {"finalizers": None}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(seconds=10)
    a_budget(world)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)

    world.processes["operator-0"].crash(restart_after=300)
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(minutes=1)
    held = world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", "team-a")
    assert held is not None
    assert held["metadata"]["finalizers"] == [ACCOUNT_FINALIZER]
    world.run(minutes=6)
    a_budget(world)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)


def test_deleted_beyond_its_quota_it_comes_back_beyond_it_and_its_grace_does_not_begin_again(world):
    a_budget(world, hours="0.1", gracePeriodSeconds=3600)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=12)
    since = status(world)["exceededAt"]
    delete(world)
    a_budget(world, hours="0.1", gracePeriodSeconds=3600)
    assert status(world)["exceededAt"] == since
    assert reasons(world).count("BudgetAlert") == 2, "alerts that hold are not raised again"


def test_a_mirror_that_is_deleted_or_whose_legacy_budget_comes_back_inherits(world):
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": "10", "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
        "gpuResourceName": "cpu",
    }
    create(world, LEGACY_BUDGET, "team-a", "default", spec=spec)
    world.run(seconds=10)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
    world.run(seconds=30)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    world.api.local_api.delete(LEGACY_BUDGET, "default", "team-a")
    world.run(minutes=2)
    create(world, LEGACY_BUDGET, "team-a", "default", spec=spec)
    world.run(seconds=30)
    shown = world.api.local_api.get(LEGACY_BUDGET, "default", "team-a")["status"]
    assert float(shown["consumedGpuHours"]) * 3600 == pytest.approx(ran(world, "one"), abs=1)


def test_a_budget_that_never_counted_does_not_replace_what_one_of_its_name_has_used(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)
    delete(world)
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": 1, "calendar": "Day", "timeZone": "Mars/Base"},
        "enforcement": {"action": "AlertOnly"},
        "gpuResourceName": "cpu",
    }
    create(world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
    world.run(seconds=20)
    delete(world)
    a_budget(world)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)


def test_an_account_of_a_newer_version_is_kept_as_it_is(world):
    a_budget(world)
    world.processes["operator-0"].crash(restart_after=30)
    change = {"status": {"account": "2.future"}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change, "status")
    world.run(minutes=2)
    delete(world)
    assert '"2.future"' in archived(world)["default_team-a_cpu"]


# -- by the day --------------------------------------------------------------------------------------------------------

EVENING = datetime(2026, 1, 5, 21, tzinfo=UTC)


@pytest.fixture
def evening(monkeypatch) -> Iterator[World]:
    """A world that begins three hours before midnight; two budgets count the same hour."""
    monkeypatch.setattr("tgp.sim.world.WorldClock", partial(WorldClock, start=EVENING))
    with World("budget-days") as world:
        begin(world)
        a_budget(world)
        a_budget(world, "other")
        a_team_pod(world, "one", run_for="1h")
        world.run(minutes=172)
        yield world


def days(world: World) -> dict[str, int]:
    """By budget, the seconds of the first day as its lines say."""
    rows = read_days(world.api.local_api.objects(CONFIG_MAP, NAMESPACE_NAME))
    return {row.name: row.used // 1000 for row in rows if row.day == "2026-01-05"}


def test_a_budget_that_is_deleted_over_midnight_keeps_its_day(evening):
    world = evening
    delete(world)
    world.run(minutes=15)
    expected = pytest.approx(ran(world, "one"), abs=1)
    assert days(world) == {"team-a": expected, "other": expected}
    a_budget(world)
    world.run(minutes=24 * 60)
    assert days(world) == {"team-a": expected, "other": expected}, "the one that came back adds nothing"
    pages = [each["metadata"]["name"] for each in world.api.local_api.objects(CONFIG_MAP, NAMESPACE_NAME)]
    assert [name for name in pages if "budget-days" in name] == ["tgp-budget-days-2026-01-05"], "one write a day"


def test_a_budget_that_is_taken_up_late_gets_its_line_beside_the_page_of_the_day(evening):
    world, taken_up = evening, BudgetTracker.memory_of

    def later(self: BudgetTracker, record: Any, *rest: Any, **more: Any) -> Any:
        early = world.clock.now() < EVENING + timedelta(hours=3, minutes=30)
        return None if early and record.key.name == "team-a" else taken_up(self, record, *rest, **more)

    with patch.object(BudgetTracker, "memory_of", later):
        world.processes["operator-0"].crash(restart_after=60)
        world.run(minutes=25)
        assert list(days(world)) == ["other"]
        world.run(minutes=20)
    expected = pytest.approx(ran(world, "one"), abs=1)
    assert days(world) == {"team-a": expected, "other": expected}
