"""The packing problem in numbers: how many machines of which source, and which pods on each.

A *class* is a set of pods that cannot be told apart. A *source* is something machines come from: an offer of the
market, a Node with room (price 0, stock 1), a machine on its way. A *pattern* is how many pods of each class go on one
machine of one source.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

from tgp.core.model.arrays import Bools, Floats, Index, Ints, np

Pattern: TypeAlias = tuple[tuple[int, int], ...]  # (class, how many), by class

LARGEST = float(1 << 50)  # of any amount: sums of many stay exact in 64-bit floats


@dataclass(frozen=True, slots=True, eq=False)
class HostRule:
    """On a machine with a pod of `owners`, at most `most` pods of `members`.

    Spread and anti-affinity by hostname, and host ports: in the form that holds whatever order pods are bound in.
    """

    owners: Bools  # by class
    members: Bools  # by class
    most: int
    present: Ints | None = None  # by source: members that run there already; None: nowhere any
    owned: Bools | None = None  # by source: whether an owner runs there already; None: nowhere

    def allows(self, number: int) -> Floats | None:
        """By source: how many pods of a class that is a member may be added; None: as many as fit."""
        if not self.members[number]:
            return None
        present = self.present if self.present is not None else 0
        room: Floats = np.maximum(np.float64(self.most) - present, 0)
        if self.owners[number]:
            return room
        return np.where(self.owned, room, np.inf) if self.owned is not None else None

    def shuts_out(self, number: int) -> Bools | None:
        """By source: whether too many members run there for an owner of this class; None: nowhere."""
        if not self.owners[number] or self.present is None:
            return None
        shut: Bools = self.present > self.most
        return shut


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """PackedMachines together use at most so much: money, nodes, GPUs of a class of machines or of a pool."""

    name: str
    use: Floats  # by source: what one machine takes
    most: float


class PackedMachines(NamedTuple):
    """So many machines of one source, all with the same pods on them."""

    source: int
    pods: Pattern
    copies: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Amounts are whole numbers kept as floats, at most LARGEST. Money is micro-dollars per hour."""

    need: Floats  # class by resource
    count: Ints  # by class: pods
    penalty: Floats  # by class: what leaving one pod unserved is charged
    capacity: Floats  # source by resource
    price: Floats  # by source
    stock: Ints  # by source: machines that can be had
    fits: Bools  # class by source: everything but room
    host_rules: tuple[HostRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    shelf: Index | None = None  # by source: those with the same number draw on one stock; None: each has its own

    @property
    def classes(self) -> int:
        return len(self.count)

    @property
    def sources(self) -> int:
        return len(self.price)

    @cached_property
    def needs(self) -> tuple[tuple[tuple[int, float], ...], ...]:
        """By class: (resource, amount) where the amount is not zero."""
        return tuple(
            tuple((int(resource), float(row[resource])) for resource in np.flatnonzero(row)) for row in self.need
        )

    @cached_property
    def common_needs(self) -> tuple[tuple[int, float], ...]:
        """Resources that every class needs, with the least need: a machine with less has room for none."""
        if not self.classes:
            return ()
        least = self.need.min(axis=0)
        return tuple((int(resource), float(least[resource])) for resource in np.flatnonzero(least > 0))

    @cached_property
    def share(self) -> Floats:
        """By class: the largest share of a typical machine's resources that one pod takes; above zero."""
        typical = np.maximum(np.median(self.capacity, axis=0), 1.0)
        share: Floats = np.maximum((self.need / typical).max(axis=1, initial=1e-9), 1e-9)
        return share

    @cached_property
    def alone(self) -> Floats:
        """Class by source: how many pods of the class one machine holds if it holds no others; 0 where none fits."""
        most = np.where(self.fits, np.float64(LARGEST), 0.0)
        for number, needs in enumerate(self.needs):
            for resource, amount in needs:
                np.minimum(most[number], np.floor(self.capacity[:, resource] / amount), out=most[number])
        for rule in self.host_rules:
            for named in np.flatnonzero(rule.owners | rule.members).tolist():
                if (room := rule.allows(named)) is not None:
                    np.minimum(most[named], room, out=most[named])
                if (shut := rule.shuts_out(named)) is not None:
                    most[named][shut] = 0
        np.minimum(most, self.count[:, None], out=most)
        return most

    @cached_property
    def hosts(self) -> Bools:
        """Class by source: whether one machine holds at least one pod of the class."""
        hosts: Bools = self.alone >= 1
        return hosts

    @cached_property
    def homes(self) -> tuple[Index, ...]:
        """By class: the sources whose machines hold at least one of its pods."""
        return tuple(np.flatnonzero(row) for row in self.hosts)

    @cached_property
    def rules_of(self) -> tuple[tuple[int, ...], ...]:
        """By class: the host rules that name it."""
        return tuple(
            tuple(place for place, rule in enumerate(self.host_rules) if rule.owners[number] or rule.members[number])
            for number in range(self.classes)
        )

    @cached_property
    def shelves(self) -> Index:
        """By source: the stock that it draws on."""
        return np.arange(self.sources) if self.shelf is None else self.shelf

    def draw(self, stock: Ints, source: int, copies: int) -> None:
        """Take machines of a source out of `stock`, by source."""
        if self.shelf is None:
            stock[source] -= copies
        else:
            stock[self.shelf == self.shelf[source]] -= copies

    @cached_property
    def use(self) -> Floats:
        """Limit by source."""
        return np.array([limit.use for limit in self.limits]).reshape(len(self.limits), self.sources)

    @cached_property
    def room(self) -> Floats:
        """By limit: the most."""
        return np.array([limit.most for limit in self.limits], np.float64)


@dataclass(frozen=True, slots=True)
class Packing:
    """An answer: every pod of a class is on one of the machines, or unserved."""

    machines: tuple[PackedMachines, ...] = ()
    unserved: tuple[int, ...] = ()  # by class
    cost: float = 0.0  # of the machines, without penalties
    charged: float = 0.0  # with penalties

    @classmethod
    def of(cls, problem: Problem, machines: Iterable[PackedMachines]) -> "Packing":
        merged = together(machines)
        left = problem.count.copy()
        for each in merged:
            for number, amount in each.pods:
                left[number] -= amount * each.copies
        cost = float(sum(problem.price[each.source] * each.copies for each in merged))
        return cls(merged, tuple(left.tolist()), cost, cost + float(np.dot(np.maximum(left, 0), problem.penalty)))


@dataclass(frozen=True, slots=True)
class Bound:
    """No packing is charged less than `least`; `proven` says whether pricing was exact."""

    least: float
    proven: bool


def together(machines: Iterable[PackedMachines]) -> tuple[PackedMachines, ...]:
    """Equal machines once, in a fixed order."""
    copies: dict[tuple[int, Pattern], int] = {}
    for source, pods, many in machines:
        if many > 0:
            copies[source, pods] = copies.get((source, pods), 0) + many
    return tuple(PackedMachines(source, pods, many) for (source, pods), many in sorted(copies.items()))


@dataclass(slots=True)
class Remaining:
    """What is left while a packing is built up."""

    count: Ints  # pods of each class
    stock: Ints  # machines of each source
    room: Floats  # of each limit
    taken: list[PackedMachines] = field(default_factory=list)

    @classmethod
    def of(cls, problem: Problem) -> "Remaining":
        return cls(problem.count.copy(), problem.stock.copy(), problem.room.copy())

    def most(self, problem: Problem, source: int) -> int:
        """PackedMachines of a source that stock and limits still allow."""
        most = int(self.stock[source])
        for place, limit in enumerate(problem.limits):
            if limit.use[source] > 0:
                most = min(most, int(self.room[place] // limit.use[source]))
        return max(most, 0)

    def take(self, problem: Problem, source: int, pods: Mapping[int, int], copies: int) -> None:
        for number, amount in pods.items():
            self.count[number] -= amount * copies
        problem.draw(self.stock, source, copies)
        if len(self.room):
            self.room -= problem.use[:, source] * copies
        self.taken.append(PackedMachines(source, tuple(sorted(pods.items())), copies))
