"""From pods and a market to orders: what is bought, where pods go, and what is said of those that wait."""

from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from tests.core.market.offers import AListing
from tests.core.pools.planner.odd_worlds import near_gangs
from tests.core.pools.planner.plan_checker import broken_rules
from tests.core.pools.planner.worlds import (
    GIB,
    HOSTNAME,
    NOW,
    TOLERATES,
    ZONE,
    a_class,
    a_market,
    a_node,
    a_pod,
    a_pool,
    a_world,
    apart,
    near,
    on_sale,
    pods,
    spread,
)
from tgp.core.market.sources import sources_of
from tgp.core.model.labels import LabelRequirement, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Trust
from tgp.core.model.placement import Affinity, HostPort, NodeTerm, PodTerm, PreferredNodes, PreferredPods
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint, Toleration
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.sources import MOST_KINDS, lost_hours
from tgp.core.pools.planner.sources import _lost_hours as lost_kinds
from tgp.core.pools.planner.sources import sources_of as sources_made
from tgp.core.pools.planner.world import LimitRoom, Order, Plan, Shape

SMALL = on_sale("small", 1.0)
TAINT = Taint("team", "NoSchedule", "x")
LARGE = on_sale("large", 1.8, gpu_count=2, vcpus=32, memory_gib=256)


def bought(answer: Plan) -> dict[str, int]:
    return dict(Counter(order.offer.sku for order in answer.orders))


def zones(answer: Plan) -> dict[str, int]:
    return dict(Counter(order.offer.place for order in answer.orders for _ in order.pods))


def said(answer: Plan, pod: str) -> str:
    return next(each.message for each in answer.unserved if each.pod.key.name == pod)


def test_nothing_waits_and_nothing_is_bought():
    assert plan(a_world((), a_market(SMALL))) == Plan()


def test_one_pod_gets_the_cheapest_machine_that_holds_it():
    answer = plan(a_world([a_pod()], a_market(SMALL, LARGE)))
    assert bought(answer) == {"small": 1}
    assert answer.cost == 1_000_000
    assert answer.gap is not None
    assert answer.gap < 1e-6
    assert not answer.unserved


def test_two_pods_share_a_machine_where_that_is_cheaper():
    assert bought(plan(a_world(pods(2), a_market(SMALL, LARGE)))) == {"large": 1}


def test_pods_go_by_name_and_each_once():
    answer = plan(a_world(pods(5), a_market(SMALL, LARGE)))
    named = [pod.key.name for order in answer.orders for pod in order.pods]
    assert sorted(named) == [f"train-{number}" for number in range(5)]


def test_two_pools_buy_no_more_of_an_offer_than_there_is():
    market = a_market(on_sale("last", 1.0, left=1), on_sale("dearer", 1.5, left=9))
    either = plan(a_world(pods(3), market, a_pool("p"), a_pool("q")))
    assert bought(either) == {"last": 1, "dearer": 2}
    assert either.gap is not None
    assert either.gap < 1e-6
    in_turn = plan(a_world(pods(3), market, a_pool("p", weight=10), a_pool("q")))
    assert bought(in_turn) == {"last": 1, "dearer": 2}


def test_room_on_a_node_comes_before_any_purchase():
    answer = plan(a_world(pods(2), a_market(SMALL), capacity=(a_node("box"),)))
    assert bought(answer) == {"small": 1}
    assert list(answer.placed.values()) == ["box"]


def test_a_machine_on_its_way_counts():
    coming = a_node("team/p-1", gpus=2, coming=ObjectKey("team", "p-1"))
    answer = plan(a_world(pods(2), a_market(SMALL), capacity=(coming,)))
    assert not answer.orders
    assert set(answer.placed.values()) == {"team/p-1"}


def test_a_node_whose_taint_the_pod_does_not_tolerate_has_no_room_for_it():
    node = a_node("box", taints=(TAINT,))
    assert bought(plan(a_world([a_pod()], a_market(SMALL), capacity=(node,)))) == {"small": 1}


def test_memory_counts_less_than_the_offer_says():
    almost_all = a_pod(memory=120 * GIB)
    assert not plan(a_world([almost_all], a_market(SMALL))).orders
    fits = a_pod(memory=118 * GIB)
    assert plan(a_world([fits], a_market(SMALL))).orders


def test_what_a_type_had_before_counts_instead():
    shape = Shape(Resources(15_000, 100 * GIB, (("nvidia.com/gpu", 1), ("pods", 110))))
    world = a_world([a_pod(memory=110 * GIB)], a_market(SMALL, on_sale("other", 1.5)), shapes={SMALL.key: shape})
    assert bought(plan(world)) == {"other": 1}


