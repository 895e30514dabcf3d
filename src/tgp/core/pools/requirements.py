"""Requirements on one label, taken together: which values satisfy all of them, and whether any can.

The meaning is the scheduler's: `In`, `Exists`, `Gt` and `Lt` need the label, `NotIn` and `DoesNotExist`
also match without it. Gt and Lt compare whole numbers; a value that is none satisfies neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tgp.core.model.labels import LabelRequirement


class Malformed(ValueError):
    """The operator and its values do not match; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values of one label that satisfy every requirement met so far. The empty one forbids nothing."""

    chosen: frozenset[str] | None = None  # None: any value
    excluded: frozenset[str] = frozenset()
    above: int | None = None
    below: int | None = None
    may_be_absent: bool = True
    may_be_present: bool = True

    def narrowed(self, requirement: LabelRequirement) -> "Allowed":
        """As before, and `requirement` too."""
        values = frozenset(requirement.values)
        match requirement.operator:
            case "In":
                _want(bool(values), "In needs at least one value")
                chosen = values if self.chosen is None else self.chosen & values
                return replace(self, chosen=chosen, may_be_absent=False)
            case "NotIn":
                _want(bool(values), "NotIn needs at least one value")
                return replace(self, excluded=self.excluded | values)
            case "Exists":
                _want(not values, "Exists takes no values")
                return replace(self, may_be_absent=False)
            case "DoesNotExist":
                _want(not values, "DoesNotExist takes no values")
                return replace(self, may_be_present=False)
            case "Gt":
                bound = _whole(requirement)
                return replace(self, above=bound if self.above is None else max(bound, self.above), may_be_absent=False)
            case "Lt":
                bound = _whole(requirement)
                return replace(self, below=bound if self.below is None else min(bound, self.below), may_be_absent=False)
        raise Malformed(f"{requirement.operator!r} is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt")

    def admits(self, value: str | None) -> bool:
        """Would a node with this value (None: without the label) do?"""
        if value is None:
            return self.may_be_absent
        chosen = self.may_be_present and (self.chosen is None or value in self.chosen)
        return chosen and value not in self.excluded and self._within_bounds(value)

    def possible(self) -> bool:
        """Can any node at all satisfy this?"""
        if self.may_be_absent:
            return True
        if not self.may_be_present:
            return False
        if self.chosen is not None:
            return any(self.admits(value) for value in sorted(self.chosen))
        if self.above is None or self.below is None:
            return True
        # Between two bounds there are finitely many numbers; the excluded ones may be all of them.
        gap = self.below - self.above - 1
        return gap > len(self.excluded) or any(self.admits(str(number)) for number in range(self.above + 1, self.below))

    def _within_bounds(self, value: str) -> bool:
        if self.above is None and self.below is None:
            return True
        try:
            number = int(value)
        except ValueError:
            return False
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)


def together(requirements: Iterable[LabelRequirement]) -> dict[str, Allowed]:
    """Label → what all its requirements allow, in the order the labels first appear."""
    allowed: dict[str, Allowed] = {}
    for requirement in requirements:
        allowed[requirement.key] = allowed.get(requirement.key, Allowed()).narrowed(requirement)
    return allowed


def _want(fine: bool, otherwise: str) -> None:
    if not fine:
        raise Malformed(otherwise)


def _whole(requirement: LabelRequirement) -> int:
    _want(len(requirement.values) == 1, f"{requirement.operator} needs exactly one value")
    try:
        return int(requirement.values[0])
    except ValueError:
        raise Malformed(f"{requirement.operator} needs a whole number, not {requirement.values[0]!r}") from None
