"""The variables of templates: a closed list, and values that stay values.

There is no template engine. A template is parsed as YAML with placeholder words for its `{{.Name}}`; values are put
into the parsed strings. So a value is one string, or a part of one, whatever it holds: a line break, a quote
or another `{{` cannot become structure. Two variables are lists: alone in their place they become the list (among the
items of a list they become further items), inside a longer text they are joined by commas.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

VARIABLES = (
    "MachineToken",
    "MachineCA",
    "ClusterCA",
    "ClusterID",
    "ClusterSecret",
    "ClusterToken",
    "ControlPlaneEndpoint",
    "ClusterName",
    "TailscaleAuthKey",
    "AuthKey",
    "NodeName",
    "Hostname",
    "NodePool",
    "NodeIndex",
    "PodSubnets",
    "ServiceSubnets",
    "DNSDomain",
)
ALIASES = {"AuthKey": "TailscaleAuthKey", "Hostname": "NodeName"}
LISTS = frozenset(("PodSubnets", "ServiceSubnets"))

Path: TypeAlias = tuple[str | int, ...]
# by canonical name; a missing one must not be given to this node
Values: TypeAlias = Mapping[str, str | tuple[str, ...]]

ESCAPE = '{{"{{"}}'  # stands for two literal braces
# In one line: the escape, the text between braces, or unclosed braces.
ACTION = re.compile(r"""\{\{[ \t]*"\{\{"[ \t]*\}\}|\{\{((?:(?!\{\{|\}\}).)*)\}\}|\{\{""")
VARIABLE = re.compile(r"[ \t]*\.([A-Za-z][A-Za-z0-9_]*)[ \t]*")
_CANONICAL = re.compile(r"\{\{\.([A-Za-z]+)\}\}")
_REPLACED = re.compile(rf"{_CANONICAL.pattern}|{re.escape(ESCAPE)}")
_SHOWN = 64  # characters of an action that is quoted


def is_escape(found: re.Match[str]) -> bool:
    """Of a match of ACTION."""
    return found[1] is None and found[0] != "{{"


def foreign(found: re.Match[str]) -> str | None:
    """Why a match of ACTION is not a variable, with the nearest name or what to write instead; None: it is one."""
    if is_escape(found):
        return None
    inside = found[1]
    if inside is None:
        return f"{{{{ is never closed: a variable is written {{{{.NodeName}}}}, and two braces {ESCAPE}"
    variable = VARIABLE.fullmatch(inside)
    if variable is not None and variable[1] in VARIABLES:
        return None
    return _why(shown(found), inside)


def shown(found: re.Match[str]) -> str:
    """A match of ACTION, safe to show."""
    return "{{" if found[1] is None else f"{{{{{found[1][:_SHOWN]}}}}}"


def fill(data: Any, values: Values) -> Any:
    """The data with every variable replaced. KeyError: a variable without a value; ask `used` first."""
    if isinstance(data, dict):
        return {key.replace(ESCAPE, "{{"): fill(item, values) for key, item in data.items()}
    if isinstance(data, list):
        items: list[Any] = []
        for item in data:
            filled = fill(item, values)
            if isinstance(item, str) and isinstance(filled, list):
                items += filled
            else:
                items.append(filled)
        return items
    if isinstance(data, str):
        return _filled(data, values)
    return data


def used(data: Any, path: Path = ()) -> Iterator[tuple[str, Path]]:
    """Every variable in it, and where."""
    if isinstance(data, dict):
        for key, item in data.items():
            yield from used(item, (*path, key))
    elif isinstance(data, list):
        for place, item in enumerate(data):
            yield from used(item, (*path, place))
    elif isinstance(data, str):
        for found in _CANONICAL.finditer(data):
            if found[1] in VARIABLES:
                yield found[1], path


def _why(shown: str, inside: str) -> str:
    name = inside.strip().lstrip(".")
    if re.fullmatch(r"\s*\.?[A-Za-z][A-Za-z0-9_]*\s*", inside) and name not in {"end", "else"}:
        close = get_close_matches(name, VARIABLES, n=1)
        hint = f"; did you mean {{{{.{close[0]}}}}}?" if close else ""
        return f"{shown} is not a template variable{hint}"
    return (
        f"{shown} is not a template variable: only {{{{.Name}}}} is replaced, there are no conditions or functions; "
        f"two braces are written {ESCAPE}"
    )


def _filled(text: str, values: Values) -> str | list[str]:
    alone = _CANONICAL.fullmatch(text)
    if alone is not None and alone[1] in VARIABLES:
        value = values[alone[1]]
        return value if isinstance(value, str) else list(value)
    return _REPLACED.sub(lambda found: _spelled(found, values), text)


def _spelled(found: re.Match[str], values: Values) -> str:
    if found[1] is None:
        return "{{"
    if found[1] not in VARIABLES:
        return found[0]
    value = values[found[1]]
    return value if isinstance(value, str) else ",".join(value)
