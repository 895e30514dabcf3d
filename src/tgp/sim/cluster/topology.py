"""What pods that run say about where one more may go: spread, affinity and anti-affinity, counted as kube-scheduler
counts them. Written apart from the operator's own rules, as `placement` is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tgp.sim.apiserver.json_value import Json, list_at
from tgp.sim.apiserver.selectors import ParsedRequirement, ParsedSelector, from_label_selector
from tgp.sim.cluster.component_api import is_ending
from tgp.sim.cluster.placement import SCHEDULING_EFFECTS, selects, untolerated

PodsOn = Callable[[str], Iterable[Json]]  # the pods of a node, by its name
Domain = tuple[str, str]  # a topology key and a value of it

NO_TOPOLOGY = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"

Objection = tuple[str, bool]  # why not, and whether evicting others could help


def near_terms(pod: Json) -> list[Json]:
    return list_at(pod, "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def apart_terms(pod: Json) -> list[Json]:
    return list_at(pod, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def hard_spreads(pod: Json) -> list[Json]:
    every = list_at(pod, "spec", "topologySpreadConstraints")
    return [each for each in every if each.get("whenUnsatisfiable") == "DoNotSchedule"]


def looks_at_pods(pod: Json) -> bool:
    """Whether where it may go depends on where other pods are."""
    return bool(near_terms(pod) or apart_terms(pod) or hard_spreads(pod))


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of (anti-)affinity: which pods it means, and within which topology."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: ParsedSelector  # null selects none
    selector: ParsedSelector

    def means(self, pod: Json, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        namespace = pod["metadata"]["namespace"]
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespaces.get(namespace)):
            return False
        return self.selector.matches(pod["metadata"].get("labels"))


def pod_term(term: Json, pod: Json) -> AffinityTerm:
    named = frozenset(term.get("namespaces") or ())
    if not named and term.get("namespaceSelector") is None:
        named = frozenset({pod["metadata"]["namespace"]})
    return AffinityTerm(
        term["topologyKey"],
        named,
        from_label_selector(term.get("namespaceSelector")),
        from_label_selector(term.get("labelSelector")),
    )


class CountedSpread:
    """One hard constraint of a pod, with the pods of every domain counted."""

    def __init__(self, constraint: Json, pod: Json, nodes: Iterable[Json], pods_on: PodsOn) -> None:
        self.key: str = constraint["topologyKey"]
        self._max_skew: int = constraint["maxSkew"]
        own = pod["metadata"].get("labels") or {}
        selector = from_label_selector(constraint.get("labelSelector"))
        keys = [key for key in constraint.get("matchLabelKeys") or () if key in own]
        if constraint.get("labelSelector") is not None:
            added = tuple(ParsedRequirement(key, "in", (own[key],)) for key in keys)
            selector = ParsedSelector((*selector.requirements, *added))
        self._counts: dict[str, int] = {}
        for node in nodes:
            if _counts_for(constraint, pod, node):
                value = node["metadata"]["labels"][self.key]
                found = _matching(pods_on(node["metadata"]["name"]), selector, pod["metadata"]["namespace"])
                self._counts[value] = self._counts.get(value, 0) + found
        enough = len(self._counts) >= (constraint.get("minDomains") or 1)
        self._least = min(self._counts.values()) if enough else 0
        self._self = 1 if selector.matches(own) else 0

    def objection(self, labels: Mapping[str, str]) -> Objection | None:
        value = labels.get(self.key)
        if value is None:
            return NO_TOPOLOGY, False
        skew = self._counts.get(value, 0) + self._self - self._least
        return (SKEWED, True) if skew > self._max_skew else None


def _counts_for(constraint: Json, pod: Json, node: Json) -> bool:
    if constraint.get("nodeAffinityPolicy") != "Ignore" and not selects(pod["spec"], node):
        return False
    if constraint.get("nodeTaintsPolicy") != "Honor":
        return True
    taints = node["spec"].get("taints") or ()
    return untolerated(pod["spec"].get("tolerations") or (), taints, SCHEDULING_EFFECTS) is None


def _matching(pods: Iterable[Json], selector: ParsedSelector, namespace: str) -> int:
    """An empty selector counts nothing: so does the scheduler."""
    if selector.is_empty:
        return 0
    return sum(
        not is_ending(pod)
        and pod["metadata"]["namespace"] == namespace
        and selector.matches(pod["metadata"].get("labels"))
        for pod in pods
    )


class Neighbours:
    """Everything other pods say about one pod; made once for each attempt to place it."""

    def __init__(
        self,
        pod: Json,
        nodes: list[Json],
        pods_on: PodsOn,
        namespaces: Mapping[str, Mapping[str, str]],
        repelling: Iterable[str],  # nodes with pods that have anti-affinity
    ) -> None:
        written = hard_spreads(pod)
        keys = [each["topologyKey"] for each in written]
        domains = [node for node in nodes if all(key in _labels(node) for key in keys)]
        self._spreads = [CountedSpread(each, pod, domains, pods_on) for each in written]
        self._near = [pod_term(term, pod) for term in near_terms(pod)]
        self._apart = [pod_term(term, pod) for term in apart_terms(pod)]
        self._near_to: set[Domain] = set()
        self._apart_from: set[Domain] = set()
        self._repelled_from: set[Domain] = set()
        self._first_of_its_kind = bool(self._near) and all(term.means(pod, namespaces) for term in self._near)
        if self._near or self._apart:
            for node in nodes:
                self._look_around(node, pods_on(node["metadata"]["name"]), namespaces)
        at = set(repelling)
        for node in nodes if at else ():
            if node["metadata"]["name"] in at:
                self._hear(pod, node, pods_on(node["metadata"]["name"]), namespaces)

    def _look_around(self, node: Json, pods: Iterable[Json], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        labels = _labels(node)
        for other in pods:
            if self._near and all(term.means(other, namespaces) for term in self._near):
                self._near_to |= _domains(self._near, labels)
            self._apart_from |= _domains((term for term in self._apart if term.means(other, namespaces)), labels)

    def _hear(self, pod: Json, node: Json, pods: Iterable[Json], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        for other in pods:
            terms = (pod_term(term, other) for term in apart_terms(other))
            self._repelled_from |= _domains((term for term in terms if term.means(pod, namespaces)), _labels(node))

    def objection(self, node: Json) -> Objection | None:
        labels = _labels(node)
        for spread in self._spreads:
            found = spread.objection(labels)
            if found is not None:
                return found
        if not self._is_near(labels):
            return NOT_NEAR, False
        if any((term.topology_key, labels.get(term.topology_key)) in self._apart_from for term in self._apart):
            return NOT_APART, True
        if self._repelled_from and any(pair in self._repelled_from for pair in labels.items()):
            return REPELLED, True
        return None

    def _is_near(self, labels: Mapping[str, str]) -> bool:
        if any(term.topology_key not in labels for term in self._near):
            return False
        if all((term.topology_key, labels[term.topology_key]) in self._near_to for term in self._near):
            return True
        return not self._near_to and self._first_of_its_kind


def _domains(terms: Iterable[AffinityTerm], labels: Mapping[str, str]) -> set[Domain]:
    return {(term.topology_key, labels[term.topology_key]) for term in terms if term.topology_key in labels}


def _labels(node: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("labels") or {}
    return found
