"""The fields of a Node that tgp reads: its resources, its taints, whether it is ready, which request it belongs to."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.labels import NO_LABELS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import Uid
from tgp.core.model.resources import NOTHING, Resources
from tgp.core.model.taints import Taint

# Marks of ours on a Node.
REQUEST_UID = "tgp.io/request-uid"  # a label: of the request whose machine it is
OFF_SINCE = "tgp.io/off-since"  # an annotation of a machine you own: when its last request was over


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    since: datetime | None = None  # when the status became what it is


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    key: ObjectKey
    uid: Uid = ""
    resource_version: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # only those that tgp reads
    finalizers: tuple[str, ...] = ()

    provider_id: str = ""
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()

    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    ready: bool | None = None  # None: unknown, its kubelet does not report or never did
    ready_since: datetime | None = None  # when `ready` became what it is
    ready_reason: str = ""
    conditions: tuple[NodeCondition, ...] = ()  # besides Ready
    addresses: tuple[tuple[str, str], ...] = ()  # (type, address), as reported
    kubelet_version: str = ""
    os_image: str = ""
    architecture: str = ""
    unreadable: str = ""  # why only the metadata could be read; empty: all of it was

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None

    @property
    def name(self) -> str:
        return self.key.name

    def repeats(self, before: "Node | None") -> bool:
        """Whether no field that tgp reads has changed: kubelets update their Nodes every few minutes."""
        return before is not None and msgspec.structs.replace(before, resource_version=self.resource_version) == self
