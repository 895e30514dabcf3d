"""Pods are nominated to the Node that was bought for them, where another pod could take its room at another price."""

from dataclasses import replace

import msgspec
import pytest

from tests.core.pools.builders import GIB, GPU, NOW, a_node, a_pod, a_request, an_attempt
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, NodeTerm
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint
from tgp.core.pools.nominations import (
    PricedRoom,
    node_of,
    nominations,
    supports_nominations,
)
from tgp.core.pools.planner.world import Capacity
from tgp.core.requests.own_node import is_own_node, reserved_node_name

LARGE = Affinity((NodeTerm((LabelRequirement("tgp.io/gpu-memory", "Gt", ("60",)),)),))
ANY, PICKY = a_pod("any"), a_pod("picky", affinity=LARGE)


def a_machine(name: str, memory: int, dollars: float, *pods: str, gpus: int = 1, **changes) -> PricedRoom:
    """On its way, with a Node that is its own unless `changes` say otherwise."""
    request = a_request(name, anchor=pods[0] if pods else "", attempts=[an_attempt(token=f"token-{name}")])
    free = Resources(8000, 32 * GIB, ((GPU, gpus), ("pods", 110)))
    room = Capacity(str(request.key), free, {"tgp.io/gpu-memory": str(memory)}, coming=request.key)
    usual = {"labels": {"tgp.io/request-uid": request.uid_text}, "provider_id": f"tgp://simulated/token-{name}"}
    node = a_node(reserved_node_name(request), gpus=0, ready=False, **{**usual, **changes})
    return PricedRoom(room, int(dollars * 1_000_000), request, node, pods)


def named(pods, *machines, nodes=("another",)):
    names = {*nodes, *(each.node.name for each in machines if each.node is not None)}
    return [(each.pod.key.name, each.request.key.name) for each in nominations(pods, machines, names)]


CHEAP = a_machine("cheap", 24, 0.3, "uid-any")
EXPENSIVE = a_machine("expensive", 80, 1.6, "uid-picky")


def test_the_pod_that_needs_the_machine_is_nominated_where_another_could_take_it():
    (found,) = nominations([ANY, PICKY], [CHEAP, EXPENSIVE], ())

    assert (found.pod, found.node) == (PICKY, node_of(EXPENSIVE))
    assert found.node.startswith("expensive-")


def test_equal_prices_none():
    assert named([ANY, PICKY], CHEAP, replace(EXPENSIVE, hourly_microusd=CHEAP.hourly_microusd)) == []


def test_pods_that_cannot_take_each_others_machine_are_left_to_the_scheduler():
    small = a_pod("any", affinity=Affinity((NodeTerm((LabelRequirement("tgp.io/gpu-memory", "Lt", ("60",)),)),)))

    assert named([small, PICKY], CHEAP, EXPENSIVE) == []


def test_pods_alike_may_change_places():
    twin = a_pod("twin")

    assert named([ANY, twin], CHEAP, a_machine("dear", 80, 1.6, "uid-twin")) == []


def test_a_pod_that_does_not_tolerate_the_machine_does_not_compete_for_it():
    tainted = replace(EXPENSIVE, room=replace(EXPENSIVE.room, taints=(Taint("team", "NoSchedule", "a"),)))

    assert named([ANY, PICKY], CHEAP, tainted) == []


def test_a_pod_that_asks_for_more_than_the_machine_has_does_not_compete_for_it():
    assert named([a_pod("any", gpus=2), PICKY], a_machine("cheap", 24, 0.3, "uid-any", gpus=2), EXPENSIVE) == []


def test_room_on_a_ready_node_counts_as_a_machine():
    ready = PricedRoom(replace(CHEAP.room, name="own", coming=None))

    assert named([ANY, PICKY], ready, EXPENSIVE) == [("picky", "expensive")]
    assert named([ANY, PICKY], EXPENSIVE) == []  # nothing else could serve the other pod


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("picky", affinity=LARGE, node="n1", unplaced_reason=""),
        a_pod("picky", affinity=LARGE, deletion_requested_at=NOW),
        a_pod("picky", affinity=LARGE, unplaced_reason=""),
        a_pod("picky", affinity=LARGE, phase="Failed"),
        a_pod("picky", affinity=LARGE, nominated_node="another"),
        a_pod("picky", affinity=LARGE, nominated_node=node_of(EXPENSIVE)),
        a_pod("picky", affinity=LARGE, uid="uid-created-again"),
    ],
    ids=["bound", "deleting", "not looked at", "finished", "nominated elsewhere", "nominated", "another pod"],
)
def test_a_pod_that_needs_no_nomination_gets_none(pod):
    assert named([ANY, pod], CHEAP, EXPENSIVE) == []


def test_a_nomination_to_a_node_that_is_gone_counts_as_none():
    pod = a_pod("picky", affinity=LARGE, nominated_node="another")

    assert named([ANY, pod], CHEAP, EXPENSIVE, nodes=()) == [("picky", "expensive")]


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {}},
        {"labels": {"tgp.io/request-uid": "request-of-others"}},
        {"provider_id": ""},
        {"provider_id": "tgp://simulated/token-of-others"},
        {"key": ObjectKey("", "control-plane")},
        {"deletion_requested_at": NOW},
        {"unreadable": "status: not an object"},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_node_that_is_not_ours_is_never_nominated(changes):
    machine = a_machine("expensive", 80, 1.6, "uid-picky", **changes)

    assert named([ANY, PICKY], CHEAP, machine) == []
    assert node_of(machine) == ""


def test_a_machine_without_a_node_or_without_an_order_is_not_nominated_yet():
    assert named([ANY, PICKY], CHEAP, replace(EXPENSIVE, node=None)) == []
    request = a_request("expensive")
    assert reserved_node_name(request) == ""
    assert not is_own_node(request, EXPENSIVE.node)


def test_no_more_pods_are_nominated_than_have_room():
    second, third = (msgspec.structs.replace(PICKY, key=ObjectKey("default", name), uid=f"uid-{name}") for name in "bc")
    machine = a_machine("expensive", 80, 1.6, "uid-picky", "uid-b", "uid-c", gpus=2)

    assert named([ANY, PICKY, second, third], CHEAP, machine) == [("picky", "expensive"), ("b", "expensive")]
    there = msgspec.structs.replace(PICKY, nominated_node=node_of(machine))
    assert named([ANY, there, second, third], CHEAP, machine) == [("b", "expensive")]


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("v1.36.3", True),
        ("v1.35.0-gke.1200", True),
        ("v1.35+", True),
        ("v1.34.9", False),
        ("v1.29.1", False),
        ("v2.40.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_older_schedulers_are_told_nothing(version, supported):
    assert supports_nominations(version) is supported
