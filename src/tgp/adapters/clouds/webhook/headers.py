"""Headers from a Secret: lines of `Name: value`. Headers that frame or sign a request are refused."""

import re

from tgp.core.model.secret import Secret
from tgp.ports.http import Pairs

MOST_LINES = 32
LONGEST_LINE = 8 << 10  # what common servers accept
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}\Z")  # a token of RFC 9110 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e]*\Z")
# RFC 9110 7.6.1 and what else is about one connection, or about a body that we write.
_FRAMING = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "accept-encoding",
        "expect",
    }
)
_SIGNED = "webhook-"


class NotHeaders(ValueError):
    """The text has the line and perhaps the header name, never a value."""


def headers_of(secret: Secret) -> Pairs:
    """Parsed, or refused by name."""
    lines = secret.reveal().replace("\r\n", "\n").split("\n")
    if len(lines) > MOST_LINES:
        raise NotHeaders(f"has more than {MOST_LINES} lines")
    found: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, value = _header(line, number)
        if name.lower() in found:
            raise NotHeaders(f"has {name} twice")
        found[name.lower()] = (name, value)
    return tuple(found.values())


def _header(line: str, number: int) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    value = value.strip(" \t")
    if not colon or not _NAME.match(name) or not _VALUE.match(value) or len(line) > LONGEST_LINE:
        raise NotHeaders(f"line {number} is not `Name: value` in ASCII")
    plain = name.lower()
    if plain in _FRAMING:
        raise NotHeaders(f"{name} cannot be set: it belongs to the connection")
    if plain.startswith(_SIGNED):
        raise NotHeaders(f"{name} cannot be set: it belongs to the signature")
    return name, value
