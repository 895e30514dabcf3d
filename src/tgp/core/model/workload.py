"""The neighbours we only look at: DaemonSets, PodDisruptionBudgets, Namespaces, and objects by their metadata alone."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.amounts import NOTHING, Amounts
from tgp.core.model.key import Key
from tgp.core.model.labels import NO_LABELS, NOTHING_AT_ALL, Selector
from tgp.core.model.placement import ANYWHERE, Affinity
from tgp.core.model.pod import Owner
from tgp.core.model.record import Uid
from tgp.core.model.taints import Toleration


class Metadata(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An object of which we hold the name plate only: a Secret's contents never enter a store."""

    key: Key
    uid: Uid = ""
    resource_version: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # only those somebody here reads
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    unreadable: str = ""

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None


class Namespace(Metadata, frozen=True, gc=False, kw_only=True):
    terminating: bool = False


class DaemonSet(Metadata, frozen=True, gc=False, kw_only=True):
    """What its pods would be like: whether one would run on a future node, and what it would take there."""

    pod_labels: Mapping[str, str] = NO_LABELS
    images: tuple[str, ...] = ()
    requests: Amounts = NOTHING
    node_selector: Mapping[str, str] = NO_LABELS
    affinity: Affinity = ANYWHERE
    tolerations: tuple[Toleration, ...] = ()


class DisruptionBudget(Metadata, frozen=True, gc=False, kw_only=True):
    selector: Selector = NOTHING_AT_ALL
    disruptions_allowed: int = 0
    current: bool = False  # its status speaks of its present spec
