"""Label and node selectors, decided as Kubernetes decides them."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class LabelRequirement(msgspec.Struct, frozen=True, gc=False):
    """`key operator values`, of a label selector or a node selector term."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist; in node selectors also Gt, Lt
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        return " ".join((self.key, self.operator, *([f"({', '.join(self.values)})"] if self.values else [])))

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it. An operator this version does not know admits nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        number, bound = _integer(value), _integer(self.values[0] if len(self.values) == 1 else None)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


class Selector(msgspec.Struct, frozen=True, gc=False):
    """A label selector: every requirement must hold. One without requirements selects everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.admits(labels) for requirement in self.requirements)


EVERYTHING = Selector()
NOTHING_AT_ALL = Selector((LabelRequirement("", "never"),))  # an absent selector, where Kubernetes reads it as "none"


def selector(match_labels: Mapping[str, str], match_expressions: Iterable[LabelRequirement] = ()) -> Selector:
    """One list of requirements from the two ways to write them."""
    equal = tuple(LabelRequirement(key, "In", (value,)) for key, value in sorted(match_labels.items()))
    return Selector(equal + tuple(match_expressions))


def _integer(text: str | None) -> int | None:
    """As Go reads a 64-bit integer: no blanks, no underscores, nothing too large."""
    if text is None or _INTEGER.match(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
