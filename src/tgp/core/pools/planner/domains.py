"""Zones, regions and other topologies that a machine's offer decides: rows are split by domain before packing.

Feasible, not optimal: pods that have to be spread go evenly over the domains, pods that have to be together into the
cheapest one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tgp.core.model.arrays import Bools, Floats, np
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.placement import PodTerm, SpreadConstraint
from tgp.core.model.pod import Pod
from tgp.core.pools.planner.classes import PodMatcher, matcher_of_near, matcher_of_spread, matcher_of_term
from tgp.core.pools.planner.masks import LabelColumn
from tgp.core.pools.planner.problem import LARGEST, PackedMachines
from tgp.core.pools.planner.rows import HOSTNAME, DemandRow
from tgp.core.pools.planner.sources import SourceSet
from tgp.core.pools.requirements import Malformed, together

ONE_BY_ONE = 64  # units that are dealt out one by one; more of them in one go
NEW_DOMAINS = 3  # the cheapest that pods are spread over where their pool does not name its own

Refused: TypeAlias = tuple[DemandRow, str]  # with the reason


@dataclass(frozen=True, slots=True)
class _Terms:
    """What one row asks of one topology."""

    near: tuple[PodMatcher, ...] = ()
    apart: tuple[PodMatcher, ...] = ()
    spread: tuple[tuple[PodMatcher, SpreadConstraint], ...] = ()

    @property
    def needs_label(self) -> bool:
        return bool(self.near or self.spread)


def split_by_domain(rows: Sequence[DemandRow], sources: SourceSet) -> tuple[list[DemandRow], list[Refused]]:
    """Rows that topology narrows to one domain each, and the units that no domain can take."""
    refused: list[Refused] = []
    current = list(rows)
    for key in _keys(rows, sources):
        current, more = _Splitting(key, current, sources).run()
        refused += more
    return current, refused


def left_alone(rows: Sequence[DemandRow], machines: Iterable[PackedMachines], sources: SourceSet) -> list[Refused]:
    """Rows on these machines whose pods look for others that are not served: the scheduler would not place them."""
    packed = [(each.source, number) for each in machines for number, _ in each.pods]
    domains: dict[tuple[PodMatcher, str], set[int]] = {}
    found: dict[int, str] = {}
    for source, number in packed:
        matcher = matcher_of_near(rows[number].pod)
        if matcher is None or matcher in rows[number].matched:
            continue
        for key in {term.topology_key for term in rows[number].pod.affinity.near} - {HOSTNAME}:
            if (matcher, key) not in domains:
                domains[matcher, key] = set(_matched_domains(matcher, key, rows, packed, sources))
            if int(sources.table.values(key).place[source]) not in domains[matcher, key]:
                found[number] = f"no pod that is served matches its pod affinity by {key}"
    return [(rows[number], why) for number, why in sorted(found.items())]


def _matched_domains(
    matcher: PodMatcher, key: str, rows: Sequence[DemandRow], packed: Iterable[tuple[int, int]], sources: SourceSet
) -> Iterable[int]:
    """Where a pod runs or is planned that matches."""
    place, world = sources.table.values(key).place, sources.world
    for at, there in enumerate(world.capacity):
        if any(matcher.matches(pod.key.namespace, pod.labels, world.namespaces) for pod in there.pods):
            yield int(place[at])
    yield from (int(place[source]) for source, number in packed if matcher in rows[number].matched)


def _keys(rows: Iterable[DemandRow], sources: SourceSet) -> list[str]:
    """Topologies in play: of the rows, and of running pods that keep others away."""
    looking = [pod for row in rows for pod in row.units[0]]
    keys = {term.topology_key for pod in looking for term in (*pod.affinity.near, *pod.affinity.apart)}
    keys |= {spread.topology_key for pod in looking for spread in pod.spreads if spread.hard}
    keys |= {term.topology_key for place in sources.world.capacity for pod in place.pods for term in pod.affinity.apart}
    return sorted(keys - {HOSTNAME})


@dataclass(frozen=True, slots=True)
class _Skew:
    """One spread constraint of a row, as far as it is counted now. Arrays are by domain."""

    counts: Floats  # pods that it counts
    domains: Bools  # that it compares
    each: int  # so many of the pods of one unit are counted
    most: int
    few: bool  # there are fewer domains than it wants: the lowest is 0

    def lowest(self, counts: Floats) -> float:
        return 0.0 if self.few else float(counts[self.domains].min(initial=np.inf))

    def allows(self, shares: Floats) -> Bools:
        """Where one more unit may go, with these units placed."""
        counts = self.counts + self.each * shares
        allowed: Bools = counts + self.each <= self.lowest(counts) + self.most
        return allowed


class _Splitting:
    def __init__(self, key: str, rows: Sequence[DemandRow], sources: SourceSet) -> None:
        self._key = key
        self._rows = rows
        self._sources = sources
        self._column: LabelColumn = sources.table.values(key)
        self._domains = len(self._column.values)
        self._nameless = np.array([value is None for value in self._column.values], np.bool_)
        self._terms = _terms_of_all(rows, key)
        self._there: dict[PodMatcher, Floats] = {}  # by place that is there already: pods that match
        self._running: dict[PodMatcher, Floats] = {}  # by domain: the same
        self._placed: dict[PodMatcher, Floats] = {}  # by domain: the same, and those that are planned
        self._begun: dict[PodMatcher, int] = {}  # by what its pods look for: the domain that such a group begins in
        self._sought: set[PodMatcher] = set()  # by pods of which others are found that do not look for any
        self._kept_off: dict[PodMatcher, Floats] = {}  # domains in which an owner of such an anti-affinity is
        self._estimates: dict[tuple[int, int], tuple[Floats, Floats]] = {}  # by need and mask, which rows share
        self._narrowed: dict[tuple[int, int], Bools] = {}  # by mask, which rows share, and domain
        self._lists: dict[int, Bools] = {}  # by mask
        self._counted: dict[int, frozenset[PodMatcher]] = {}  # by what a row's labels match, which rows share
        self._made: list[DemandRow] = []
        self._refused: list[Refused] = []

    def run(self) -> tuple[list[DemandRow], list[Refused]]:
        for terms in self._terms:
            for matcher in (*terms.near, *terms.apart, *(each for each, _ in terms.spread)):
                if matcher not in self._placed:
                    self._count_running(matcher)
        self._note_running_owners()
        spreading = {matcher for terms in self._terms for matcher, _ in terms.spread}
        near = {matcher for terms in self._terms for matcher in terms.near}
        for row, terms in zip(self._rows, self._terms, strict=True) if near else ():
            self._sought |= (near & row.matched) - {*terms.near}
        for number in sorted(range(len(self._rows)), key=self._order):
            row, terms = self._rows[number], self._terms[number]
            in_play = self._in_play(row)
            if not in_play and not (terms.near or terms.apart or terms.spread):
                self._made.append(row)
                continue
            self._place(row, terms, in_play, bool(terms.spread or in_play & spreading))
        return self._made, self._refused

    def _in_play(self, row: DemandRow) -> frozenset[PodMatcher]:
        """Matchers that count the row's pods, or keep them off."""
        counted = self._counted.get(id(row.matched))
        if counted is None:
            counted = self._counted[id(row.matched)] = row.matched & self._placed.keys()
        return counted | (row.matched & self._kept_off.keys()) if self._kept_off else counted

    def _order(self, number: int) -> tuple[int, int]:
        """Groups that stay together first, and those that look for others last.

        A group that others belong to as well goes where those are: they may be bound first.
        """
        terms, row = self._terms[number], self._rows[number]
        if not terms.near:
            return 1, number
        alone = all(matcher in row.matched and matcher not in self._sought for matcher in terms.near)
        return (0 if alone else 2), number

    def _place(self, row: DemandRow, terms: _Terms, in_play: frozenset[PodMatcher], spread: bool) -> None:
        estimate, room = self._estimate(row)
        allowed = room > 0
        if not allowed.any() and not (terms.needs_label and self._nameless.all()):
            self._made.append(row)  # no machine could hold it wherever it is: its reasons are others than topology
            return
        if terms.needs_label:
            allowed = allowed & ~self._nameless
        together_with = [matcher for matcher in terms.near if self._placed[matcher].any()]
        if any(matcher not in together_with and not self._may_be_first(row, matcher) for matcher in terms.near):
            self._refuse(row, f"no pod matches its pod affinity by {self._key}")
            return
        for matcher in together_with:
            allowed = allowed & (self._placed[matcher] > 0)
        for matcher in in_play & self._begun.keys():
            allowed = allowed & (np.arange(self._domains) == self._begun[matcher])
        for matcher in terms.apart:
            allowed = allowed & ((self._placed[matcher] == 0) | self._nameless)
        for matcher in in_play:
            if matcher in self._kept_off:
                allowed = allowed & ((self._kept_off[matcher] == 0) | self._nameless)
        if not allowed.any():
            self._refuse(row, self._no_domain(terms))
            return
        most = np.where(allowed, room, 0.0)
        if any(matcher in row.matched for matcher in terms.apart):
            most = np.where(self._nameless, most, np.minimum(most, 1.0))
        many = len(row.units)
        if terms.near:
            shares = self._in_one(estimate, self._within_skew(row, terms, most), many)
            if shares.any():
                self._begun |= dict.fromkeys(set(terms.near) - {*together_with}, int(np.argmax(shares)))
        elif spread:
            shares = self._spread_out(row, terms, in_play, (estimate, most))
        elif terms.apart:
            shares = _cheapest_first(estimate, most, many)
        elif in_play & (self._placed.keys() - {each for terms in self._terms for each, _ in terms.spread}):
            shares = self._in_one(estimate, most, many)
        else:
            self._made.append(replace(row, mask=row.mask & allowed[self._column.place]))
            return
        self._deal(row, terms, in_play, shares)

    def _in_one(self, estimate: Floats, most: Floats, many: int) -> Floats:
        """The cheapest domain that holds all of them; if none does, the cheapest that holds some."""
        shares = np.zeros(self._domains)
        wide = most >= many
        best = int(np.argmin(np.where(wide if wide.any() else most > 0, estimate, np.inf)))
        shares[best] = min(many, most[best])
        return shares

    def _within_skew(self, row: DemandRow, terms: _Terms, most: Floats) -> Floats:
        """How many units each domain may get if it gets all of them."""
        most = most.copy()
        for matcher, spread in terms.spread:
            counts, each = self._counts(row, matcher, spread), self._per_unit(row, matcher)
            known = self._known(row, spread, counts)
            for domain in np.flatnonzero(most).tolist():
                others = known & (np.arange(self._domains) != domain)
                few = spread.min_domains is not None and int(others.sum()) + 1 < spread.min_domains
                lowest = 0.0 if few else float(counts[others].min(initial=LARGEST))
                left = lowest + spread.max_skew - counts[domain]
                most[domain] = min(most[domain], max(left // each, 0.0)) if each else most[domain] * (left >= 0)
        return most

    def _spread_out(
        self, row: DemandRow, terms: _Terms, in_play: frozenset[PodMatcher], room: tuple[Floats, Floats]
    ) -> Floats:
        """As even as the pods are now, over the domains there are and the cheapest new ones."""
        estimate, most = room
        skews = []
        for matcher, spread in terms.spread:
            counts = self._counts(row, matcher, spread)
            domains = self._known(row, spread, counts) | self._listed(row)
            if not domains.any() or not self._listed(row).any():
                new = max(NEW_DOMAINS, spread.min_domains or 0) - int(domains.sum())
                domains |= _cheapest(estimate, (most > 0) & ~domains, new)
            most = np.where(domains, most, 0.0)
            few = spread.min_domains is not None and int(domains.sum()) < spread.min_domains
            skews.append(_Skew(counts, domains, self._per_unit(row, matcher), spread.max_skew, few))
        level = np.zeros(self._domains)
        for matcher in in_play & self._placed.keys():
            level += self._placed[matcher]
        if not terms.spread:  # it is only counted by others: where those are, or the cheapest domains
            used = (level > 0) & (most > 0)
            used |= _cheapest(estimate, (most > 0) & ~used, NEW_DOMAINS - int(used.sum()))
            most = np.where(used, most, 0.0)
        if len(row.units) <= ONE_BY_ONE:
            return _one_by_one(level, estimate, most, len(row.units), skews)
        for skew in skews:  # no domain can be filled further than the fullest of those that stay low
            left = skew.lowest(skew.counts + most * bool(skew.each)) + skew.most - skew.counts
            most = np.minimum(most, np.maximum(left, 0.0)) if skew.each else np.where(left >= 0, most, 0.0)
        return _even(level, estimate, most, len(row.units))

    def _deal(self, row: DemandRow, terms: _Terms, in_play: frozenset[PodMatcher], shares: Floats) -> None:
        begin = 0
        for domain in np.flatnonzero(shares).tolist():
            units = row.units[begin : begin + int(shares[domain])]
            begin += len(units)
            self._made.append(replace(row, units=units, mask=self._in_domain(row.mask, domain)))
            for matcher in in_play & self._placed.keys():
                self._placed[matcher][domain] += self._per_unit(row, matcher) * len(units)
            for matcher in terms.apart:
                if not self._nameless[domain]:
                    self._kept_off.setdefault(matcher, np.zeros(self._domains))[domain] = 1
        if begin < len(row.units):
            self._refuse(replace(row, units=row.units[begin:]), self._no_domain(terms))

    def _in_domain(self, mask: Bools, domain: int) -> Bools:
        known = self._narrowed.get((id(mask), domain))
        if known is None:
            known = self._narrowed[id(mask), domain] = mask & (self._column.place == domain)
        return known

    def _refuse(self, row: DemandRow, why: str) -> None:
        self._refused.append((row, why))

    def _no_domain(self, terms: _Terms) -> str:
        what = "topology spread" if terms.spread else "pod affinity" if terms.near else "pod anti-affinity"
        if not (terms.spread or terms.near or terms.apart):
            what = "topology of other pods"
        if self._nameless.all():
            return f"{what} by {self._key}: no machine has this label"
        return f"{what} by {self._key}: no domain is left in which a machine could be launched"

    def _count_running(self, matcher: PodMatcher) -> None:
        world = self._sources.world
        there = np.array(
            [
                sum(matcher.matches(pod.key.namespace, pod.labels, world.namespaces) for pod in place.pods)
                for place in world.capacity
            ],
            np.float64,
        )
        self._there[matcher] = there
        self._running[matcher] = self._by_domain(there)
        self._placed[matcher] = self._running[matcher].copy()

    def _by_domain(self, there: Floats) -> Floats:
        """Sums of what is counted by place."""
        places = self._column.place[: self._sources.there]
        return np.where(self._nameless, 0.0, np.bincount(places, there, self._domains))

    def _may_be_first(self, row: DemandRow, matcher: PodMatcher) -> bool:
        """Where no pod runs that it looks for, a pod that is one itself goes anywhere."""
        if matcher not in row.matched:
            return False
        outside = self._there[matcher][self._nameless[self._column.place[: self._sources.there]]]
        return not outside.any() or len({term.topology_key for term in row.pod.affinity.near}) == 1

    def _per_unit(self, row: DemandRow, matcher: PodMatcher) -> int:
        """How many pods of one unit match."""
        if len(row.units[0]) == 1:
            return int(matcher in row.matched)
        known = self._sources.world.namespaces
        return sum(matcher.matches(pod.key.namespace, pod.labels, known) for pod in row.units[0])

    def _counts(self, row: DemandRow, matcher: PodMatcher, spread: SpreadConstraint) -> Floats:
        """By domain: what the constraint counts. Pods on Nodes that it leaves out are no part of it."""
        there = np.where(self._compared(row, spread), self._there[matcher], 0.0)
        return self._by_domain(there) + self._placed[matcher] - self._running[matcher]

    def _compared(self, row: DemandRow, spread: SpreadConstraint) -> Bools:
        """By place: whether the scheduler looks at it; only at Nodes with the labels of all the pod's hard spreads."""
        there, table = self._sources.there, self._sources.table
        compared = np.ones(there, np.bool_)
        if not there:
            return compared
        for key in {each.topology_key for each in row.pod.spreads if each.hard} - {HOSTNAME}:
            compared &= ~table.values(key).admitted(lambda value: value is None)[:there]
        if spread.honors_affinity:
            compared &= table.selected_by(row.pod)[:there]
        if spread.honors_taints:
            compared &= table.tolerated_by(row.pod)[:there]
        return compared

    def _note_running_owners(self) -> None:
        for place, there in enumerate(self._sources.world.capacity):
            domain = int(self._column.place[place])
            for pod in there.pods:
                for term in pod.affinity.apart:
                    if term.topology_key == self._key and not self._nameless[domain]:
                        matcher = matcher_of_term(term, pod.key.namespace)
                        self._kept_off.setdefault(matcher, np.zeros(self._domains))[domain] = 1

    def _known(self, row: DemandRow, spread: SpreadConstraint, counts: Floats) -> Bools:
        """Domains that the scheduler compares: of existing Nodes, full ones included, and where pods are planned."""
        nodes = self._compared(row, spread)
        nodes &= np.array([place.coming is None for place in self._sources.world.capacity], np.bool_)
        known = counts > 0
        known[self._column.place[: self._sources.there][nodes]] = True
        return known & ~self._nameless

    def _listed(self, row: DemandRow) -> Bools:
        """Domains that requirements of a pool which may serve the row name."""
        known = self._lists.get(id(row.mask))
        if known is None:
            known = self._lists[id(row.mask)] = self._read_lists(row.mask)
        return known

    def _read_lists(self, mask: Bools) -> Bools:
        listed = np.zeros(self._domains, np.bool_)
        for place in np.unique(self._sources.pool[mask & (self._sources.pool >= 0)]).tolist():
            written = self._sources.offers[place].pool.pool.spec.template.spec.requirements
            try:
                allowed = together(LabelRequirement(each.key, each.operator, each.values) for each in written)
            except Malformed:
                continue
            chosen = allowed[self._key].chosen if self._key in allowed else None
            if chosen is not None:
                listed |= np.array([value in chosen for value in self._column.values], np.bool_)
        return listed

    def _estimate(self, row: DemandRow) -> tuple[Floats, Floats]:
        """By domain: what one unit costs on the cheapest machine that holds it, and the room for units."""
        known = self._estimates.get((id(row.need), id(row.mask)))
        if known is not None:
            return known
        sources = self._sources
        usable = np.flatnonzero(row.mask & (sources.stock > 0))
        many = np.full(len(usable), LARGEST)
        for resource in np.flatnonzero(row.need).tolist():
            np.minimum(many, np.floor(sources.capacity[usable, resource] / row.need[resource]), out=many)
        usable, many = usable[many >= 1], many[many >= 1]
        domain = self._column.place[usable]
        estimate: Floats = np.full(self._domains, np.inf)
        np.minimum.at(estimate, domain, sources.charge[usable] / many)
        room: Floats = np.bincount(domain, many * sources.stock[usable], self._domains).astype(np.float64)
        self._estimates[id(row.need), id(row.mask)] = estimate, room
        return estimate, room


def _terms_of_all(rows: Iterable[DemandRow], key: str) -> list[_Terms]:
    """By row. Many rows share the documents that their terms are read from."""
    known: dict[tuple[object, ...], _Terms] = {}
    found = []
    for row in rows:
        documents = tuple(_document(pod) for pod in row.units[0])
        if documents not in known:
            known[documents] = _terms_of(row.units[0], key)
        found.append(known[documents])
    return found


def _document(pod: Pod) -> tuple[object, ...]:
    own = tuple(pod.labels.get(each) for spread in pod.spreads for each in spread.match_label_keys)
    return (pod.key.namespace, id(pod.affinity), id(pod.spreads), own)


def _terms_of(unit: Iterable[Pod], key: str) -> _Terms:
    """Pods of a unit are in one domain together: the terms of each hold for all."""
    looking = [pod for pod in unit if pod.affinity.near or pod.affinity.apart or pod.spreads]
    if not looking:
        return NO_TERMS
    near = (matcher_of_near(pod) for pod in looking if key in {term.topology_key for term in pod.affinity.near})
    apart = (each for pod in looking for each in _matchers(pod.affinity.apart, key, pod.key.namespace))
    spread = (
        (matcher_of_spread(each, pod), each)
        for pod in looking
        for each in pod.spreads
        if each.hard and each.topology_key == key
    )
    return _Terms(
        tuple(dict.fromkeys(each for each in near if each is not None)),
        tuple(dict.fromkeys(apart)),
        tuple(dict.fromkeys(spread)),
    )


NO_TERMS = _Terms()


def _matchers(terms: Iterable[PodTerm], key: str, namespace: str) -> Iterable[PodMatcher]:
    return (matcher_of_term(term, namespace) for term in terms if term.topology_key == key)


def _cheapest(estimate: Floats, among: Bools, many: int) -> Bools:
    """The cheapest domains of these, so many."""
    chosen = np.zeros(len(estimate), np.bool_)
    order = [place for place in np.lexsort((np.arange(len(estimate)), estimate)).tolist() if among[place]]
    chosen[order[: max(many, 0)]] = True
    return chosen


def _cheapest_first(estimate: Floats, most: Floats, many: int) -> Floats:
    shares = np.zeros(len(estimate))
    for place in np.lexsort((np.arange(len(estimate)), estimate)).tolist():
        shares[place] = min(most[place], many - shares.sum())
    return shares


def _one_by_one(level: Floats, estimate: Floats, most: Floats, many: int, skews: Sequence[_Skew]) -> Floats:
    """Shares by which the lowest level is raised first, equal ones by price; each unit where the scheduler lets it go
    after those before it.
    """
    shares = np.zeros(len(level))
    order = np.lexsort((np.arange(len(level)), estimate)).tolist()
    for _ in range(many):
        allowed = shares < most
        for skew in skews:
            allowed &= skew.allows(shares)
        best = min((place for place in order if allowed[place]), key=lambda p: level[p] + shares[p], default=None)
        if best is None:
            break
        shares[best] += 1
    return shares


def _even(level: Floats, estimate: Floats, most: Floats, many: int) -> Floats:
    """The same of many units, at most `most` in each domain."""
    low, high = 0.0, float(level.max() + many)
    while high - low > 1:  # the highest whole level that many units can fill
        middle = np.floor((low + high) / 2)
        filled = np.clip(middle - level, 0, most).sum()
        low, high = (middle, high) if filled <= many else (low, middle)
    shares: Floats = np.clip(low - level, 0, most)
    for place in np.lexsort((np.arange(len(level)), estimate)).tolist():
        if shares.sum() >= many:
            break
        if shares[place] < most[place] and level[place] + shares[place] <= low:
            shares[place] += 1
    return shares
