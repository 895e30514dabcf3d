"""What befalls moves: views that show nothing, markets that change midway, users who close or pause, clocks and nights.

The checkers D1 to D3 watch every one of them: replaced first, within budgets, no taint of a dead move.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.test_disruption import (
    Watched,
    disrupted,
    drift,
    names,
    of,
    one_machine,
    running,
    serves,
    set_pool,
    taints,
)
from tests.sim.test_pool_histories import Views, views  # noqa: F401 - a fixture
from tests.sim.with_pools import begin, requests
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET, Resource
from tgp.core.disruption import refits
from tgp.core.model.hold import HOLD
from tgp.sim.checkers.recorded import RecordedRequest
from tgp.sim.checkers.recorder import Checker
from tgp.sim.clock import WorldClock

RETRY = "tgp.io/move-retry"
SPRING_NIGHT = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)  # in Berlin 2:00 becomes 3:00 at 1:00Z
AUTUMN_NIGHT = datetime(2026, 10, 24, 22, 30, tzinfo=UTC)  # in Berlin 3:00 becomes 2:00 at 1:00Z


def replacement_of(env: SimEnv, name: str) -> dict[str, Any] | None:
    found = [row for row in requests(env) if row["metadata"]["annotations"].get("tgp.io/replaces") == name]
    return found[0] if found else None


def mid_move(env: SimEnv, name: str) -> None:
    """Until a replacement is ordered, and not a moment longer."""
    drift(env)
    env.until(lambda: replacement_of(env, name) is not None, minutes=10, step=1.0)


def taken_back(env: SimEnv, name: str) -> Callable[[], bool]:
    return lambda: RETRY in of(env, name)["metadata"]["annotations"] and taints(env) == []


def replaced(env: SimEnv, name: str) -> Callable[[], bool]:
    return lambda: name not in names(env) and running(env) == 1


# -- views that show nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [POD, NODE, GPU_REQUEST], ids=lambda each: each.plural)
def test_a_list_that_shows_nothing_midway_moves_no_pod_early(views: Views, lost: Resource):  # noqa: F811 - the fixture
    with sim_env("blind-midway", kubelets=QUICK) as env:
        name = one_machine(env, disruption={"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]})
        mid_move(env, name)
        views.lose(env, lost)
        Watched(env).until(replaced(env, name), minutes=120)
        env.world.run(minutes=15)

        assert running(env) == 1
        assert len(env.living()) == len(requests(env)) == 1


# -- markets -----------------------------------------------------------------------------------------------------------


def at_the_replacement(env: SimEnv, deed: Callable[[], None]) -> None:
    """Do it once, at the moment at which a replacement is written down: nothing is bought for it yet."""

    class AtReplacement(Checker):
        done = False

        def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
            if before is None and after is not None and not self.done:
                self.done = "tgp.io/replaces" in after.obj["metadata"]["annotations"]
                if self.done:
                    deed()

    env.recorder.call(AtReplacement)


def test_a_replacement_that_is_sold_out_after_the_order_is_deleted_and_the_machine_stays():
    with sim_env("sold-out") as env:
        name = one_machine(env)
        stands = list(env.simulator.fleet.stands.values())
        stock = {stand.product.id: stand.stock for stand in stands}
        at_the_replacement(env, lambda: [env.simulator.fleet.restock(each, 0) for each in stock] and None)
        drift(env)
        watched = Watched(env)
        watched.until(taken_back(env, name), minutes=60)
        assert watched.least_running == watched.most_machines == 1
        assert disrupted(env, of(env, name))[:2] == ("False", "ReplacementFailed")
        for product, number in stock.items():
            env.simulator.fleet.restock(product, number)
        watched.until(replaced(env, name), minutes=240)


def test_a_price_that_rises_during_a_move_takes_it_back_until_the_price_is_right():
    """The replacement is pinned to the planned price, and no other is below the pool's ceiling."""
    with sim_env("rises-midway") as env:
        name = one_machine(env, maxHourlyPrice="5.00")
        stands = list(env.simulator.fleet.stands.values())
        prices = {stand.product.id: stand.hourly_microusd for stand in stands}
        raised = {product: price * 50 for product, price in prices.items()}
        at_the_replacement(env, lambda: [env.simulator.fleet.reprice(*each) for each in raised.items()] and None)
        drift(env)
        watched = Watched(env)
        watched.until(taken_back(env, name), minutes=60)
        assert watched.least_running == 1
        assert watched.most_machines <= 2, "what its provider bills above the pinned price was terminated"
        for product, price in prices.items():
            env.simulator.fleet.reprice(product, price)
        watched.until(replaced(env, name), minutes=240)


# -- users -------------------------------------------------------------------------------------------------------------


def closes_the_budget(env: SimEnv, closed: bool) -> None:
    set_pool(env, disruption={"budgets": [{"nodes": 0 if closed else 1}]})


def holds(env: SimEnv, closed: bool) -> None:
    text = {HOLD: "the month is over" if closed else None}
    env.world.api.local_api.merge_patch(NAMESPACE, "", "tgp-system", {"metadata": {"annotations": text}})


def suspends(env: SimEnv, closed: bool) -> None:
    env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": closed}})


def protects(env: SimEnv, closed: bool) -> None:
    for pod in list(env.world.api.local_api.objects(POD)):
        if pod["metadata"]["labels"].get("app") == "serve":
            change = {"metadata": {"annotations": {"tgp.io/do-not-disrupt": "true" if closed else None}}}
            env.world.api.local_api.merge_patch(POD, "default", pod["metadata"]["name"], change)


