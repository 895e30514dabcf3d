"""The rows of the packing problem: pods that are planned alike, what one needs, and which sources could hold it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from tgp.api.field_error import Invalid
from tgp.api.values import duration, microusd
from tgp.core.model.arrays import Bools, Floats, np
from tgp.core.model.placement import HostPort
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.classes import (
    MAX_PRICE,
    MAX_WAIT,
    PodClass,
    PodMatcher,
    gang_of,
    matcher_of_near,
    matcher_of_spread,
    matcher_of_term,
)
from tgp.core.pools.planner.problem import LARGEST
from tgp.core.pools.planner.sources import PODS, SourceSet, lost_hours, not_joined
from tgp.core.pools.planner.volumes import reached_by

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, eq=False)
class DemandRow:
    """Units are interchangeable. A unit is one pod, or several that have to share a machine."""

    units: tuple[tuple[Pod, ...], ...]  # the oldest first
    matched: frozenset[PodMatcher]
    need: Floats  # of one unit, by resource
    mask: Bools  # by source: whether everything but room allows it
    whole: Bools  # the same before the pods' topology narrowed it

    @property
    def pod(self) -> Pod:
        return self.units[0][0]

    @property
    def gangs(self) -> frozenset[str]:
        """Of all pods of a unit: each is served whole or not at all, and with them this row."""
        return frozenset(gang for pod in self.units[0] if pod.annotations and (gang := gang_of(pod)))

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for unit in self.units for pod in unit)


def resources_of(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Every resource that a pod asks for, and the number of pods."""
    distinct = {id(pod.requests): pod.requests for pod in pods}
    names = {name for requests in distinct.values() for name, amount in requests.items() if amount}
    return (*sorted(names - {PODS}), PODS)


def rows_of(classes: Sequence[PodClass], sources: SourceSet) -> list[DemandRow]:
    """One row for each class, its topology not looked at yet."""
    masks = _Masks(sources)
    needs: dict[Resources, Floats] = {}
    rows = []
    for each in classes:
        need = needs.get(each.pod.requests)
        if need is None:
            need = needs[each.pod.requests] = need_of(each.pod.requests, sources.resources)
        mask = masks.of(each)
        rows.append(DemandRow(tuple((pod,) for pod in each.pods), each.matched, need, mask, mask))
    return rows


def need_of(requests: Resources, resources: Sequence[str], pods: int = 1) -> Floats:
    amounts = [float(pods) if name == PODS else float(requests.of(name)) for name in resources]
    need: Floats = np.minimum(np.array(amounts), LARGEST)
    return need


def own_price(pod: Pod, now: datetime) -> int | None:
    """What the pod itself pays at most for one GPU and hour, while it waits; None: no such price.

    An annotation that cannot be read counts as absent.
    """
    ceiling = read_price(pod)
    if ceiling is None:
        return None
    ends = own_price_until(pod)
    return None if ends is not None and now >= ends else ceiling


def read_price(pod: Pod) -> int | None:
    written = pod.annotations.get(MAX_PRICE)
    try:
        return microusd(written, MAX_PRICE) if written is not None else None
    except Invalid:
        return None


def own_price_until(pod: Pod) -> datetime | None:
    """Until when the pod's own price holds; None: for as long as it waits."""
    written = pod.annotations.get(MAX_WAIT)
    try:
        length = duration(written, MAX_WAIT) if written is not None else None
    except Invalid:
        return None
    return pod.created_at + min(length, timedelta(days=3650)) if length is not None and pod.created_at else None


