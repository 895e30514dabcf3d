"""Machines are exchanged for cheaper ones in a whole world: once, and no pod is without room."""

from datetime import timedelta
from typing import Any

import pytest

from tests.amounts import amount
from tests.sim.cluster.manifests import a_set, a_template
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.test_disruption import Watched, disrupted, names, requests, running, serves, steps_told, taints
from tests.sim.with_pools import begin, events_of, pool_of
from tgp.adapters.kube.events import CORE_EVENT as EVENT
from tgp.api.resource import DEPLOYMENT, POD, POD_DISRUPTION_BUDGET

POLICY = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"}


def sells(env: SimEnv, **prices: float) -> None:
    """Only these types are on sale from now on, each at one price in all places."""
    for name, stand in env.simulator.fleet.stands.items():
        dollars = prices.get(stand.product.sku.replace(".", "_").replace("-", "_"))
        stand.stock = 4 if dollars is not None else 0
        if dollars is not None:
            env.simulator.fleet.reprice(name, int(dollars * 1_000_000))


def in_use(env: SimEnv, replicas: int = 1, **disruption: Any) -> set[str]:
    """Machines of a Deployment with a pod on each."""
    begin(env, disruption={**POLICY, **disruption})
    serves(env, replicas=replicas)
    env.until(lambda: running(env) == replicas, minutes=30)
    env.world.run(minutes=61)  # before that a new machine is left alone
    assert len(names(env)) == replicas
    return names(env)


def guard(env: SimEnv, unavailable: int) -> None:
    selector = {"matchLabels": {"app": "serve"}}
    meta = {"name": "guard", "namespace": "default"}
    spec = {"maxUnavailable": unavailable, "selector": selector}
    env.world.api.local_api.create(POD_DISRUPTION_BUDGET, {"metadata": meta, "spec": spec})


def test_a_machine_is_exchanged_for_a_cheaper_one_and_nothing_flaps_for_hours():
    with sim_env("cheaper") as env:
        sells(env, t4_1=0.40)
        before = in_use(env)
        env.world.run(minutes=30)
        assert names(env) == before, "the same price is no reason"
        sells(env, t4_1=0.20)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before and running(env) == 1, minutes=90)

        assert watched.most_machines == 2
        (after,) = names(env)
        (name,) = before
        (bought,) = requests(env)
        assert bought["metadata"]["annotations"]["tgp.io/replaced-hourly-price"] == "0.40"
        assert "DisruptionTerminating" in steps_told(env, name)
        for _ in range(amount(2, 6)):
            env.world.run(minutes=60)
            assert names(env) == {after}
        assert len(env.simulator.fleet.machines) == 2
        assert taints(env) == []


def test_a_machine_is_not_exchanged_within_an_hour_of_being_one():
    with sim_env("young") as env:
        sells(env, t4_1=0.40)
        begin(env, disruption=POLICY)
        serves(env)
        env.until(lambda: running(env) == 1, minutes=30)
        before = names(env)
        sells(env, t4_1=0.20)
        env.world.run(minutes=50)
        assert names(env) == before

        env.until(lambda: not names(env) & before and running(env) == 1, minutes=90)


def test_three_machines_become_two_while_a_budget_of_pods_allows_one_at_a_time():
    with sim_env("three-two") as env:
        sells(env, t4_1=0.40)
        before = in_use(env, 3, budgets=[{"nodes": "100%"}])
        guard(env, 1)
        sells(env, rtx4090_2=0.30)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before and running(env) == 3, minutes=150)

        assert watched.least_running >= 2
        assert watched.most_machines == 5, "both live for a while"
        env.world.run(minutes=30)
        assert len(requests(env)) == len(env.living()) == 2
        assert taints(env) == []
        assert "moves" not in pool_of(env)["status"]


def test_three_machines_become_two_one_at_a_time_where_limits_have_room_for_one_more():
    with sim_env("chain") as env:
        sells(env, t4_1=0.40)
        begin(env, disruption={**POLICY, "budgets": [{"nodes": "100%"}]}, limits={"resources": {"nodes": 4}})
        serves(env, replicas=3)
        env.until(lambda: running(env) == 3, minutes=30)
        env.world.run(minutes=61)
        before = names(env)
        guard(env, 1)
        sells(env, rtx4090_2=0.30)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before and running(env) == 3, minutes=300)

        assert watched.most_machines == 4
        assert watched.least_running >= 2
        env.world.run(minutes=30)
        assert len(env.living()) == 2


def test_a_budget_of_one_node_takes_them_one_after_another():
    with sim_env("three-two-slowly") as env:
        sells(env, t4_1=0.40)
        before = in_use(env, 3, budgets=[{"nodes": 1}])
        sells(env, rtx4090_2=0.30)
        watched, moves = Watched(env), set[str]()

        def done() -> bool:
            moves.update(move for each in requests(env) if (move := each["metadata"]["annotations"].get("tgp.io/move")))
            return not names(env) & before and running(env) == 3

        watched.until(done, minutes=240)
        assert len(moves) == 2, "no move that was written down is taken back by the next search"
        assert watched.least_running >= 2
        env.world.run(minutes=30)
        assert len(requests(env)) == len(env.living()) == 2


def test_what_saves_too_little_stays_and_says_so():
    with sim_env("too-little") as env:
        sells(env, t4_1=0.40)
        (name,) = in_use(env)
        sells(env, t4_1=0.36)
        env.world.run(minutes=30)

        (request,) = requests(env)
        status, reason, message = disrupted(env, request)
        assert (status, reason) == ("False", "Unconsolidatable")
        assert "Replacing 1 machine with 1 simulated t4.1 moves 1 pod" in message
        told = [reason for reason, _ in events_of(env, name) if reason == "Unconsolidatable"]
        assert told == ["Unconsolidatable"]