def test_a_pool_buys_within_its_requirements():
    wants = [{"key": "tgp.io/region", "operator": "In", "values": ["us-east"]}]
    east = on_sale("east", 3.0, region="us-east", place="east-1")
    assert bought(plan(a_world([a_pod()], a_market(SMALL, east), a_pool(requirements=wants)))) == {"east": 1}


def test_a_pool_with_more_weight_serves_first_whatever_it_costs():
    heavy = a_pool("heavy", [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["2"]}], weight=10)
    answer = plan(a_world(pods(2), a_market(SMALL, LARGE), a_pool("light"), heavy))
    assert {order.pool.name for order in answer.orders} == {"heavy"}
    assert bought(plan(a_world(pods(1), a_market(SMALL, LARGE), a_pool("light"), heavy))) == {"large": 1}


def test_what_the_first_pool_cannot_serve_the_next_one_does():
    heavy = a_pool("heavy", [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["2"]}], weight=10)
    market = a_market(SMALL, on_sale("pair", 1.8, gpu_count=2, left=1))
    answer = plan(a_world(pods(3), market, a_pool("light"), heavy))
    assert bought(answer) == {"pair": 1, "small": 1}


def test_a_class_that_selects_by_priority_uses_the_preferred_provider_first():
    providers = [{"name": "vultr", "priority": 1}, {"name": "simulated", "priority": 2}]
    by_priority = a_class(providers=providers, selection="Priority")
    market = a_market(SMALL)
    vultr = sources_of(by_priority)["vultr"]
    market = market.with_listing(vultr.name, AListing((on_sale("dear", 9.0, provider="vultr"),)), NOW)
    assert bought(plan(a_world([a_pod()], market, a_pool(node_class=by_priority)))) == {"dear": 1}


def test_a_limit_holds_and_is_named():
    room = LimitRoom("GPUNodeClass c: limits.maxNodes is 2", "nodes", 2, frozenset({ObjectKey("team", "p")}))
    answer = plan(a_world(pods(3), a_market(SMALL), limits=(room,)))
    assert len(answer.orders) == 2
    assert "limits.maxNodes is 2" in answer.unserved[0].message
    assert answer.unserved[0].reasons[0].reason == "LimitReached"


def test_a_limit_is_named_though_machines_that_are_too_small_are_within_it():
    pool = frozenset({ObjectKey("team", "p")})
    rooms = tuple(LimitRoom(f"limits.{name}", name, left, pool) for name, left in (("nodes", 9), ("nvidia.com/gpu", 1)))
    answer = plan(a_world([a_pod(gpus=2)], a_market(SMALL, LARGE), limits=rooms))
    (reason,) = answer.unserved[0].reasons
    assert (reason.reason, reason.limit) == ("LimitReached", "limits.nvidia.com/gpu")
    assert reason.message == "none of 2 offers fits: 1 over a limit, 1 too small; limits.nvidia.com/gpu"


def test_a_limit_of_one_pool_does_not_bind_another():
    room = LimitRoom(
        "GPUNodePool team/p: limits.resources[nodes] is 1", "nodes", 1, frozenset({ObjectKey("team", "p")})
    )
    answer = plan(a_world(pods(3), a_market(SMALL), a_pool("p"), a_pool("q"), limits=(room,)))
    assert len(answer.orders) == 3


def test_a_limit_of_something_that_is_not_counted_lets_nothing_be_bought():
    room = LimitRoom("limits.resources[gpu] is 9", "resources[gpu]", 0, frozenset({ObjectKey("team", "p")}))
    assert plan(a_world(pods(1), a_market(SMALL), limits=(room,))).orders == ()


MARS = {"metadata": {"labels": {"planet": "mars"}}}


def test_the_pool_that_a_pod_selects_comes_first_and_the_others_are_one_clause():
    others = [a_pool(f"a-{number}") for number in range(5)]
    answer = plan(
        a_world(
            [a_pod(gpus=64, node_selector={"planet": "mars"})], a_market(SMALL), *others, a_pool("z", template=MARS)
        )
    )
    (unserved,) = answer.unserved

    assert [each.pool.name for each in unserved.reasons][:2] == ["z", "a-0"]
    assert [each.reason for each in unserved.reasons][1:] == ["NodeSelectorMismatch"] * 5
    lack = "machines lack planet=mars of the pod's node selector or affinity"
    assert unserved.message.startswith("team/z: none of 1 offers fits: 1 too small; ")
    assert unserved.message.endswith(f"; 5 other pools: {lack}")


def test_a_pool_that_buys_nothing_and_that_a_pod_selects_comes_before_those_that_it_does_not():
    stopped = a_pool("z", template=MARS, stopped="NodeClassSuspended: GPUNodeClass cheap is suspended")
    answer = plan(a_world([a_pod(node_selector={"planet": "mars"})], a_market(SMALL), a_pool("a"), stopped))

    assert [each.reason for each in answer.unserved[0].reasons] == ["NodeClassSuspended", "NodeSelectorMismatch"]


