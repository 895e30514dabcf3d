"""What decides where a pod with volumes may run: claims, volumes and storage classes."""

from tgp.core.model.labels import LabelRequirement
from tgp.core.model.placement import NodeTerm
from tgp.core.model.workload import Metadata

BOUND, WAIT_FOR_FIRST_CONSUMER = "Bound", "WaitForFirstConsumer"


class Claim(Metadata, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    phase: str = ""  # Pending, Bound, Lost
    storage_class: str | None = None  # None: not given; the cluster's default class, if it has one, is filled in
    volume: str = ""  # the PersistentVolume's name; empty: not bound yet


class Volume(Metadata, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    node_terms: tuple[NodeTerm, ...] | None = None  # a Node has to match any of them; None: any Node


class StorageClass(Metadata, frozen=True, gc=False, kw_only=True):
    binding_mode: str = "Immediate"
    provisioner: str = ""
    is_default: bool = False
    topologies: tuple[tuple[LabelRequirement, ...], ...] = ()  # allowedTopologies: any of them; empty: anywhere
