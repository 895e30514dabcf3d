"""Where a pod may go: node affinity, (anti-)affinity to other pods, spread, and ports of the host.

What is required decides which machines serve it; preferences only decide between plans that cost the same.
"""

from collections.abc import Mapping

import msgspec

from tgp.core.model.labels import LabelRequirement, Selector

NAME_FIELD = "metadata.name"  # the only field a node selector term may match


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """Requirements that must hold together. An empty term matches no node."""

    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[LabelRequirement, ...] = ()

    def admits(self, node: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False
        named = {NAME_FIELD: node}
        return all(r.admits(labels) for r in self.labels) and all(r.admits(named) for r in self.fields)


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods to be near to, or apart from, within a topology."""

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...] = ()  # empty: the pod's own
    namespace_selector: Selector | None = None  # None: not given


class PreferredNodes(msgspec.Struct, frozen=True, gc=False):
    weight: int
    term: NodeTerm


class PreferredPods(msgspec.Struct, frozen=True, gc=False):
    weight: int  # negative: to stay apart from them
    term: PodTerm


class Affinity(msgspec.Struct, frozen=True, gc=False):
    node_terms: tuple[NodeTerm, ...] | None = None  # any of them; None: no requirement
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    preferred_pods: tuple[PreferredPods, ...] = ()

    def admits_node(self, node: str, labels: Mapping[str, str]) -> bool:
        return self.node_terms is None or any(term.admits(node, labels) for term in self.node_terms)


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """Pods that the selector matches differ by at most `max_skew` between the domains of a topology."""

    topology_key: str
    selector: Selector
    max_skew: int = 1
    min_domains: int | None = None
    hard: bool = True  # DoNotSchedule; otherwise a preference
    match_label_keys: tuple[str, ...] = ()  # the selector also matches the pod's own values of these labels
    honors_affinity: bool = True  # domains count only where the pod's node selector and affinity admit the node …
    honors_taints: bool = False  # … and where it tolerates the taints


class HostPort(msgspec.Struct, frozen=True, gc=False, order=True):
    """A port of the machine itself: two pods with the same one cannot share a machine."""

    port: int
    protocol: str = "TCP"
    address: str = ""  # empty: every address of the machine

    def collides(self, other: "HostPort") -> bool:
        same = (self.port, self.protocol) == (other.port, other.protocol)
        return same and (self.address == other.address or not self.address or not other.address)


ANYWHERE = Affinity()
