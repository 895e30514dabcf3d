"""Nodes."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.adapters.kube.records.meta import MetaWire, ObjectMetaReader, PartialObject
from tgp.api.quantity import Written
from tgp.core.model.node import Node, NodeCondition
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.resources import read_resources
from tgp.core.model.taints import Taint


class _SpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class _ConditionWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: datetime | None = None


class _AddressWire(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    address: str = ""


class _InfoWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kubelet_version: str = ""
    os_image: str = ""
    architecture: str = ""


class _StatusWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    capacity: dict[str, Written] | None = None
    allocatable: dict[str, Written] | None = None
    conditions: tuple[_ConditionWire, ...] | None = None
    addresses: tuple[_AddressWire, ...] | None = None
    node_info: _InfoWire = _InfoWire()


class NodeWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class NodeReader:
    wire = NodeWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: NodeWire, known: Mapping[ObjectKey, Node]) -> Node:
        spec, status = wire.spec, wire.status
        ready = next(
            (condition for condition in status.conditions or () if condition.type == "Ready"), _ConditionWire()
        )
        return Node(
            **self._plates.fields(wire.metadata, known),
            provider_id=spec.provider_id,
            cordoned=spec.unschedulable,
            taints=spec.taints or (),
            capacity=read_resources(status.capacity or {}),
            allocatable=read_resources(status.allocatable or {}),
            ready={"True": True, "False": False}.get(ready.status),
            ready_since=ready.last_transition_time,
            ready_reason=ready.reason or "",
            conditions=tuple(
                NodeCondition(each.type, each.status, each.last_transition_time)
                for each in status.conditions or ()
                if each.type != "Ready"
            ),
            addresses=tuple((address.type, address.address) for address in status.addresses or ()),
            kubelet_version=status.node_info.kubelet_version,
            os_image=status.node_info.os_image,
            architecture=status.node_info.architecture,
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Node]) -> Node:
        return Node(**self._plates.bare(found, known))
