"""Which machines are exchanged for which: any number for any number, if it is worth its restarts."""

from dataclasses import replace
from datetime import timedelta
from functools import cache

import msgspec
import pytest

from tests.amounts import amount
from tests.core.disruption.exchange_worlds import (
    GIB,
    JOB,
    NOW,
    a_random_pool,
    a_serving_pod,
    an_offer,
    carried_out,
    consolidated_pool,
    in_use,
    standing,
)
from tests.core.pools.planner.worlds import a_pool
from tgp.core.disruption.exchange import HORIZON, Savings, exchanges, min_savings
from tgp.core.model.labels import LabelRequirement, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, NodeTerm, PreferredNodes
from tgp.core.model.record import uid_text
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.planner.world import LimitRoom

WORLDS = amount(40, 500)


def pods(many, prefix="p", gpus=1, **said):
    return tuple(a_serving_pod(f"{prefix}{number}", gpus, **said) for number in range(many))


def only(seen):
    (found,) = exchanges(seen).exchanges
    return found


def shape(found):
    """Machines that leave, and machines that are bought."""
    return sorted(key.name for key in found.candidates), sorted(order.offer.sku for order in found.orders)


def why(seen, name):
    consolidation = exchanges(seen)
    assert all(ObjectKey("team", name) not in each.candidates for each in consolidation.exchanges)
    return {**consolidation.left, **consolidation.too_little}.get(ObjectKey("team", name), "")


# -- n to m ------------------------------------------------------------------------------------------------------------


def test_one_machine_goes_where_its_pods_have_room_elsewhere():
    found = only(in_use(standing("a", 4.0, *pods(1, "a")), standing("b", 4.0, *pods(3, "b"))))

    assert shape(found) == (["a"], [])
    assert found.placed == {"uid-a0": "b"}
    assert [str(pod.key) for pod in found.pods] == ["team/a0"]
    assert found.message.startswith("1 machine for room that is there, 1 pod would move; that saves $3.")


def test_room_on_a_machine_that_leaves_unless_a_waiting_pod_needs_it_takes_no_pod():
    seen = in_use(standing("a", 4.0, *pods(1, "a")), standing("b", 4.0, *pods(3, "b")))
    leaving = tuple(replace(each, drains=each.name == "b") for each in seen.world.capacity)

    assert exchanges(replace(seen, world=replace(seen.world, capacity=leaving))).exchanges == ()


def test_several_go_into_room_that_is_there():
    found = exchanges(in_use(*(standing(f"n{n}", 4.0, *pods(1, f"n{n}")) for n in range(4))))

    assert sum(len(each.candidates) for each in found.exchanges) == 3
    assert len({where for each in found.exchanges for where in each.placed.values()}) == 1


def test_several_become_one():
    machines = [standing(f"n{n}", 2.0, *pods(2, f"n{n}"), gpus=2) for n in range(4)]
    found = only(in_use(*machines, offers=(an_offer("big", 4.0, 8),)))

    assert shape(found) == (["n0", "n1", "n2", "n3"], ["big"])
    assert len(found.orders[0].pods) == 8


def test_one_becomes_two():
    found = only(in_use(standing("big", 8.0, *pods(2, gpus=1), gpus=8), offers=(an_offer("small", 1.0, 1),)))

    assert shape(found) == (["big"], ["small", "small"])


def test_three_become_two():
    machines = [standing(f"n{n}", 3.0, *pods(2, f"n{n}", 1), gpus=2) for n in range(3)]
    found = only(in_use(*machines, offers=(an_offer("three", 2.0, 3, left=2),)))

    assert shape(found) == (["n0", "n1", "n2"], ["three", "three"])
    assert sorted(len(order.pods) for order in found.orders) == [3, 3]