def test_a_key_that_offers_decide_is_named_where_no_offer_or_no_requirement_of_the_pool_allows_it():
    here = a_pod(node_selector={"tgp.io/region": "west"})
    narrow = a_pool("narrow", [{"key": "tgp.io/region", "operator": "In", "values": ["east"]}])
    market = a_market(on_sale("sold-out", 1.0, region="west", left=0), on_sale("east", 1.0, region="east"))
    for pod, pool, reason in (
        (here, narrow, "NodeSelectorMismatch"),
        (here, a_pool("sold-out"), "NoOfferFits"),
        (a_pod(node_selector={"tgp.io/region": "nowhere"}), a_pool("none"), "NodeSelectorMismatch"),
    ):
        (told,) = plan(a_world([pod], market, pool)).unserved[0].reasons
        assert told.reason == reason, pool.key


def test_money_counts_with_the_margin_that_a_request_may_pay():
    room = LimitRoom("limits.maxHourlyCost is $2/h", "usd", 2_000_000, frozenset({ObjectKey("team", "p")}))
    assert len(plan(a_world(pods(2), a_market(SMALL), limits=(room,))).orders) == 1
    ample = LimitRoom("limits.maxHourlyCost is $2.1/h", "usd", 2_100_000, frozenset({ObjectKey("team", "p")}))
    assert len(plan(a_world(pods(2), a_market(SMALL), limits=(ample,))).orders) == 2


def test_the_higher_priority_is_served_where_not_all_can_be():
    room = LimitRoom("limits.maxNodes is 1", "nodes", 1, frozenset({ObjectKey("team", "p")}))
    low, high = pods(3, "low"), pods(1, "high", priority=1000)
    answer = plan(a_world((*low, *high), a_market(SMALL), limits=(room,)))
    assert [pod.key.name for order in answer.orders for pod in order.pods] == ["high-0"]
    assert len(answer.unserved) == 3


def test_a_lower_priority_fills_the_room_that_is_left():
    room = LimitRoom("limits.maxNodes is 1", "nodes", 1, frozenset({ObjectKey("team", "p")}))
    low, high = pods(3, "low"), pods(1, "high", priority=1000)
    answer = plan(a_world((*low, *high), a_market(LARGE), limits=(room,)))
    assert [len(order.pods) for order in answer.orders] == [2]


def test_a_gang_is_served_whole_or_not_at_all():
    gang = {"tgp.io/gang": "mpi", "tgp.io/gang-size": "3"}
    room = LimitRoom("limits.maxNodes is 2", "nodes", 2, frozenset({ObjectKey("team", "p")}))
    together = pods(3, annotations=gang)
    answer = plan(a_world((*together, a_pod("single")), a_market(SMALL), limits=(room,)))
    assert [pod.key.name for order in answer.orders for pod in order.pods] == ["single"]
    assert len(answer.unserved) == 3
    assert len(plan(a_world(together, a_market(SMALL))).orders) == 3


SPOT = on_sale("spot", 1.0, spot=True)
STEADY = on_sale("steady", 1.05)


def checkpoints(every, name="train", **said):
    return a_pod(name, annotations={"tgp.io/checkpoint-every": every} if every else {}, **said)


@pytest.mark.parametrize(
    ("every", "sku"), [("", "spot"), ("30m", "spot"), ("24h", "steady"), ("9999h", "steady"), ("often", "spot")]
)
def test_work_that_a_spot_machine_would_lose_is_part_of_its_price(every, sku):
    """At a loss of 5 % an hour: 12 hours of work are 60 % of the price."""
    spot_allowed = a_pool(node_class=a_class(instanceRequirements={"spotAllowed": True}))
    answer = plan(a_world([checkpoints(every)], a_market(SPOT, STEADY), spot_allowed))
    assert bought(answer) == {sku: 1}
    assert answer.gap == 0.0
    if sku == "steady":
        (order,) = answer.orders
        assert "/h with the work that is lost with it" in order.compared


def test_a_machine_is_charged_for_the_pod_that_loses_most():
    """Two pods that lose little take spot; with one that loses much beside them, the pair is on-demand."""
    spot_allowed = a_pool(node_class=a_class(instanceRequirements={"spotAllowed": True}))
    market = a_market(on_sale("spot", 1.0, spot=True, gpu_count=2, left=1), on_sale("steady", 1.1, gpu_count=2, left=1))
    little, much = [checkpoints("", f"a{number}") for number in range(2)], checkpoints("24h", "b")
    assert bought(plan(a_world(little, market, spot_allowed))) == {"spot": 1}
    answer = plan(a_world([*little, much], market, spot_allowed))
    (steady,) = [order for order in answer.orders if order.offer.sku == "steady"]
    assert much in steady.pods
    assert broken_rules(a_world([*little, much], market, spot_allowed), answer) == []


