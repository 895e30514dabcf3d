"""Where the pods of candidates would go: each is replaced by its own pool, exchanged by any beside it."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from tests.core.disruption.exchange_worlds import JOB, a_serving_pod, an_offer, consolidated_pool
from tests.core.disruption.machines import a_machine
from tests.core.pools.planner.worlds import NOW, a_market, a_node, a_world
from tgp.core.disruption.causes import FoundExchange, Standing
from tgp.core.disruption.move_steps import DisruptionObservation, PoolMachines
from tgp.core.disruption.moves import RETRIES, TRIED_WITHIN
from tgp.core.disruption.refits import refits
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, NodeTerm, PreferredNodes
from tgp.core.pools.planner.world import LimitRoom
from tgp.core.requests.cooldown import failed

FIRST, SECOND = consolidated_pool("first"), consolidated_pool("second")
ONE, TWO = ObjectKey("default", "r1"), ObjectKey("default", "r2")


def drifted(name, **pod):
    machine = a_machine(
        name, idle=None, pods=(a_serving_pod(f"pod-{name}", **pod),), annotations={"tgp.io/drift-hash": "1-x"}
    )
    return replace(machine, stamp="1-y")


def exchanged(name, *keys):
    machine = a_machine(name, idle=None, pods=(a_serving_pod(f"pod-{name}"),))
    return replace(machine, exchange=FoundExchange("for less", keys))


def planned(first, second, *pools, gpus=2, left=100, book=None, **rest):
    """Of machines of two pools, with one offer on sale; by `pools`."""
    members = tuple(
        PoolMachines(KubeObject(key=pool.key, value=pool.pool), machines)
        for pool, machines in ((FIRST, first), (SECOND, second))
    )
    every = [machine for each in members for machine in each.machines]
    standing = {each.record.key: Standing(each, FIRST.pool, 2_000_000) for each in every}
    world = a_world((), book or a_market(an_offer("one", 1.0, gpus, left=left)), *(pools or (FIRST, SECOND)), **rest)
    keys = tuple(each.record.key for each in every)
    return refits(DisruptionObservation(members, NOW, standing=standing), keys, world, {}, ()).refits


def in_moves(*rooms):
    """Of two drifted machines with a pod of two GPUs each, in moves of their own that bought new-r1 and new-r2."""
    machines = tuple(moved(drifted(name, gpus=2), f"move-{name}") for name in ("r1", "r2"))
    members = (PoolMachines(KubeObject(key=FIRST.key, value=FIRST.pool), machines),)
    replacements = {f"move-{name}": (a_machine(f"new-{name}", idle=None),) for name in ("r1", "r2")}
    world = a_world((), a_market(an_offer("one", 1.0, 2)), FIRST, capacity=rooms)
    return refits(DisruptionObservation(members, NOW, replacements), (ONE, TWO), world, {}, ()).refits


def moved(machine, move):
    annotations = {**machine.record.annotations, "tgp.io/move": move}
    return replace(machine, record=msgspec.structs.replace(machine.record, annotations=annotations))


def bought(refit):
    return [order.pool.name for order in refit.orders]


def test_a_machine_is_replaced_by_one_of_its_own_pool():
    found = planned((drifted("r1"),), (drifted("r2"),))

    assert (bought(found[ONE]), bought(found[TWO])) == (["first"], ["second"])


def test_a_pool_that_may_not_buy_replaces_nothing_and_the_other_does():
    found = planned((drifted("r1"),), (drifted("r2"),), replace(FIRST, stopped="NotReady: it is suspended"), SECOND)

    assert (found[ONE].orders, found[ONE].unserved) == ((), "team/first: it is suspended")
    assert bought(found[TWO]) == ["second"]


def test_a_pool_that_only_observes_replaces_nothing_and_the_other_does():
    found = planned((drifted("r1"),), (drifted("r2"),), SECOND)

    assert found[ONE].unserved == "the pool buys nothing: it only observes, or its class is missing"
    assert bought(found[TWO]) == ["second"]


def test_machines_of_two_pools_that_are_exchanged_together_share_what_is_bought():
    found = planned((exchanged("r1", ONE, TWO),), (exchanged("r2", ONE, TWO),))

    assert found[ONE] == found[TWO]
    assert len(found[ONE].orders) == 1


def test_an_exchange_is_bought_by_any_pool_that_may():
    """What stops the pool of a candidate does not stop the pool that buys."""
    pools = (replace(FIRST, stopped="NotReady: it is suspended"), SECOND)
    found = planned((exchanged("r1", ONE),), (), *pools)

    assert (bought(found[ONE]), found[ONE].unserved) == (["second"], "")


def test_a_limit_that_keeps_a_drifted_machine_is_told_with_what_it_lacks_and_for_how_long():
    room = LimitRoom("GPUNodePool team/first: limits.resources[nodes] is 1", "nodes", 0, frozenset({FIRST.key}))
    found = planned((drifted("r1"),), (), limits=(room,))[ONE]

    assert (found.orders, found.limited) == ((), True)
    assert found.unserved == (
        "GPUNodePool team/first: limits.resources[nodes] is 1, which is too low: 1 machine more is needed for "
        "about 10m, while old and new machines both count"
    )


def test_of_the_last_machine_on_sale_one_order_is_made_in_one_look():
    found = planned(tuple(drifted(f"r{number}") for number in (1, 2, 3)), (), left=1)

    assert [len(each.orders) for each in found.values()] == [1, 0, 0]
    assert found[TWO].unserved.startswith("team/first: none of 1 offers fits: 1 taken by other pods")


def test_of_the_last_room_within_a_limit_one_order_is_made_in_one_look():
    room = LimitRoom("GPUNodePool team/first: limits.resources[nodes] is 4", "nodes", 1, frozenset({FIRST.key}))
    found = planned(tuple(drifted(f"r{number}") for number in (1, 2, 3)), (drifted("r4"),), limits=(room,))

    assert [len(each.orders) for each in found.values()] == [1, 0, 0, 1]
    assert [each.limited for each in found.values()] == [False, True, True, False]


def test_what_is_not_ordered_leaves_its_stock_to_the_next():
    """An exchange that is not worth it now orders nothing."""
    dear = an_offer("one", 1.99, 2, left=1)
    found = planned((exchanged("r1", ONE),), (drifted("r2"),), book=a_market(dear))

    assert (bool(found[ONE].too_little), bought(found[TWO])) == (True, ["second"])


BOUGHT = a_node("node-new-r2", 2)
COMING = replace(BOUGHT, name="default/new-r2", coming=ObjectKey("default", "new-r2"))


@pytest.mark.parametrize("whole", [BOUGHT, COMING], ids=["ready", "coming"])
def test_what_was_bought_for_one_move_is_not_given_to_another(whole):
    """Half of the first one's was taken by another pod: only that move comes to nothing, and not both of them."""
    found = in_moves(a_node("node-new-r1", 1), whole)

    assert bought(found[ONE]) == ["first"]
    assert (bought(found[TWO]), *found[TWO].coming, *found[TWO].rooms) == ([], whole.name)


