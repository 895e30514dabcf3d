r"""The part of JSONPath that printer columns use: keys, quoted keys, indexes, `*`, and filters on one field.

Examples: `.spec.replicas`, `.metadata.labels.tgp\.io/pool`, `.spec.list[-1].name`,
`.status.conditions[?(@.type=="Ready")].status`. Anything else is refused when the path is read, not when it is used.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

_KEY = re.compile(r"\.((?:\\.|[^.\[\]\\])+)")
_QUOTED = re.compile(r"\[\s*(?:'([^']*)'|\"([^\"]*)\")\s*\]")
_INDEX = re.compile(r"\[\s*(-?\d+)\s*\]")
_ALL = re.compile(r"\[\s*\*\s*\]|\.\*")
_FILTER = re.compile(
    r"\[\?\(\s*@(?P<path>(?:\.[^=!<>\s)]+)+)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>[^)]+?)\s*)?\)\]"
)

_ORDERINGS: Mapping[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}

Step: TypeAlias = Callable[[Any], Iterator[Any]]


class BadPath(ValueError):
    """A path this reader does not understand."""


@dataclass(frozen=True, slots=True)
class Path:
    text: str
    steps: tuple[Step, ...]

    def find(self, document: Any) -> list[Any]:
        """All values the path leads to, in document order; none where a key is missing."""
        found = [document]
        for step in self.steps:
            found = [value for source in found for value in step(source)]
        return found


def parse(text: str) -> Path:
    """Read a path; braces around it are allowed. Raises BadPath."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(inner):  # every round consumes at least one character or raises
        step, position = _step(inner, position)
        if step is not None:
            steps.append(step)
    return Path(text, tuple(steps))


def _step(text: str, position: int) -> tuple[Step | None, int]:
    if text[position:] == ".":  # the whole document
        return None, position + 1
    if match := _ALL.match(text, position):
        return _every, match.end()
    if match := _FILTER.match(text, position):
        return _filter(match["path"], match["operator"], match["value"]), match.end()
    if match := _QUOTED.match(text, position):
        return _key(match[1] if match[1] is not None else match[2]), match.end()
    if match := _INDEX.match(text, position):
        return _index(int(match[1])), match.end()
    if match := _KEY.match(text, position):
        return _key(re.sub(r"\\(.)", r"\1", match[1])), match.end()
    raise BadPath(f"cannot read {text!r} from character {position}")


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (value[key] for key in sorted(value))
    elif isinstance(value, list):
        yield from value


def _key(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(position: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= position < len(value):
            yield value[position]

    return step


def _filter(path: str, operator: str | None, literal: str | None) -> Step:
    inner = parse(path)
    wanted = _literal(literal) if literal is not None else None

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            found = inner.find(item)
            if found and (operator is None or _holds(found[0], operator, wanted)):
                yield item

    return step


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text)
    except ValueError as error:
        raise BadPath(f"a filter compares with a quoted text, a number, true or false, not {text!r}") from error


def _holds(found: Any, operator: str, wanted: Any) -> bool:
    if operator == "==":
        return bool(found == wanted)
    if operator == "!=":
        return bool(found != wanted)
    both_numbers = isinstance(found, int | float) and isinstance(wanted, int | float)
    if not both_numbers and not (isinstance(found, str) and isinstance(wanted, str)):
        return False
    return bool(_ORDERINGS[operator](found, wanted))
