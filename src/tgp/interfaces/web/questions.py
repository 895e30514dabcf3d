"""What a URL asks: names in its path and parameters of its query, each checked before anything is looked up."""

import re
from collections.abc import Collection, Mapping

from tgp.ports.http import Call

LONGEST = 64  # characters of a value that is a word
MOST_VALUES = 32  # of one parameter
LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # of an object


class BadQuestion(Exception):
    """A parameter is wrong; the text names it."""


def names_in(template: str, path: str) -> Mapping[str, str] | None:
    """`{name: train}` for the template `/api/v1/x/{name}` and the path `/api/v1/x/train`; None: another path."""
    wanted, given = template.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    found = {}
    for part, value in zip(wanted, given, strict=True):
        if part.startswith("{"):
            found[part[1:-1]] = value
        elif part != value:
            return None
    return found


def object_name(value: str, what: str) -> str:
    if not _NAME.fullmatch(value):
        raise BadQuestion(
            f"{what}: not a name of Kubernetes (lower-case letters, digits, '-' and '.', at most {LONGEST_NAME})"
        )
    return value


def only_known(call: Call, known: Collection[str]) -> None:
    for name, _ in call.query:
        if name not in known:
            raise BadQuestion(f"unknown parameter {name[:LONGEST]!r}; known are {', '.join(known) or 'none'}")


def words(call: Call, name: str) -> tuple[str, ...]:
    found = tuple(value for key, value in call.query if key == name)
    if len(found) > MOST_VALUES:
        raise BadQuestion(f"{name}: {len(found)} values, at most {MOST_VALUES} are allowed")
    if any(not 1 <= len(value) <= LONGEST_NAME * 2 + 1 or not value.isprintable() for value in found):
        raise BadQuestion(f"{name}: a value has 1 to {LONGEST_NAME * 2 + 1} printable characters")
    return found


def word(call: Call, name: str) -> str:
    found = words(call, name)
    if len(found) > 1:
        raise BadQuestion(f"{name}: given {len(found)} times, once is allowed")
    return found[0] if found else ""


def number(call: Call, name: str, least: int, most: int) -> int | None:
    text = word(call, name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST and least <= int(text) <= most):
        raise BadQuestion(f"{name}: {text[:LONGEST]!r} is not a whole number from {least} to {most}")
    return int(text)


def truth(call: Call, name: str) -> bool | None:
    text = word(call, name)
    if text not in ("", "true", "false"):
        raise BadQuestion(f"{name}: {text[:LONGEST]!r} is not true or false")
    return None if not text else text == "true"


def namespace_of(call: Call) -> str:
    """Empty: all of them."""
    said = word(call, "namespace")
    return object_name(said, "namespace") if said else ""
