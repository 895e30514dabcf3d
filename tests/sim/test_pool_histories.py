"""What befalls pools: views that show nothing or the past, other clients that edit, prices and limits, a pool's end.

Those that kill a mutant are in `tests/sim/mutants/pool_histories.py`.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.amounts import amount
from tests.sim.an_operator import a_class, a_pool, writes
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.pool_histories import AtRequests, rented
from tests.sim.with_pools import TOLERATES, asks, begin, events_of, requests, runs
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, NODE, POD, Resource
from tgp.sim.checkers.recorded import RecordedRequest, Rented
from tgp.sim.checkers.recorder import Checker
from tgp.sim.faults import Fault, Faults
from tgp.sim.router import FREEZE_AT_EFFECT

BLIND_FOR = 70.0  # seconds
MANY = 64
QUIET = amount(75, 24 * 60)  # minutes: longer than an hour, a day to prove it


class Views:
    """The operator's caches: lists of what is hidden are empty 200s."""

    def __init__(self) -> None:
        self.hidden: set[Resource] = set()
        self.stores: dict[Resource, Store[Any]] = {}

    def lose(self, env: SimEnv, resource: Resource) -> None:
        """One list of this kind in the middle of a run shows nothing; a while later the next one shows all again."""
        env.world.until(self._lose(self.stores[resource]))

    async def _lose(self, store: Store[Any]) -> None:
        before = {record.key: record for record in store.values()}
        await store.replace({}, store.version)
        await asyncio.sleep(BLIND_FOR)
        await store.replace({**before, **{record.key: record for record in store.values()}}, store.version)


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Iterator[Views]:
    found, put = Views(), Store.replace

    async def replace(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        found.stores[store.resource] = store
        await put(store, {} if store.resource in found.hidden else listed, version, rewound=rewound)

    monkeypatch.setattr(Store, "replace", replace)
    return found


def one_runs_and_one_boots(env: SimEnv) -> None:
    begin(env, disruption={"consolidateAfter": "1m"})
    asks(env, "first", run_for="3h")
    env.until(runs(env, "first"), minutes=10)
    asks(env, "second", run_for="3h")
    env.until(lambda: rented(env) == 2, minutes=2, step=1.0)


def both_run_where_they_were(env: SimEnv) -> None:
    env.until(lambda: runs(env, "first")() and runs(env, "second")(), minutes=10)
    env.world.run(minutes=4)
    assert rented(env) == 2, "a machine was bought twice"
    assert len(env.living()) == 2, "a machine in use was terminated"


@pytest.mark.parametrize("hidden", [GPU_REQUEST, POD, NODE, GPU_NODE_POOL], ids=lambda each: each.plural)
def test_a_new_leader_that_is_shown_nothing_buys_and_deletes_nothing(views, hidden):
    with sim_env("empty-at-start", kubelets=QUICK) as env:
        one_runs_and_one_boots(env)
        views.hidden.add(hidden)
        env.world.processes["operator-0"].crash(restart_after=1.0)
        env.world.run(seconds=BLIND_FOR)
        views.hidden.clear()
        env.world.processes["operator-0"].crash(restart_after=1.0)

        both_run_where_they_were(env)


@pytest.mark.parametrize("lost", [GPU_REQUEST, POD, NODE, GPU_NODE_POOL], ids=lambda each: each.plural)
def test_an_empty_list_in_the_middle_of_a_run_buys_and_deletes_nothing(views, lost):
    with sim_env("empty-in-between", kubelets=QUICK) as env:
        one_runs_and_one_boots(env)
        views.lose(env, lost)

        both_run_where_they_were(env)


def test_a_view_that_stands_still_from_the_first_create_on_buys_nothing_twice():
    with sim_env("frozen", kubelets=QUICK) as env:
        begin(env)

        def freeze(_request: RecordedRequest) -> None:
            host = env.world.processes["operator-0"].host
            assert host is not None, "it is running"
            host.frozen_until = env.world.loop.time() + FREEZE_AT_EFFECT

        env.recorder.add(AtRequests(env, freeze))
        for number in range(3):
            asks(env, f"train-{number}")
        env.until(lambda: all(runs(env, f"train-{number}")() for number in range(3)), minutes=15)

        assert rented(env) == len(requests(env)) <= 3


def test_a_new_leader_whose_lists_are_older_than_the_last_create_buys_nothing_twice():
    with sim_env("older", kubelets=QUICK, faults=Faults({Fault.STALE_LIST: 1.0, Fault.WATCH_LAG: 1.0})) as env:
        begin(env)
        env.recorder.add(AtRequests(env, lambda _: env.world.processes["operator-0"].crash(restart_after=1.0)))
        for number in range(3):
            asks(env, f"train-{number}")
        env.until(lambda: all(runs(env, f"train-{number}")() for number in range(3)), minutes=15)

        assert rented(env) == len(requests(env)) <= 3


def test_four_pools_and_many_pods_stay_within_what_their_class_may_cost():
    """At every moment, whatever is reserved, ordered or on its way (I3 is watched, too)."""
    most = 4_000_000
    with sim_env("burst", kubelets=QUICK) as env:
        for stand in env.simulator.fleet.stands.values():
            stand.stock = MANY
        a_class(env.world, "rented", limits={"maxHourlyCost": "4"})
        for number in range(1, 4):
            a_pool(env.world, f"pool-{number}", "rented")
        begin(env, of_class=False)

        class Counted(Checker):
            def made(self, made: Rented) -> None:
                cost = sum(machine.rate_microusd for machine in env.living())
                if cost > most:
                    self.recorder.accuse(f"the class costs ${cost / 1e6:.2f} an hour: {made}")

        env.recorder.call(Counted)
        for number in range(MANY):
            asks(env, f"train-{number}", run_for="1h")
        env.world.run(minutes=4)

        assert env.living(), "nothing was rented, although there was room"
        assert len(requests(env)) == len(env.living()), "requests wait for a limit that plans know"


def test_a_price_that_rises_after_the_plan_is_planned_with_again():
    """By a fifth, within what the pool pays: the request is deleted, and the pod gets the best of the new prices."""
    with sim_env("rises", kubelets=QUICK) as env:
        begin(env, maxHourlyPrice="3.00")
        pinned: list[RecordedRequest] = []

        def raise_price(request: RecordedRequest) -> None:
            pinned.append(request)
            for stand in env.simulator.fleet.selling():
                env.simulator.fleet.reprice(stand.product.id, stand.hourly_microusd * 6 // 5)
            env.world.processes["operator-0"].crash(restart_after=1.0)

        env.recorder.add(AtRequests(env, raise_price))
        asks(env)
        env.until(runs(env), minutes=15)

        (request,) = requests(env)
        assert request["metadata"]["uid"] != pinned[0].obj["metadata"]["uid"]
        (machine,) = env.simulator.fleet.machines.values()
        assert machine.rate_microusd <= float(request["spec"]["maxHourlyPrice"]) * 1e6 <= 3_000_000


def test_pods_that_are_never_served_cost_no_write_while_prices_move():
    """Too large, above the pool's price, above a limit, and one whose annotation cannot be read: each is told once."""
    with sim_env("never", kubelets=QUICK, moves=True) as env:
        a_class(env.world, "rented")
        a_pool(env.world, "cheap", "rented", maxHourlyPrice="0.30")
        begin(env, of_class=False, limits={"resources": {"nvidia.com/gpu": 1}})
        asks(env, "large", gpus=64)
        asks(env, "limited", gpus=2)
        pod = a_pod("unreadable", gpus=2, tolerations=TOLERATES)
        pod["metadata"]["annotations"]["tgp.io/max-price"] = "a lot"
        env.world.api.local_api.create(POD, pod)
        env.world.run(minutes=10)
        before = pool_writes(env)
        assert {name: sorted(reason for reason, _ in events_of(env, name)) for name in ("limited", "unreadable")} == {
            "limited": ["NotTriggerScaleUp"],
            "unreadable": ["AnnotationIgnored", "NotTriggerScaleUp"],
        }

        env.world.run(minutes=QUIET)

        assert pool_writes(env)[len(before) :] == []


def pool_writes(env: SimEnv) -> list[str]:
    """All but what classes tell of their market."""
    return [text for text in writes(env.world) if "/gpunodeclasses/" not in text]


# -- other clients -----------------------------------------------------------------------------------------------------


def edited(env: SimEnv, request: dict[str, Any]) -> None:
    change = {"spec": {"idleTimeout": "1h"}, "metadata": {"labels": {"team": "red"}}}
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", request["metadata"]["name"], change)


def without_annotations(env: SimEnv, request: dict[str, Any]) -> None:
    change = {"metadata": {"annotations": None}}
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", request["metadata"]["name"], change)


def orphaned(env: SimEnv, request: dict[str, Any]) -> None:
    change = {"metadata": {"ownerReferences": None}}
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", request["metadata"]["name"], change)


def copied(env: SimEnv, request: dict[str, Any]) -> None:
    """`kubectl get -o yaml`, another name, `kubectl create`."""
    kept = {name: request["metadata"][name] for name in ("annotations", "ownerReferences", "finalizers", "namespace")}
    manifest = {"metadata": {**kept, "name": "copy"}, "spec": request["spec"]}
    env.world.api.local_api.create(GPU_REQUEST, manifest)


def deleted(env: SimEnv, request: dict[str, Any]) -> None:
    env.world.api.local_api.delete(GPU_REQUEST, "default", request["metadata"]["name"])


@pytest.mark.parametrize("deed", [edited, without_annotations, orphaned, copied])
@pytest.mark.parametrize("when", ["booting", "running"])
def test_what_others_edit_at_a_request_costs_no_second_machine_and_loses_none(deed, when):
    with sim_env(f"foreign-{deed.__name__}", kubelets=QUICK) as env:
        begin(env)
        asks(env, run_for="5m")
        env.until(lambda: rented(env) == 1 if when == "booting" else runs(env)(), minutes=10, step=1.0)
        (request,) = requests(env)
        deed(env, request)
        env.until(runs(env), minutes=10)
        env.world.run(minutes=3)
        assert rented(env) == len(env.living()) == 1, "a second machine was bought, or the first was lost"

        if when == "running":
            env.until(lambda: env.living() == [], minutes=75)
            assert rented(env) == 1


def test_a_request_whose_owner_is_removed_before_it_bought_says_what_to_do_and_the_pool_orders_another():
    with sim_env("foreign-early", kubelets=QUICK) as env:
        begin(env)
        asks(env)
        env.until(lambda: len(requests(env)) == 1, minutes=3, step=0.01)
        (request,) = requests(env)
        assert not request.get("status", {}).get("attempts")
        orphaned(env, request)
        env.until(runs(env), minutes=15)

        name = request["metadata"]["name"]
        assert env.condition("Restored", name)[0] == "True"
        assert "no longer its owner" in env.condition("Restored", name)[2]
        assert rented(env) == len(env.living()) == 1
        deleted(env, request)
        env.until(lambda: env.phase(name) == "gone", minutes=1)
        assert rented(env) == 1


def test_a_request_that_a_user_deletes_gives_way_to_another_machine():
    with sim_env("foreign-deleted", kubelets=QUICK) as env:
        begin(env)
        asks(env)
        env.until(lambda: rented(env) == 1, minutes=3, step=1.0)
        deleted(env, requests(env)[0])
        env.until(runs(env), minutes=15)

        assert (rented(env), len(env.living())) == (2, 1)


# -- the end of a pool, and a stop, in the middle of many purchases ----------------------------------------------------


def in_a_burst(env: SimEnv, deed: Callable[[], None], pods: int = 8) -> None:
    """Done as soon as the first of many requests is created; then 2 minutes."""
    begin(env)
    env.recorder.add(AtRequests(env, lambda _: deed()))
    for number in range(pods):
        asks(env, f"train-{number}", run_for="3h")
    env.world.run(minutes=2)


def test_a_pool_that_is_deleted_in_a_burst_leaves_nothing():
    with sim_env("deleted-in-a-burst", kubelets=QUICK) as env:
        local = env.world.api.local_api
        in_a_burst(env, lambda: local.delete(GPU_NODE_POOL, "default", "pool-0"))
        env.until(lambda: local.get(GPU_NODE_POOL, "default", "pool-0") is None, minutes=90)
        env.world.run(minutes=5)

        assert (requests(env), env.living(), env.nodes()) == ([], [], [])


def test_a_class_that_is_suspended_in_a_burst_buys_nothing_more_and_pods_are_told():
    with sim_env("suspended-in-a-burst", kubelets=QUICK) as env:
        local = env.world.api.local_api
        in_a_burst(env, lambda: local.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": True}}))

        assert (requests(env), rented(env)) == ([], 0)
        told = [[text for _, text in events_of(env, f"train-{number}")] for number in range(8)]
        assert all(any("suspended" in text for text in texts) for texts in told)

        local.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": False}})
        env.until(lambda: all(runs(env, f"train-{number}")() for number in range(8)), minutes=10)
        cheapest = min(stand.hourly_microusd for stand in env.simulator.fleet.selling())
        assert min(machine.rate_microusd for machine in env.living()) == cheapest, "an offer was blamed for the stop"