def test_what_comes_and_goes_with_prices_is_said_once_an_hour():
    with sim_env("flip-flop") as env:
        sells(env, t4_1=0.40)
        (name,) = in_use(env)
        began = env.world.clock.now()
        for _ in range(4):
            sells(env, t4_1=0.36)
            env.until(lambda: disrupted(env, requests(env)[0])[1] == "Unconsolidatable", minutes=15)
            sells(env)
            env.until(lambda: disrupted(env, requests(env)[0])[1] == "", minutes=15)
        assert names(env) == {name}
        told = [each for each in env.world.api.local_api.objects(EVENT) if each["reason"] == "Unconsolidatable"]
        assert env.world.clock.now() < began + timedelta(hours=1)
        assert sorted((each["involvedObject"]["kind"], each.get("count", 1)) for each in told) == [
            ("GPURequest", 1),
            ("Node", 1),
        ]


def test_a_limit_that_has_no_room_for_both_keeps_the_machine():
    with sim_env("no-room") as env:
        sells(env, t4_1=0.40)
        begin(env, disruption=POLICY, limits={"resources": {"nodes": 1}})
        serves(env)
        env.until(lambda: running(env) == 1, minutes=30)
        before = names(env)
        sells(env, t4_1=0.10)
        env.world.run(minutes=90)

        assert names(env) == before
        assert len(env.simulator.fleet.machines) == 1
        status, reason, message = disrupted(env, requests(env)[0])
        assert (status, reason) == ("False", "LimitReached")
        assert "limits.resources[nodes] is 1, which is too low" in message


def test_no_pod_moves_twice_where_a_budget_is_smaller_than_the_exchange():
    """All machines that leave are kept free from the start: an evicted pod does not land on the next of them."""
    with sim_env("moves-once") as env:
        sells(env, t4_1=0.40)
        begin(env, disruption={**POLICY, "budgets": [{"nodes": 1}]})
        only_rented = [{"key": "tgp.io/ephemeral", "operator": "Exists"}]
        template = a_template({"app": "serve"}, gpus=1, tolerations=only_rented)
        env.world.api.local_api.create(DEPLOYMENT, a_set("serve", template=template, replicas=3))
        env.until(lambda: running(env) == 3, minutes=30)
        env.world.run(minutes=61)
        before, seen = names(env), set()
        sells(env, rtx4090_2=0.30)
        for _ in range(240):
            env.world.run(minutes=1)
            pods = env.world.api.local_api.objects(POD)
            seen |= {pod["metadata"]["uid"] for pod in pods if pod["metadata"]["labels"].get("app") == "serve"}
            if not names(env) & before and running(env) == 3:
                break
        env.world.run(minutes=30)

        assert not names(env) & before
        assert len(env.living()) == 2
        assert len(seen) == 6, "three pods, and one successor of each"


def test_a_price_that_is_low_for_forty_minutes_moves_no_pod():
    with sim_env("dip") as env:
        sells(env, t4_1=0.40)
        before = in_use(env)
        sells(env, t4_1=0.20)
        env.world.run(minutes=40)
        status, reason, message = disrupted(env, requests(env)[0])
        assert (status, reason) == ("False", "SavingUnproven")
        assert "savings must last 1h before machines are replaced" in message
        sells(env, t4_1=0.40)
        env.world.run(minutes=60)

        assert names(env) == before
        assert len(env.simulator.fleet.machines) == 1


def test_room_that_is_there_is_used_without_a_wait_for_prices():
    """What is paid already has no price that could rise again."""
    with sim_env("room-there") as env:
        sells(env, rtx4090_2=0.40)
        begin(env, disruption=POLICY)
        serves(env, replicas=3)
        env.until(lambda: running(env) == 3, minutes=30)
        assert len(names(env)) == 2
        env.world.run(minutes=61)
        env.world.api.local_api.merge_patch(DEPLOYMENT, "default", "serve", {"spec": {"replicas": 2}})
        env.until(lambda: len(names(env)) == 1 and running(env) == 2, minutes=20)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_machine_that_pods_were_moved_to_is_left_alone_for_an_hour_over_a_restart(restarts: bool):
    with sim_env("settles") as env:
        sells(env, rtx4090_2=0.40)
        begin(env, disruption=POLICY)
        serves(env, replicas=3)
        env.until(lambda: running(env) == 3, minutes=30)
        env.world.run(minutes=61)
        env.world.api.local_api.merge_patch(DEPLOYMENT, "default", "serve", {"spec": {"replicas": 2}})
        env.until(lambda: len(names(env)) == 1 and running(env) == 2, minutes=20)
        moved = env.world.clock.now()
        (kept,) = requests(env)
        assert "tgp.io/pods-moved-at" in kept["metadata"]["annotations"]
        if restarts:
            env.world.processes["operator-0"].crash(restart_after=5.0)
        env.world.api.local_api.merge_patch(DEPLOYMENT, "default", "serve", {"spec": {"replicas": 1}})
        sells(env, t4_1=0.05)
        env.world.run(minutes=20)
        env.until(lambda: disrupted(env, requests(env)[0])[1] == "SavingUnproven", minutes=60)
        assert env.world.clock.now() >= moved + timedelta(minutes=55), "before that it is no candidate"
