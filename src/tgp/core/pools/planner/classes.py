"""Pods that no rule tells apart are one class: a plan counts them, and gives each its name again in the end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tgp.core.model.labels import NOTHING_AT_ALL, LabelRequirement, Selector
from tgp.core.model.placement import PodTerm, SpreadConstraint
from tgp.core.model.pod import Pod

# Annotations by which pods of one template may still differ in what may be bought for them.
MAX_PRICE, MAX_WAIT = "tgp.io/max-price", "tgp.io/max-wait"
GANG, GANG_SIZE = "tgp.io/gang", "tgp.io/gang-size"
CHECKPOINT_EVERY = "tgp.io/checkpoint-every"  # how much work the loss of a machine costs
TELLING = (MAX_PRICE, MAX_WAIT, GANG, GANG_SIZE, CHECKPOINT_EVERY)
# Other ways to name a gang. Both are labels; LeaderWorkerSet writes its size as an annotation.
POD_GROUP = "scheduling.x-k8s.io/pod-group"
WORKER_GROUP, WORKER_GROUP_SIZE = "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/size"
LONGEST_GANG = 253  # characters of its name

Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]  # name → labels


@dataclass(frozen=True, slots=True)
class PodMatcher:
    """Which pods a term of another pod means: some labels, in some namespaces."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None  # None: only the named ones
    also: "PodMatcher | None" = None  # which has to match the same pod, too

    def matches(self, namespace: str, labels: Mapping[str, str], known: Namespaces) -> bool:
        if self.also is not None and not self.also.matches(namespace, labels, known):
            return False
        if namespace not in self.namespaces:
            if self.namespace_selector is None or namespace not in known:
                return False
            if not self.namespace_selector.selects(known[namespace]):
                return False
        return self.selector.selects(labels)


def matcher_of_term(term: PodTerm, namespace: str) -> PodMatcher:
    """`namespace`: of the pod that has the term; it is meant where the term names none."""
    named = frozenset(term.namespaces)
    if not named and term.namespace_selector is None:
        named = frozenset({namespace})
    return PodMatcher(term.selector, named, term.namespace_selector)


def matcher_of_near(pod: Pod) -> PodMatcher | None:
    """A pod that required affinity looks for matches all of its terms, whatever their topology; None: there are none.

    So kube-scheduler does it: two pods that match one term each are not what it looks for.
    """
    found: PodMatcher | None = None
    for term in pod.affinity.near:
        found = replace(matcher_of_term(term, pod.key.namespace), also=found)
    return found


def matcher_of_spread(spread: SpreadConstraint, pod: Pod) -> PodMatcher:
    """As the scheduler does: a label key that the pod does not have is left out; an empty selector counts no pods."""
    own = tuple(LabelRequirement(key, "In", (pod.labels[key],)) for key in spread.match_label_keys if key in pod.labels)
    counted = Selector((*spread.selector.requirements, *own))
    return PodMatcher(counted if counted.requirements else NOTHING_AT_ALL, frozenset({pod.key.namespace}))


def matchers_of(pod: Pod) -> tuple[PodMatcher, ...]:
    """Everything by which a pod looks at the labels of others, or of its own kind."""
    namespace, affinity, near = pod.key.namespace, pod.affinity, matcher_of_near(pod)
    return (
        *(() if near is None else (near,)),
        *(matcher_of_term(term, namespace) for term in affinity.apart),
        *(matcher_of_term(each.term, namespace) for each in affinity.preferred_pods),
        *(matcher_of_spread(each, pod) for each in pod.spreads),
    )


def matchers_in_play(pods: Iterable[Pod]) -> Iterator[PodMatcher]:
    """Of all pods that look at others, each distinct way to look once."""
    seen: dict[tuple[object, ...], Pod] = {}
    for pod in pods:
        if pod.spreads or pod.affinity.near or pod.affinity.apart or pod.affinity.preferred_pods:
            own = tuple(pod.labels.get(key) for spread in pod.spreads for key in spread.match_label_keys)
            seen.setdefault((pod.key.namespace, id(pod.affinity), id(pod.spreads), own), pod)
    return (each for pod in seen.values() for each in matchers_of(pod))


