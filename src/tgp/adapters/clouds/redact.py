"""A provider's error text for messages, without the secrets we sent: an error may quote what it refuses.

`shown` hides what looks like a secret; this hides what is known to be one, whatever it looks like.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TypeAlias

from tgp.adapters.clouds.parse import READ_MAX, shown
from tgp.core.model.opaque import HIDDEN, decoded
from tgp.core.model.secret import Secret

Confidence: TypeAlias = bytes | Secret | None  # user data, a variable of a container, a key; None: there is none

SHORTEST_SECRET = 4  # characters; hiding every `1` would only garble the text
SHORTEST_PIECE = 8  # of a secret, with a digit in it …
SHORTEST_WORDS = 16  # … or without one: `machine` and `network` stand in every machine config, and are not secret
SHORTEST_PART = 12  # letters and digits of a key in any encoding, over all separators, with a digit among them
WORD = re.compile(r"[^\s\"'`,;()\[\]{}<>]+")
PIECES = re.compile(r"(\\[nrt]|[:=&|/\\.!?…]+)")  # `token=…`, a path, text as a program prints it
EDGES = ".:!?=…"


def quoted(words: str, *confidences: Confidence) -> str:
    """`words` without every word that is also in one of `confidences` (keys, user data), shortened."""
    secrets = [text for each in confidences if each for text in _texts_of(each)]
    clear = decoded(words[:READ_MAX])
    text = clear
    for secret in sorted(secrets, key=len, reverse=True):
        if SHORTEST_SECRET <= len(secret) <= READ_MAX:
            text = re.sub(re.escape(secret), HIDDEN, text, flags=re.IGNORECASE)
    for each in confidences:
        if isinstance(each, Secret):
            text = _without_parts(text, each.reveal())
    folded = [secret.lower() for secret in secrets]
    text = WORD.sub(lambda found: _discreet(found[0], folded), text)
    return shown(text if text != clear else words[:READ_MAX])


def _without_parts(text: str, key: str) -> str:
    """Without parts of the key as text, base64 and hex, in any case, and however they are divided."""
    places = [place for place, sign in enumerate(text) if sign.isascii() and sign.isalnum()]
    plain = "".join(text[place] for place in places).lower()
    hidden = [False] * len(text)
    for form in _encoded(key):
        for length in (SHORTEST_PART, SHORTEST_WORDS):
            parts = {form[start : start + length] for start in range(len(form) - length + 1)}
            for start in range(len(plain) - length + 1):
                part = plain[start : start + length]
                if part in parts and (length == SHORTEST_WORDS or any(map(str.isdigit, part))):
                    first, last = places[start], places[start + length - 1]
                    hidden[first : last + 1] = [True] * (last + 1 - first)
    if not any(hidden):
        return text
    for order in (1, -1):  # the rest of a word that is partly hidden
        row = range(len(text))[::order]
        for here, there in pairwise(row):
            hidden[there] = hidden[there] or (hidden[here] and (text[there].isalnum() or text[there] == "="))
    return "".join(
        HIDDEN if masked else "".join(sign for _, sign in signs)
        for masked, signs in groupby(zip(hidden, text, strict=True), key=itemgetter(0))
    )


def _encoded(key: str) -> Iterator[str]:
    """Letters and digits of it, as text, hex and base64 wherever it begins there."""
    data = key.encode()
    yield _letters(key)
    yield data.hex()
    for before in range(3):
        coded = b64encode(bytes(before) + data).decode().rstrip("=")
        yield _letters(coded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])


def _letters(text: str) -> str:
    return "".join(sign for sign in text if sign.isascii() and sign.isalnum()).lower()


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