def test_parts_that_have_no_machine_in_common_are_exchanges_of_their_own():
    machines = [standing(f"n{n}", 3.0, *pods(1, f"n{n}", 1, memory=(n + 1) * GIB), gpus=1) for n in range(3)]
    found = exchanges(in_use(*machines, offers=(an_offer("one", 1.0, 1),)))

    assert sorted(shape(each) for each in found.exchanges) == [([f"n{n}"], ["one"]) for n in range(3)]


def test_the_best_saving_per_restart_comes_first():
    young, old = a_serving_pod("young", owners=JOB, hours=0.3), a_serving_pod("old", owners=JOB, hours=2.0)
    machines = (standing("a", 3.0, old, gpus=1), standing("b", 3.0, young, gpus=1))
    found = exchanges(in_use(*machines, offers=(an_offer("one", 1.0, 1),))).exchanges

    assert [each.candidates[0].name for each in found] == ["b", "a"]


def test_across_pools_and_providers():
    """Room in another pool counts, and so do offers of another pool."""
    first, second = consolidated_pool("p"), consolidated_pool("q")
    machines = (standing("a", 4.0, *pods(1, "a"), pool=first), standing("b", 4.0, *pods(3, "b"), pool=second))

    assert shape(only(in_use(*machines, pools=(first, second))))[1] == []


def test_a_spot_machine_counts_what_its_loss_is_expected_to_cost():
    """It costs 4 % less than what is there, and its loss is expected to cost more."""
    spot = an_offer("spot", 1.0, 1, spot=True)
    seen = in_use(standing("a", 1.2, *pods(1), gpus=1), offers=(spot,))
    costly = replace(seen, world=replace(seen.world, spot_loss={("simulated", "RTX4090"): 0.5}))

    assert not exchanges(costly).exchanges


# -- worth it ----------------------------------------------------------------------------------------------------------


def test_what_saves_less_than_the_pool_asks_for_is_left_and_says_the_sum():
    seen = in_use(standing("a", 2.0, *pods(1), gpus=1), offers=(an_offer("one", 1.75, 1),))

    assert why(seen, "a") == (
        "1 machine for 1 simulated one, 1 pod would move; that saves $0.094/h: $2.00/h now, $1.75/h "
        "then, and $0.625 once for restarts and boot times, over 4h; spec.disruption.minSavings is 5%"
    )
    pool = consolidated_pool(minSavings="4%")
    assert only(in_use(standing("a", 2.0, *pods(1), gpus=1, pool=pool), offers=(an_offer("one", 1.75, 1),)))


def test_a_job_that_would_lose_its_work_stays():
    long = a_serving_pod("long", owners=JOB, hours=30)

    assert why(in_use(standing("a", 2.0, long), offers=(an_offer("one", 0.1, 4),)), "a").startswith(
        "Without it and its pods the pool loses"
    )
    saved = msgspec.structs.replace(long, annotations={"tgp.io/checkpoint-every": "10m"})
    assert only(in_use(standing("a", 2.0, saved), offers=(an_offer("one", 0.1, 4),)))


def test_what_is_paid_already_of_a_billing_step_is_no_saving():
    seen = in_use(standing("a", 2.0, *pods(1), paid_microusd=8_000_000), standing("b", 2.0, *pods(1, "b")))

    assert [each.candidates[0].name for each in exchanges(seen).exchanges] == ["b"]


def test_an_order_is_wanted_up_to_the_price_at_which_it_is_still_worth_it():
    found = only(in_use(standing("a", 2.0, *pods(1), gpus=1), offers=(an_offer("one", 1.0, 1),)))
    (order,) = found.orders

    assert order.most_microusd is not None
    assert order.hourly_microusd < order.most_microusd
    dearer = in_use(standing("a", 2.0, *pods(1), gpus=1), offers=(an_offer("one", order.most_microusd / 1e6, 1),))
    assert only(dearer)
    too_dear = an_offer("one", order.most_microusd / 1e6 + 0.01, 1)
    assert not exchanges(in_use(standing("a", 2.0, *pods(1), gpus=1), offers=(too_dear,))).exchanges