def test_the_kinds_of_work_that_are_told_apart_are_few_and_no_pod_is_charged_too_little():
    pods = [checkpoints(f"{2 * hours}h", f"p{hours}") for hours in range(1, 40)]
    world = a_world(pods, a_market(SPOT, STEADY))
    sources = sources_made(world, [], ("pods",))
    assert sources.size == 0
    hours = lost_kinds(pods)
    assert len(hours) == MOST_KINDS
    assert hours[-1] == max(map(lost_hours, pods))


def of_gang(name, *, app="", beside="", gang="mpi", **said):
    affinity = Affinity(near=(PodTerm(HOSTNAME, selector({"app": beside})),)) if beside else Affinity()
    said |= {"annotations": {"tgp.io/gang": gang}} if gang else {}
    return a_pod(name, labels={"app": app} if app else {}, affinity=affinity, **said)


@pytest.mark.parametrize("order", [("w1", "w2", "side"), ("side", "w2", "w1")])
def test_a_gang_is_whole_with_a_pod_that_another_one_has_to_run_beside(order):
    """Together they fit on no machine; neither is the other pod of the gang bought one alone."""
    made = {
        "w1": of_gang("w1"),
        "w2": of_gang("w2", app="w2"),
        "side": of_gang("side", beside="w2", gang="", gpus=2),
    }
    answer = plan(a_world([made[name] for name in order], a_market(SMALL, LARGE)))
    assert (answer.orders, len(answer.unserved)) == ((), 3)
    assert {each.reasons[0].reason for each in answer.unserved} == {"GangNotServed"}


def test_gangs_whose_pods_share_a_machine_are_served_together_or_not_at_all():
    together = [of_gang("a1"), of_gang("a2", app="a2"), of_gang("b1", beside="a2", gang="other", gpus=2)]
    answer = plan(a_world([*together, of_gang("b2", gang="other")], a_market(SMALL, LARGE)))
    assert (answer.orders, len(answer.unserved)) == ((), 4)


def test_near_pods_of_gangs_are_never_served_in_part():
    worlds = [near_gangs(seed) for seed in range(150)]
    answers = [plan(world) for world in worlds]
    assert [wrong for pair in zip(worlds, answers, strict=True) if (wrong := broken_rules(*pair))] == []
    assert sum(bool(each.orders) and bool(each.unserved) for each in answers) > 10


def test_nothing_is_bought_for_a_gang_of_which_a_pod_cannot_be_planned_for():
    world = a_world([of_gang("w1")], a_market(SMALL), held_gangs={"team/mpi": "w2"})
    answer = plan(world)
    assert answer.orders == ()
    (told,) = answer.unserved
    assert (told.reasons[0].reason, "its pod w2 cannot be served" in told.message) == ("GangIncomplete", True)


def test_what_whole_machines_cost_is_proven_not_what_fractions_of_them_would():
    market = a_market(on_sale("eight", 6.36, gpu_count=8, vcpus=64, memory_gib=512))
    answer = plan(a_world(pods(2, gpus=4), market, capacity=(a_node("box", 4),)))
    assert (answer.cost, answer.bound, answer.gap) == (6_360_000, 6_360_000, 0.0)


def test_an_offer_that_is_too_much_for_a_limit_is_no_part_of_the_bound():
    room = LimitRoom("limits.nvidia.com/gpu is 1", "nvidia.com/gpu", 1, frozenset({ObjectKey("team", "p")}))
    answer = plan(a_world(pods(1), a_market(SMALL, on_sale("too-large", 0.5, gpu_count=2)), limits=(room,)))
    assert (bought(answer), answer.bound, answer.gap) == ({"small": 1}, 1_000_000, 0.0)


def test_pods_that_go_on_to_the_next_pool_are_no_part_of_the_first_ones_bound():
    heavy = a_pool("heavy", [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["2"]}], weight=10)
    light = a_pool("light", [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["1"]}])
    market = a_market(SMALL, on_sale("pair", 1.8, gpu_count=2, left=1))
    answer = plan(a_world(pods(3), market, light, heavy))
    assert (answer.cost, answer.bound, answer.gap) == (2_800_000, 2_800_000, 0.0)


def test_where_the_choice_of_pods_decides_what_the_next_pool_pays_the_bound_is_one_without_weights():
    heavy = a_pool("heavy", [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["2"]}], weight=10)
    light = a_pool("light", [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["1"]}])
    market = a_market(SMALL, on_sale("pair", 2.5, gpu_count=2, left=1))
    mixed = (*pods(2), *pods(2, "other", cpu=2000))
    answer = plan(a_world(mixed, market, light, heavy))
    assert (answer.cost, answer.bound, answer.bound_without) == (4_500_000, 4_000_000, ("pool weights",))
    assert answer.gap == pytest.approx(0.125)