@dataclass(frozen=True, slots=True)
class PodClass:
    """At least one pod; the first stands for all in everything but its name."""

    pods: tuple[Pod, ...]  # the oldest first
    matched: frozenset[PodMatcher]  # of the matchers in play, those that match these pods

    @property
    def pod(self) -> Pod:
        return self.pods[0]


def grouped(pods: Sequence[Pod], matchers: Iterable[PodMatcher], namespaces: Namespaces) -> tuple[PodClass, ...]:
    """Classes in the order of their oldest pod. `matchers` are those in play: of these pods, and of pods that run."""
    in_play = tuple(dict.fromkeys(matchers))
    matched: dict[tuple[str, int], frozenset[PodMatcher]] = {}
    rough: dict[tuple[object, ...], list[Pod]] = {}
    for pod in sorted(pods, key=_age):
        seen = (pod.key.namespace, id(pod.labels))
        if seen not in matched:
            matched[seen] = frozenset(each for each in in_play if each.matches(seen[0], pod.labels, namespaces))
        rough.setdefault(_by_identity(pod, id(matched[seen])), []).append(pod)
    # Equal sub-documents are usually one object, but need not be: what is equal by value comes together.
    exact: dict[tuple[object, ...], list[list[Pod]]] = {}
    for alike in rough.values():
        first = alike[0]
        exact.setdefault(_by_value(first, matched[first.key.namespace, id(first.labels)]), []).append(alike)
    return tuple(
        PodClass(
            tuple(parts[0] if len(parts) == 1 else sorted((pod for part in parts for pod in part), key=_age)),
            matched[parts[0][0].key.namespace, id(parts[0][0].labels)],
        )
        for parts in exact.values()
    )


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created_at.timestamp() if pod.created_at is not None else 0.0, str(pod.key)


def _by_identity(pod: Pod, matched: int) -> tuple[object, ...]:
    return (
        pod.key.namespace,
        id(pod.requests),
        id(pod.node_selector),
        id(pod.affinity),
        id(pod.tolerations),
        id(pod.spreads),
        id(pod.host_ports),
        pod.volume_claims,
        pod.priority,
        id(pod.annotations),
        matched,
        _own_labels(pod),
    )


def _by_value(pod: Pod, matched: frozenset[PodMatcher]) -> tuple[object, ...]:
    return (
        pod.key.namespace,
        pod.requests,
        tuple(sorted(pod.node_selector.items())),
        pod.affinity,
        pod.tolerations,
        pod.spreads,
        pod.host_ports,
        pod.volume_claims,
        pod.priority,
        tuple(pod.annotations.get(name, "") for name in TELLING),
        matched,
        _own_labels(pod),
    )


def _own_labels(pod: Pod) -> tuple[str, ...]:
    """Values of its own labels that its spread constraints compare with."""
    keys = [key for spread in pod.spreads for key in spread.match_label_keys]
    return tuple(pod.labels.get(key, "") for key in keys) if keys else ()


def gang_of(pod: Pod) -> str:
    """Names the gang among all gangs, of a pod whose annotations were read; empty: the pod is in none."""
    name = pod.annotations.get(GANG, "")
    return f"{pod.key.namespace}/{name}" if name else ""


def gang_name(pod: Pod) -> str:
    """The same of a pod as it was written."""
    name = written_gang(pod)
    return f"{pod.key.namespace}/{name}" if name and len(name) <= LONGEST_GANG else ""


def written_gang(pod: Pod) -> str | None:
    """An empty annotation takes a pod out of the gang that its labels name."""
    if GANG in pod.annotations:
        return pod.annotations[GANG]
    return pod.labels.get(WORKER_GROUP) or pod.labels.get(POD_GROUP)
