"""Budgets in a whole world: hours are counted once and never forgotten, and enforced once and never early."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from unittest.mock import patch

import pytest

from tests.amounts import amount
from tests.sim.an_operator import LONE, create, furnish, operator_main
from tests.sim.cluster.manifests import a_pod
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.adapters.kube.store import Store
from tgp.api.resource import DEPLOYMENT, GPU_WORKLOAD_BUDGET, LEGACY_BUDGET, NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET
from tgp.controllers.status_writer import StatusWriter
from tgp.core.budgets.spans import seconds
from tgp.sim.apiserver.faults import Hit
from tgp.sim.apiserver.registry import Served
from tgp.sim.checkers.budgets import BudgetWatch
from tgp.sim.checkers.objects import Quiet
from tgp.sim.cluster.machines import Hardware
from tgp.sim.world import World

CPU = {"team": "a"}


@pytest.fixture
def world() -> Iterator[World]:
    with World("budgets") as world:
        begin(world)
        yield world


@pytest.fixture
def elected() -> Iterator[World]:
    """It holds the Lease, which says until when the process before it watched."""
    with World("budgets") as world:
        begin(world, elects=True)
        yield world


def begin(world: World, *, machines: int = 1, operators: int = 1, elects: bool = False, shipped: bool = False) -> None:
    furnish(world)
    for number in range(machines):
        world.cluster.power_on(Hardware(f"node-{number}", cpu="64", memory="256Gi"))
    settings = None if operators > 1 or elects or shipped else LONE
    for number in range(operators):
        world.process(f"operator-{number}", operator_main(settings, shipped=shipped))
    create(world, NAMESPACE, "others")
    another = a_pod("another", "others")  # a cluster without any pod is not believed for an hour
    another["spec"]["containers"][0]["image"] = "other:1"
    world.api.local_api.create(POD, another)
    world.run(minutes=2)


def a_budget(world: World, name: str = "team-a", hours: Any = 100, window: int = 24, **enforcement: Any) -> None:
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": hours, "windowHours": window},
        "enforcement": {"action": "AlertOnly", **enforcement},
        "gpuResourceName": "cpu",
    }
    create(world, GPU_WORKLOAD_BUDGET, name, "default", spec=spec)
    world.run(seconds=5)


def a_team_pod(
    world: World, name: str, *, run_for: str = "", labels: dict[str, str] | None = None, **more: Any
) -> None:
    world.api.local_api.create(POD, a_pod(name, labels=labels or CPU, run_for=run_for, restartPolicy="Never", **more))


def pods(world: World) -> list[dict[str, Any]]:
    return [pod for pod in world.api.local_api.objects(POD) if pod["metadata"]["namespace"] == "default"]


def status(world: World, name: str = "team-a") -> dict[str, Any]:
    found = world.api.local_api.get(GPU_WORKLOAD_BUDGET, "default", name)
    assert found is not None
    return found.get("status", {})


def consumed(world: World, name: str = "team-a") -> float:
    return float(status(world, name)["consumedGpuHours"]) * 3600


def condition(world: World, kind: str, name: str = "team-a") -> tuple[str, str]:
    rows = status(world, name).get("conditions", [])
    return next(((row["status"], row["reason"]) for row in rows if row["type"] == kind), ("", ""))


def reasons(world: World) -> list[str]:
    return [
        event["reason"]
        for event in world.api.local_api.objects(CORE_EVENT)
        for _ in range(int(event.get("count") or 1))
        if event["involvedObject"]["kind"] in {"GPUWorkloadBudget", "Pod"}
    ]


def ran(world: World, name: str) -> float:
    """Seconds, by the pod's own stamps."""
    pod = world.api.local_api.get(POD, "default", name)
    assert pod is not None
    (row,) = pod["status"]["containerStatuses"]
    ended = row["state"]["terminated"]
    start, end = (datetime.fromisoformat(ended[key]) for key in ("startedAt", "finishedAt"))
    return seconds(end) - seconds(start)