def test_pods_that_are_not_served_are_no_part_of_the_gap():
    answer = plan(a_world(pods(5), a_market(on_sale("last", 1.0, left=2))))
    assert len(answer.unserved) == 3
    assert (answer.cost, answer.bound, answer.gap) == (2_000_000, 2_000_000, 0.0)


def test_a_gang_that_is_left_out_is_no_part_of_the_gap():
    gang = pods(3, annotations={"tgp.io/gang": "mpi", "tgp.io/gang-size": "3"})
    answer = plan(a_world((*gang, a_pod("single", cpu=500)), a_market(on_sale("last", 1.0, left=2))))
    assert len(answer.unserved) == 3
    assert (answer.cost, answer.bound, answer.gap) == (1_000_000, 1_000_000, 0.0)


def test_a_gang_waits_for_its_pods():
    gang = {"tgp.io/gang": "mpi", "tgp.io/gang-size": "3"}
    answer = plan(a_world(pods(2, annotations=gang), a_market(SMALL)))
    assert not answer.orders
    assert "2 of 3 pods exist" in answer.unserved[0].message


def test_pods_of_a_gang_that_run_are_not_missing_however_the_gang_is_named():
    gang = {"tgp.io/gang": "k1", "tgp.io/gang-size": "3"}
    runs = a_pod("leader", labels={"leaderworkerset.sigs.k8s.io/group-key": "k1"}, node="box")
    answer = plan(a_world(pods(1, annotations=gang), a_market(SMALL), capacity=(a_node("box", 0, pods=(runs,)),)))
    assert "2 of 3 pods exist" in answer.unserved[0].message
    there = {"gang_members": {"team/k1": frozenset({"uid-leader", "uid-elsewhere"})}}
    world = a_world(pods(1, annotations=gang), a_market(SMALL), capacity=(a_node("box", 0, pods=(runs,)),), **there)
    assert len(plan(world).orders) == 1


def test_a_gang_with_a_size_of_many_digits_is_planned_as_if_it_had_none():
    endless = {"tgp.io/gang": "g", "tgp.io/gang-size": "9" * 5000}
    assert len(plan(a_world(pods(2, annotations=endless), a_market(SMALL))).orders) == 2


def test_a_pods_own_price_holds_until_its_patience_ends():
    cheap = {"tgp.io/max-price": "0.50", "tgp.io/max-wait": "2h"}
    answer = plan(a_world([a_pod(annotations=cheap)], a_market(SMALL)))
    assert not answer.orders
    assert "at most $0.50 per GPU and hour until 2026-11-16 13:55 UTC" in answer.unserved[0].message
    assert "the lowest price now is $1.00" in answer.unserved[0].message
    old = a_pod(annotations=cheap, created_at=NOW - timedelta(hours=3))
    assert plan(a_world([old], a_market(SMALL))).orders


def test_patience_ends_for_each_pod_by_itself():
    """Pods of one template that were created at different times are told apart by that."""
    said = {"tgp.io/max-price": "0.50", "tgp.io/max-wait": "2h"}
    ages = {"first": timedelta(hours=3), "second": timedelta(minutes=90), "third": timedelta(minutes=5)}
    wait = [a_pod(name, annotations=said, created_at=NOW - age) for name, age in ages.items()]
    for some in (wait, wait[::-1]):
        answer = plan(a_world(some, a_market(SMALL)))
        assert [pod.key.name for order in answer.orders for pod in order.pods] == ["first"]
        until = {each.pod.key.name: each.message.partition("until ")[2][:16] for each in answer.unserved}
        assert until == {"second": "2026-11-16 12:30", "third": "2026-11-16 13:55"}


def test_an_order_is_wanted_up_to_the_lowest_own_price_of_its_pods():
    """Though a request may usually pay a little more than was planned."""
    said = [{"tgp.io/max-price": "1.02"}, {"tgp.io/max-price": "1.01"}, {}]
    two = a_market(on_sale("three", 3.0, gpu_count=3, vcpus=24))
    (order,) = plan(a_world([a_pod(f"{n}", annotations=each) for n, each in enumerate(said)], two)).orders
    assert len(order.pods) == 3
    assert order.most_microusd == 3_030_000
    over = {"tgp.io/max-price": "0.50", "tgp.io/max-wait": "1m"}
    (order,) = plan(a_world([a_pod(annotations=over)], a_market(SMALL))).orders
    assert order.most_microusd is None


def test_a_price_that_cannot_be_read_is_absent():
    odd = {"tgp.io/max-price": "cheap", "tgp.io/max-wait": "later"}
    assert plan(a_world([a_pod(annotations=odd)], a_market(SMALL))).orders


def test_pods_that_stay_apart_get_a_machine_each():
    alone = pods(2, labels={"app": "x"}, affinity=apart(HOSTNAME, app="x"))
    assert bought(plan(a_world(alone, a_market(SMALL, LARGE)))) == {"small": 2}


