"""Which machines you own a pool requests without a pod: those found on, and those of an open window."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.core.pools.builders import a_pool, a_request, an_attempt
from tests.core.power.test_times import MORNINGS, NOON, a_box, a_node
from tgp.core.model.attempts import TAKES_OVER
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.pod import RUNNING, Pod
from tgp.core.model.taints import Toleration
from tgp.core.power.orders import OwnedMachine, PowerObservation, look_again_at, machine_named_by, next_orders

KEY = ObjectKey("ml", "pool")


def an_offer(stock: Stock = Stock.NONE, price: int = 2) -> Offer:
    return Offer(
        provider="webhook",
        sku="box-1",
        place="owned",
        gpu="RTX4090",
        gpu_count=2,
        gpu_memory_gib=24,
        vcpus=8,
        memory_gib=64,
        disk_gib=0,
        hourly_microusd=price,
        stock=stock,
        boot=BootMode.POWER,
    )


FOUND_ON = OwnedMachine(a_box(), a_node(ready=True), an_offer(), "webhook#1")
KEPT_ON = OwnedMachine(a_box(keep_on=MORNINGS), a_node(), an_offer(Stock.CONFIRMED), "webhook#1")


def orders(*machines: OwnedMachine, **pool: Any) -> list[tuple[str, bool]]:
    """(machine, whether it is taken over) of each order."""
    found = next_orders(PowerObservation(KEY, a_pool(**pool).value, NOON, machines))
    return [(each.order.offer.sku, TAKES_OVER in each.marks) for each in found]


def test_a_machine_that_is_on_without_a_request_is_taken_over():
    assert orders(FOUND_ON) == [("box-1", True)]


@pytest.mark.parametrize("taints", ["taints", "startupTaints"])
def test_a_machine_is_left_alone_whose_pods_a_taint_of_the_pool_would_evict(taints):
    template = {"spec": {taints: [{"key": "ours", "effect": "NoExecute"}]}}
    runs, tolerates = (
        Pod(key=ObjectKey("ml", "web"), phase=RUNNING, node="box-1", tolerations=each)
        for each in ((), (Toleration("ours", "Exists"),))
    )

    assert orders(replace(FOUND_ON, pods=(runs,)), template=template) == []
    assert orders(replace(FOUND_ON, pods=(tolerates,)), template=template) == [("box-1", True)]
    assert orders(replace(FOUND_ON, pods=(runs,))) == [("box-1", True)]


def test_a_machine_is_kept_on_while_its_window_is_open():
    assert orders(KEPT_ON) == [("box-1", False)]


NOTHING = {
    "a request for it lives": replace(FOUND_ON, requested=True),
    "its status says off": replace(FOUND_ON, offer=an_offer(Stock.CONFIRMED)),
    "it is not listed": replace(FOUND_ON, offer=None),
    "its power API is silent": replace(FOUND_ON, problem="no answer"),
    "it failed just now": replace(FOUND_ON, cools_down_until=NOON.replace(hour=13)),
    "it was switched off just now": replace(FOUND_ON, node=a_node("2026-11-16T11:59:30Z", ready=True)),
    "it is off": replace(FOUND_ON, node=a_node()),
    "its window is closed": replace(KEPT_ON, machine=a_box()),
    "its window is open, and a request lives": replace(KEPT_ON, requested=True),
    "its window is open, and its power API is silent": replace(KEPT_ON, problem="no answer"),
    "its window is open, and it was switched off just now": replace(KEPT_ON, node=a_node("2026-11-16T11:59:30Z")),
}


@pytest.mark.parametrize("machine", NOTHING.values(), ids=NOTHING)
def test_nothing_is_requested_where(machine):
    assert orders(machine) == []


def test_a_pool_requests_only_what_it_may_have():
    only_h100 = {"spec": {"requirements": [{"key": "tgp.io/gpu-type", "operator": "In", "values": ["H100"]}]}}

    assert orders(FOUND_ON, template=only_h100) == []
    assert orders(replace(FOUND_ON, offer=an_offer(price=500_000)), maxHourlyPrice="0.10") == []


def test_a_pool_looks_again_when_a_window_opens_or_closes_and_a_pause_ends():
    def look(*machines: OwnedMachine) -> Any:
        return look_again_at(PowerObservation(KEY, a_pool().value, NOON, machines))

    assert look(FOUND_ON) is None
    assert look(KEPT_ON) == NOON.replace(hour=13)
    assert look(KEPT_ON, replace(FOUND_ON, cools_down_until=NOON.replace(minute=5))) == NOON.replace(minute=5)
    assert look(replace(FOUND_ON, node=a_node("2026-11-16T11:59:30Z"))) == NOON.replace(second=30)


def test_a_request_has_a_machine_you_own_once_a_pool_orders_it_or_it_has_reserved_it():
    pin = {"offer": {"provider": "webhook", "instanceType": "box-1"}}
    ordered = a_request(spec=pin)
    waits = msgspec.structs.replace(ordered, owners=())
    offer = {**an_attempt()["offer"], "provider": "webhook", "instanceType": "box-1", "bootMode": "power"}
    bought = msgspec.structs.replace(a_request(spec={"offer": None}, attempts=[an_attempt(offer=offer)]), owners=())

    assert machine_named_by(ordered) == machine_named_by(bought) == "box-1"
    assert machine_named_by(waits) == "", "a user's request that may never buy keeps no machine on"


def test_an_instance_type_of_a_cloud_is_no_machine_you_own():
    offer = {"provider": "simulated", "instanceType": "box-1"}

    assert machine_named_by(a_request(spec={"offer": offer})) == ""
    assert machine_named_by(a_request(attempts=[an_attempt()], nodeName="box-1")) == ""