def test_what_ran_is_counted_to_the_second_and_deleting_it_refunds_nothing(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=15)

    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)
    assert status(world)["remainingGpuHours"].startswith("99.83")
    assert (status(world)["gpusInUse"], status(world)["trackedPods"]) == ("0", 1)
    assert condition(world, "Ready") == ("True", "Reconciled")
    assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")

    before = consumed(world)
    world.api.local_api.delete(POD, "default", "one")
    world.run(minutes=10)
    assert consumed(world) == before
    assert status(world)["trackedPods"] == 0


def test_an_end_that_is_reported_late_bills_what_the_pod_ran(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=5)
    world.api.faults.on("watch-lag", seconds=45.0)
    world.run(minutes=10)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=1)


def test_a_running_pod_counts_as_time_passes_and_a_forced_deletion_ends_it(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=30)
    first = consumed(world)
    assert status(world)["gpusInUse"] == "1"
    world.run(minutes=10)
    assert consumed(world) == pytest.approx(first + 600, abs=301)
    world.api.local_api.delete(POD, "default", "one")
    world.run(seconds=40)
    after = consumed(world)
    assert after == pytest.approx(40 * 60 - 20, abs=30)
    world.run(minutes=20)
    assert consumed(world) == after


def test_a_budget_counts_from_its_creation_and_each_start_and_end_is_written_within_two_seconds(world):
    a_team_pod(world, "early")
    world.run(minutes=10)
    a_budget(world)
    assert consumed(world) < 10
    moved: list[tuple[float, str, str]] = []  # when, whose, what

    def note(served: Served, _before: Any, after: Any) -> None:
        if after is None or served.resource not in (POD, GPU_WORKLOAD_BUDGET):
            return
        told = after.get("status", {}).get("gpusInUse" if served.resource == GPU_WORKLOAD_BUDGET else "phase", "")
        moved.append((world.clock.now().timestamp(), after["metadata"]["name"], told))

    world.api.core.hooks.append(note)
    a_team_pod(world, "one", run_for="30s")
    world.run(minutes=2)
    for phase, gpus in (("Running", "2"), ("Succeeded", "1")):
        seen = next(when for when, name, told in moved if (name, told) == ("one", phase))
        written = next(when for when, name, told in moved if (name, told) == ("team-a", gpus) and when >= seen)
        assert written - seen <= 2, phase


def test_only_pods_that_match_count_and_an_edit_adds_a_budget_but_takes_none_away(world):
    a_budget(world)
    a_team_pod(world, "other", labels={"team": "b"})
    a_team_pod(world, "mine")
    world.run(minutes=10)
    world.api.local_api.merge_patch(POD, "default", "other", {"metadata": {"labels": {"team": "a"}}})
    world.api.local_api.merge_patch(POD, "default", "mine", {"metadata": {"labels": {"team": "c"}}})
    world.run(seconds=5)
    assert status(world)["gpusInUse"] == "2"
    before = consumed(world)
    assert before < 700
    world.run(minutes=10)
    for name in ("other", "mine"):
        world.api.local_api.delete(POD, "default", name)
    world.run(seconds=40)
    assert consumed(world) == pytest.approx(before + 1200, abs=30)


def test_a_selector_may_be_written_as_expressions(world):
    a_budget(world)
    expressions = [{"key": "team", "operator": "In", "values": ["b", "c"]}, {"key": "free", "operator": "DoesNotExist"}]
    selector = {"matchLabels": None, "matchExpressions": expressions}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", {"spec": {"selector": selector}})
    a_team_pod(world, "counts", labels={"team": "b"})
    a_team_pod(world, "free", labels={"team": "b", "free": "yes"})
    a_team_pod(world, "other", labels={"team": "a"})
    world.run(minutes=5)
    assert status(world)["gpusInUse"] == "1"


def test_a_killed_operator_counts_nothing_twice_and_nothing_less(world):
    a_budget(world)
    for number in range(4):
        a_team_pod(world, f"pod-{number}", run_for="10m")
    for _ in range(6):
        world.run(minutes=2)
        world.processes["operator-0"].crash(restart_after=20)
    world.run(minutes=10)
    truth = sum(ran(world, f"pod-{number}") for number in range(4))
    assert consumed(world) == pytest.approx(truth, abs=4)
    assert "uncertaintyGpuHours" not in status(world)