def test_a_running_pod_keeps_others_off_its_node():
    running = a_pod("running", labels={"app": "x"}, affinity=apart(HOSTNAME, app="x"))
    world = a_world(pods(1, labels={"app": "x"}), a_market(SMALL), capacity=(a_node("box", pods=(running,)),))
    assert bought(plan(world)) == {"small": 1}


def test_ports_of_the_host_are_not_shared():
    serving = pods(2, host_ports=(HostPort(8080),))
    assert bought(plan(a_world(serving, a_market(SMALL, LARGE)))) == {"small": 2}


def test_pods_that_stay_together_share_one_machine():
    close = pods(2, labels={"app": "x"}, affinity=near(HOSTNAME, app="x"))
    assert bought(plan(a_world(close, a_market(SMALL, LARGE)))) == {"large": 1}
    answer = plan(a_world(pods(3, labels={"app": "x"}, affinity=near(HOSTNAME, app="x")), a_market(SMALL, LARGE)))
    assert not answer.orders


PRICES = {"a": 1.0, "b": 1.1, "c": 1.2}
THREE_ZONES = a_market(*(on_sale(f"in-{zone}", price, place=zone) for zone, price in PRICES.items()))


def test_a_spread_by_zone_is_even():
    answer = plan(a_world(pods(7, labels={"app": "x"}, spreads=spread(ZONE, app="x")), THREE_ZONES))
    assert zones(answer) == {"a": 3, "b": 2, "c": 2}


def test_the_bound_of_pods_with_a_topology_is_one_without_it():
    answer = plan(a_world(pods(7, labels={"app": "x"}, spreads=spread(ZONE, app="x")), THREE_ZONES))
    assert (answer.cost, answer.bound, answer.bound_without) == (7_600_000, 7_000_000, ("zone topology",))
    assert answer.gap == pytest.approx(0.6 / 7)
    one = a_pod("zonal", labels={"app": "x"}, affinity=apart(ZONE, app="x"))
    among = plan(a_world((*pods(20), one), THREE_ZONES))
    assert (among.gap, among.bound_without) == (0.0, ())


def test_pods_that_share_a_host_leave_the_bound_proven():
    close = pods(2, "close", labels={"app": "x"}, affinity=near(HOSTNAME, app="x"))
    answer = plan(a_world((*pods(2), *close), a_market(SMALL, LARGE)))
    assert (answer.cost, answer.gap, answer.bound_without) == (3_600_000, 0.0, ())


def test_pods_that_only_others_count_are_spread_too_so_that_those_find_a_zone():
    counted = [a_pod(f"counted-{cpu}", cpu=cpu, labels={"app": "x"}) for cpu in range(100, 700, 100)]
    watching = [a_pod(f"watching-{cpu}", cpu=cpu, spreads=spread(ZONE, app="x")) for cpu in range(100, 400, 100)]
    answer = plan(a_world([*counted, *watching], THREE_ZONES))
    assert not answer.unserved
    where = Counter(
        order.offer.place for order in answer.orders for pod in order.pods if pod.key.name.startswith("counted")
    )
    assert where == {"a": 2, "b": 2, "c": 2}


def test_pods_that_stay_together_by_zone_go_to_the_cheapest():
    answer = plan(a_world(pods(3, labels={"app": "x"}, affinity=near(ZONE, app="x")), THREE_ZONES))
    assert zones(answer) == {"a": 3}


def test_pods_that_stay_apart_by_zone_get_a_zone_each():
    answer = plan(a_world(pods(4, labels={"app": "x"}, affinity=apart(ZONE, app="x")), THREE_ZONES))
    assert zones(answer) == {"a": 1, "b": 1, "c": 1}
    assert "pod anti-affinity by topology.kubernetes.io/zone" in answer.unserved[0].message


def test_a_full_node_of_another_zone_holds_the_spread_down():
    home = a_node("box", gpus=0, labels={HOSTNAME: "box", ZONE: "home"})
    world = a_world(pods(7, labels={"app": "x"}, spreads=spread(ZONE, app="x")), THREE_ZONES, capacity=(home,))
    answer = plan(world)
    assert max(zones(answer).values()) == 1
    assert len(answer.unserved) == 7 - len(answer.orders)


def test_a_label_that_no_machine_has():
    answer = plan(a_world(pods(1, labels={"app": "x"}, spreads=spread("rack", app="x")), THREE_ZONES))
    assert "rack: no machine has this label" in answer.unserved[0].message


def test_reasons_name_the_taint_to_tolerate():
    answer = plan(a_world([a_pod(tolerations=())], a_market(SMALL)))
    assert "{key: tgp.io/ephemeral, operator: Exists, effect: NoSchedule}" in said(answer, "train")


