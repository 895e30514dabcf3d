"""Fills machines with pods, many machines at once: one class after the other, each as often as it still fits."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from tgp.core.model.arrays import Bools, Floats, Index, Ints, np
from tgp.core.pools.planner.problem import HostRule, Problem

SIEVED_EVERY = 4  # classes: full machines are left out from then on


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns as sparse rows: entries `starts[i]:starts[i+1]` of `classes` and `counts` are row i's, by class."""

    sources: Index  # of each row
    starts: Index
    classes: Index
    counts: Floats
    values: Floats  # of each row

    def row(self, place: int) -> dict[int, int]:
        part = slice(self.starts[place], self.starts[place + 1])
        return dict(zip(self.classes[part].tolist(), self.counts[part].astype(np.int64).tolist(), strict=True))

    def rows(self) -> list[dict[int, int]]:
        """All of them: much faster than one after the other."""
        starts, classes, counts = self.starts.tolist(), self.classes.tolist(), self.counts.astype(np.int64).tolist()
        return [dict(zip(classes[begin:end], counts[begin:end], strict=True)) for begin, end in pairwise(starts)]


def orders(problem: Problem, value: Floats) -> Iterator[Index]:
    """Orders to fill machines in: the most valuable first per largest share, and per unit of each resource."""
    if not problem.sources or not problem.classes:
        yield np.zeros(0, np.intp)
        return
    by_share = value / problem.share
    yield np.argsort(-by_share, kind="stable")
    for resource in range(problem.need.shape[1]):
        needs = problem.need[:, resource]
        if not needs.any() or (needs[needs > 0].min() == needs.max() and (needs > 0).all()):
            continue  # the same for all: no other order than by value
        density = np.divide(value, needs, out=np.full(len(value), np.inf), where=needs > 0)
        yield np.lexsort((-by_share, -density))


def best_fill(problem: Problem, sources: Index, value: Floats, count: Ints, limit: int = 4) -> Patterns:
    """The most valuable of the fills in several orders, for each source."""
    found = [fill(problem, sources, order, value, count) for order in islice(orders(problem, value), limit)]
    best = np.argmax([each.values for each in found], axis=0)
    return _chosen(sources, found, best)


def fill(problem: Problem, sources: Index, order: Index, value: Floats, count: Ints) -> Patterns:
    """One pattern for each of these sources. Classes come in `order`; no pattern has more of a class than `count`.

    `value`: what a pod of each class is worth; it is only added up.
    """
    free = [problem.capacity[sources, resource] for resource in range(problem.capacity.shape[1])]
    worth = np.zeros(len(sources))
    rules = problem.host_rules
    members = np.array([_at(rule.present, sources) for rule in rules], np.float64)
    owned = np.array([_at(rule.owned, sources) for rule in rules], np.bool_)
    rows: list[Index] = []
    counts: list[Floats] = []
    numbers: list[int] = []
    active, names = np.arange(len(sources)), sources  # machines that may still have room, and their sources
    for step, number in enumerate(order[count[order] > 0].tolist()):
        if step and step % SIEVED_EVERY == 0:
            for resource, least in problem.common_needs:
                active = active[free[resource][active] >= least]
            if not len(active):
                break
            names = sources[active]
        most = count[number]
        places = active[problem.hosts[number][names]]
        if not len(places):
            continue
        needs = problem.needs[number]
        fitting: Floats | None = None
        for resource, amount in needs:
            room = free[resource][places]
            room /= amount
            fitting = room if fitting is None else np.minimum(fitting, room, out=fitting)
        fitting = np.full(len(places), np.inf) if fitting is None else fitting
        np.floor(np.minimum(fitting, most, out=fitting), out=fitting)
        for place in problem.rules_of[number]:
            _obey(rules[place], number, fitting, members[place][places], owned[place][places])
        some = fitting >= 1
        places, fitting = places[some], fitting[some]
        if not len(places):
            continue
        for resource, amount in needs:
            free[resource][places] -= fitting * amount
        worth[places] += fitting * value[number]
        for place in problem.rules_of[number]:
            if rules[place].members[number]:
                members[place][places] += fitting
            if rules[place].owners[number]:
                owned[place][places] = True
        rows.append(places)
        counts.append(fitting)
        numbers.append(number)
    return _sparse(sources, rows, counts, numbers, worth)


def _at(by_source: Ints | Bools | None, sources: Index) -> Ints | Bools:
    return by_source[sources] if by_source is not None else np.zeros(len(sources), np.int64)


def _obey(rule: HostRule, number: int, fitting: Floats, members: Floats, owned: Bools) -> None:
    """Lower `fitting` in place to what a host rule allows."""
    if rule.members[number]:
        bound = rule.most - members
        if not rule.owners[number]:
            bound[~owned] = np.inf
        np.minimum(fitting, np.maximum(bound, 0), out=fitting)
    else:
        fitting[members > rule.most] = 0


def _sparse(sources: Index, rows: list[Index], counts: list[Floats], numbers: list[int], worth: Floats) -> Patterns:
    if not rows:
        return Patterns(sources, np.zeros(len(sources) + 1, np.intp), np.zeros(0, np.intp), np.zeros(0), worth)
    row = np.concatenate(rows)
    classes = np.repeat(np.array(numbers, np.intp), [len(part) for part in rows])
    order = np.lexsort((classes, row))
    starts = np.zeros(len(sources) + 1, np.intp)
    np.cumsum(np.bincount(row, minlength=len(sources)), out=starts[1:])
    return Patterns(sources, starts, classes[order], np.concatenate(counts)[order], worth)


def _chosen(sources: Index, found: list[Patterns], best: Index) -> Patterns:
    """Row i of `found[best[i]]`, for each i."""
    if len(found) == 1:
        return found[0]
    lengths = np.zeros(len(sources), np.intp)
    for place, each in enumerate(found):
        mine = best == place
        lengths[mine] = np.diff(each.starts)[mine]
    starts = np.zeros(len(sources) + 1, np.intp)
    np.cumsum(lengths, out=starts[1:])
    classes, counts = np.zeros(starts[-1], np.intp), np.zeros(starts[-1])
    for place, each in enumerate(found):
        mine = np.flatnonzero(best == place)
        taken = _ranges(each.starts[mine], lengths[mine])
        into = _ranges(starts[mine], lengths[mine])
        classes[into], counts[into] = each.classes[taken], each.counts[taken]
    values = np.take_along_axis(np.array([each.values for each in found]), best[None, :], axis=0)[0]
    return Patterns(sources, starts, classes, counts, values)


def _ranges(starts: Index, lengths: Index) -> Index:
    """starts[0], starts[0]+1, … for lengths[0] numbers, then the next."""
    ends = np.cumsum(lengths)
    if not len(ends) or not ends[-1]:
        return np.zeros(0, np.intp)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])
