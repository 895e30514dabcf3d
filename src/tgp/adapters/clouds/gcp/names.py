"""Names at Google Cloud: zones, machines, labels, links. A machine's id here is `zone:name`, and parsed strictly."""

import re
from collections.abc import Iterable
from uuid import UUID, uuid5

from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.parse import ParseError, shown
from tgp.core.model.cloud_errors import CannotTell, OrderRefused

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")  # RFC 1035, as the API asks of names and zones
LABELS_MAX = 64  # per machine
LABEL_LONGEST = 63  # characters, of keys and of values
TOKEN_LABEL = "tgp-token"  # noqa: S105 - for users who filter by labels; machines are found again by name
LETTERS = "tag-"  # prefix for a key that does not begin with a letter
# the namespace of our request ids; changing it invalidates all of them
ORDERS = UUID("6f1a7a3c-52a0-5d0e-9b0e-2f5c7c1f4a11")
_UNFIT = re.compile(r"[^a-z0-9_-]")


def instance_id(zone: str, name: str) -> str:
    return f"{zone}:{name}"


def parted(machine: str) -> tuple[str, str]:
    """Zone and name of an id of ours. Other text never gets into a path."""
    zone, colon, name = machine.partition(":")
    if not colon or not NAME.match(zone) or not NAME.match(name):
        raise CannotTell(f"{FACTS.title} has no such machine: {shown(machine)}")
    return zone, name


def orderable(name: str, what: str) -> str:
    if not NAME.match(name):
        raise OrderRefused(f"{what} {shown(name)} is not a name at {FACTS.title}")
    return name


def named(value: object, what: str) -> str:
    """A name as the API writes it."""
    if not isinstance(value, str) or not NAME.match(value):
        raise ParseError(f"{what} is not a name: {shown(value)}")
    return value


def last_of(link: object, what: str) -> str:
    """The name at the end of a link such as https://…/zones/us-central1-a."""
    if not isinstance(link, str) or len(link) > 1024:
        raise ParseError(f"{what} is not a link")
    return named(link.rpartition("/")[2], what)


def region_of_zone(zone: str) -> str:
    """Google's own region: us-central1 of us-central1-a."""
    return zone.rpartition("-")[0]


def request_id(token: str) -> str:
    """Always the same for the same order: repeating it makes no second machine."""
    return str(uuid5(ORDERS, token))


def labels(tags: Iterable[tuple[str, str]], token: str) -> dict[str, str]:
    """A class's tags as labels, and ours after them. A key must begin with a letter: others get a prefix."""
    made: dict[str, str] = {}
    for key, value in tags:
        if len(made) < LABELS_MAX - 1:
            made[_key(key)] = _slug(value)
    made[TOKEN_LABEL] = token
    return made


def _key(words: str) -> str:
    slug = _slug(words)
    return slug if slug[:1].isalpha() else f"{LETTERS}{slug}"[:LABEL_LONGEST]


def _slug(words: str) -> str:
    return _UNFIT.sub("-", words.lower())[:LABEL_LONGEST]
