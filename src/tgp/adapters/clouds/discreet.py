"""A provider's own words for people, without what we told it in confidence: an error may quote what it refuses."""

import re
from base64 import b64encode
from typing import TypeAlias

from tgp.adapters.clouds.reading import shown
from tgp.core.model.secret import Secret

Confidence: TypeAlias = bytes | Secret | None  # user data, a variable of a container, a key; None: there is none

READ_MAX = 1_024  # characters of its words that are looked through: more than are ever shown
SHORTEST_SECRET = 4  # characters; hiding every `1` hides nothing but the sense
SHORTEST_PIECE = 6  # of a secret; a shorter word of user data (`true`, `eth0`) gives nothing away
WORD = re.compile(r"[^\s\"'`,;()\[\]{}<>]+")
PIECES = re.compile(r"(\\[nrt]|[:=&|/\\.!?…]+)")  # `token=…`, a path, text as a program prints it
EDGES = ".:!?=…"
HIDDEN = "***"


def quoted(words: str, *confidences: Confidence) -> str:
    """`words` with every word hidden that stands in one of `confidences` (keys, user data) too, and then shortened."""
    secrets = [text for each in confidences if each for text in _texts_of(each)]
    text = words[:READ_MAX]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return shown(WORD.sub(lambda found: _discreet(found[0], secrets), text))


def _texts_of(confidence: bytes | Secret) -> tuple[str, ...]:
    """As it may be quoted: some are sent their user data as base64."""
    if isinstance(confidence, Secret):
        return (confidence.reveal(),)
    return confidence.decode(errors="replace"), b64encode(confidence).decode()


def _discreet(word: str, secrets: list[str]) -> str:
    if _gives_away(word.strip(EDGES), secrets):
        return HIDDEN
    return "".join(HIDDEN if _gives_away(piece, secrets) else piece for piece in PIECES.split(word))


def _gives_away(piece: str, secrets: list[str]) -> bool:
    return len(piece) >= SHORTEST_PIECE and any(piece in secret for secret in secrets)
