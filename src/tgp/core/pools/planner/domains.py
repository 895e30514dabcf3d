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
from tgp.core.pools.planner.classes import PodMatcher, matcher_of_spread, matcher_of_term
from tgp.core.pools.planner.masks import LabelColumn
from tgp.core.pools.planner.problem import LARGEST
from tgp.core.pools.planner.rows import HOSTNAME, DemandRow
from tgp.core.pools.planner.sources import SourceSet
from tgp.core.pools.requirements import Malformed, together

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


def _keys(rows: Iterable[DemandRow], sources: SourceSet) -> list[str]:
    """Topologies in play: of the rows, and of running pods that keep others away."""
    keys = {term.topology_key for row in rows for term in (*row.pod.affinity.near, *row.pod.affinity.apart)}
    keys |= {spread.topology_key for row in rows for spread in row.pod.spreads if spread.hard}
    keys |= {term.topology_key for place in sources.world.capacity for pod in place.pods for term in pod.affinity.apart}
    return sorted(keys - {HOSTNAME})


class _Splitting:
    def __init__(self, key: str, rows: Sequence[DemandRow], sources: SourceSet) -> None:
        self._key = key
        self._rows = rows
        self._sources = sources
        self._column: LabelColumn = sources.table.values(key)
        self._domains = len(self._column.values)
        self._nameless = np.array([value is None for value in self._column.values], np.bool_)
        self._terms = _terms_of_all(rows, key)
        self._placed: dict[PodMatcher, Floats] = {}
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
                    self._placed[matcher] = self._running(matcher)
        self._note_running_owners()
        spreading = {matcher for terms in self._terms for matcher, _ in terms.spread}
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
        """Groups that stay together first, and those that look for others last."""
        terms, row = self._terms[number], self._rows[number]
        if not terms.near:
            return 1, number
        return (0 if all(matcher in row.matched for matcher in terms.near) else 2), number

    def _place(self, row: DemandRow, terms: _Terms, in_play: frozenset[PodMatcher], spread: bool) -> None:
        estimate, room = self._estimate(row)
        allowed = room > 0
        if terms.needs_label:
            allowed = allowed & ~self._nameless
        together_with = [matcher for matcher in terms.near if self._placed[matcher].any()]
        if any(matcher not in row.matched and matcher not in together_with for matcher in terms.near):
            self._refuse(row, f"no pod matches its pod affinity by {self._key}")
            return
        for matcher in together_with:
            allowed = allowed & (self._placed[matcher] > 0)
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
            shares = self._in_one(estimate, most, many)
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
        shares = np.zeros(self._domains)
        best = int(np.argmin(np.where(most > 0, estimate, np.inf)))
        shares[best] = min(many, most[best])
        return shares

    def _spread_out(
        self, row: DemandRow, terms: _Terms, in_play: frozenset[PodMatcher], room: tuple[Floats, Floats]
    ) -> Floats:
        """As even as the pods are now, over the domains there are and the cheapest new ones."""
        estimate, most = room
        for matcher, spread in terms.spread:
            counts = self._placed[matcher]
            domains = self._known(row, spread, counts) | self._listed(row)
            if not domains.any() or not self._listed(row).any():
                new = max(NEW_DOMAINS, spread.min_domains or 0) - int(domains.sum())
                domains |= _cheapest(estimate, (most > 0) & ~domains, new)
            most = np.where(domains, most, 0.0)
            few = spread.min_domains is not None and int(domains.sum()) < spread.min_domains
            if matcher in row.matched:  # no domain can be filled further than the fullest of those that stay low
                lowest = 0.0 if few else float((counts + most)[domains].min(initial=np.inf))
                most = np.minimum(most, np.maximum(lowest + spread.max_skew - counts, 0.0))
            else:
                lowest = 0.0 if few else float(counts[domains].min(initial=np.inf))
                most = np.where(counts <= lowest + spread.max_skew, most, 0.0)
        level = np.zeros(self._domains)
        for matcher in in_play & self._placed.keys():
            level += self._placed[matcher]
        if not terms.spread:  # it is only counted by others: where those are, or the cheapest domains
            used = (level > 0) & (most > 0)
            used |= _cheapest(estimate, (most > 0) & ~used, NEW_DOMAINS - int(used.sum()))
            most = np.where(used, most, 0.0)
        return _even(level, estimate, most, len(row.units))

    def _deal(self, row: DemandRow, terms: _Terms, in_play: frozenset[PodMatcher], shares: Floats) -> None:
        begin = 0
        for domain in np.flatnonzero(shares).tolist():
            units = row.units[begin : begin + int(shares[domain])]
            begin += len(units)
            self._made.append(replace(row, units=units, mask=self._in_domain(row.mask, domain)))
            for matcher in in_play & self._placed.keys():
                self._placed[matcher][domain] += sum(len(unit) for unit in units)
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
        if self._nameless.all():
            return f"{what} by {self._key}: no machine has this label"
        return f"{what} by {self._key}: no domain is left in which a machine could be launched"

    def _running(self, matcher: PodMatcher) -> Floats:
        """By domain: running pods that match."""
        world, counts = self._sources.world, np.zeros(self._domains)
        for place, there in enumerate(world.capacity):
            domain = int(self._column.place[place])
            if not self._nameless[domain]:
                counts[domain] += sum(
                    matcher.matches(pod.key.namespace, pod.labels, world.namespaces) for pod in there.pods
                )
        return counts

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
        there, table = self._sources.there, self._sources.table
        known = counts > 0
        if there:
            nodes = np.array([place.coming is None for place in self._sources.world.capacity], np.bool_)
            if spread.honors_affinity:
                nodes &= table.selected_by(row.pod)[:there]
            if spread.honors_taints:
                nodes &= table.tolerated_by(row.pod)[:there]
            known[self._column.place[:there][nodes]] = True
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
        pod = row.pod
        own = tuple(pod.labels.get(each) for spread in pod.spreads for each in spread.match_label_keys)
        document = (pod.key.namespace, id(pod.affinity), id(pod.spreads), own)
        if document not in known:
            known[document] = _terms_of(row, key)
        found.append(known[document])
    return found


def _terms_of(row: DemandRow, key: str) -> _Terms:
    pod = row.pod
    if not (pod.affinity.near or pod.affinity.apart or pod.spreads):
        return NO_TERMS
    return _Terms(
        tuple(_matchers(pod.affinity.near, key, pod.key.namespace)),
        tuple(_matchers(pod.affinity.apart, key, pod.key.namespace)),
        tuple((matcher_of_spread(each, pod), each) for each in pod.spreads if each.hard and each.topology_key == key),
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


def _even(level: Floats, estimate: Floats, most: Floats, many: int) -> Floats:
    """Shares that raise the lowest levels first; equal ones by price. At most `most` each."""
    shares = np.zeros(len(level))
    order = np.lexsort((np.arange(len(level)), estimate)).tolist()
    for _ in range(many if many <= 64 else 0):
        best = min((p for p in order if shares[p] < most[p]), key=lambda p: level[p] + shares[p], default=None)
        if best is None:
            return shares
        shares[best] += 1
    if many > 64:
        low, high = 0.0, float(level.max() + many)
        while high - low > 1:  # the highest whole level that many units can fill
            middle = np.floor((low + high) / 2)
            filled = np.clip(middle - level, 0, most).sum()
            low, high = (middle, high) if filled <= many else (low, middle)
        shares = np.clip(low - level, 0, most)
        for place in order:
            if shares.sum() >= many:
                break
            if shares[place] < most[place] and level[place] + shares[place] <= low:
                shares[place] += 1
    return shares