def test_reasons_name_what_is_too_small():
    answer = plan(a_world([a_pod(gpus=4)], a_market(SMALL, LARGE)))
    assert "the pod requests 4 nvidia.com/gpu, the largest machine has 2 nvidia.com/gpu" in said(answer, "train")


def test_every_offer_has_one_reason():
    market = a_market(SMALL, LARGE, on_sale("spot", 0.4, spot=True), on_sale("dear", 50.0))
    answer = plan(a_world([a_pod(gpus=4)], market, a_pool(maxHourlyPrice="20")))
    assert "none of 4 offers fits: 2 too small, 1 too expensive, 1 spot is not allowed" in said(answer, "train")


def test_marketplace_hosts_need_the_namespaces_consent():
    host = on_sale("host", 0.1, trust=Trust.VERIFIED)
    anyone = a_class(instanceRequirements={"minTrust": "Verified"})
    tolerates = (*TOLERATES, Toleration(key="tgp.io/untrusted", operator="Exists"))
    pod = a_pod(tolerations=tolerates)
    assert not plan(a_world([pod], a_market(host), a_pool(node_class=anyone))).orders
    open_to = a_pool(node_class=anyone, untrusted=frozenset({"team"}))
    assert plan(a_world([pod], a_market(host), open_to)).orders


def test_the_pool_that_came_nearest_is_named_first_and_those_that_buy_nothing_last():
    room = LimitRoom("GPUNodePool team/z: limits.resources is 1", "nodes", 0, frozenset({ObjectKey("team", "z")}))
    stopped = a_pool("a", stopped="NodeClassSuspended: GPUNodeClass c is suspended")
    answer = plan(
        a_world([a_pod()], a_market(SMALL), stopped, a_pool("m", maxHourlyPrice="0.01"), a_pool("z"), limits=(room,))
    )

    told = [(each.pool.name, each.reason) for each in answer.unserved[0].reasons]
    assert told == [("z", "LimitReached"), ("m", "NoOfferFits"), ("a", "NodeClassSuspended")]


def test_a_pool_that_is_stopped_says_why():
    answer = plan(
        a_world([a_pod()], a_market(SMALL), a_pool(stopped="NodeClassSuspended: GPUNodeClass c is suspended"))
    )
    assert said(answer, "train") == "team/p: GPUNodeClass c is suspended"


def test_no_device_plugin_no_purchase():
    answer = plan(a_world([a_pod()], a_market(SMALL), daemon_sets=()))
    assert not answer.orders
    assert "no GPU device plugin would run there" in said(answer, "train")


def test_an_order_says_why_not_the_next_cheaper_machine():
    answer = plan(a_world([a_pod(gpus=2)], a_market(SMALL, LARGE)))
    order: Order = answer.orders[0]
    assert order.compared == "next cheaper machine: 1x A100-80GB-SXM at $1.00/h from simulated in west-1, too small"


def test_an_order_for_two_pods_says_that_a_cheaper_machine_holds_only_one():
    answer = plan(a_world(pods(2), a_market(SMALL, LARGE)))
    assert answer.orders[0].compared.endswith("in west-1, too small for these 2 pods together")


def test_a_cheaper_machine_is_compared_for_every_pod_of_an_order_not_only_the_first():
    free = a_pod("a", cpu=1000)
    bound = a_pod("b", cpu=2000, node_selector={"tgp.io/region": "eu-west"})
    market = a_market(
        on_sale("near", 1.7, gpu_count=2, vcpus=32, memory_gib=256, region="us-east", place="east"),
        on_sale("bought", 1.8, gpu_count=2, vcpus=32, memory_gib=256, region="eu-west", place="eu"),
    )
    for pair in ((free, bound), (bound, free)):
        (order,) = plan(a_world(pair, market)).orders
        assert len(order.pods) == 2
        assert order.compared.endswith("from simulated in east, not matched by the pod's node selector or affinity")


EQUAL_ZONES = a_market(*(on_sale(f"in-{zone}", 1.0, place=zone) for zone in "abc"))


def prefers(zone: str, weight: int = 10) -> Affinity:
    term = NodeTerm((LabelRequirement(ZONE, "In", (f"simulated-{zone}",)),))
    return Affinity(preferred_nodes=(PreferredNodes(weight, term),))


def test_of_machines_that_cost_the_same_the_preferred_one_is_bought():
    for zone in "abc":
        assert zones(plan(a_world(pods(3, affinity=prefers(zone)), EQUAL_ZONES))) == {zone: 3}


def test_a_preference_never_costs_more():
    answer = plan(a_world(pods(3, affinity=prefers("c", 100)), THREE_ZONES))
    assert zones(answer) == {"a": 3}


