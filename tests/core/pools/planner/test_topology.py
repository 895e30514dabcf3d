"""Affinity and spread as kube-scheduler reads them: where it would refuse a pod, nothing is planned for it.

`tests/controlplane/test_scheduler_judge.py` lets kube-scheduler itself judge random clusters; these are what it taught.
"""

from tests.core.pools.planner.worlds import (
    HOSTNAME,
    ZONE,
    a_market,
    a_node,
    a_pod,
    a_world,
    near,
    on_sale,
    pods,
    spread,
)
from tgp.core.model.labels import selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, PodTerm, SpreadConstraint
from tgp.core.model.taints import Taint
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import LimitRoom, Plan

RACK = "rack"
THREE_ZONES = a_market(*(on_sale(f"in-{zone}", 1.0 + at / 10, place=zone) for at, zone in enumerate("abc")))
NOTHING_ON_SALE = a_market()


def in_zone(name: str, zone: str, *running: str, **said):
    """`running`: values of the label app of the pods there."""
    there = tuple(a_pod(f"{name}-{at}", labels={"app": app}) for at, app in enumerate(running))
    return a_node(name, pods=there, **{"labels": {HOSTNAME: name, ZONE: zone}} | said)


def placed(answer: Plan) -> list[str]:
    return sorted(answer.placed.values())


def looking_for(*terms: tuple[str, dict[str, str]]) -> Affinity:
    return Affinity(near=tuple(PodTerm(key, selector(labels)) for key, labels in terms))


def test_a_pod_that_is_looked_for_matches_all_terms_and_not_one_of_them() -> None:
    both = looking_for((ZONE, {"app": "x"}), (ZONE, {"tier": "db"}))
    seeker = a_pod(affinity=both)
    apart = [
        a_node("one", pods=(a_pod("x", labels={"app": "x"}),), labels={HOSTNAME: "one", ZONE: "a"}),
        a_node("two", pods=(a_pod("db", labels={"tier": "db"}),), labels={HOSTNAME: "two", ZONE: "a"}),
    ]
    answer = plan(a_world([seeker], THREE_ZONES, capacity=tuple(apart)))
    assert (answer.placed, answer.orders) == ({}, ())
    assert "no pod matches its pod affinity by topology.kubernetes.io/zone" in answer.unserved[0].message

    whole = a_node("both", pods=(a_pod("b", labels={"app": "x", "tier": "db"}),), labels={HOSTNAME: "both", ZONE: "b"})
    assert placed(plan(a_world([seeker], THREE_ZONES, capacity=(*apart, whole)))) == ["both"]


def test_a_pod_that_matches_all_its_terms_is_first_though_others_match_one() -> None:
    both = looking_for((HOSTNAME, {"app": "x"}), (ZONE, {"tier": "db"}))
    first = a_pod(labels={"app": "x", "tier": "db"}, affinity=both)
    there = (in_zone("one", "a", "x", gpus=0), in_zone("two", "b"))
    assert placed(plan(a_world([first], NOTHING_ON_SALE, capacity=there))) == ["two"]


def test_a_group_is_planned_where_the_others_are_that_belong_to_it() -> None:
    """Whichever of them is bound first: the scheduler then wants the group there."""
    group = a_pod("group", labels={"app": "x"}, affinity=near(ZONE, app="x"))
    pinned = a_pod("other", labels={"app": "x"}, node_selector={ZONE: "simulated-b"})
    answer = plan(a_world([group, pinned], THREE_ZONES))
    assert {order.offer.place for order in answer.orders} == {"b"}
    assert not answer.unserved


def test_a_group_by_hostname_shares_the_machine_of_another_that_belongs_to_it() -> None:
    group = pods(2, "group", labels={"app": "x"}, affinity=near(HOSTNAME, app="x"))
    other = a_pod("other", labels={"app": "x"})
    market = a_market(on_sale("one", 1.0), on_sale("two", 1.9, gpu_count=2), on_sale("four", 4.0, gpu_count=4))
    assert [order.offer.sku for order in plan(a_world([*group, other], market)).orders] == ["four"]


def test_nothing_is_bought_for_a_pod_that_looks_for_one_that_is_not_served() -> None:
    seeker = a_pod("seeker", priority=7, affinity=near(ZONE, app="x"))
    one_machine = LimitRoom("limits.nodes is 1", "nodes", 1, frozenset({ObjectKey("team", "p")}))
    answer = plan(a_world([seeker, a_pod("sought", labels={"app": "x"})], THREE_ZONES, limits=(one_machine,)))
    assert [pod.key.name for order in answer.orders for pod in order.pods] == ["sought"]
    assert answer.unserved[0].message == (
        "no pod that is served matches its pod affinity by topology.kubernetes.io/zone"
    )


def test_pods_that_stay_together_keep_their_spread() -> None:
    close = {"labels": {"app": "x"}, "affinity": near(ZONE, app="x"), "spreads": spread(ZONE, skew=2, app="x")}
    zones = (in_zone("one", "a", gpus=9), in_zone("two", "b", gpus=9))
    answer = plan(a_world(pods(3, **close), NOTHING_ON_SALE, capacity=zones))
    assert (len(answer.placed), len(set(answer.placed.values()))) == (2, 1)
    assert "topology spread by topology.kubernetes.io/zone" in answer.unserved[0].message


def test_a_spread_looks_only_at_nodes_with_the_labels_of_all_spreads_of_the_pod() -> None:
    both = (*spread(ZONE, app="x"), *spread(RACK, app="x"))
    racked = {"labels": {HOSTNAME: "one", ZONE: "a", RACK: "1"}}
    there = (in_zone("one", "a", "x", gpus=2, **racked), in_zone("no-rack", "b"))
    assert placed(plan(a_world(pods(1, labels={"app": "x"}, spreads=both), NOTHING_ON_SALE, capacity=there))) == ["one"]


def test_a_spread_that_honours_taints_counts_no_pods_on_tainted_nodes() -> None:
    honours = (SpreadConstraint(ZONE, selector({"app": "x"}), 1, honors_taints=True),)
    tainted = in_zone("tainted", "a", "x", "x", taints=(Taint("team", "NoSchedule"),))
    there = (tainted, in_zone("one", "a"), in_zone("two", "b", "x", gpus=0))
    assert placed(plan(a_world(pods(1, labels={"app": "x"}, spreads=honours), NOTHING_ON_SALE, capacity=there))) == [
        "one"
    ]


def test_an_empty_selector_of_a_spread_counts_no_pods() -> None:
    there = (in_zone("one", "a", "x", "y", gpus=9), in_zone("two", "b", gpus=0))
    for key in (ZONE, HOSTNAME):
        answer = plan(a_world(pods(3, spreads=spread(key)), NOTHING_ON_SALE, capacity=there))
        assert placed(answer) == ["one"] * 3, key


def test_each_unit_goes_where_the_scheduler_lets_it_after_those_before_it() -> None:
    """That a zone has fewer of the pods which another pod's spread counts does not draw it there."""
    counted = tuple(a_pod(f"counted-{at}", labels={"also": "y"}) for at in range(3))
    there = (in_zone("one", "a", "x", gpus=9), a_node("two", 9, pods=counted, labels={HOSTNAME: "two", ZONE: "b"}))
    spreading = a_pod("spreading", labels={"app": "x", "also": "y"}, spreads=spread(ZONE, app="x"))
    watching = a_pod("watching", spreads=spread(ZONE, also="y"))
    answer = plan(a_world([spreading, watching], NOTHING_ON_SALE, capacity=there))
    assert answer.placed == {"uid-spreading": "two", "uid-watching": "one"}