def test_pods_that_go_while_the_operator_is_away_count_until_it_is_back_and_the_rest_is_unsure(elected):
    world = elected
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=10)
    world.processes["operator-0"].crash(restart_after=600)
    world.run(seconds=60)
    world.api.local_api.delete(POD, "default", "one")
    world.run(minutes=15)
    said = status(world)
    unsure = float(said["uncertaintyGpuHours"]) * 3600
    truth = 10 * 60 + 60
    assert consumed(world) >= truth - 31
    assert consumed(world) - unsure <= truth
    assert unsure == pytest.approx(600, abs=60)


def test_a_status_that_is_wiped_or_edited_is_put_back(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="5m")
    world.run(minutes=10)
    before = consumed(world)
    world.api.local_api.merge_patch(
        GPU_WORKLOAD_BUDGET, "default", "team-a", {"status": {"account": None, "consumedGpuHours": "0"}}, "status"
    )
    world.run(seconds=10)
    assert consumed(world) == before
    assert "AccountRestored" in reasons(world)


def test_an_account_that_cannot_be_read_is_made_again_from_what_is_there_and_that_is_said(world):
    a_budget(world)
    a_team_pod(world, "one", run_for="5m")
    world.run(minutes=10)
    before = consumed(world)
    world.processes["operator-0"].crash(restart_after=30)
    world.api.local_api.merge_patch(
        GPU_WORKLOAD_BUDGET, "default", "team-a", {"status": {"account": "1.broken"}}, "status"
    )
    world.run(minutes=3)
    assert consumed(world) == pytest.approx(before, abs=1)
    assert condition(world, "Degraded") == ("True", "AccountLost")


def test_an_account_of_a_newer_version_is_left_alone(world):
    a_budget(world)
    world.processes["operator-0"].crash(restart_after=30)
    world.api.local_api.merge_patch(
        GPU_WORKLOAD_BUDGET, "default", "team-a", {"status": {"account": "2.future"}}, "status"
    )
    world.run(minutes=3)
    assert status(world)["account"] == "2.future"
    assert condition(world, "Ready") == ("False", "NewerAccount")


def test_a_quiet_half_hour_is_no_write_and_a_busy_one_few():
    """With the shipped watches: how long they are silent counts."""
    with World("budgets") as world:
        begin(world, shipped=True)
        a_budget(world)
        a_team_pod(world, "one", run_for="5m")
        world.run(minutes=10)
        with Quiet(world):
            world.run(minutes=30)
        a_team_pod(world, "two")
        world.run(minutes=2)
        before = len([effect for effect in world.effects if "gpuworkloadbudgets" in effect.path])
        world.run(minutes=30)
        after = len([effect for effect in world.effects if "gpuworkloadbudgets" in effect.path])
        assert 5 <= after - before <= 7


