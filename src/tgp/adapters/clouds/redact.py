"""A provider's error text for messages, without the secrets we sent: an error may quote what it refuses.

`shown` hides what looks like a secret; this hides what is known to be one, whatever it looks like.
"""

import re
from base64 import b64encode
from typing import TypeAlias

from tgp.adapters.clouds.parse import READ_MAX, shown
from tgp.core.model.opaque import HIDDEN
from tgp.core.model.secret import Secret

Confidence: TypeAlias = bytes | Secret | None  # user data, a variable of a container, a key; None: there is none

SHORTEST_SECRET = 4  # characters; hiding every `1` would only garble the text
SHORTEST_PIECE = 8  # of a secret, with a digit in it …
SHORTEST_WORDS = 16  # … or without one: `machine` and `network` stand in every machine config, and are not secret
WORD = re.compile(r"[^\s\"'`,;()\[\]{}<>]+")
PIECES = re.compile(r"(\\[nrt]|[:=&|/\\.!?…]+)")  # `token=…`, a path, text as a program prints it
EDGES = ".:!?=…"


def quoted(words: str, *confidences: Confidence) -> str:
    """`words` without every word that is also in one of `confidences` (keys, user data), shortened."""
    secrets = [text for each in confidences if each for text in _texts_of(each)]
    text = words[:READ_MAX]
    for secret in sorted(secrets, key=len, reverse=True):
        if SHORTEST_SECRET <= len(secret) <= READ_MAX:
            text = re.sub(re.escape(secret), HIDDEN, text, flags=re.IGNORECASE)
    folded = [secret.lower() for secret in secrets]
    return shown(WORD.sub(lambda found: _discreet(found[0], folded), text))


def _texts_of(confidence: bytes | Secret) -> tuple[str, ...]:
    """As it may be quoted: some providers get the user data as base64."""
    if isinstance(confidence, Secret):
        return (confidence.reveal(),)
    return confidence.decode(errors="replace"), b64encode(confidence).decode()


def _discreet(word: str, secrets: list[str]) -> str:
    if _gives_away(word.strip(EDGES), secrets):
        return HIDDEN
    return "".join(HIDDEN if _gives_away(piece, secrets) else piece for piece in PIECES.split(word))


def _gives_away(piece: str, secrets: list[str]) -> bool:
    if len(piece) < SHORTEST_PIECE or (len(piece) < SHORTEST_WORDS and not any(map(str.isdigit, piece))):
        return False
    return any(piece.lower() in secret for secret in secrets)
