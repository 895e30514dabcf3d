"""Teams, months and models: budgets over namespaces and periods, weights, hours on top, and a fresh start."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, create
from tests.sim.cluster.manifests import GPU, a_pod
from tests.sim.test_budget_admission import install
from tests.sim.test_budgets import CPU, a_budget, a_team_pod, begin, condition, consumed, pods, reasons, status
from tgp.api.resource import GPU_WORKLOAD_BUDGET, NAMESPACE, POD
from tgp.api.values import rfc3339
from tgp.core.budgets.reset import RESET
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.clock import WorldClock
from tgp.sim.cluster.machines import Hardware
from tgp.sim.world import World

TEAM = {"namespaceSelector": {"matchLabels": {"team": "a"}}}


@pytest.fixture
def world() -> Iterator[World]:
    with World("team budgets") as world:
        begin(world)
        yield world


def a_wide_budget(world: World, name: str = "team-a", namespace: str = NAMESPACE_NAME, **more: Any) -> None:
    spec: dict[str, Any] = {
        "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "quota": {"gpuHours": 100, "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
        "gpuResourceName": "cpu",
    }
    create(world, GPU_WORKLOAD_BUDGET, name, namespace, spec={**spec, **TEAM, **more})
    world.run(seconds=5)


def of(world: World, name: str, namespace: str = NAMESPACE_NAME) -> dict[str, Any]:
    found = world.api.local_api.get(GPU_WORKLOAD_BUDGET, namespace, name)
    assert found is not None
    return found.get("status", {})


def reason_of(shown: dict[str, Any], kind: str) -> str:
    return next((row["reason"] for row in shown.get("conditions", []) if row["type"] == kind), "")


def change(world: World, spec: dict[str, Any], name: str = "team-a") -> None:
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", name, {"spec": spec})
    world.run(seconds=5)


def namespaces(world: World, **teams: str) -> None:
    for name, team in teams.items():
        world.api.local_api.create(NAMESPACE, {"metadata": {"name": name, "labels": {"team": team}}})


# -- namespaces --------------------------------------------------------------------------------------------------------


def test_one_budget_counts_the_pods_of_a_teams_namespaces_above_their_own(world):
    namespaces(world, train="a", serve="a", web="b")
    a_wide_budget(world)
    create(
        world,
        GPU_WORKLOAD_BUDGET,
        "own",
        "train",
        spec={
            "selector": {"matchLabels": {"app": "x"}},
            "quota": {"gpuHours": 1, "windowHours": 24},
            "enforcement": {"action": "AlertOnly"},
            "gpuResourceName": "cpu",
        },
    )
    for place in ("train", "serve", "web"):
        world.api.local_api.create(POD, a_pod("one", place))
    world.run(minutes=10)
    assert of(world, "team-a")["gpusInUse"] == "2"
    assert of(world, "own", "train")["gpusInUse"] == "1"

    world.api.local_api.merge_patch(NAMESPACE, "", "web", {"metadata": {"labels": {"team": "a"}}})
    world.run(seconds=5)
    joined = of(world, "team-a")
    assert joined["gpusInUse"] == "3"
    assert float(joined["consumedGpuHours"]) * 3600 == pytest.approx(2 * 600, abs=60), "the third counts from now on"
    world.processes["operator-0"].crash(restart_after=5)
    world.run(minutes=2)
    assert of(world, "team-a")["gpusInUse"] == "3"
    world.api.local_api.delete(POD, "serve", "one")
    world.run(minutes=2)
    (gone,) = of(world, "team-a")["largest"]
    assert gone["pod"] == "serve/one"


@pytest.mark.parametrize("admission", ["Gate", "Deny"])
def test_new_pods_of_all_namespaces_of_a_used_up_budget_are_refused_or_wait_for_it(world, admission):
    """They go on in the order of their age, wherever they are: one more only while what is left lasts."""
    install(world)
    namespaces(world, train="a", serve="a", web="b")
    a_wide_budget(
        world,
        quota={"gpuHours": "0.1", "windowHours": 1},
        enforcement={"action": "Evict", "gracePeriodSeconds": 0, "admission": admission},
    )
    world.api.local_api.create(POD, a_pod("first", "train"))
    world.run(minutes=7)
    assert reason_of(of(world, "team-a"), "QuotaExceeded") == "QuotaReached"
    assert reason_of(of(world, "team-a"), "Degraded") == "ReconcileSucceeded"
    world.api.local_api.create(POD, a_pod("of-another-team", "web"))
    if admission == "Deny":
        with pytest.raises(Failure, match=f"budget {NAMESPACE_NAME}/team-a is used up .*tgp why budget/"):
            world.api.local_api.create(POD, a_pod("second", "serve"))
        return
    for place in ("serve", "train"):
        world.api.local_api.create(POD, a_pod(f"waits-in-{place}", place))
        world.run(seconds=5)
    assert of(world, "team-a")["gatedPods"] == 2
    went: list[str] = []
    while len(went) < 2:
        world.run(minutes=1)
        went += [place for place in ("serve", "train") if place not in went and not waits_in(world, place)]
    assert went == ["serve", "train"], "the oldest first, and not both at once"


def waits_in(world: World, place: str) -> bool:
    pod = world.api.local_api.get(POD, place, f"waits-in-{place}")
    return pod is not None and bool(pod["spec"].get("schedulingGates"))


def test_outside_the_operators_namespace_a_namespace_selector_counts_nothing(world):
    a_wide_budget(world, "sly", "default")
    a_team_pod(world, "one", labels={"app": "x", "team": "a"})
    world.run(minutes=5)
    shown = of(world, "sly", "default")
    assert (reason_of(shown, "Ready"), "consumedGpuHours" in shown) == ("InvalidSelector", False)


def test_a_budget_that_catches_pods_without_a_team(world):
    """The first recipe of docs/budgets.md."""
    spec = {"selector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, "namespaceSelector": {}}
    a_wide_budget(world, "no-team", **spec, enforcement={"action": "Evict", "gracePeriodSeconds": 0})
    world.api.local_api.merge_patch(
        GPU_WORKLOAD_BUDGET, NAMESPACE_NAME, "no-team", {"spec": {"quota": {"gpuHours": "0.1"}}}
    )
    a_team_pod(world, "orphan", labels={"app": "x"})
    a_team_pod(world, "labelled")
    world.run(minutes=15)
    assert [pod["metadata"]["name"] for pod in pods(world)] == ["labelled"]


def test_children_warn_and_their_parent_evicts(world):
    """The second recipe of docs/budgets.md."""
    namespaces(world, train="a", serve="a")
    a_wide_budget(world, "team-a", quota={"gpuHours": "0.5", "windowHours": 24}, enforcement={"action": "Evict"})
    for place in ("train", "serve"):
        create(
            world,
            GPU_WORKLOAD_BUDGET,
            "share",
            place,
            spec={
                "selector": {"matchLabels": {"app": "x"}},
                "quota": {"gpuHours": "0.2", "windowHours": 24},
                "enforcement": {"action": "AlertOnly"},
                "gpuResourceName": "cpu",
            },
        )
    world.api.local_api.create(POD, a_pod("big", "train"))
    world.run(minutes=20)
    assert reason_of(of(world, "share", "train"), "QuotaExceeded") == "QuotaReached"
    assert world.api.local_api.get(POD, "train", "big") is not None, "its own budget only warns"
    world.api.local_api.create(POD, a_pod("small", "serve"))
    world.run(minutes=20)
    assert reason_of(of(world, "team-a"), "QuotaExceeded") == "QuotaReached"
    assert world.api.local_api.get(POD, "train", "big") is None
    assert world.api.local_api.get(POD, "serve", "small") is None


# -- quotas ------------------------------------------------------------------------------------------------------------


def test_of_a_day_all_hours_come_back_at_midnight_where_the_team_is(monkeypatch):
    evening = datetime(2026, 1, 5, 22, tzinfo=UTC)  # 23:00 in Berlin
    monkeypatch.setattr("tgp.sim.world.WorldClock", partial(WorldClock, start=evening))
    with World("team budgets") as world:
        begin(world)
        _hours_come_back_at_midnight(world)


def _hours_come_back_at_midnight(world: World) -> None:
    a_budget(world, hours="0.2")
    change(world, {"quota": {"windowHours": None, "calendar": "Day", "timeZone": "Europe/Berlin"}})
    a_team_pod(world, "one", run_for="15m")
    world.run(minutes=20)
    shown = status(world)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert shown["nextChangeAt"] == "2026-01-05T23:00:00Z"
    world.run(minutes=30)
    assert condition(world, "QuotaExceeded")[0] == "True", "before midnight"
    world.run(minutes=20)
    assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")
    assert consumed(world) == 0


def test_a_zone_that_is_unknown_is_named_and_counting_resumes_with_a_better_one(world):
    a_budget(world)
    change(world, {"quota": {"windowHours": None, "calendar": "Day", "timeZone": "Mars/Base"}})
    assert condition(world, "Ready") == ("False", "UnknownTimeZone")
    a_team_pod(world, "one")
    world.run(minutes=10)
    change(world, {"quota": {"timeZone": "Asia/Tokyo"}})
    assert condition(world, "Ready") == ("True", "Reconciled")
    assert consumed(world) == pytest.approx(580, abs=20)


def test_hours_on_top_open_a_budget_until_they_lapse(world):
    a_budget(world, hours="0.1")
    a_team_pod(world, "one")
    world.run(minutes=10)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    now = world.clock.now()
    until = rfc3339(now)
    change(world, {"quota": {"extra": [{"gpuHours": "5", "until": until, "reason": "too late"}]}})
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    later = rfc3339(now + timedelta(hours=1))
    change(world, {"quota": {"extra": [{"gpuHours": "5", "until": later, "reason": "a deadline"}]}})
    assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")
    assert float(status(world)["remainingGpuHours"]) == pytest.approx(4.9, abs=0.1)
    world.run(minutes=61)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")


def test_models_and_slices_count_by_their_weight(world):
    labels = {"tgp.io/gpu-type": "H100-SXM"}
    world.cluster.power_on(Hardware("big", cpu="64", memory="256Gi", devices={GPU: 8, "x.com/slice": 8}, labels=labels))
    world.run(minutes=1)
    weights = [{"resource": "x.com/slice", "weight": "0.25"}, {"gpuType": "H100", "weight": 2}]
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": 100, "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
        "weights": weights,
    }
    create(world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
    a_team_pod(world, "whole", gpus=2)
    slices = a_pod("slices", labels=CPU)
    slices["spec"]["containers"][0]["resources"]["limits"]["x.com/slice"] = "3"
    world.api.local_api.create(POD, slices)
    world.run(minutes=5)
    assert status(world)["gpusInUse"] == "5.5"
    change(world, {"weights": []})
    assert status(world)["gpusInUse"] == "3.5", "what no longer counts goes on as it was: an edit refunds nothing"


# -- a fresh start, and what is remembered -----------------------------------------------------------------------------


def test_a_reset_is_done_once_and_an_event_says_who(world):
    a_budget(world, hours="0.1")
    a_team_pod(world, "one", run_for="9m")
    world.run(minutes=12)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    mark = f"{world.clock.now().replace(microsecond=0).isoformat()} alice"
    world.api.local_api.merge_patch(
        GPU_WORKLOAD_BUDGET, "default", "team-a", {"metadata": {"annotations": {RESET: mark}}}
    )
    world.run(seconds=5)
    assert (consumed(world), condition(world, "QuotaExceeded")) == (0, ("False", "WithinBudget"))
    a_team_pod(world, "two")
    world.run(minutes=2)
    world.processes["operator-0"].crash(restart_after=5)
    world.run(minutes=2)
    assert consumed(world) > 100, "a restart resets nothing"
    assert reasons(world).count("AccountReset") == 1


def test_the_pods_that_used_most_are_named_after_they_are_gone(world):
    a_budget(world, window=1)
    a_team_pod(world, "short", run_for="2m")
    a_team_pod(world, "long", run_for="10m")
    world.run(minutes=12)
    for name in ("short", "long"):
        world.api.local_api.delete(POD, "default", name)
    world.run(minutes=2)
    rows = status(world)["largest"]
    assert [row["pod"] for row in rows] == ["long", "short"]
    assert float(rows[0]["gpuHours"]) == pytest.approx(1 / 6, abs=0.01)
    world.run(minutes=75)
    a_team_pod(world, "next", run_for="1m")
    world.run(minutes=3)
    assert [row["pod"] for row in status(world)["largest"]] == ["next"]


def test_a_budget_that_no_pod_matches_says_so_after_an_hour(world):
    a_budget(world)
    world.run(minutes=50)
    assert condition(world, "Ready") == ("True", "Reconciled")
    world.run(minutes=15)
    assert condition(world, "Ready") == ("True", "NothingMatches")
    a_team_pod(world, "one")
    world.run(minutes=1)
    assert condition(world, "Ready") == ("True", "Reconciled")