def test_what_a_move_leaves_of_its_replacements_is_for_those_after_it():
    found = in_moves(a_node("node-new-r1", 4), a_node("node-new-r2", 1))

    assert (found[ONE].rooms, found[TWO].rooms) == (("node-new-r1",), ("node-new-r1",))


def in_a_gang(name, size):
    gang = {"tgp.io/gang": "train", "tgp.io/gang-size": str(size)}
    return drifted(name, annotations=gang)


def test_a_machine_of_a_gang_is_replaced_while_all_of_them_have_drifted():
    found = planned(tuple(in_a_gang(f"r{number}", 4) for number in (1, 2, 3, 4)), ())

    assert [(len(each.orders), each.unserved) for each in found.values()] == [(1, "")] * 4


def test_a_gang_that_misses_a_pod_is_not_moved():
    found = planned((in_a_gang("r1", 3), in_a_gang("r2", 3)), ())

    assert "gang team/train: 2 of 3 pods exist" in found[ONE].unserved


LIKES_IT_THERE = Affinity(preferred_nodes=(PreferredNodes(10, NodeTerm((LabelRequirement("disk", "In", ("fast",)),))),))


@pytest.mark.parametrize(("said", "worth_it"), [({}, True), ({"affinity": LIKES_IT_THERE}, False)])
def test_a_soft_rule_that_would_be_broken_counts_when_an_exchange_is_checked_as_when_it_was_found(said, worth_it):
    """It would cost six hours of the job, and as much again."""
    pod = a_serving_pod("pod-r1", owners=JOB, hours=6.0, **said)
    machine = a_machine("r1", idle=None, pods=(pod,), node={"labels": {"disk": "fast"}})
    cheap = a_market(an_offer("one", 0.5, 2))
    found = planned((replace(machine, exchange=FoundExchange("for less", (ONE,))),), (), book=cheap)[ONE]

    assert (bought(found), not found.too_little) == (["first"], worth_it), found.too_little


@pytest.mark.parametrize(
    ("next_try", "count", "chosen"),
    [
        (timedelta(0), 1, "two"),  # the move was given up ten minutes ago, and the cooldown has ended meanwhile
        (timedelta(0), 3, "two"),
        (-TRIED_WITHIN, 1, "one"),  # it was tried, or could not be
        (None, 0, "one"),
    ],
)
def test_an_offer_that_failed_in_the_last_move_is_left_out_until_the_next_was_tried(next_try, count, chosen):
    machine = drifted("r1")
    if next_try is not None:
        retry = {"tgp.io/move-retry": f"{NOW + next_try:%Y-%m-%dT%H:%M:%SZ} {count}"}
        annotations = {**machine.record.annotations, **retry}
        machine = replace(machine, record=msgspec.structs.replace(machine.record, annotations=annotations))
    cheap = an_offer("one", 1.0, 2)
    cooldowns = failed(Cooldowns(), cheap, "sold out", NOW - RETRIES[max(count, 1) - 1] - timedelta(minutes=1))
    (order,) = planned((machine,), (), book=a_market(cheap, an_offer("two", 1.5, 2)), cooldowns=cooldowns)[ONE].orders

    assert order.offer.sku == chosen
