"""The JSON merge patch (RFC 7386) that turns one document into another."""

from collections.abc import Mapping
from typing import Any


def difference(seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest merge patch from `seen` to `wanted`; empty: no difference.

    A None in either means "not there": a merge patch cannot write one. Lists are replaced whole. Numbers are compared
    as JSON does (1 is 1.0), but a boolean is never a number.
    """
    patch: dict[str, Any] = {}
    for name in sorted(seen.keys() | wanted.keys()):
        old, new = seen.get(name), wanted.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := difference(old, new):
                patch[name] = inner
        elif not same(old, new):
            patch[name] = _without_none(new)
    return patch


def same(left: Any, right: Any) -> bool:
    """Equal as JSON documents, None inside an object meaning "not there"."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return not difference(left, right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _without_none(value: Any) -> Any:
    """As it would be stored. Inside a patch a None would not be stored but remove something."""
    if isinstance(value, Mapping):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in value]
    return value