def test_a_preference_that_would_no_longer_hold_counts_as_another_restart():
    liked = Affinity(preferred_nodes=(PreferredNodes(10, NodeTerm((LabelRequirement("disk", "In", ("fast",)),))),))
    plain = a_serving_pod("x", owners=JOB, hours=0.5)
    fussy = msgspec.structs.replace(plain, affinity=liked)
    free = in_use(standing("a", 2.0, plain, gpus=1, labels={"disk": "fast"}), offers=(an_offer("one", 0.8, 1),))
    bound = in_use(standing("a", 2.0, fussy, gpus=1, labels={"disk": "fast"}), offers=(an_offer("one", 0.8, 1),))

    assert only(bound).savings.once > only(free).savings.once
    assert only(bound).restart_microusd == 2 * only(free).restart_microusd


def test_the_share_that_has_to_be_saved():
    assert min_savings(consolidated_pool().pool) == 0.05
    assert Savings(100, 90, 0).enough(0.1)
    assert not Savings(100, 91, 0).enough(0.1)
    assert not Savings(0, 0, 0).enough(0.0)
    assert Savings(1_000_000, 0, 4_000_000).net == 1_000_000 - round(4_000_000 * (timedelta(hours=1) / HORIZON))


# -- left alone --------------------------------------------------------------------------------------------------------


def left_alone(pod=None, **said):
    """One machine that would go, but for what is said of it."""
    pod = pod if pod is not None else a_serving_pod("x")
    return in_use(standing("a", 2.0, pod, gpus=1, **said), standing("b", 2.0, *pods(1, "b")))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (left_alone(pool=a_pool(disruption={"consolidationPolicy": "WhenEmpty"})), "moves no pods"),
        (left_alone(annotations={"tgp.io/do-not-disrupt": "true"}), "Request is annotated tgp.io/do-not-disrupt"),
        (left_alone(a_serving_pod("x", annotations={"tgp.io/do-not-disrupt": "true"})), "Pod team/x is annotated"),
        (left_alone(a_serving_pod("x", owners=())), "Pod team/x has no controller that would create it again"),
        (left_alone(a_serving_pod("x", hours=0.1)), "a pod came or went at 11:54:00Z, and consolidateAfter is 10m"),
        (left_alone(changed_at=NOW - timedelta(minutes=5)), "a pod came or went at 11:55:00Z"),
        (left_alone(annotations={"tgp.io/replaces": "z"}, ready_hours=0.5), "it became Ready at 11:30:00Z"),
        (left_alone(received_at=NOW - timedelta(minutes=50)), "pods were moved there at 11:10:00Z, less than 1h"),
        (left_alone(node={"ready": False}), "its Node is not Ready, or leaves already"),
        (left_alone(annotations={"tgp.io/move": "m1"}), "its Node is not Ready, or leaves already"),
        (left_alone(annotations={"tgp.io/move-retry": "2026-11-16T12:10:00Z 1"}), "its last move was given up"),
    ],
)  # fmt: skip
def test_machines_that_are_left_alone_and_why(seen, told):
    assert told in why(seen, "a")


def test_a_machine_with_room_for_a_pod_that_waits_stays():
    seen = left_alone()
    awaited = tuple(replace(each, machine=replace(each.machine, awaited=True)) for each in seen.machines[:1])

    assert why(replace(seen, machines=(*awaited, *seen.machines[1:])), "a") == "it has room for a pod that waits"


def test_an_owned_machine_stays_as_long_as_it_has_to_be_on():
    seen = left_alone()
    kept = replace(seen.machines[0], machine=replace(seen.machines[0].machine, stays_until=NOW + timedelta(minutes=5)))

    assert why(replace(seen, machines=(kept, *seen.machines[1:])), "a") == (
        "minOnTime or keepOn of this machine keep it on"
    )


def test_without_these_reasons_it_goes():
    found = exchanges(left_alone())
    assert shape(found.exchanges[0]) == (["a"], [])


