"""What users and providers may write against all sense: a reason is given, nothing raises, no guess buys anything."""

from collections.abc import Callable

import pytest

from tests.core.pools.planner.plan_checker import broken_rules
from tests.core.pools.planner.properties import wrong_reasons
from tests.core.pools.planner.worlds import (
    GIB,
    GPU,
    HOSTNAME,
    PLUGIN,
    ZONE,
    a_class,
    a_market,
    a_node,
    a_pod,
    a_pool,
    a_world,
    on_sale,
    pods,
    spread,
)
from tgp.core.model.labels import LabelRequirement, Selector, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, HostPort, NodeTerm, PodTerm, SpreadConstraint
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Toleration
from tgp.core.model.workload import DaemonSet
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import LimitRoom, Plan, PlanInput

SMALL = on_sale("small", 1.0)
MARKET = a_market(SMALL)
HUGE = 1 << 63
EVERY_POD = PodTerm(HOSTNAME, Selector())
EXPORTER = DaemonSet(
    key=ObjectKey("kube-system", "exporter"), host_ports=(HostPort(9100),), tolerations=(Toleration(operator="Exists"),)
)


def required(*requirements: LabelRequirement, times: int = 1) -> Affinity:
    return Affinity(node_terms=(NodeTerm(requirements),) * times)


def planned(world: PlanInput) -> Plan:
    answer = plan(world)
    assert broken_rules(world, answer) == []
    assert wrong_reasons(world, answer) == []
    return answer


def contradicting() -> PlanInput:
    rows = [
        {"key": "tgp.io/gpu-type", "operator": "In", "values": ["A100-80GB-SXM"]},
        {"key": "tgp.io/gpu-type", "operator": "NotIn", "values": ["A100-80GB-SXM"]},
    ]
    return a_world(pods(2), MARKET, a_pool("p", rows))


def larger_gang() -> PlanInput:
    gang = {"tgp.io/gang": "g", "tgp.io/gang-size": "2"}
    return a_world(pods(3, annotations=gang), a_market(on_sale("two", 1.0, left=2)))


