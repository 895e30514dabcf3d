"""The `fields` parameter of Google's APIs: which parts of an answer to send. `items/*/instances(name,zone),kind`."""

from typing import Any, TypeAlias

DEEPEST = 32  # levels; answers have six
Mask: TypeAlias = dict[str, "Mask"]  # empty: everything below


class BadMask(Exception):
    """It cannot be read; the text is the piece that makes no sense."""


def parse(text: str) -> Mask:
    mask, rest = _list(text)
    if rest:
        raise BadMask(rest)
    return mask


def apply(mask: Mask, value: Any) -> Any:
    """The parts of `value` that the mask names; what is not there is left out."""
    if not mask:
        return value
    if isinstance(value, list):
        return [apply(mask, each) for each in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, each in value.items():
        below = mask.get(name, mask.get("*"))
        if below is None:
            continue
        part = apply(below, each)
        if part != {} or each == {}:
            kept[name] = part
    return kept


def _list(text: str, level: int = 0) -> tuple[Mask, str]:
    mask: Mask = {}
    while True:
        text = _path(text, mask, level)
        if not text.startswith(","):
            return mask, text
        text = text[1:]


def _path(text: str, mask: Mask, level: int) -> str:
    """One path into the mask; returns what follows it."""
    length = next((place for place, sign in enumerate(text) if not (sign.isalnum() or sign in "*_")), len(text))
    name, text = text[:length], text[length:]
    if not name or level > DEEPEST:
        raise BadMask(text[:64])
    below = mask.setdefault(name, {})
    if text.startswith("/"):
        return _path(text[1:], below, level + 1)
    if text.startswith("("):
        inner, rest = _list(text[1:], level + 1)
        if not rest.startswith(")"):
            raise BadMask(rest)
        _merge(below, inner)
        return rest[1:]
    return text


def _merge(mask: Mask, more: Mask) -> None:
    for name, below in more.items():
        _merge(mask.setdefault(name, {}), below)
