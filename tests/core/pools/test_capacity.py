"""Room that is paid for: what no pod has taken on a Node, and what a machine on its way promises."""

from datetime import timedelta

import msgspec
import pytest

from tests.core.pools.builders import GIB, GPU, NOW, a_condition, a_node, a_pool, a_request, an_offer, on_node
from tgp.core.model.resources import Resources
from tgp.core.pools.capacity import (
    coming_capacity,
    drained_capacity,
    living,
    node_capacity,
    on_its_way,
    serves,
    stays_if_needed,
)
from tgp.core.pools.planner.world import Shape
from tgp.core.requests.drain import DISRUPTED


def free_on(node, *pods):
    return node_capacity(node, pods, NOW)[0].free


def test_room_is_what_is_allocatable_less_what_pods_request():
    free = free_on(a_node(), on_node("a"), on_node("b", gpus=2), on_node("done", phase="Succeeded"))

    assert (free.cpu_milli, free.memory_bytes) == (6000, 30 * GIB)
    assert (free.of(GPU), free.of("pods")) == (1, 108)


def test_a_machine_that_leaves_because_no_pod_uses_it_has_room_until_its_request_is_deleted():
    node, idle = a_node(taints=(DISRUPTED,)), [a_condition("Disrupted", "True", "Empty", NOW)]
    assert stays_if_needed(node, [a_request(conditions=idle)])
    room, _ = drained_capacity(node, [on_node(gpus=0)], NOW)
    assert (room.taints, room.free.of(GPU), room.drains) == ((), 4, True)

    deleted = msgspec.structs.replace(a_request(conditions=idle), deletion_requested_at=NOW)
    assert not stays_if_needed(node, [deleted])
    assert not stays_if_needed(node, [a_request(conditions=[a_condition("Disrupted", "True", "Drifted", NOW)])])
    ending = [*idle, a_condition("Terminating", "True", "Lost", NOW)]
    assert not stays_if_needed(node, [a_request(conditions=ending)])
    assert not stays_if_needed(msgspec.structs.replace(node, ready=False), [a_request(conditions=idle)])
    assert not stays_if_needed(msgspec.structs.replace(node, cordoned=True), [a_request(conditions=idle)])


def test_room_is_never_below_zero():
    assert free_on(a_node(gpus=1), on_node(gpus=4)).of(GPU) == 0


def test_what_leaves_soon_has_left_until_its_deadline_has_passed():
    """A Deployment that replaces its pod must not buy a second machine for the half minute in between."""
    leaving = on_node(deletion_requested_at=NOW + timedelta(seconds=20))
    room, until = node_capacity(a_node(), [leaving], NOW)

    assert room.free.of(GPU) == 4
    assert until == NOW + timedelta(seconds=50)
    assert node_capacity(a_node(), [leaving], until)[0].free.of(GPU) == 3
    late = on_node(deletion_requested_at=NOW + timedelta(hours=1))
    assert free_on(a_node(), late).of(GPU) == 3


@pytest.mark.parametrize(
    "change",
    [{"ready": False}, {"ready": None}, {"cordoned": True}, {"deletion_requested_at": NOW}, {"taints": (DISRUPTED,)}],
)
def test_a_node_that_takes_no_pods_has_no_room(change):
    assert serves(a_node())
    assert not serves(a_node(**change))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, True),
        ({"phase": "Joining"}, True),
        ({"phase": "Failed"}, False),
        ({"conditions": [a_condition("Initialized")]}, False),
        ({"conditions": [a_condition("Initialized", "False")]}, True),
        ({"conditions": [a_condition("Terminating")]}, False),
        ({"conditions": [a_condition("Disrupted")]}, False),
    ],
)
def test_a_machine_is_on_its_way_until_it_is_initialised_or_ends(status, expected):
    assert on_its_way(a_request(**status)) is expected


def test_what_has_ended_does_not_live():
    assert living(a_request(phase="Pending"))
    assert not living(a_request(phase="Failed"))


def test_a_machine_on_its_way_promises_what_its_offer_does():
    pool = a_pool(
        template={
            "metadata": {"labels": {"team": "vision"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        }
    )
    room = coming_capacity(a_request(), an_offer(gpu_count=2), pool.value)

    assert (room.free.cpu_milli, room.free.memory_bytes) == (3800, int(16 * GIB * 0.925))
    assert (room.free.of(GPU), room.free.of("pods")) == (2, 110)
    assert room.labels["tgp.io/nodepool"] == "train"
    assert room.labels["team"] == "vision"
    assert {taint.key for taint in room.taints} == {"tgp.io/ephemeral", "x"}
    assert room.coming == a_request().key


def test_what_machines_of_a_type_really_had_counts_more():
    offer = an_offer()
    shape = Shape(Resources(3500, 14 * GIB, ((GPU, 1),)))

    assert coming_capacity(a_request(), offer, shapes={offer.key: shape}).free == shape.allocatable
