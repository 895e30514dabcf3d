"""Where a pod may go: the required half of its node affinity, and its required (anti-)affinity to other pods.

Preferences are not kept: they move a pod between nodes that all serve, and never decide whether one must be bought.
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


class Affinity(msgspec.Struct, frozen=True, gc=False):
    node_terms: tuple[NodeTerm, ...] | None = None  # any of them; None: no requirement
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()

    def admits_node(self, node: str, labels: Mapping[str, str]) -> bool:
        return self.node_terms is None or any(term.admits(node, labels) for term in self.node_terms)


ANYWHERE = Affinity()
