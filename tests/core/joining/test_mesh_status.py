"""Connected, or what is missing, with what to do about it."""

import pytest

from tgp.core.joining.mesh.status import mesh_status_of, own_address
from tgp.core.model.mesh import TAILNET, Device, MeshStatus
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey

IN, OUT = "100.101.7.9", "10.0.0.5"


def a_node(*addresses: str) -> Node:
    return Node(key=ObjectKey("", "train-1"), ready=True, addresses=tuple(("InternalIP", each) for each in addresses))


def a_device(*addresses: str) -> Device:
    return Device("n1", "train-1", "train-1.tail.ts.net", addresses or (IN,))


def stand(node: Node | None, device: Device | None, *, devices: bool = True) -> MeshStatus:
    return mesh_status_of("tailnet", "train-1", node, device, ranges=TAILNET, has_devices=devices)


@pytest.mark.parametrize(
    ("node", "device", "reason", "says"),
    [
        (None, None, "DeviceMissing", "does not list train-1 yet"),
        (None, a_device(), "NodeMissing", "as 100.101.7.9; no Node registered yet"),
        (a_node(), a_device(), "NoAddress", "reports no InternalIP yet"),
        (a_node(OUT), a_device(), "WrongAddress", "registered with 10.0.0.5, not with an address of the tailnet"),
        (a_node(IN), None, "DeviceUnknown", "does not list train-1"),
        (a_node("100.64.0.1"), a_device(), "WrongAddress", "has 100.64.0.1, but train-1 is 100.101.7.9"),
        (a_node("not an address"), a_device(), "WrongAddress", "registered with not an address"),
    ],
)
def test_what_is_missing_is_named(node: Node | None, device: Device | None, reason: str, says: str):
    found = stand(node, device)
    assert found.ok is False
    assert found.reason == reason
    assert says in found.message


def test_a_node_on_the_meshs_address_that_the_mesh_knows_is_connected():
    found = stand(a_node(OUT, IN), a_device())
    assert found == MeshStatus(
        True, "Connected", "Machine train-1.tail.ts.net is 100.101.7.9 in the tailnet", "train-1.tail.ts.net", IN
    )


def test_a_mesh_without_a_list_is_judged_by_the_address_alone():
    assert stand(None, None, devices=False).reason == "NotJoined"
    assert stand(a_node(IN), None, devices=False).ok is True
    assert stand(a_node(OUT), None, devices=False).reason == "WrongAddress"


def test_an_address_given_beforehand_is_the_only_right_one():
    tunnel = own_address("10.8.0.7/24")
    near = mesh_status_of("tunnel", "t", a_node("10.8.0.8"), None, ranges=tunnel, has_devices=False)
    assert near.reason == "WrongAddress"
    assert mesh_status_of("tunnel", "t", a_node("10.8.0.7"), None, ranges=tunnel, has_devices=False).ok
