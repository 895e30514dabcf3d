"""Hides what may be a secret in text from outside, whether or not we know the secret.

A hostile or careless server may send back what it was sent: as it is, in another case, in base64, within a URL. What is
long and looks random (base64, hex, a JWT, the query of a URL) is hidden; words, paths, UUIDs and our own tokens
stay, because a provider's message is needed to explain a failure.
"""

import re
import unicodedata
from urllib.parse import unquote

HIDDEN = "***"
SHORTEST_RUN = 16  # characters; shorter ones are names of types, regions and machines
SHORTEST_WHOLE = 20  # characters of a run that is judged over its separators
MEAN_WORD = 2.6  # characters between two changes of case or kind: words have more, base64 and hex about 1.8
MEAN_MIXED = 3.3  # where small letters, capitals and digits are mixed
MEAN_WHOLE = 2.3  # over separators, where `eu-1/a-2` has short words, too
CHANGES = 3  # between letters and digits in a long piece: base64 in one case has them, names of types have separators
ROUNDS = 3  # of decoding: what is encoded more often is no careless echo

_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,15}://)(?:[^\s/?#@'\"<>]*@)?([^\s?#'\"<>]*)([?#][^\s'\"<>]*)?")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){0,4}")
_KEYS = re.compile(r"(?i)\b[th]skey-[a-z]+-[a-z0-9_-]+")  # every secret of Tailscale and of Headscale looks like this
_RUN = re.compile(rf"[A-Za-z0-9+/_=-]{{{SHORTEST_RUN},}}")
_HEX = re.compile(r"(?i)(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]+")  # digits alone are a number
_SEPARATORS = re.compile(r"[-_/+=]+")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[0-9]+")
_KNOWN = re.compile(  # what is long, looks random and is no secret: a UUID, a token of ours, the end of a pool's Node
    r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|tgp-[0-9a-f]{10}(?:-[0-9a-f]{32}(?:-[0-9]+)?)?"
    r"|(?<=-)[0-9a-f]{10}-[0-9a-f]{8}$"
)


_KINDS = re.compile(r"[A-Za-z]+|[0-9]+")
_CONSONANTS = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{6}")
_ESCAPE = re.compile(r"\\u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)  # but for halves of a character


def without_opaque_runs(text: str) -> str:
    visible = without_invisible(text)
    clear = decoded(visible)
    hidden = _without_opaque_runs(clear)
    return hidden if hidden != clear else _without_opaque_runs(visible)  # an address keeps its %20


def decoded(text: str) -> str:
    r"""With %XX and \uXXXX as the characters that they stand for."""
    for _ in range(ROUNDS):
        clear = without_invisible(unquote(_ESCAPE.sub(lambda each: chr(int(each[1], 16)), text)))
        if clear == text:
            break
        text = clear
    return text


def without_invisible(text: str) -> str:
    """Without the signs that have no width: they would divide a secret into harmless pieces."""
    return text if text.isascii() else "".join(sign for sign in text if unicodedata.category(sign) != "Cf")


def _without_opaque_runs(text: str) -> str:
    text = _URL.sub(_address, text)
    text = _KEYS.sub(HIDDEN, _JWT.sub(HIDDEN, text))
    return _RUN.sub(lambda run: HIDDEN if is_opaque(run[0]) else run[0], text)


def is_opaque(run: str) -> bool:
    """Is this random rather than words?"""
    rest = _KNOWN.sub("", run)
    pieces = [piece for piece in _SEPARATORS.split(rest) if piece]
    whole = "".join(pieces)
    if len(whole) >= SHORTEST_WHOLE and _mean_word(pieces) < (MEAN_MIXED if _mixed(whole) else MEAN_WHOLE):
        return True
    if any(len(piece) >= SHORTEST_WHOLE and _in_one_case(piece) for piece in pieces):
        return True
    return any(
        len(piece) >= SHORTEST_RUN
        and (_HEX.fullmatch(piece) or _mean_word([piece]) < (MEAN_MIXED if _mixed(piece) else MEAN_WORD))
        for piece in pieces
    )


def _in_one_case(piece: str) -> bool:
    """Base64 that has lost its case: digits among the letters, or letters that no language has in a row."""
    return len(_KINDS.findall(piece)) > CHANGES or _CONSONANTS.search(piece) is not None


def _mixed(text: str) -> bool:
    """Small letters, capitals and digits: rare in words, the rule in base64."""
    return any(map(str.islower, text)) and any(map(str.isupper, text)) and any(map(str.isdigit, text))


def _mean_word(pieces: list[str]) -> float:
    return sum(map(len, pieces)) / sum(len(_WORDS.findall(piece)) for piece in pieces)


def _address(found: re.Match[str]) -> str:
    scheme, place, query = found[1], found[2], found[3]
    user = f"{HIDDEN}@" if "@" in found[0][len(scheme) :].partition("/")[0] else ""
    return f"{scheme}{user}{place}{f'{query[0]}{HIDDEN}' if query and len(query) > 1 else ''}"