REFUSED: dict[str, tuple[Callable[[], PlanInput], str]] = {
    "a thousand terms that match nothing": (
        lambda: a_world(pods(2, affinity=required(LabelRequirement("rack", "In", ("7",)), times=1000)), MARKET),
        "not matched by the pod's node selector or affinity",
    ),
    "an operator that does not exist": (
        lambda: a_world(pods(1, affinity=required(LabelRequirement(ZONE, "Near", ("a",)))), MARKET),
        f"machines lack {ZONE} Near (a) of the pod's node selector or affinity",
    ),
    "a term without requirements": (
        lambda: a_world(pods(1, affinity=required()), MARKET),
        "not matched by the pod's node selector or affinity",
    ),
    "more CPU than any number of machines has": (
        lambda: a_world(pods(2, requests=Resources(HUGE, GIB, ((GPU, 1),))), MARKET),
        "too small",
    ),
    "more GPUs than any number of machines has": (
        lambda: a_world(pods(2, requests=Resources(1, 1, ((GPU, HUGE),))), MARKET),
        "too small",
    ),
    "a spread by a label that no Node has": (
        lambda: a_world(pods(2, labels={"app": "x"}, spreads=spread("rack", app="x")), MARKET),
        "rack: no machine has this label",
    ),
    "host port already used by a DaemonSet": (
        lambda: a_world(pods(1, host_ports=(HostPort(9100),)), MARKET, daemon_sets=(PLUGIN, EXPORTER)),
        "host port already used by a DaemonSet",
    ),
    "a claim that does not exist": (
        lambda: a_world(pods(1, volume_claims=("nowhere",)), MARKET),
        "PersistentVolumeClaim nowhere does not exist",
    ),
    "a gang larger than it says, of which all cannot be served": (larger_gang, "served whole or not at all"),
    "a gang whose size is no number": (
        lambda: a_world(
            pods(3, annotations={"tgp.io/gang": "g", "tgp.io/gang-size": "many"}), a_market(on_sale("two", 1.0, left=2))
        ),
        "served whole or not at all",
    ),
    "a pool that contradicts itself": (contradicting, "outside the pool's requirements"),
    "a pool that pays nothing": (
        lambda: a_world(pods(1), MARKET, a_pool(maxHourlyPrice="0")),
        "too expensive",
    ),
    "offers that do not tell their CPU": (
        lambda: a_world(pods(1), a_market(on_sale("a", 1.0, vcpus=0))),
        "the pod requests 1 CPU, which no offer reports",
    ),
    "offers that do not tell their memory": (
        lambda: a_world(pods(1), a_market(on_sale("a", 1.0, memory_gib=0))),
        "the pod requests 1 GiB memory, which no offer reports",
    ),
    "offers without a place, and pods that want one": (
        lambda: a_world(
            pods(1, node_selector={ZONE: "simulated-a"}), a_market(on_sale("a", 1.0, place="", region="unknown"))
        ),
        f"machines lack {ZONE}=simulated-a of the pod's node selector or affinity",
    ),
    "a limit that counts what offers do not tell": (
        lambda: a_world(
            [a_pod(cpu=0)],
            a_market(on_sale("a", 1.0, vcpus=0)),
            limits=(LimitRoom("limits.cpu", "cpu", 1 << 40, frozenset({ObjectKey("team", "p")})),),
        ),
        "a limit counts what the provider does not report",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_bought_and_the_reason_is_given(name: str) -> None:
    world, reason = REFUSED[name][0](), REFUSED[name][1]
    answer = planned(world)
    assert not answer.orders
    assert len(answer.unserved) == len(world.pods)
    for each in answer.unserved:
        assert reason in each.message


def test_a_thousand_anti_affinities_to_every_pod_are_one_machine_each() -> None:
    apart = Affinity(apart=(EVERY_POD,) * 1000)
    assert len(planned(a_world(pods(3, affinity=apart), MARKET)).orders) == 3


def test_a_spread_that_counts_every_pod_keeps_all_apart() -> None:
    """By a selector that matches all of them: kube-scheduler counts none by an empty one."""
    everything = selector({}, (LabelRequirement("unheard-of", "DoesNotExist"),))
    all_apart = pods(3, spreads=(SpreadConstraint(HOSTNAME, everything, 1),))
    assert len(planned(a_world(all_apart, a_market(on_sale("a", 3.0, gpu_count=8)))).orders) == 3


def test_a_spread_of_another_pod_is_not_blamed_for_what_a_pod_asks_itself() -> None:
    """One that counts every pod, by a label that no machine has, or by zone."""
    odd = required(LabelRequirement("rack", "In", ("7",)))
    for key, own in (("rack", "rack: no machine has this label"), (ZONE, "")):
        spreads = a_pod("spreads", labels={"app": "x"}, spreads=spread(key))
        wants = a_pod("wants", labels={"app": "x"}, affinity=odd)
        large = a_pod("large", gpus=64, labels={"app": "x"}, spreads=spread(ZONE))
        answer = planned(a_world([spreads, wants, large, a_pod("plain", labels={"app": "x"})], MARKET))
        said = {each.pod.key.name: each.message for each in answer.unserved}
        assert "machines lack rack=7 of the pod's node selector or affinity" in said["wants"]
        assert "too small" in said["large"]
        assert own in said.get("spreads", "")
        assert "plain" in {pod.key.name for order in answer.orders for pod in order.pods}


def test_pods_that_request_nothing_fit_where_there_is_a_slot() -> None:
    nothing = pods(3, requests=Resources(0, 0, ((GPU, 0),)))
    answer = planned(a_world(nothing, MARKET, capacity=(a_node("box"),)))
    assert set(answer.placed.values()) == {"box"}


def test_a_port_that_only_a_daemon_set_elsewhere_takes_is_free() -> None:
    elsewhere = DaemonSet(
        key=ObjectKey("kube-system", "exporter"), host_ports=(HostPort(9100),), node_selector={"rack": "7"}
    )
    world = a_world(pods(1, host_ports=(HostPort(9100),)), MARKET, daemon_sets=(PLUGIN, elsewhere))
    assert len(planned(world).orders) == 1


def test_a_gang_larger_than_it_says_is_served_whole() -> None:
    gang = {"tgp.io/gang": "g", "tgp.io/gang-size": "2"}
    assert len(planned(a_world(pods(3, annotations=gang), MARKET)).orders) == 3


def test_pools_that_weigh_the_same_do_not_buy_twice() -> None:
    answer = planned(a_world(pods(3), MARKET, a_pool("p", weight=5), a_pool("q", weight=5)))
    assert len(answer.orders) == 3


def test_pools_of_one_class_with_opposite_ceilings_keep_their_own() -> None:
    shared = a_class()
    low, high = a_pool("low", node_class=shared, maxHourlyPrice="0.5"), a_pool("high", node_class=shared)
    answer = planned(a_world(pods(2), MARKET, low, high))
    assert {order.pool.name for order in answer.orders} == {"high"}
    reasons = planned(a_world(pods(1, gpus=2), MARKET, low, high)).unserved[0].reasons
    said = {each.pool.name: each.message for each in reasons}
    assert "too expensive" in said["low"]
    assert "too small" in said["high"]


def test_offers_without_a_place_serve_pods_that_ask_for_none() -> None:
    answer = planned(a_world(pods(2), a_market(on_sale("a", 1.0, place="", region="unknown"))))
    assert len(answer.orders) == 2
