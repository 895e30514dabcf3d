"""The fields of a pod that demand, drains and budgets read: one flat record of some 700 bytes."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.labels import NO_LABELS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import ANYWHERE, Affinity, HostPort, SpreadConstraint
from tgp.core.model.record import Uid
from tgp.core.model.resources import NOTHING, Resources
from tgp.core.model.taints import Toleration

PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN = "Pending", "Running", "Succeeded", "Failed", "Unknown"

ALWAYS = "Always"  # the restartPolicy of pods that serve

UNSCHEDULABLE = "Unschedulable"  # the scheduler tried, and found no node
GATED = "SchedulingGated"  # a scheduling gate holds it back before the scheduler may try

COUNTED = "tgp.io/counted"  # the finalizer that holds a pod until a budget has counted it
MIRROR = "kubernetes.io/config.mirror"  # a static pod's mirror: the kubelet owns it, eviction does nothing


class OwnerRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The owner of an object; `controller` for the one that manages it."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    key: ObjectKey
    uid: Uid = ""
    resource_version: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None  # None: it is not being deleted
    released: bool = False  # its kubelet has let it go, or it was deleted by force: only finalizers keep it
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # only those that tgp reads
    finalizers: tuple[str, ...] = ()
    owners: tuple[OwnerRef, ...] = ()

    node: str = ""  # empty: not placed yet
    requests: Resources = NOTHING  # by the scheduler's rule, overhead included
    node_selector: Mapping[str, str] = NO_LABELS
    affinity: Affinity = ANYWHERE
    tolerations: tuple[Toleration, ...] = ()
    spreads: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volume_claims: tuple[str, ...] = ()  # PersistentVolumeClaims of its namespace, those of generic volumes included
    gates: tuple[str, ...] = ()  # what it waits for before the scheduler may look at it
    claims_devices: bool = False  # it uses dynamic resource allocation, which `requests` does not show
    priority: int = 0
    scheduler: str = "default-scheduler"
    grace_seconds: int = 30
    restart_policy: str = ALWAYS

    phase: str = PENDING
    ready: bool = False  # its containers are
    nominated_node: str = ""  # the scheduler is making room for it there
    unplaced_since: datetime | None = None  # None: placed, or the scheduler has not rejected it
    unplaced_reason: str = ""  # Unschedulable, SchedulingGated, …
    placed_at: datetime | None = None  # when it got its Node; None: within a minute of its creation, or not known
    accepted_at: datetime | None = None  # a kubelet accepted it: from here it holds its devices
    started_at: datetime | None = None  # the first start of a container that its status still tells of
    # by resource: the first start of a container that asks for it. None: `started_at` holds for every resource
    starts: tuple[tuple[str, datetime], ...] | None = None
    # finished: its last container's end. None: it runs, or the time of its end is unknown
    ended_at: datetime | None = None
    unreadable: str = ""  # why only the metadata could be read; empty: all of it was

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None

    def started(self, resource: str) -> datetime | None:
        """The first start of a container that asks for this resource; None: no such container has started."""
        if self.starts is None:
            return self.started_at
        return next((start for name, start in self.starts if name == resource), None)

    @property
    def finished(self) -> bool:
        return self.phase in (SUCCEEDED, FAILED)

    @property
    def over(self) -> bool:
        """It uses nothing any more: it is finished, or it would be gone but for the finalizer of a budget."""
        return self.finished or (COUNTED in self.finalizers and self.deleting and (self.released or not self.node))

    @property
    def unschedulable(self) -> bool:
        """The scheduler looked for a node and found none: the demand that buys machines."""
        return not self.node and self.unplaced_reason == UNSCHEDULABLE and not self.deleting

    @property
    def mirror(self) -> bool:
        return MIRROR in self.annotations

    @property
    def controller(self) -> OwnerRef | None:
        return next((owner for owner in self.owners if owner.controller), None)

    @property
    def runs_to_completion(self) -> bool:
        """Its work ends some time, and a restart loses it, whatever its controller is."""
        owner = self.controller
        return self.restart_policy != ALWAYS or (owner is not None and owner.kind == "Job")

    @property
    def of_daemon_set(self) -> bool:
        owner = self.controller
        return owner is not None and owner.kind == "DaemonSet"
