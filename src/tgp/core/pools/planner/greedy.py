"""The first answer: take the pattern with the most value per dollar, as often as it can be had, and go on."""

import heapq
from collections.abc import Mapping

from tgp.core.model.arrays import Floats, Index, np
from tgp.core.pools.planner.fill import best_fill
from tgp.core.pools.planner.problem import Packing, Problem, Remaining

ORDERS = 1  # in which a machine is filled: more make the greedy slower than it is worth
BATCH = 64  # patterns that are filled again together
FREE = 1e-3  # micro-dollars: a machine that costs nothing comes before any other


def value_alone(problem: Problem) -> Floats:
    """By class: what one pod costs on the source that holds it most cheaply with others of its class."""
    value = np.zeros(problem.classes)
    for number, homes in enumerate(problem.homes):
        paid = homes[(problem.price[homes] > 0) & (problem.stock[homes] > 0)]
        if len(paid):
            value[number] = (problem.price[paid] / problem.alone[number][paid]).min()
    known = value[value > 0]
    value[value == 0] = known.mean() if len(known) else 1.0  # it fits only on machines that cost nothing
    return np.minimum(value, problem.penalty)


def greedy(problem: Problem, value: Floats, start: Remaining | None = None) -> Packing:
    """Equal inputs give equal answers. `start`: what earlier steps have taken stays, and only the rest is packed."""
    left = start or Remaining.of(problem)
    price = np.maximum(problem.price, FREE)
    live = np.flatnonzero((left.stock > 0) & (left.count @ problem.fits > 0))
    filled: list[list[dict[int, int]]] = []
    heap: list[tuple[float, int, int, int]] = []  # (-score, source, which fill, row)

    def refill(sources: Index) -> None:
        more = best_fill(problem, sources, value, left.count, ORDERS)
        for row, score in enumerate((more.values / price[more.sources]).tolist()):
            if score > 0:
                heapq.heappush(heap, (-score, int(more.sources[row]), len(filled), row))
        filled.append(more.rows())

    refill(live)
    while heap and left.count.any():
        score, source, which, row = heapq.heappop(heap)
        pods = filled[which][row]
        copies = min(int(left.count[number] // amount) for number, amount in pods.items())
        if copies < 1:
            stale = [source]
            fresh: list[tuple[float, int, int, int]] = []
            while heap and len(stale) + len(fresh) < BATCH:  # those that come next are likely stale, too
                item = heapq.heappop(heap)
                if all(left.count[number] >= amount for number, amount in filled[item[2]][item[3]].items()):
                    fresh.append(item)
                else:
                    stale.append(item[1])
            for item in fresh:
                heapq.heappush(heap, item)
            refill(np.array(stale, np.intp))
            continue
        most = left.most(problem, source)
        if most > 0 and worth_it(problem, source, pods):
            left.take(problem, source, pods, min(copies, most))
            if most > copies:
                heapq.heappush(heap, (score, source, which, row))
    return Packing.of(problem, left.taken)


def worth_it(problem: Problem, source: int, pods: Mapping[int, int]) -> bool:
    """Not if leaving the pods unserved is charged less."""
    charged = sum(float(problem.penalty[number]) * amount for number, amount in pods.items())
    return charged >= float(problem.price[source])
