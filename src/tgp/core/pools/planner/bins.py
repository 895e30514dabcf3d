"""Packs pods that are nearly all different: the largest first, each where it makes a machine more expensive by least.

Pods with the same needs that may go to the same sources are one *kind*, and are placed together: first where there is
room, then where the next size costs least, and on machines of their own where that is cheaper. Kinds whose pods must
stand apart come first. A machine is always the cheapest source that holds what it has got and has a machine left. What
limits do not allow in the end is packed by patterns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tgp.core.model.arrays import Bools, Floats, Index, Ints, Words, np
from tgp.core.pools.planner.greedy import greedy, value_alone, worth_it
from tgp.core.pools.planner.problem import Packing, Problem, Remaining

MOST_STEPS = 1024  # sizes of one resource that are told apart; between two of them the smaller counts
MOST_COMPARED = 1200  # sources: among more, those that another one is better than are not left out
MOST_ALIKE = 256  # pods of a kind on a new machine
LEAST_AT_ONCE = 16  # pods that get a larger machine before it is asked again where there is room
TIES = 4  # times as many machines are ranked as pods are to be placed, for those that host rules forbid
BUYING_ROUNDS = 8


def bins(problem: Problem) -> Packing:
    """Equal problems give equal answers. Keeps stock, limits and host rules."""
    packed = _Machines(problem)
    for kind in _kinds(problem):
        packed.place(kind)
    left = packed.bought()
    if not left.count.any():
        return Packing.of(problem, left.taken)
    return greedy(problem, value_alone(problem), left)


@dataclass(slots=True)
class _Member:
    """A class, and how many of its pods have no machine yet. Rules are bits."""

    number: int
    left: int
    self_limited: int  # rules of which it is owner and member
    limited: int  # only member
    limiting: int  # only owner


@dataclass(slots=True)
class _Kind:
    """Classes with equal needs, equal sources and an equal limit on their own number."""

    need: Floats
    fits: Bools
    members: list[_Member]
    most: int  # on one machine, by their own rules
    apart: int  # the most machines that a rule of theirs asks for
    size: float = 0.0

    @property
    def left(self) -> int:
        return sum(member.left for member in self.members)


def _kinds(problem: Problem) -> list[_Kind]:
    """In the order in which they are placed."""
    waiting = np.flatnonzero(problem.count > 0)
    owners, members, both = _rule_bits(problem)
    apart = [int(problem.count[rule.owners & rule.members].sum()) // max(rule.most, 1) for rule in problem.host_rules]
    packed = np.packbits(problem.fits, axis=1)
    kinds: dict[tuple[bytes, bytes, int, int], _Kind] = {}
    for number in waiting.tolist():
        most, machines = MOST_ALIKE, 0
        for place in _bits(both[number]):
            most, machines = min(most, problem.host_rules[place].most), max(machines, apart[place])
        if both[number] and most < 1:
            continue  # it forbids itself
        key = (problem.need[number].tobytes(), packed[number].tobytes(), most, machines)
        kind = kinds.get(key)
        if kind is None:
            kind = kinds[key] = _Kind(problem.need[number], problem.fits[number], [], most, machines)
        mine = both[number]
        kind.members.append(
            _Member(number, int(problem.count[number]), mine, members[number] & ~mine, owners[number] & ~mine)
        )
    scale = np.maximum(problem.need.max(axis=0, initial=1.0), 1.0)
    for kind in kinds.values():
        kind.size = float((kind.need / scale).sum())
        kind.members.sort(key=lambda member: (-member.self_limited.bit_count(), -member.limiting.bit_count()))
    return sorted(kinds.values(), key=lambda kind: (-kind.apart, -kind.size))


def _rule_bits(problem: Problem) -> tuple[list[int], list[int], list[int]]:
    """By class: rules that it owns, rules that it is a member of, and rules of both."""
    owners, members = [0] * problem.classes, [0] * problem.classes
    for place, rule in enumerate(problem.host_rules):
        for number in np.flatnonzero(rule.owners).tolist():
            owners[number] |= 1 << place
        for number in np.flatnonzero(rule.members).tolist():
            members[number] |= 1 << place
    return owners, members, [mine & its for mine, its in zip(owners, members, strict=True)]


def _bits(number: int) -> Iterable[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


class _Prices:
    """The cheapest source that holds a load. For each size of a resource the sources that have it, as bits by price."""

    def __init__(self, problem: Problem, sources: Index) -> None:
        order = sources[np.argsort(problem.price[sources], kind="stable")]
        self._order = order = order[_undominated(problem, order)]
        self.sources: Index = np.append(order, -1)  # the last: none
        self.stock: Ints = np.append(problem.stock[order], 0)
        self.price: Floats = np.append(problem.price[order], np.inf)
        self.capacity: Floats = np.hstack([problem.capacity[order].T, np.zeros((problem.capacity.shape[1], 1))])
        self._sizes: list[Floats] = []
        self._having: list[Words] = []
        for have in problem.capacity[order].T:
            sizes = np.unique(have)
            if len(sizes) > MOST_STEPS:
                sizes = sizes[np.linspace(0, len(sizes) - 1, MOST_STEPS).astype(np.intp)]
            enough = np.zeros((len(sizes) + 1, len(order)), np.bool_)
            np.greater_equal(have[None, :], sizes[:, None], out=enough[:-1])
            self._sizes.append(sizes)
            self._having.append(_words(enough))

    def words(self, fits: Bools) -> Words:
        """Of these sources those that are for sale, as bits."""
        row: Words = _words(fits[None, self._order])[0]
        return row

    def left(self, taken: Ints) -> Words:
        """Sources of which not all machines are taken, as bits."""
        row: Words = _words((taken < self.stock)[None, :-1])[0]
        return row

    def cheapest(self, loads: Floats, among: Words) -> Index:
        """By load (resource by load): the place in `sources`. `among`: one row, or a row by load."""
        found = self._having[0][np.searchsorted(self._sizes[0], loads[0])]
        found &= among
        for sizes, having, load in zip(self._sizes[1:], self._having[1:], loads[1:], strict=True):
            found &= having[np.searchsorted(sizes, load)]
        word = (found != 0).argmax(axis=1)
        bits = found[np.arange(len(found)), word]
        lowest = np.frexp((bits & (~bits + np.uint64(1))).astype(np.float64))[1] - 1
        place: Index = np.where(bits != 0, word * 64 + lowest, len(self._order))
        return place


def _words(rows: Bools) -> Words:
    padded = np.zeros((len(rows), max(-(-rows.shape[1] // 64), 1) * 64), np.bool_)
    padded[:, : rows.shape[1]] = rows
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _undominated(problem: Problem, order: Index) -> Bools:
    """Without sources that a cheaper one is at least as large as, where both admit the same classes.

    Only a source with machines for all pods makes others superfluous.
    """
    kept = np.ones(len(order), np.bool_)
    alike: dict[bytes, list[int]] = {}
    columns = np.packbits(problem.fits[:, order], axis=0).T
    for place, column in enumerate(columns):
        alike.setdefault(column.tobytes(), []).append(place)
    for places in alike.values():
        if 1 < len(places) <= MOST_COMPARED:
            covers = np.triu(np.ones((len(places), len(places)), np.bool_), 1)  # by cheaper one, by other
            covers &= (problem.stock[order[places]] >= problem.count.sum())[:, None]
            for have in problem.capacity[order[places]].T:
                covers &= have[:, None] >= have[None, :]
            kept[places] = ~covers.any(axis=0)
    return kept


class _Machines:
    """Machines that are there, then those that are to be bought."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        able = problem.stock > 0
        there = np.zeros(problem.sources, np.bool_)  # pods run there already
        for rule in problem.host_rules:
            if rule.present is not None:
                there |= rule.present > 0
            if rule.owned is not None:
                there |= rule.owned
        free = np.flatnonzero(able & (problem.price == 0))
        self._prices = _Prices(problem, np.flatnonzero(able & (problem.price > 0) & ~there))
        fixed = np.repeat(free, np.minimum(problem.stock[free], max(int(problem.count.sum()), 1)))
        self._fixed = self._size = len(fixed)
        resources = problem.capacity.shape[1]
        self._scale = np.maximum(problem.need.max(axis=0, initial=1.0), 1.0)[:, None]
        self.load = np.zeros((resources, self._size))
        self.slack = problem.capacity[fixed].T.copy()
        self.price = np.zeros(self._size)
        self.source: Index = fixed
        self.size: Index = np.full(
            self._size, len(self._prices.sources) - 1
        )  # the place of the source; the last: fixed
        self._taken: Ints = np.zeros(len(self._prices.sources), np.int64)  # machines, by place
        self._left = self._prices.left(self._taken)
        self.among = np.zeros((self._size, len(self._left)), np.uint64)
        self.pods: list[dict[int, int]] = [{} for _ in range(self._size)]
        self._full = sum(1 << place for place, rule in enumerate(problem.host_rules) if rule.most < 1)
        # By machine, rules as bits: with an owner; with as many members as may be beside one; with more.
        self._owned, self._reached, self._over = [0] * self._size, [self._full] * self._size, [0] * self._size
        self._members: dict[tuple[int, int], int] = {}  # by machine and rule
        for machine, source in enumerate(fixed.tolist()):
            for place, rule in enumerate(problem.host_rules):
                if rule.owned is not None and rule.owned[source]:
                    self._owned[machine] |= 1 << place
                if rule.present is not None and rule.present[source]:
                    self._add_members(machine, place, int(rule.present[source]))

    def place(self, kind: _Kind) -> None:
        words, asked = self._prices.words(kind.fits), self._left
        size, each = self._alike(kind, words)
        while left := kind.left:
            left -= self._where_room(kind, words, left)
            if self._left is not asked:  # other sources are left
                asked = self._left
                size, each = self._alike(kind, words)
            if not left or not np.isfinite(each[0]):  # none is left, or no source holds even one
                break
            many = len(each[:left]) - int(np.argmin(each[:left][::-1]))  # the most, where it costs the same
            if self._larger(kind, words, float(each[many - 1]), max(left // 2, LEAST_AT_ONCE)):
                continue
            if not self._new(kind, words, int(size[many - 1]), many, left // many):
                break

    def _alike(self, kind: _Kind, words: Words) -> tuple[Index, Floats]:
        """For one pod of the kind alone, for two, …: the cheapest size, and what it costs for each of them."""
        alike = np.arange(1, min(kind.left, kind.most) + 1)
        size = self._prices.cheapest(kind.need[:, None] * alike, words & self._left)
        return size, self._prices.price[size] / alike

    def _where_room(self, kind: _Kind, words: Words, left: int) -> int:
        """Place pods where that costs nothing, on the fullest machines first. How many?"""
        able = kind.fits[self.source]
        for resource in np.flatnonzero(kind.need).tolist():
            able &= self.slack[resource] >= kind.need[resource]
        where = np.flatnonzero(able)
        if not len(where):
            return 0
        slack = self.slack[:, where]
        needed = kind.need > 0
        room = np.floor(slack[needed] / kind.need[needed][:, None]).min(axis=0, initial=float(left))
        order = np.argsort((slack / self._scale).sum(axis=0), kind="stable")
        placed = self._matched(kind, where[order].tolist(), room[order].astype(np.int64).tolist(), left)
        self._loaded(kind, words, placed)
        return sum(placed.values())

    def _larger(self, kind: _Kind, words: Words, most: float, at_once: int) -> bool:
        """Place pods where a larger machine costs at most so much more. Was any placed?"""
        able = self.among[self._fixed :] & (words & self._left)
        load = self.load[:, self._fixed :] + kind.need[:, None]
        size = self._prices.cheapest(load, able)
        more = self._prices.price[size] - self.price[self._fixed :]
        where = np.flatnonzero(more <= most)
        if not len(where):
            return False
        slack = ((self._prices.capacity[:, size[where]] - load[:, where]) / self._scale).sum(axis=0)
        rank = more[where] + slack / (1.0 + slack)  # prices are whole micro-dollars
        ranked = where[np.argsort(rank, kind="stable")[: TIES * at_once]]
        machines = (ranked[self._in_stock(size[ranked])] + self._fixed).tolist()
        placed = self._matched(kind, machines, [1] * len(machines), at_once)
        if not placed:
            return False
        chosen = np.fromiter(placed, np.intp, len(placed))
        bought = size[chosen - self._fixed]
        self._exchange(self.size[chosen], bought)
        self.size[chosen] = bought
        self.source[chosen], self.price[chosen] = self._prices.sources[bought], self._prices.price[bought]
        self.slack[:, chosen] = self._prices.capacity[:, bought] - self.load[:, chosen]
        self._loaded(kind, words, placed)
        return True

    def _in_stock(self, sizes: Index) -> Bools:
        """Whether the source still has a machine after those before it in this list have got theirs."""
        left = self._prices.stock[sizes] - self._taken[sizes]
        if left.min(initial=len(sizes)) >= len(sizes):
            return np.ones(len(sizes), np.bool_)
        before: dict[int, int] = {}
        able = []
        for size, many in zip(sizes.tolist(), left.tolist(), strict=True):
            before[size] = before.get(size, 0) + 1
            able.append(before[size] <= many)
        return np.array(able, np.bool_)

    def _exchange(self, returned: Index, taken: Index) -> None:
        """Note that machines of some sizes are not taken any more, and others are."""
        before = self._taken < self._prices.stock
        np.subtract.at(self._taken, returned, 1)
        np.add.at(self._taken, taken, 1)
        if ((self._taken < self._prices.stock) != before).any():
            self._left = self._prices.left(self._taken)

    def _new(self, kind: _Kind, words: Words, size: int, many: int, machines: int) -> bool:
        """Place pods of the kind on machines of their own, so many on each. Was any placed?"""
        machines = min(machines, int(self._prices.stock[size] - self._taken[size]))
        self._exchange(np.zeros(0, np.intp), np.full(machines, size))
        first = self._size
        self._grow(machines, size, words)
        placed = self._matched(kind, list(range(first, self._size)), [many] * machines, machines * many)
        self._loaded(kind, words, placed)
        return bool(placed)

    def _grow(self, machines: int, size: int, words: Words) -> None:
        self._size += machines
        self.load = np.hstack([self.load, np.zeros((len(self.load), machines))])
        self.slack = np.hstack([self.slack, np.repeat(self._prices.capacity[:, size][:, None], machines, axis=1)])
        self.price = np.append(self.price, np.full(machines, self._prices.price[size]))
        self.source = np.append(self.source, np.full(machines, self._prices.sources[size]))
        self.size = np.append(self.size, np.full(machines, size))
        self.among = np.vstack([self.among, np.repeat(words[None, :], machines, axis=0)])
        self.pods += [{} for _ in range(machines)]
        self._owned += [0] * machines
        self._reached += [self._full] * machines
        self._over += [0] * machines

    def _loaded(self, kind: _Kind, words: Words, placed: Mapping[int, int]) -> None:
        where = np.fromiter(placed.keys(), np.intp, len(placed))
        added = kind.need[:, None] * np.fromiter(placed.values(), np.float64, len(placed))
        self.load[:, where] += added
        self.slack[:, where] -= added
        self.among[where] &= words

    def _matched(self, kind: _Kind, where: list[int], room: list[int], most: int) -> dict[int, int]:
        """Machine by machine, as far as host rules allow: how many pods of the kind each has got."""
        placed: dict[int, int] = {}
        start = 0  # machines before it have no room
        for member in kind.members:
            ruled = member.self_limited or member.limited
            at = start
            while member.left and most and at < len(where):
                machine = where[at]
                if room[at] and self._allows(machine, member):
                    many = 1 if ruled else min(room[at], member.left, most)
                    self._add(machine, member, many)
                    placed[machine] = placed.get(machine, 0) + many
                    room[at] -= many
                    most -= many
                else:
                    if at == start and not room[at]:
                        start += 1
                    at += 1
        return placed

    def _allows(self, machine: int, member: _Member) -> bool:
        return not (
            self._reached[machine] & (member.self_limited | member.limited & self._owned[machine])
            or self._over[machine] & member.limiting
        )

    def _add(self, machine: int, member: _Member, many: int) -> None:
        member.left -= many
        pods = self.pods[machine]
        pods[member.number] = pods.get(member.number, 0) + many
        self._owned[machine] |= member.self_limited | member.limiting
        for place in _bits(member.self_limited | member.limited):
            self._add_members(machine, place, many)

    def _add_members(self, machine: int, place: int, many: int) -> None:
        there = self._members[machine, place] = self._members.get((machine, place), 0) + many
        most = self._problem.host_rules[place].most
        if there >= most:
            self._reached[machine] |= 1 << place
        if there > most:
            self._over[machine] |= 1 << place

    def bought(self) -> Remaining:
        """Each machine from its source while stock and limits last, then from the next cheapest, if it is worth it."""
        problem, left = self._problem, Remaining.of(self._problem)
        waiting = [machine for machine in range(self._size) if self.pods[machine]]
        waiting.sort(key=lambda machine: (-float(self.price[machine]), machine))
        sold = np.ones(problem.sources, np.bool_)
        for _ in range(BUYING_ROUNDS):
            later = []
            for machine in waiting:
                source, pods = int(self.source[machine]), self.pods[machine]
                if source >= 0 and worth_it(problem, source, pods):
                    if left.most(problem, source):
                        left.take(problem, source, pods, 1)
                    elif machine >= self._fixed:
                        sold[source] = False
                        later.append(machine)
            if not later:
                break
            waiting = later
            places = np.array(later, np.intp)
            size = self._prices.cheapest(self.load[:, places], self.among[places] & self._prices.words(sold))
            self.source[places] = self._prices.sources[size]
        return left
