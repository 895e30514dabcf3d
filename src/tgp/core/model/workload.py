"""Objects that tgp only reads: DaemonSets, PodDisruptionBudgets, Namespaces, and objects by their metadata alone."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.labels import NO_LABELS, NOTHING_AT_ALL, Selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import ANYWHERE, Affinity, HostPort
from tgp.core.model.pod import OwnerRef
from tgp.core.model.record import Uid
from tgp.core.model.resources import NOTHING, Resources
from tgp.core.model.taints import Toleration


class Metadata(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An object of which only the metadata is kept: a Secret's contents never enter a store."""

    key: ObjectKey
    uid: Uid = ""
    resource_version: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # only those that tgp reads
    finalizers: tuple[str, ...] = ()
    owners: tuple[OwnerRef, ...] = ()
    unreadable: str = ""

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None


class Namespace(Metadata, frozen=True, gc=False, kw_only=True):
    terminating: bool = False


class DaemonSet(Metadata, frozen=True, gc=False, kw_only=True):
    """Its pod template: whether a pod would run on a future node, and what it would request there."""

    pod_labels: Mapping[str, str] = NO_LABELS
    images: tuple[str, ...] = ()
    requests: Resources = NOTHING
    node_selector: Mapping[str, str] = NO_LABELS
    affinity: Affinity = ANYWHERE
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()


class PodDisruptionBudget(Metadata, frozen=True, gc=False, kw_only=True):
    selector: Selector = NOTHING_AT_ALL
    disruptions_allowed: int = 0
    current: bool = False  # its status describes its current spec