def test_a_closed_pod_disruption_budget_keeps_a_machine():
    pod = a_serving_pod("x", labels={"app": "x"})
    guard = PodDisruptionBudget(key=ObjectKey("team", "guard"), disruptions_allowed=0, selector=selector({"app": "x"}))

    assert why(replace(left_alone(pod), budgets=(guard,)), "a") == (
        "PodDisruptionBudget team/guard allows no eviction now"
    )


def test_limits_hold_while_both_live():
    """One more machine is allowed: of three, one is exchanged at a time."""
    machines = [standing(f"n{n}", 3.0, *pods(1, f"n{n}", 1, memory=(n + 1) * GIB), gpus=1) for n in range(3)]
    pool = consolidated_pool()
    room = LimitRoom("GPUNodePool team/p: limits.resources.nodes is 4", "nodes", 1, frozenset({pool.key}))
    found = exchanges(in_use(*machines, offers=(an_offer("one", 1.0, 1),), pools=(pool,), limits=(room,)))

    assert sum(len(each.orders) for each in found.exchanges) == 1
    none = exchanges(
        in_use(*machines, offers=(an_offer("one", 1.0, 1),), pools=(pool,), limits=(replace(room, left=0),))
    )
    assert none.exchanges == ()
    assert sorted(key.name for key in none.limited) == ["n0", "n1", "n2"]
    told = none.limited[ObjectKey("team", "n0")]
    assert told.startswith(
        "GPUNodePool team/p: limits.resources.nodes is 4, which has no room for it: both would count"
    )
    assert "1 machine for 1 simulated one, 1 pod would move; that saves $" in told


# -- properties --------------------------------------------------------------------------------------------------------


def test_idle_worlds_have_no_exchanges():
    """Machines that are full, at the price at which they can be had."""
    machines = [standing(f"n{n}", 1.0, *pods(4, f"n{n}")) for n in range(5)]

    assert exchanges(in_use(*machines, offers=(an_offer("same", 1.0),))).exchanges == ()
    assert exchanges(in_use()).exchanges == ()


@cache
def found_in(seed):
    """A random pool and its exchanges: searching takes long, and each property looks at the same ones."""
    seen = a_random_pool(seed)
    return seen, exchanges(seen)


@pytest.mark.parametrize("seed", range(0, WORLDS, 10))
def test_equal_worlds_have_equal_exchanges(seed):
    seen, found = found_in(seed)
    backwards = replace(seen, machines=seen.machines[::-1])

    assert found == exchanges(a_random_pool(seed)) == exchanges(backwards)


def test_every_exchange_serves_its_pods_and_none_shares_a_machine_with_another():
    for seed in range(WORLDS):
        seen, consolidation = found_in(seed)
        found = consolidation.exchanges
        names = {each.key: each.machine.node.name for each in seen.machines}
        leaving = [key for each in found for key in each.candidates]
        there = [{*each.placed.values()} for each in found]
        assert len(leaving) == len(set(leaving))
        assert sum(map(len, there)) == len(set().union(*there))
        assert not {names[key] for key in leaving} & set().union(*there)
        for each in found:
            bought = {uid_text(pod.uid) for order in each.orders for pod in order.pods}
            assert bought | each.placed.keys() == {uid_text(pod.uid) for pod in each.pods}
            assert not bought & each.placed.keys()
            assert each.savings.enough(0.05)


def test_after_the_exchanges_the_pool_is_at_rest():
    """In 99 of 100 worlds at once, and in all of them within three rounds."""
    again = 0
    for seed in range(WORLDS):
        seen, consolidation = found_in(seed)
        for turn in range(4):
            found = (consolidation if turn == 0 else exchanges(seen)).exchanges
            if not found:
                break
            assert turn < 3, f"world {seed} does not come to rest"
            again += turn == 1
            seen = carried_out(seen, found)
    assert again <= max(WORLDS // 100, 1)
