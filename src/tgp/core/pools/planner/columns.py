"""Column generation: a linear program over patterns, to which better patterns are added until there are none.

The program's prices of pods (duals) say what serving one more pod of a class costs; a source whose best pattern is
worth more than its machine costs gives a new column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tgp.core.model.arrays import Floats, Index, np
from tgp.core.pools.planner.fill import Patterns, fill, orders
from tgp.core.pools.planner.problem import PackedMachines, Pattern, Problem

GAIN = 1e-7  # of a price: less is rounding
MOST_NEW = 200  # columns in one round


class ColumnSet:
    """Patterns found so far, each once."""

    def __init__(self) -> None:
        self.source: list[int] = []
        self.pods: list[Pattern] = []
        self._known: set[tuple[int, Pattern]] = set()

    def __len__(self) -> int:
        return len(self.source)

    def add(self, source: int, pods: Pattern) -> bool:
        """False: it was there already, or holds nothing."""
        if not pods or (source, pods) in self._known:
            return False
        self._known.add((source, pods))
        self.source.append(source)
        self.pods.append(pods)
        return True


@dataclass(frozen=True, slots=True)
class Duals:
    """What the program's constraints are worth."""

    value: Floats  # by class: of one pod served; at least 0
    stock: Floats  # by source: what one more machine would save; at least 0
    limit: Floats  # by limit: what one more unit would save; at least 0

    def charge(self, problem: Problem) -> Floats:
        """By source: what a machine costs beside its stock: its price, and what it uses of the limits."""
        return problem.price + self.limit @ problem.use if len(self.limit) else problem.price


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The program's answer: fractions of columns."""

    charged: float  # with penalties
    duals: Duals
    taken: Floats  # by column
    reduced: Floats  # by column: the reduced cost


class Program:
    """The linear program. Rows: classes, then limits, then the stock of sources that have a column.

    Columns: the unserved pods of each class, then patterns.
    """

    def __init__(self, problem: Problem) -> None:
        import highspy  # 30 ms and 12 MB: only where something is planned

        self._problem = problem
        self._infinite = highspy.kHighsInf
        self.solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, setting in (("output_flag", False), ("threads", 1), ("parallel", "off"), ("random_seed", 0)):
            self.solver.setOptionValue(name, setting)
        self._stock_row: dict[int, int] = {}  # by shelf
        classes, count = problem.classes, problem.count.astype(float)
        self._add_rows(count, np.full(classes, self._infinite))
        self._add_rows(np.full(len(problem.limits), -self._infinite), problem.room)
        each = np.arange(classes, dtype=np.int32)
        self.solver.addCols(classes, problem.penalty, np.zeros(classes), count, classes, each, each, np.ones(classes))

    def add(self, sources: Sequence[int], pods: Sequence[Pattern]) -> None:
        """Columns, and the rows of the stock that they draw on."""
        problem = self._problem
        self._add_stock(sources)
        starts: list[int] = []
        rows: list[int] = []
        amounts: list[float] = []
        for source, pattern in zip(sources, pods, strict=True):
            starts.append(len(rows))
            entries = [*pattern, (self._stock_row[int(problem.shelves[source])], 1.0)]
            entries += [(problem.classes + place, use) for place, use in enumerate(problem.use[:, source]) if use]
            rows += [row for row, _ in entries]
            amounts += [float(amount) for _, amount in entries]
        self.solver.addCols(
            len(sources),
            problem.price[list(sources)],
            np.zeros(len(sources)),
            np.full(len(sources), self._infinite),
            len(rows),
            np.array(starts, np.int32),
            np.array(rows, np.int32),
            np.array(amounts),
        )

    def stock_rows(self) -> tuple[list[int], int]:
        """The shelves that have a row, in the order of rows, and the first of these rows."""
        return list(self._stock_row), self._problem.classes + len(self._problem.limits)

    def _add_stock(self, sources: Sequence[int]) -> None:
        problem, first = self._problem, self._problem.classes + len(self._problem.limits)
        fresh = []
        for source in sources:
            shelf = int(problem.shelves[source])
            if shelf not in self._stock_row:
                self._stock_row[shelf] = first + len(self._stock_row)
                fresh.append(source)
        self._add_rows(np.full(len(fresh), -self._infinite), problem.stock[fresh].astype(float))

    def _add_rows(self, lower: Floats, upper: Floats) -> None:
        if len(lower):
            empty = np.zeros(len(lower), np.int32)
            self.solver.addRows(len(lower), lower, upper, 0, empty, np.zeros(0, np.int32), np.zeros(0))


class Master:
    """The program over all columns found so far; solved again from where it was.

    `held`: by source and class, the pods of machines that serve them in any case: each of their patterns has them.
    """

    def __init__(self, problem: Problem, held: Floats | None = None) -> None:
        self._problem = problem
        self._held = held
        self._program = Program(problem)
        self._sent = 0
        self.columns = ColumnSet()

    def add_machines(self, machines: Iterable[PackedMachines]) -> None:
        for each in machines:
            self.columns.add(each.source, each.pods)

    def solve(self) -> Relaxed:
        first, self._sent = self._sent, len(self.columns)
        if first < self._sent:
            self._program.add(self.columns.source[first:], self.columns.pods[first:])
        solver, problem, classes = self._program.solver, self._problem, self._problem.classes
        solver.run()
        answer = solver.getSolution()
        rows = np.array(answer.row_dual)
        shelves, start = self._program.stock_rows()
        stock = np.zeros(int(problem.shelves.max(initial=-1)) + 1)
        stock[shelves] = np.maximum(-rows[start:], 0)
        duals = Duals(np.maximum(rows[:classes], 0), stock[problem.shelves], np.maximum(-rows[classes:start], 0))
        taken, reduced = np.array(answer.col_value)[classes:], np.array(answer.col_dual)[classes:]
        return Relaxed(float(solver.getInfo().objective_function_value), duals, taken, reduced)

    def charge(self, duals: Duals) -> Floats:
        """By source: what a pattern has to be worth, besides the pods that are held in any case."""
        charge: Floats = duals.charge(self._problem) + duals.stock
        return charge if self._held is None else charge - self._held @ duals.value

    def add_priced(self, duals: Duals, live: Index, most: int = MOST_NEW) -> int:
        """Fill these sources in several orders for the program's prices; add the best, at most so many."""
        problem = self._problem
        charge = self.charge(duals)[live]
        wanted = np.where(duals.value > 0, problem.count, 0)
        found = [fill(problem, live, order, duals.value, wanted) for order in orders(problem, duals.value)]
        gains = np.concatenate([patterns.values - charge for patterns in found])
        floor = GAIN * float(problem.price.max(initial=1.0))
        added = 0
        for place in np.argsort(-gains, kind="stable")[: 4 * most].tolist():
            if gains[place] <= floor or added >= most:
                break
            added += self._add_row(found, *divmod(place, len(live)))
        return added

    def _add_row(self, found: Sequence[Patterns], which: int, row: int) -> bool:
        patterns = found[which]
        return self.add(int(patterns.sources[row]), tuple(patterns.row(row).items()))

    def add(self, source: int, beside: Pattern) -> bool:
        """A pattern, beside what the source holds in any case. False: it was there already."""
        if self._held is None or not self._held[source].any():
            return self.columns.add(source, beside)
        pods = {int(number): int(self._held[source, number]) for number in np.flatnonzero(self._held[source])}
        for number, many in beside:
            pods[number] = pods.get(number, 0) + many
        return self.columns.add(source, tuple(sorted(pods.items())))