@pytest.mark.parametrize("deed", [closes_the_budget, holds, suspends, protects])
def test_what_a_user_forbids_midway_takes_the_move_back(deed: Callable[[SimEnv, bool], None]):
    with sim_env(f"midway-{deed.__name__}") as env:
        name = one_machine(env)
        mid_move(env, name)
        deed(env, True)
        watched = Watched(env)
        watched.until(taken_back(env, name), minutes=15)
        watched.until(lambda: len(env.living()) == 1, minutes=30)
        env.world.run(minutes=30)

        assert watched.least_running == 1
        assert names(env) == {name}
        deed(env, False)
        watched.until(replaced(env, name), minutes=120)


def test_a_pod_disruption_budget_of_zero_midway_keeps_pods_where_they_are(monkeypatch):
    """While the move waits nothing changes, so a place for its pods is planned seldom, and not at every look."""
    planned = count_refits(monkeypatch)
    with sim_env("pdb-midway") as env:
        name = one_machine(env)
        mid_move(env, name)
        guard = {
            "metadata": {"name": "guard", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "serve"}}},
        }
        env.world.api.local_api.create(POD_DISRUPTION_BUDGET, guard)
        watched = Watched(env)
        before, begun = len(planned), env.world.loop.time()
        watched.until(taken_back(env, name), minutes=150)  # a move lasts no longer than two hours
        assert watched.least_running == 1
        waited = (env.world.loop.time() - begun) / 60
        assert 0.5 * waited < len(planned) - before < 2 * waited
        env.world.api.local_api.delete(POD_DISRUPTION_BUDGET, "default", "guard")
        watched.until(replaced(env, name), minutes=120)


def count_refits(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with each plan of where the pods of candidates would go."""
    found, plan = list[None](), refits.refits

    def counting(*given: Any) -> Any:
        found.append(None)
        return plan(*given)

    monkeypatch.setattr(refits, "refits", counting)
    return found


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [timedelta(hours=3), timedelta(hours=-3), timedelta(days=1)], ids=str)
def test_a_clock_that_jumps_over_the_edge_of_a_budget_opens_nothing_early(by: timedelta):
    with sim_env("jump") as env:  # it is 9:00
        closed = {"nodes": 0, "schedule": "0 0 * * *", "duration": "11h"}
        name = one_machine(env, disruption={"budgets": [{"nodes": 1}, closed]})
        drift(env)
        env.world.run(minutes=5)
        env.world.processes["operator-0"].clock.jump(by)
        env.world.run(minutes=60)
        assert names(env) == {name}
        assert disrupted(env, of(env, name))[1] == "BudgetExhausted"
        Watched(env).until(replaced(env, name), minutes=120)
        assert env.world.clock.now().hour >= 11


@pytest.mark.parametrize(
    ("night", "opens"),
    [
        # 2:30 does not exist: the window begins at 3:00 (1:00Z) and lasts two hours
        (SPRING_NIGHT, datetime(2026, 3, 29, 3, 0, tzinfo=UTC)),
        # 2:30 comes twice: it begins once, at the first (0:30Z)
        (AUTUMN_NIGHT, datetime(2026, 10, 25, 2, 30, tzinfo=UTC)),
    ],
    ids=["spring", "autumn"],
)
def test_a_budget_holds_in_the_night_in_which_the_clock_is_changed(
    monkeypatch: pytest.MonkeyPatch, night: datetime, opens: datetime
):
    monkeypatch.setattr("tgp.sim.world.WorldClock", partial(WorldClock, start=night))
    with sim_env("night") as env:
        closed = {"nodes": 0, "schedule": "30 2 * * *", "duration": "2h", "timeZone": "Europe/Berlin"}
        name = one_machine(env, disruption={"budgets": [{"nodes": 1}, closed]})
        at = opens - timedelta(minutes=30)
        env.until(lambda: env.world.clock.now() >= at, minutes=300)
        drift(env)
        env.until(lambda: disrupted(env, of(env, name))[1] == "BudgetExhausted", minutes=5)
        assert f"until {opens:%Y-%m-%d %H:%M:%S}Z" in disrupted(env, of(env, name))[2]
        Watched(env).until(replaced(env, name), minutes=120)
        assert env.world.clock.now() >= opens


# -- many --------------------------------------------------------------------------------------------------------------


def test_ten_machines_migrate_to_another_mesh_within_the_budget_and_no_pod_is_without_room():
    with sim_env("migration", kubelets=QUICK) as env:
        for stand in env.simulator.fleet.stands.values():
            stand.stock = 64
        begin(env, disruption={"budgets": [{"nodes": "20%"}]})
        serves(env, replicas=10, apart=True)
        env.until(lambda: running(env) == 10, minutes=30)
        before = names(env)
        assert len(before) == 10
        env.world.run(minutes=3)
        env.world.api.local_api.merge_patch(
            GPU_NODE_CLASS, "", "rented", {"spec": {"networking": {"backend": "kubespan"}}}
        )
        watched = Watched(env)
        watched.until(lambda: not names(env) & before and running(env) == 10, minutes=240)

        assert watched.most_machines <= 12
        assert watched.least_running >= 7, "two are moved at a time, and a third may just start in its new place"
        env.world.run(minutes=15)
        assert len(env.living()) == len(requests(env)) == 10
        assert taints(env) == []
