"""Which pods may share a machine: anti-affinity and spread by hostname, and ports of the host."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tgp.core.model.arrays import Bools, np
from tgp.core.model.placement import HostPort
from tgp.core.pools.planner.classes import PodMatcher, matcher_of_spread, matcher_of_term
from tgp.core.pools.planner.problem import HostRule
from tgp.core.pools.planner.rows import HOSTNAME, DemandRow, collide, ports_of
from tgp.core.pools.planner.world import Capacity, PlanInput


@dataclass(frozen=True, slots=True)
class _HostTerm:
    """Of one pod: at most `most` pods that the matcher matches on its machine, itself included if it is one."""

    matcher: PodMatcher
    most: int


def host_rules(classes: Sequence[DemandRow], world: PlanInput, sources: int) -> tuple[HostRule, ...]:
    """The rules of these classes, and of the pods that run already."""
    capacity = world.capacity
    owners: dict[_HostTerm, list[int]] = {}
    for number, each in enumerate(classes):
        for term in dict.fromkeys(_terms(each)):
            owners.setdefault(term, []).append(number)
    rules = [_rule(term, own, classes, world, sources) for term, own in owners.items()]
    rules += _rules_of_running(classes, capacity, sources)
    rules += _port_rules(classes, capacity, sources)
    return tuple(rules)


def running_matchers(capacity: Iterable[Capacity]) -> Iterable[PodMatcher]:
    """Terms of running pods that keep others off their machine."""
    for place in capacity:
        for pod in place.pods:
            for term in pod.affinity.apart:
                yield matcher_of_term(term, pod.key.namespace)


def _terms(each: DemandRow) -> Iterable[_HostTerm]:
    """Of one unit. Its pods can share a machine, so at most one of them matches an anti-affinity of another."""
    for pod in each.units[0]:
        for term in pod.affinity.apart:
            if term.topology_key == HOSTNAME:
                matcher = matcher_of_term(term, pod.key.namespace)
                yield _HostTerm(matcher, 1 if matcher in each.matched else 0)
        for spread in pod.spreads:
            if spread.hard and spread.topology_key == HOSTNAME:
                matcher = matcher_of_spread(spread, pod)
                more = len(each.units[0]) - 1 if matcher in each.matched else 0
                yield _HostTerm(matcher, max(spread.max_skew - more, 1))


def _rule(
    term: _HostTerm,
    owners: Sequence[int],
    classes: Sequence[DemandRow],
    world: PlanInput,
    sources: int,
) -> HostRule:
    capacity = world.capacity
    owning = np.zeros(len(classes), np.bool_)
    owning[list(owners)] = True
    members = _matched(term.matcher, classes)
    present = None
    if any(place.pods for place in capacity):
        present = np.zeros(sources, np.int64)
        for number, place in enumerate(capacity):
            present[number] = sum(
                term.matcher.matches(pod.key.namespace, pod.labels, world.namespaces) for pod in place.pods
            )
    return HostRule(owning, members, term.most, present)


def _matched(matcher: PodMatcher, classes: Sequence[DemandRow]) -> Bools:
    """By class; asked once for each set of matchers, which many classes share."""
    known: dict[int, bool] = {}
    for each in classes:
        if id(each.matched) not in known:
            known[id(each.matched)] = matcher in each.matched
    return np.array([known[id(each.matched)] for each in classes], np.bool_)


def _rules_of_running(classes: Sequence[DemandRow], capacity: Sequence[Capacity], sources: int) -> list[HostRule]:
    """A running pod's anti-affinity keeps new pods off its machine, too."""
    where: dict[PodMatcher, list[int]] = {}
    for number, place in enumerate(capacity):
        for pod in place.pods:
            for term in pod.affinity.apart:
                if term.topology_key == HOSTNAME:
                    where.setdefault(matcher_of_term(term, pod.key.namespace), []).append(number)
    rules = []
    for matcher, places in where.items():
        members = _matched(matcher, classes)
        if members.any():
            owned = np.zeros(sources, np.bool_)
            owned[places] = True
            rules.append(HostRule(np.zeros(len(classes), np.bool_), members, 0, None, owned))
    return rules


def _port_rules(classes: Sequence[DemandRow], capacity: Sequence[Capacity], sources: int) -> list[HostRule]:
    """Pods whose ports collide cannot share a machine."""
    kinds: dict[tuple[HostPort, ...], list[int]] = {}
    for number, each in enumerate(classes):
        if ports := ports_of(each.units[0]):
            kinds.setdefault(ports, []).append(number)
    rules = []
    for ports, numbers in kinds.items():
        owners = np.zeros(len(classes), np.bool_)
        owners[numbers] = True
        members = np.array([collide(ports, ports_of(each.units[0])) for each in classes], np.bool_)
        present = np.zeros(sources, np.int64)
        for place, there in enumerate(capacity):
            present[place] = sum(collide(ports, pod.host_ports) for pod in there.pods)
        rules.append(HostRule(owners, members, 1, present))
    return rules