def test_a_preference_takes_no_more_than_stock_and_limits_allow():
    market = a_market(on_sale("in-a", 1.0, place="a"), on_sale("in-b", 1.0, place="b", left=1))
    assert zones(plan(a_world(pods(3, affinity=prefers("b")), market))) == {"a": 2, "b": 1}
    limit = LimitRoom("no CPU", "cpu", 3 * 16_000, frozenset({ObjectKey("team", "p")}))
    larger = a_market(on_sale("in-a", 1.0, place="a"), on_sale("in-b", 1.0, place="b", vcpus=32))
    world = a_world(pods(3, affinity=prefers("b")), larger, limits=(limit,))
    assert zones(plan(world)) == {"a": 3}


def test_a_pool_of_less_weight_is_not_preferred():
    first, second = a_pool("p", weight=10), a_pool("q", template={"metadata": {"labels": {"disk": "nvme"}}})
    liked = Affinity(preferred_nodes=(PreferredNodes(9, NodeTerm((LabelRequirement("disk", "Exists", ()),))),))
    answer = plan(a_world(pods(2, affinity=liked), a_market(SMALL), first, second))
    assert {order.pool.name for order in answer.orders} == {"p"}
    equal = plan(a_world(pods(2, affinity=liked), a_market(SMALL), a_pool("p"), second))
    assert {order.pool.name for order in equal.orders} == {"q"}


def test_a_soft_spread_is_even_where_that_costs_nothing():
    soft = tuple(msgspec.structs.replace(each, hard=False) for each in spread(ZONE, app="x"))
    answer = plan(a_world(pods(6, labels={"app": "x"}, spreads=soft), EQUAL_ZONES))
    assert zones(answer) == {"a": 2, "b": 2, "c": 2}
    assert answer.gap is not None
    dearer = plan(a_world(pods(6, labels={"app": "x"}, spreads=soft), THREE_ZONES))
    assert zones(dearer) == {"a": 6}


def test_pods_that_prefer_to_be_together_are_where_that_costs_nothing():
    old = pods(2, "old", labels={"app": "x"})
    running = a_node("box", 0, labels={HOSTNAME: "box", ZONE: "simulated-b"}, pods=old)
    close = Affinity(preferred_pods=(PreferredPods(5, PodTerm(ZONE, selector({"app": "x"}))),))
    world = a_world(pods(2, labels={"app": "x"}, affinity=close), EQUAL_ZONES, capacity=(running,))
    assert zones(plan(world)) == {"b": 2}


def test_a_soft_taint_is_avoided_where_that_costs_nothing():
    soft = {"spec": {"requirements": [], "taints": [{"key": "batch", "effect": "PreferNoSchedule"}]}}
    answer = plan(a_world(pods(2), a_market(SMALL), a_pool("a", template=soft), a_pool("b")))
    assert {order.pool.name for order in answer.orders} == {"b"}


def test_a_spot_machine_is_charged_by_what_was_seen_of_its_kind():
    spot_allowed = a_pool(node_class=a_class(instanceRequirements={"spotAllowed": True}))
    market = a_market(on_sale("spot", 0.98, spot=True), on_sale("fixed", 1.0))
    answer = plan(a_world([a_pod()], market, spot_allowed))
    assert bought(answer) == {"spot": 1}
    assert answer.orders[0].spot_loss == 0.05
    often_lost = {("simulated", "A100-80GB-SXM"): 0.2}
    answer = plan(a_world([a_pod()], market, spot_allowed, spot_loss=often_lost))
    assert bought(answer) == {"fixed": 1}
    assert answer.orders[0].spot_loss == 0


def test_of_two_machines_you_own_the_one_that_wakes_sooner_is_switched_on():
    """Waking is a cost: the same price, and one of them took ten minutes longer."""
    offers = [on_sale(name, 0.20, boot=BootMode.POWER, left=1) for name in ("box-1", "box-2")]
    has = Resources(8_000, 32 << 30, (("nvidia.com/gpu", 1), ("pods", 110)))
    shapes = {each.key: Shape(has, seconds) for each, seconds in zip(offers, (900, 300), strict=True)}
    (order,) = plan(a_world(pods(1), a_market(*offers), a_pool(), shapes=shapes)).orders

    assert order.offer.sku == "box-2"
    assert order.hourly_microusd == 200_000


def test_the_nearest_offer_and_what_most_others_fail_by_are_named():
    wanted = [{"key": "tgp.io/gpu-type", "operator": "In", "values": ["H100"]}]
    offers = [on_sale("dear", 3.0, gpu="H100"), on_sale("dearer", 9.0, gpu="H100")]
    answer = plan(a_world([a_pod()], a_market(*offers, SMALL), a_pool(requirements=wanted, maxHourlyPrice="2.50")))
    (told,) = answer.unserved
    assert told.reasons[0].reason == "NoOfferFits"
    assert "none of 3 offers fits: 1 outside the pool's requirements, 2 too expensive; nearest: 1x " in told.message