def test_busy_gpus_of_many_budgets_need_few_writes():
    """Ten GPUs in each, which use up half a percent in 43 s: of a hundred budgets at most 60 writes a minute."""
    many = amount(3, 100)
    with World("busy budgets") as world:
        begin(world, machines=max(1, many // 5), shipped=True)
        lengths = world.luck("lengths")
        for number in range(many):
            a_budget(world, f"team-{number}", hours=24)
            change = {"spec": {"selector": {"matchLabels": {"team": f"t{number}"}}}}
            world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", f"team-{number}", change)
            for gpu in range(10):
                run_for = f"{lengths.randrange(10, 3600)}s"
                a_team_pod(world, f"pod-{number}-{gpu}", run_for=run_for, labels={"team": f"t{number}"})
        world.run(minutes=2)
        before = len([effect for effect in world.effects if effect.path.endswith("/status")])
        world.run(minutes=10)
        after = len([effect for effect in world.effects if effect.path.endswith("/status")])
        assert many / 10 <= (after - before) / 10 <= min(2 * many, 60)


def test_a_changed_window_or_selector_holds_at_once_and_refunds_nothing(world):
    a_budget(world, window=1)
    a_team_pod(world, "one", run_for="10m")
    world.run(minutes=100)
    assert consumed(world) == 0
    a_team_pod(world, "other", labels={"team": "b"})
    world.run(minutes=5)
    change = {"spec": {"quota": {"windowHours": 24}, "selector": {"matchLabels": {"team": "b"}}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    world.run(seconds=5)
    assert consumed(world) == pytest.approx(ran(world, "one"), abs=6), "used before the window was longer"
    assert (status(world)["observedGeneration"], status(world)["gpusInUse"]) == (2, "1")
    before = consumed(world)
    world.run(minutes=10)
    world.api.local_api.delete(POD, "default", "other")
    world.run(seconds=40)
    assert consumed(world) == pytest.approx(before + 600, abs=10)


# -- beyond the quota --------------------------------------------------------------------------------------------------


def test_alert_only_says_so_once_per_crossing_however_often_the_operator_restarts(world):
    a_budget(world, hours="0.5", gracePeriodSeconds=60)
    a_team_pod(world, "one")
    world.run(minutes=29)
    assert condition(world, "QuotaExceeded") == ("False", "WithinBudget")
    for _ in range(5):
        world.run(minutes=2)
        world.processes["operator-0"].crash(restart_after=5)
    world.run(minutes=5)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert reasons(world).count("BudgetAlert") == 2
    assert reasons(world).count("QuotaExceeded") == 1
    assert sorted(status(world)["alerted"]) == ["100", "80"]


def test_pods_are_evicted_after_the_grace_and_not_before_and_only_as_many_as_needed(world):
    a_budget(world, hours=1, window=24, action="Evict", gracePeriodSeconds=120)
    for number in range(3):
        a_team_pod(world, f"pod-{number}")
    world.run(minutes=19)
    assert condition(world, "QuotaExceeded")[0] == "False"
    world.run(minutes=2, seconds=20)
    assert condition(world, "QuotaExceeded")[0] == "True"
    assert len(pods(world)) == 3
    world.run(minutes=3)
    assert pods(world) == [], "the window frees nothing for a day: all have to go"
    assert reasons(world).count("Evicted") == 6, "each once, on the pod and on the budget"
    assert "lastEnforcementAt" in status(world)


def test_a_pod_that_is_gone_while_it_is_evicted_is_not_shown_as_running(world):
    evict = OperatorCluster.evict

    async def evict_slowly(cluster: OperatorCluster, *args: Any, **more: Any) -> None:
        await evict(cluster, *args, **more)
        world.api.local_api.delete(POD, "default", "one", grace_seconds=0)
        await asyncio.sleep(2)

    a_budget(world, hours="0.1", window=1, action="Evict", gracePeriodSeconds=0)
    a_team_pod(world, "one")
    with patch.object(OperatorCluster, "evict", evict_slowly):
        world.run(minutes=7)
    assert pods(world) == []
    assert (status(world)["gpusInUse"], "nextChangeAt" in status(world)) == ("0", True)


def test_pods_that_start_while_the_status_is_written_are_in_the_next_write(world):
    write = StatusWriter.write

    async def write_slowly(writer: StatusWriter, *args: Any) -> None:
        await asyncio.sleep(4)
        await write(writer, *args)

    a_budget(world)
    with patch.object(StatusWriter, "write", write_slowly):
        for number in range(2):
            a_team_pod(world, f"pod-{number}")
            world.run(seconds=3)
        world.run(seconds=8)
    assert status(world)["trackedPods"] == 2


@pytest.mark.parametrize(("wanted", "given"), [({}, 30), ({"podGracePeriodSeconds": 7}, 7)])
def test_an_evicted_pod_gets_the_seconds_that_the_budget_gives_it_to_end(world, wanted, given):
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0, **wanted)
    a_team_pod(world, "one")
    while not (leaving := [pod["metadata"] for pod in pods(world) if "deletionTimestamp" in pod["metadata"]]):
        assert pods(world), "it is gone, and was never seen leaving"
        world.run(seconds=1)
    assert [meta["deletionGracePeriodSeconds"] for meta in leaving] == [given]


@pytest.mark.parametrize("names", [("keep",), ("keep", "keep-too")])  # several at once the API server refuses to read
def test_a_pod_that_a_disruption_budget_holds_is_passed_over_and_said(world, names):
    a_budget(world, hours="0.5", action="Evict", gracePeriodSeconds=0)
    a_team_pod(world, "held", labels={**CPU, "app": "held"})
    a_team_pod(world, "free")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}
    for name in names:
        create(world, POD_DISRUPTION_BUDGET, name, "default", spec=spec)
    world.run(minutes=25)
    assert [pod["metadata"]["name"] for pod in pods(world)] == ["held"]
    assert condition(world, "Degraded") == ("True", "EvictionBlocked")
    assert status(world)["blockedPods"] == 1
    for name in names:
        world.api.local_api.delete(POD_DISRUPTION_BUDGET, "default", name)
    world.run(minutes=3)
    assert pods(world) == []


def test_an_owner_that_starts_evicted_pods_again_is_named_and_they_go_at_growing_distances(world):
    a_budget(world, hours="0.1", action="Evict", gracePeriodSeconds=0)
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {**CPU, "app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    create(world, DEPLOYMENT, "web", "default", spec=spec)
    world.run(minutes=10)
    assert condition(world, "Degraded") == ("True", "OwnerRecreates")
    world.run(minutes=60)
    evicted = reasons(world).count("Evicted") // 2
    assert 4 <= evicted <= 8, "once, and then after 1, 2, 4, 8, 16 and 32 minutes"
    change = {"spec": {"quota": {"gpuHours": 100}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    world.run(seconds=10)
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_pods_whose_devices_are_claimed_are_said_not_to_be_counted(world):
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": 100, "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
    }
    create(world, GPU_WORKLOAD_BUDGET, "team-a", "default", spec=spec)
    a_team_pod(world, "claims", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    world.run(minutes=1)
    assert condition(world, "Degraded") == ("True", "ClaimsNotCounted")
    world.api.local_api.delete(POD, "default", "claims")
    world.run(minutes=1)
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_a_legacy_budget_shows_what_its_mirror_counts(world):
    spec = {
        "selector": {"matchLabels": CPU},
        "quota": {"gpuHours": "0.1", "windowHours": 24},
        "enforcement": {"action": "Evict", "gracePeriodSeconds": 0},
        "gpuResourceName": "cpu",
    }
    create(world, LEGACY_BUDGET, "team-a", "default", spec=spec)
    world.run(seconds=10)
    a_team_pod(world, "one")
    world.run(minutes=10)
    shown = world.api.local_api.get(LEGACY_BUDGET, "default", "team-a")["status"]
    assert shown["consumedGpuHours"] == status(world)["consumedGpuHours"]
    assert float(shown["consumedGpuHours"]) == pytest.approx(0.1, abs=0.002)
    assert "lastEnforcementAt" in shown
    assert pods(world) == []


def test_lists_without_any_node_close_no_span_and_a_node_that_is_gone_does():
    """To a leader that watches, and to one that has just started."""
    put, blind = Store.replace, [False]

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        await put(store, {} if blind[0] and store.resource is NODE else listed, version, rewound=rewound)

    with patch.object(Store, "replace", replace_all), World("budgets") as world:
        watch = BudgetWatch(world)
        begin(world, machines=2, elects=True)  # what is sure ends with the last renewal of the Lease
        a_budget(world)
        a_team_pod(world, "one")
        world.run(minutes=5)
        for kill in (False, True):
            blind[0] = True
            if kill:
                world.processes["operator-0"].crash(restart_after=5)
            else:
                world.api.core.store.compact()
            world.run(minutes=2)
            blind[0] = False
            world.run(minutes=5)
            assert status(world)["gpusInUse"] == "1"
        pod = world.api.local_api.get(POD, "default", "one")
        world.processes["operator-0"].crash(restart_after=600)
        world.run(minutes=1)
        world.api.local_api.delete(NODE, "", pod["spec"]["nodeName"])
        world.run(minutes=15)
        assert status(world)["gpusInUse"] == "0"
        assert float(status(world)["uncertaintyGpuHours"]) * 3600 == pytest.approx(600, abs=60)
        assert watch.looks > 5


def test_a_silent_node_makes_its_pods_use_unsure_and_its_end_ends_them(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=10)
    world.cluster.power_off("node-0")
    world.run(minutes=10)
    said = status(world)
    assert float(said.get("uncertaintyGpuHours", 0)) > 0
    world.api.local_api.delete(NODE, "", "node-0")
    world.run(seconds=10)
    assert status(world)["gpusInUse"] == "0"
    after = consumed(world)
    world.run(minutes=30)
    assert consumed(world) == after


def test_a_view_that_the_api_server_confirms_is_not_said_to_be_stale(world):
    a_budget(world)
    a_team_pod(world, "one")
    told = set()
    for _ in range(180):
        world.run(seconds=10)
        told.add(condition(world, "Degraded"))
    assert told == {("False", "ReconcileSucceeded")}


def test_a_view_that_is_out_of_date_is_said_until_it_is_not(world):
    a_budget(world)
    a_team_pod(world, "one")
    world.run(minutes=5)

    def of_pods(hit: Hit) -> bool:
        return hit.route.plural == "pods" and hit.route.verb in ("list", "watch")

    world.api.faults.on("error-before", where=of_pods)
    world.api.faults.on("watch-silent", where=of_pods)
    world.run(minutes=25)
    assert condition(world, "Degraded") == ("True", "CacheStale")
    assert status(world)["gpusInUse"] == "1"
    world.api.faults.off()
    world.run(minutes=15)
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


# -- money -------------------------------------------------------------------------------------------------------------


def message(world: World, kind: str) -> str:
    return str(next(row["message"] for row in status(world)["conditions"] if row["type"] == kind))


def test_dollars_are_counted_by_the_price_of_the_node_and_limit_and_warn_as_hours_do(world):
    """A pod with one of 64 CPUs of a Node that costs $64 an hour: a dollar an hour."""
    a_budget(world, hours=1000, action="Evict", gracePeriodSeconds=0)
    change = {"spec": {"quota": {"usd": "0.5"}, "enforcement": {"admission": "Deny"}}}
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", "team-a", change)
    a_team_pod(world, "free", run_for="6m")
    world.run(minutes=8)
    assert (status(world)["consumedUsd"], status(world)["unpricedGpuHours"][:3]) == ("0", "0.1")
    assert reasons(world).count("PriceMissing") == 1
    price = {"metadata": {"annotations": {"tgp.io/hourly-price": "64"}}}
    world.api.local_api.merge_patch(NODE, "", "node-0", price)
    world.processes["operator-0"].crash(restart_after=5)
    world.run(minutes=1)
    a_team_pod(world, "priced")
    world.run(minutes=26)
    assert 0.4 <= float(status(world)["consumedUsd"]) <= 0.44, "of the moment at which the alert was told"
    assert status(world)["alerted"] == ["80"]
    assert "and $0.4" in message(world, "QuotaExceeded")
    assert "Action: Evict from " in message(world, "QuotaExceeded")
    assert message(world, "QuotaExceeded").endswith("in this order: priced.")
    world.run(minutes=6)
    assert condition(world, "QuotaExceeded") == ("True", "QuotaReached")
    assert float(status(world)["consumedUsd"]) >= 0.5
    assert float(status(world)["consumedGpuHours"]) < 1
    assert [pod["metadata"]["name"] for pod in pods(world)] == ["free"]
    assert reasons(world).count("PriceMissing") == 1, "said once, whatever restarts"


# -- overlapping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [("Pause", "AlertOnly"), ("Evict", "Evict")])
def test_of_overlapping_budgets_the_strictest_acts_on_a_pod_and_once(world, others):
    """All are used up in the same second, and look in any order."""
    for name, action in zip(("a-first", "team-a", "z-last"), (others[0], "Evict", others[1]), strict=True):
        a_budget(world, name, hours="0.1", action=action, gracePeriodSeconds=0)
    a_team_pod(world, "one")
    world.run(minutes=7)
    assert {status(world, name)["exceededAt"] for name in ("a-first", "team-a", "z-last")} == {
        status(world)["exceededAt"]
    }
    assert pods(world) == []
    found = world.api.local_api.objects(CORE_EVENT)
    told = [event for event in found if event["involvedObject"]["name"] == "one"]
    ours = [event for event in told if event["source"].get("component") == "tgp-operator"]
    assert [(event["reason"], event.get("count") or 1) for event in ours] == [("Evicted", 1)]
