"""Which preferences of pods hold where they run, and would not where they would go.

Preferred nodes, pods that are preferred near or apart, and a spread that is wanted but not required. A preference that
does not hold now, or that nothing would change, counts for nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tgp.core.model.pod import Pod
from tgp.core.pools.planner.classes import Namespaces, PodMatcher, matcher_of_spread, matcher_of_term
from tgp.core.pools.planner.rows import HOSTNAME
from tgp.core.pools.planner.world import Capacity


@dataclass(frozen=True, slots=True)
class Place:
    """A Node, or a machine that would be bought, by a name that no Node has."""

    name: str
    labels: Mapping[str, str]

    def domain(self, key: str) -> str | None:
        """None: it is in none."""
        return self.labels.get(key, self.name) if key == HOSTNAME else self.labels.get(key)


@dataclass(frozen=True, slots=True)
class PodMove:
    pod: Pod
    before: Place
    after: Place


@dataclass(slots=True)
class _Domains:
    """Of one topology key, by domain."""

    machines: dict[str, int] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)  # that the matcher means

    def skew(self, domain: str) -> int:
        least = min((self.pods.get(each, 0) for each, many in self.machines.items() if many > 0), default=0)
        return self.pods.get(domain, 0) - least


class Preferences:
    def __init__(self, rooms: Iterable[Capacity], namespaces: Namespaces) -> None:
        self._rooms = [(Place(each.name, each.labels), each.pods) for each in rooms]
        self._namespaces = namespaces
        self._now: dict[tuple[str, PodMatcher], _Domains] = {}

    def broken(self, moves: Sequence[PodMove]) -> list[Pod]:
        """If all of these move together, and the machines that they leave go: a pod for each preference of it."""
        looking = [each for each in moves if looks(each.pod)]
        found = [each.pod for each in looking if _liking(each.pod, each.after) < _liking(each.pod, each.before)]
        then: dict[tuple[str, PodMatcher], _Domains] = {}
        for move in looking:
            held = holds = 0
            for each in move.pod.affinity.preferred_pods:
                seen = (each.term.topology_key, matcher_of_term(each.term, move.pod.key.namespace))
                held += abs(each.weight) * self._meets(
                    self._domains(seen), seen, move.pod, move.before, each.weight > 0
                )
                after = self._after(then, seen, moves)
                holds += abs(each.weight) * self._meets(after, seen, move.pod, move.after, each.weight > 0)
            found += [move.pod] if holds < held else []
            for spread in move.pod.spreads:
                seen = (spread.topology_key, matcher_of_spread(spread, move.pod))
                spreads = not spread.hard and _spread(self._domains(seen), move.before.domain(seen[0]), spread.max_skew)
                if spreads and not _spread(self._after(then, seen, moves), move.after.domain(seen[0]), spread.max_skew):
                    found.append(move.pod)
        return found

    def _meets(self, domains: _Domains, seen: tuple[str, PodMatcher], pod: Pod, place: Place, near: bool) -> bool:
        domain = place.domain(seen[0])
        there = domains.pods.get(domain, 0) if domain is not None else 0
        others = there - (domain is not None and self._means(seen[1], pod))
        return (others > 0) is near

    def _domains(self, seen: tuple[str, PodMatcher]) -> _Domains:
        """As they are now."""
        if seen not in self._now:
            found = self._now[seen] = _Domains()
            for place, pods in self._rooms:
                if (domain := place.domain(seen[0])) is not None:
                    _add(found.machines, domain, 1)
                    _add(found.pods, domain, sum(self._means(seen[1], pod) for pod in pods))
        return self._now[seen]

    def _after(
        self, then: dict[tuple[str, PodMatcher], _Domains], seen: tuple[str, PodMatcher], moves: Sequence[PodMove]
    ) -> _Domains:
        if seen not in then:
            now = self._domains(seen)
            found = then[seen] = _Domains(dict(now.machines), dict(now.pods))
            there = {place.name for place, _ in self._rooms}
            for place in {move.before.name: move.before for move in moves}.values():
                _add(found.machines, place.domain(seen[0]), -1)
            for place in {move.after.name: move.after for move in moves if move.after.name not in there}.values():
                _add(found.machines, place.domain(seen[0]), 1)
            for move in moves:
                if self._means(seen[1], move.pod):
                    _add(found.pods, move.before.domain(seen[0]), -1)
                    _add(found.pods, move.after.domain(seen[0]), 1)
        return then[seen]

    def _means(self, matcher: PodMatcher, pod: Pod) -> bool:
        return not pod.finished and matcher.matches(pod.key.namespace, pod.labels, self._namespaces)


def looks(pod: Pod) -> bool:
    """Whether it prefers anything."""
    soft = any(not each.hard for each in pod.spreads)
    return bool(soft or pod.affinity.preferred_nodes or pod.affinity.preferred_pods)


def _liking(pod: Pod, place: Place) -> int:
    return sum(each.weight for each in pod.affinity.preferred_nodes if each.term.admits(place.name, place.labels))


def _spread(domains: _Domains, domain: str | None, most: int) -> bool:
    return domain is not None and domains.skew(domain) <= most


def _add(counts: dict[str, int], domain: str | None, many: int) -> None:
    if domain is not None:
        counts[domain] = counts.get(domain, 0) + many