def without_ended_prices(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """Pods whose patience is over say nothing of a price any more: by that they are told apart from those who wait."""
    ended: dict[int, Mapping[str, str]] = {}  # by identity, so that pods that said the same still share one mapping
    told = []
    for pod in pods:
        said = pod.annotations
        if MAX_WAIT not in said or read_price(pod) is None or own_price(pod, now) is not None:
            told.append(pod)
            continue
        if id(said) not in ended:
            ended[id(said)] = {name: text for name, text in said.items() if name not in (MAX_PRICE, MAX_WAIT)}
        told.append(msgspec.structs.replace(pod, annotations=ended[id(said)]))
    return told


class _Masks:
    """Masks of classes, each distinct one made once."""

    def __init__(self, sources: SourceSet) -> None:
        self._sources = sources
        self._known: dict[object, Bools] = {}

    def of(self, each: PodClass) -> Bools:
        pod, world = each.pod, self._sources.world
        price = own_price(pod, world.now)
        barred = frozenset(key for one in each.pods for key in world.not_for.get(uid_text(one.uid), ()))
        refused = frozenset(
            place.name
            for place in world.capacity
            if place.refused and any(uid_text(one.uid) in place.refused for one in each.pods)
        )
        key = (
            pod.key.namespace,
            tuple(sorted(pod.node_selector.items())),
            pod.affinity.node_terms,
            pod.tolerations,
            pod.volume_claims,
            pod.host_ports,
            price,
            barred,
            refused,
            lost_hours(pod),
        )
        if key not in self._known:
            self._known[key] = self._made(pod, price, barred, refused)
        return self._known[key]

    def _made(self, pod: Pod, price: int | None, barred: frozenset[str], refused: frozenset[str]) -> Bools:
        sources, world = self._sources, self._sources.world
        mask = sources.table.admits(pod) & self.allowed(pod.key.namespace) & ~sources.uncounted & sources.bears(pod)
        if pod.volume_claims:
            mask &= reached_by(pod, world, sources.table)
        if pod.host_ports:
            mask &= ~ports_taken(pod, sources)
        if price is not None:
            mask &= sources.per_gpu <= price
        if barred:
            mask &= [row < 0 or world.book.offers[row].key not in barred for row in sources.row.tolist()]
        if refused:
            mask[: sources.there] &= [place.name not in refused for place in world.capacity]
        mask.setflags(write=False)
        return mask

    def allowed(self, namespace: str) -> Bools:
        """SourceSet whose class serves pods of this namespace, on hosts that it may use."""
        sources = self._sources
        pools = [each.pool for each in sources.offers]
        served = np.array([True, *(namespace in each.namespaces for each in pools)], np.bool_)
        anywhere = np.array([True, *(namespace in each.untrusted_namespaces for each in pools)], np.bool_)
        place = sources.pool + 1
        allowed: Bools = served[place] & (sources.trusted | anywhere[place])
        return allowed


def sharing_machines(
    rows: Sequence[DemandRow], sources: SourceSet
) -> tuple[list[DemandRow], list[tuple[DemandRow, str]]]:
    """Pods with affinity by hostname become one unit, or go where the pods run that they look for.

    Returns the rows, and those that cannot be placed with the reason.
    """
    made, refused = dict(enumerate(rows)), []
    for number, original in enumerate(rows):
        matcher = matcher_of_near(original.pod)
        if number not in made or matcher is None or HOSTNAME not in _near_keys(original.pod):
            continue
        running = _running(matcher, sources)
        others = [each for each in made if each != number and matcher in made[each].matched]
        if running.any():
            made[number] = replace(made[number], mask=made[number].mask & running)
        elif others or matcher in original.matched:
            if matcher in original.matched:
                alike = [each for each in others if made[each].pod.affinity.near == original.pod.affinity.near]
                made[number] = _bundle([made[number], *(made.pop(each) for each in alike)])
                others = [each for each in others if each not in alike]
            if others:  # also of pods that match themselves: if one of the others is bound first, they look for it
                partner = made.pop(others[0])
                made[number] = _bundle([made[number], replace(partner, units=partner.units[:1])])
                if partner.units[1:]:
                    made[others[0]] = replace(partner, units=partner.units[1:])
        else:
            refused.append((made.pop(number), "no pod matches its pod affinity by kubernetes.io/hostname"))
        if number in made and _cannot_share(made[number].units[0], sources):
            refused.append((made.pop(number), "its pod affinity by kubernetes.io/hostname contradicts its other terms"))
    return list(made.values()), refused


def _near_keys(pod: Pod) -> set[str]:
    return {term.topology_key for term in pod.affinity.near}


def _cannot_share(pods: Sequence[Pod], sources: SourceSet) -> bool:
    """Whether a port or a term of one keeps another off its machine."""
    known = sources.world.namespaces
    for number, pod in enumerate(pods):
        others = (*pods[:number], *pods[number + 1 :])
        if any(collide(pod.host_ports, other.host_ports) for other in others):
            return True
        for term in pod.affinity.apart:
            matcher = matcher_of_term(term, pod.key.namespace)
            if any(matcher.matches(other.key.namespace, other.labels, known) for other in others):
                return True
        for spread in pod.spreads:
            matcher = matcher_of_spread(spread, pod)
            matched = sum(matcher.matches(each.key.namespace, each.labels, known) for each in pods)
            if spread.hard and spread.topology_key == HOSTNAME and matched > spread.max_skew:
                return True
    return False


def ports_taken(pod: Pod, sources: SourceSet) -> Bools:
    """By source: whether a DaemonSet's pod would hold one of the pod's ports of the host. On Nodes it runs already."""
    taken = np.zeros(sources.size, np.bool_)
    for each in sources.world.daemon_sets:
        if collide(pod.host_ports, each.host_ports):
            taken |= sources.table.admits(each)
    return taken & not_joined(sources.world, sources.size)


def ports_of(pods: Iterable[Pod]) -> tuple[HostPort, ...]:
    return tuple(port for pod in pods for port in pod.host_ports)


def collide(ports: Iterable[HostPort], others: Sequence[HostPort]) -> bool:
    return bool(others) and any(port.collides(other) for port in ports for other in others)


def _running(matcher: PodMatcher, sources: SourceSet) -> Bools:
    world = sources.world
    found = np.zeros(sources.size, np.bool_)
    for place, there in enumerate(world.capacity):
        found[place] = any(matcher.matches(pod.key.namespace, pod.labels, world.namespaces) for pod in there.pods)
    return found


def _bundle(rows: Sequence[DemandRow]) -> DemandRow:
    """All pods of these rows as one unit."""
    mask: Bools = np.logical_and.reduce([row.mask for row in rows])
    whole: Bools = np.logical_and.reduce([row.whole for row in rows])
    need = np.sum([row.need * len(row.units) for row in rows], axis=0)
    matched = frozenset(matcher for row in rows for matcher in row.matched)
    pods = tuple(pod for row in rows for pod in row.pods)
    return DemandRow((pods,), matched, np.minimum(need, LARGEST), mask, whole)
