"""Splits a plan for pods of many machines into parts that have no machine in common.

Which of several pods alike goes where is free. They are dealt out so that the pods of one machine stay together, and
few machines depend on each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.planner.world import Order, Plan


@dataclass(frozen=True, slots=True)
class Component:
    candidates: tuple[str, ...]  # Nodes that are emptied
    orders: tuple[Order, ...]  # with the pods of these Nodes, by name
    placed: Mapping[str, str]  # pod uid → Node that stays


def dealt(supply: Mapping[str, Sequence[Pod]], made: Plan, classes: Mapping[str, int]) -> Iterator[Component]:
    """`supply`: the pods of each Node that is emptied; `classes`: by pod uid. All of them are served by the plan."""
    return _Dealing(supply, made, classes).run()


class _Dealing:
    def __init__(self, supply: Mapping[str, Sequence[Pod]], made: Plan, classes: Mapping[str, int]) -> None:
        self._made = made
        self._names = list(supply)
        self._left: dict[int, dict[int, list[Pod]]] = {}  # class → candidate → pods, the last one is dealt first
        self._total = [len(supply[name]) for name in self._names]  # by candidate: pods that are not dealt yet
        for place, name in enumerate(self._names):
            for pod in sorted(supply[name], key=lambda each: each.key, reverse=True):
                self._left.setdefault(classes[uid_text(pod.uid)], {}).setdefault(place, []).append(pod)
        rooms: dict[str, dict[int, int]] = {}
        for uid, name in made.placed.items():
            wanted = rooms.setdefault(name, {})
            wanted[classes[uid]] = wanted.get(classes[uid], 0) + 1
        self._wanted: list[dict[int, int]] = [rooms[name] for name in sorted(rooms)]
        self._rooms = sorted(rooms)
        for order in made.orders:
            wanted = {}
            for pod in order.pods:
                number = classes[uid_text(pod.uid)]
                wanted[number] = wanted.get(number, 0) + 1
            self._wanted.append(wanted)
        self._group = list(range(len(self._names)))  # by candidate: another of its component, or itself

    def run(self) -> Iterator[Component]:
        largest = sorted(range(len(self._wanted)), key=lambda place: (-sum(self._wanted[place].values()), place))
        given = {place: self._give(self._wanted[place]) for place in largest}
        members: dict[int, list[int]] = {}
        for place in range(len(self._names)):
            members.setdefault(self._root(place), []).append(place)
        targets: dict[int, list[int]] = {}
        for target in range(len(self._wanted)):
            targets.setdefault(self._root(given[target][0][0]), []).append(target)
        for root, places in members.items():
            yield self._component(places, {each: [pod for _, pod in given[each]] for each in targets.get(root, ())})

    def _component(self, places: Sequence[int], given: Mapping[int, Sequence[Pod]]) -> Component:
        placed: dict[str, str] = {}
        orders: list[Order] = []
        for target, pods in given.items():
            if target < len(self._rooms):
                placed |= {uid_text(pod.uid): self._rooms[target] for pod in pods}
            else:
                order = self._made.orders[target - len(self._rooms)]
                orders.append(replace(order, pods=tuple(sorted(pods, key=_age))))
        return Component(tuple(self._names[place] for place in places), tuple(orders), placed)

    def _give(self, wanted: Mapping[int, int]) -> list[tuple[int, Pod]]:
        """Pods for one machine, with the candidates that they are from: from as few components as can be."""
        given: list[tuple[int, Pod]] = []
        roots: set[int] = set()
        for number in sorted(wanted, key=lambda each: (len(self._left[each]), each)):
            missing = wanted[number]
            while missing:
                place = self._best(number, missing, roots)
                pods = self._left[number][place]
                many = min(missing, len(pods))
                given += [(place, pods.pop()) for _ in range(many)]
                missing -= many
                self._total[place] -= many
                if not pods:
                    del self._left[number][place]
                for root in roots:
                    self._group[root] = self._root(place)
                roots = {self._root(place)}
        return given

    def _best(self, number: int, missing: int, roots: set[int]) -> int:
        """One of the same component; else one of which the fewest pods are left."""
        there = self._left[number]
        return min(
            there,
            key=lambda place: (
                self._root(place) not in roots,
                self._total[place] - min(len(there[place]), missing),
                -len(there[place]),
                place,
            ),
        )

    def _root(self, place: int) -> int:
        while self._group[place] != place:
            self._group[place] = self._group[self._group[place]]
            place = self._group[place]
        return place


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created_at.timestamp() if pod.created_at is not None else 0.0, str(pod.key)
