"""Answers that went wrong on their way: recorded good ones, changed by seed in the ways that wires and vendors have."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any, TypeAlias

import msgspec

from tgp.ports.http import Reply

Way: TypeAlias = Callable[[Random, Reply], Reply]

NONSENSE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    -0.37,
    1e308,
    10**40,
    10**400,
    -(10**40),
    float("1e-300"),
    "",
    "NaN",
    "-Infinity",
    "free",
    "../../etc/passwd",
    "a/b",
    "\x00\u202e",
    "9" * 200,
    [],
    {},
    [[]],
    {"id": {"id": 1}},
    [None],
)
STATUSES = (
    100,
    201,
    202,
    204,
    206,
    301,
    307,
    400,
    401,
    402,
    403,
    404,
    405,
    409,
    410,
    412,
    418,
    422,
    429,
    500,
    502,
    503,
)
DEEP = 400  # nested lists; JSON readers recurse
STOPS_EARLY = 0.15  # of the steps towards a leaf: a whole row or list is changed then
VALUES_CHANGED = (1, 1, 1, 2, 5)


def nonsense(luck: Random) -> Any:
    """A value of its own: a list put into two answers would grow with each change, and at last hold itself."""
    return deepcopy(luck.choice(NONSENSE))


def a_spot(luck: Random, value: Any) -> tuple[Any, Any] | None:
    """(container, key) of some value inside, at any depth; None: there is nothing inside."""
    found = None
    while isinstance(value, dict | list) and value:
        key = luck.choice(list(value)) if isinstance(value, dict) else luck.randrange(len(value))
        found = (value, key)
        value = value[key]
        if luck.random() < STOPS_EARLY:
            break
    return found


def spots_of(value: Any, *, _depth: int = 0) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside, in order."""
    if _depth > 12 or not isinstance(value, dict | list):
        return []
    found: list[tuple[Any, Any]] = []
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        found += spots_of(value[key], _depth=_depth + 1)
    return found


def decoded(reply: Reply) -> Any:
    try:
        return msgspec.json.decode(reply.content)
    except msgspec.DecodeError:
        return {}


def encoded(reply: Reply, value: Any) -> Reply:
    return replace(reply, content=msgspec.json.encode(value))


def replaced(luck: Random, reply: Reply) -> Reply:
    """Some values are something else."""
    body = decoded(reply)
    for _ in range(luck.choice(VALUES_CHANGED)):
        spot = a_spot(luck, body)
        if spot is None:
            break
        container, key = spot
        container[key] = nonsense(luck)
    return encoded(reply, body)


def retyped(luck: Random, reply: Reply) -> Reply:
    """A number becomes its text, a text a list of itself, a list an object."""
    body = decoded(reply)
    spot = a_spot(luck, body)
    if spot is not None:
        container, key = spot
        value = container[key]
        match value:
            case bool() | None:
                container[key] = str(value)
            case int() | float():
                container[key] = f"{value}"
            case str():
                container[key] = [value]
            case list():
                container[key] = {str(place): each for place, each in enumerate(value)}
            case _:
                container[key] = [value]
    return encoded(reply, body)


def dropped(luck: Random, reply: Reply) -> Reply:
    """Some fields or rows are missing."""
    body = decoded(reply)
    for _ in range(luck.choice(VALUES_CHANGED)):
        spot = a_spot(luck, body)
        if spot is None:
            break
        container, key = spot
        del container[key]
    return encoded(reply, body)


def everywhere(luck: Random, reply: Reply) -> Reply:
    """One field is nonsense in every row."""
    body = decoded(reply)
    names = sorted({key for _, key in spots_of(body) if isinstance(key, str)})
    if names:
        name, value = luck.choice(names), nonsense(luck)
        for container, key in spots_of(body):
            if key == name and isinstance(container, dict) and key in container:
                container[key] = value
    return encoded(reply, body)


def row_by_row(luck: Random, reply: Reply) -> Reply:
    """One value of every row is nonsense, another in each: a long list tries many at once."""
    body = decoded(reply)
    rows = [container[key] for container, key in spots_of(body) if isinstance(container[key], dict)]
    for row in rows:
        if row:
            row[luck.choice(list(row))] = nonsense(luck)
    return encoded(reply, body)


def doubled(luck: Random, reply: Reply) -> Reply:
    """The rows of a list come twice."""
    body = decoded(reply)
    lists = [(container, key) for container, key in spots_of(body) if isinstance(container[key], list)]
    if lists:
        container, key = luck.choice(lists)
        container[key] = container[key] * 2
    return encoded(reply, body)


def nested(luck: Random, reply: Reply) -> Reply:
    body = decoded(reply)
    spot = a_spot(luck, body)
    deep = b"[" * DEEP + b"]" * DEEP
    if spot is None:
        return replace(reply, content=deep)
    container, key = spot
    container[key] = "the deep one"
    return replace(reply, content=msgspec.json.encode(body).replace(b'"the deep one"', deep, 1))


def cut(luck: Random, reply: Reply) -> Reply:
    return replace(reply, content=reply.content[: luck.randrange(len(reply.content) + 1)])


def garbled(luck: Random, reply: Reply) -> Reply:
    content = bytearray(reply.content)
    for _ in range(min(len(content), 3)):
        content[luck.randrange(len(content))] = luck.randrange(256)
    return replace(reply, content=bytes(content))


def page(luck: Random, reply: Reply) -> Reply:
    words = luck.choice((b"<html>Just a moment...</html>", b"", b"null", b"OK", b"\xff\xfe", b"{", b"NaN"))
    return replace(reply, content=words, headers=(("Content-Type", "text/html"),))


def another_status(luck: Random, reply: Reply) -> Reply:
    return replace(reply, status=luck.choice(STATUSES))


def both(luck: Random, reply: Reply) -> Reply:
    return another_status(luck, luck.choice((replaced, dropped, page, cut))(luck, reply))


WAYS: tuple[Way, ...] = (
    replaced,
    replaced,
    replaced,
    retyped,
    dropped,
    everywhere,
    everywhere,
    row_by_row,
    row_by_row,
    row_by_row,
    doubled,
    nested,
    cut,
    garbled,
    page,
    another_status,
    both,
)
