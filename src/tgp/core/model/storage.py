"""What decides where a pod with volumes may run: claims, volumes and storage classes."""

from collections.abc import Mapping

from tgp.core.model.labels import LabelRequirement
from tgp.core.model.placement import NodeTerm
from tgp.core.model.workload import Metadata

LOST, WAIT_FOR_FIRST_CONSUMER = "Lost", "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

# Labels of a volume that are a rule, too: the scheduler compares them with the Node's. By the name that replaced it.
ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
BETWEEN_ZONES = "__"  # a volume that is in several zones names them so


class Claim(Metadata, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    phase: str = ""  # Pending, Bound, Lost
    storage_class: str | None = None  # None: not given; the cluster's default class, if it has one, is filled in
    volume: str = ""  # the PersistentVolume's name; empty: not bound yet
    bound: bool = False  # both sides have agreed: only then the scheduler places a pod that uses it
    selected_node: str = ""  # where the volume is being made; the scheduler takes the pod to no other Node meanwhile


class Volume(Metadata, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    node_terms: tuple[NodeTerm, ...] | None = None  # a Node has to match any of them; None: any Node

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether a Node with these labels reaches it. A term about its name admits none, as in the scheduler."""
        if self.node_terms is not None and not any(term.admits("", labels) for term in self.node_terms):
            return False
        zones = [(key, value) for key, value in self.labels.items() if key in ZONE_LABELS]
        if not zones or not any(key in labels for key in ZONE_LABELS):
            return True  # a Node without zones is in all of them
        return all(labels.get(key, labels.get(ZONE_LABELS[key])) in value.split(BETWEEN_ZONES) for key, value in zones)


class StorageClass(Metadata, frozen=True, gc=False, kw_only=True):
    binding_mode: str = "Immediate"
    provisioner: str = ""
    is_default: bool = False
    topologies: tuple[tuple[LabelRequirement, ...], ...] = ()  # allowedTopologies: any of them; empty: anywhere

    @property
    def provisions(self) -> bool:
        """Whether it makes volumes; otherwise a claim gets one that is there."""
        return self.provisioner not in ("", NO_PROVISIONER)

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether it can make a volume for a Node with these labels."""
        return not self.topologies or any(all(each.admits(labels) for each in term) for term in self.topologies)
