"""DaemonSets, Jobs, PodDisruptionBudgets, Namespaces, and objects by their metadata alone."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.labels import NO_LABELS, NOTHING_AT_ALL, Selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import ANYWHERE, Affinity, HostPort
from tgp.core.model.pod import OwnerRef, Pod
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


class Job(Metadata, frozen=True, gc=False, kw_only=True):
    """A Job of batch/v1: whether it runs, and what its pods request."""

    suspended: bool = False
    parallelism: int = 1
    completions: int | None = None  # None: a work queue
    succeeded: int = 0
    finished: bool = False  # complete or failed
    pod_labels: Mapping[str, str] = NO_LABELS
    requests: Resources = NOTHING  # of one pod

    @property
    def pods(self) -> int:
        """How many run at the same time."""
        left = (
            self.parallelism if self.completions is None else min(self.parallelism, self.completions - self.succeeded)
        )
        return max(left, 0)

    @property
    def controller(self) -> OwnerRef | None:
        return next((owner for owner in self.owners if owner.controller), None)


class PodDisruptionBudget(Metadata, frozen=True, gc=False, kw_only=True):
    selector: Selector = NOTHING_AT_ALL
    disruptions_allowed: int = 0
    current: bool = False  # its status describes its current spec
    evicts_unready: bool = False  # pods that are not Ready may be evicted whatever it allows

    def selects(self, pod: Pod) -> bool:
        return self.key.namespace == pod.key.namespace and self.selector.selects(pod.labels)

    def blocks(self, pod: Pod) -> bool:
        """Whether it allows no eviction of this pod now."""
        return self.disruptions_allowed <= 0 and self.selects(pod) and not (self.evicts_unready and not pod.ready)
