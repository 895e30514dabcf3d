"""Parses the answers of providers: a value, or an error that names the field. Nothing is guessed.

`ParseError` is raised for one value; an adapter turns it into a dropped offer (one bad row spoils no list) or, where
the value matters for ownership or money, into `CannotTell`. Text from outside is shortened and stripped of controls
before it is shown.
"""

import re
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.opaque import without_opaque_runs
from tgp.ports.http import Reply, UnreadableReply

LONGEST_ID = 128
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")  # safe in a path: no slash, no dots alone
SAID_MAX = 200  # characters of a provider's text
READ_MAX = 1_024  # … that are scanned: more than are ever shown
# Beside a list, or in one of BESIDE there: fields by which APIs mark further pages. Lower case, without underscores.
GOES_ON = frozenset({"cursor", "next", "nextcursor", "nextpage", "nexttoken", "nextpagetoken", "hasmore", "hasnext"})
GOES_ON |= {"hasnextpage", "truncated", "istruncated"}
BESIDE = frozenset({"pagination", "paging", "pageinfo", "meta", "metadata", "links"})
CONTROLS = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029), " ")


class ParseError(ValueError):
    """An invalid value; the text names the field."""


def answer_of(reply: Reply, who: str) -> Any:
    """The body as JSON; `CannotTell` for HTML, an empty body and the like."""
    try:
        return reply.json()
    except UnreadableReply as error:
        raise CannotTell(f"{who} answered {reply.status} with a body that is not JSON: {error}") from error


def whatever_came(reply: Reply) -> Any:
    """The body where it is JSON, else None: for answers that a proxy may have written."""
    try:
        return reply.json()
    except UnreadableReply:
        return None


def object_in(reply: Reply) -> dict[str, Any]:
    """The body where it is a JSON object, else an empty one."""
    body = whatever_came(reply)
    return body if isinstance(body, dict) else {}


def mapping_of(reply: Reply, who: str) -> dict[str, Any]:
    value = answer_of(reply, who)
    if not isinstance(value, dict):
        raise CannotTell(f"{who} answered {reply.status} with {_kind(value)} instead of an object")
    return value


def rows_of(body: dict[str, Any], name: str, who: str) -> list[Any]:
    """A required list: an answer without it is not an empty list."""
    rows = body.get(name)
    if not isinstance(rows, list):
        raise CannotTell(f"{who} answered without a list `{name}` ({_kind(rows)})")
    return rows


def on_one_page(body: dict[str, Any], who: str) -> None:
    """For a list without pages: if the API adds pages later, a field beside the list shows that it is partial."""
    if told := goes_on(body):
        raise CannotTell(f"{who} answered with a partial list (`{told}`); tgp does not know how to read its next pages")


def goes_on(body: dict[str, Any]) -> str:
    """The field that marks further pages of the list; empty: none."""
    return next((shown(name) for name, value in body.items() if _goes_on(name, value)), "")


def _goes_on(name: str, value: Any) -> bool:
    plain = name.replace("_", "").lower()
    if plain in BESIDE and isinstance(value, dict):
        return any(_goes_on(key, each) for key, each in value.items() if not isinstance(each, dict))
    return plain in GOES_ON and bool(value)


def identifier(value: Any, name: str = "id") -> str:
    """A provider's id, safe in a path."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else value
    if not isinstance(text, str) or not ID.match(text):
        raise ParseError(f"{name} is not an id: {shown(value)}")
    return text


def first_id(row: dict[str, Any], *names: str) -> str:
    """The first of these that is an id; empty: none is."""
    for name in names:
        try:
            return identifier(row.get(name), name)
        except ParseError:
            continue
    return ""


def text(row: dict[str, Any], name: str, *, default: str | None = None, longest: int = 512) -> str:
    value = row.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or len(value) > longest:
        raise ParseError(f"{name} is {_kind(value)}, not a string")
    return value


def whole(row: dict[str, Any], name: str, *, least: int = 0, most: int = 1 << 40, default: int | None = None) -> int:
    """A whole number within bounds; a fraction is cut off."""
    value = row.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise ParseError(f"{name} is {_kind(value)}, not a number")
    if not least <= value <= most:
        raise ParseError(f"{name} is {shown(value)}, not between {least} and {most}")
    return int(value)


def moment(value: Any, name: str) -> datetime | None:
    """Seconds since 1970 or RFC 3339; None if it is missing or invalid: a time is never guessed."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            return read.astimezone(UTC) if read.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None
    raise ParseError(f"{name} is {_kind(value)}, not a time")


def address(value: Any) -> str:
    """An IP address, or an empty string: several providers send blanks, 0.0.0.0 or nothing while a machine starts."""
    if not isinstance(value, str):
        return ""
    try:
        found = ip_address(value.strip())
    except ValueError:
        return ""
    return "" if found.is_unspecified else str(found)


def shown(value: Any) -> str:
    """Outside text for messages: one line, no control characters, short, nothing that may be a secret."""
    words = value if isinstance(value, str) else repr(value)
    plain = without_opaque_runs(words[:READ_MAX].translate(CONTROLS).strip()).translate(CONTROLS)  # %0A is one, too
    return plain if len(plain) <= SAID_MAX else plain[: SAID_MAX - 1] + "…"


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
