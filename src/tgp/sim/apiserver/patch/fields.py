"""Sets of fields, and their written form in managedFields (`fieldsV1`).

A path is a tuple of elements in the written form: `f:name` for a field, `k:{"name":"x"}` for an item of a keyed list,
`v:"x"` for an item of a set. A set of paths is a plain set; it is sorted whenever it is written or shown.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TypeAlias

import msgspec

from tgp.sim.apiserver.json_value import Json

Path: TypeAlias = tuple[str, ...]
Fields: TypeAlias = set[Path]

CLAIMS_KEPT = 4096  # different sets of fields: a writer claims the same ones at every write, for every object alike
ELEMENT_ORDER = {"f": 0, "k": 1, "v": 2, "i": 3}


def element_key(element: str) -> tuple[int, str]:
    return ELEMENT_ORDER.get(element[:1], 9), element


def path_key(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(element_key(element) for element in path)


def walk_key(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """The order in which a conflict names fields: at each level the leaves first, then what lies deeper."""
    last = len(path) - 1
    return tuple((depth < last, *element_key(element)) for depth, element in enumerate(path))


def written(fields: AbstractSet[Path]) -> Json:
    """The nested form: a path that is a member and has children is marked with a dot. Shared: never change it."""
    return _written(frozenset(fields))


@lru_cache(maxsize=CLAIMS_KEPT)
def _written(fields: frozenset[Path]) -> Json:
    root: Json = {}
    for path in sorted(fields, key=path_key):
        node = root
        for depth, element in enumerate(path):
            if element not in node:
                node[element] = {}
                if depth and path[:depth] in fields and "." not in node:
                    _mark(node)
            node = node[element]
    return root


def _mark(node: Json) -> None:
    """Put the dot first, where the real server writes it."""
    children = dict(node)
    node.clear()
    node["."] = {}
    node.update(children)


def read_fields(tree: object) -> frozenset[Path]:
    return _read_fields(msgspec.json.encode(tree)) if isinstance(tree, dict) else frozenset()


@lru_cache(maxsize=CLAIMS_KEPT)
def _read_fields(text: bytes) -> frozenset[Path]:
    return frozenset(_members(msgspec.json.decode(text), ()))


def _members(tree: Json, prefix: Path) -> Iterator[Path]:
    for element, children in tree.items():
        if element == ".":
            yield prefix
        elif isinstance(children, dict) and children:
            yield from _members(children, (*prefix, element))
        else:
            yield (*prefix, element)


def with_named_parents(fields: Iterable[Path]) -> Fields:
    """The members, and every named field that leads to one: the owner of a part keeps the whole in place."""
    found: Fields = set()
    for path in fields:
        found.add(path)
        for depth in range(len(path) - 1, 0, -1):
            if path[depth - 1].startswith("f:"):
                found.add(path[:depth])
    return found


def shown_path(path: Path) -> str:
    """As a conflict names it: `.spec.containers[name="x"].image`."""
    return "".join(_shown_element(element) for element in path)


def _shown_element(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = msgspec.json.decode(rest)
        return "[" + ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items()) + "]"
    if kind == "v":
        return f"[={rest}]"
    return f"[{rest}]"
