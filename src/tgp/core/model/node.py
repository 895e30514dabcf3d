"""A Node as far as we look at it: what it offers, what keeps pods off it, whether it is ready, whose it is."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.amounts import NOTHING, Amounts
from tgp.core.model.key import Key
from tgp.core.model.labels import NO_LABELS
from tgp.core.model.record import Uid
from tgp.core.model.taints import Taint


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    key: Key
    uid: Uid = ""
    resource_version: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # only those somebody here reads
    finalizers: tuple[str, ...] = ()

    provider_id: str = ""
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()

    capacity: Amounts = NOTHING
    allocatable: Amounts = NOTHING
    ready: bool | None = None  # None: unknown, its kubelet is silent or has never spoken
    ready_since: datetime | None = None  # when `ready` became what it is
    ready_reason: str = ""
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
        """Nothing that is looked at here has changed: a kubelet says every few minutes that all is as it was."""
        return before is not None and msgspec.structs.replace(before, resource_version=self.resource_version) == self
