"""One draw for any number of chances: worlds that count hours draw for every call."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")


class Dice(Generic[T]):
    """At most one of these befalls a call, each with its chance."""

    def __init__(self, chances: Mapping[T, float]) -> None:
        self._kinds = [kind for kind, chance in chances.items() if chance > 0]
        self._bounds = list(accumulate(chances[kind] for kind in self._kinds))
        self._total = self._bounds[-1] if self._bounds else 0.0
        assert self._total < 1, "something has to go well"

    def draw(self, luck: Random) -> T | None:
        dice = luck.random()
        return self._kinds[bisect_right(self._bounds, dice)] if dice < self._total else None
