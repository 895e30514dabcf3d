"""Tokens of those who ask, as far as they are looked at before the API server reviews them."""

import binascii
from base64 import urlsafe_b64decode
from datetime import timedelta
from hashlib import sha256

import msgspec

AUDIENCE = "tgp-operator"  # a token for it opens this operator and nothing else
TOKEN_LIFE = timedelta(minutes=10)  # of those that commands ask for: the API server issues none shorter
TOKEN_HEADER = "X-Tgp-Token"  # noqa: S105 - a name: the API server's proxy takes Authorization away


def digest(token: str) -> bytes:
    """What answers are kept under: the token itself is kept nowhere."""
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def is_for_us(token: str) -> bool:
    """Whether it says that it is for our audience. Only the API server can tell if that is true: this chooses what it
    is asked. A token without such a claim is reviewed for the API server's own audience, as those of scrapers are.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return False
    try:
        claims = msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return False
    said = claims.get("aud") if isinstance(claims, dict) else None
    return said == AUDIENCE or (isinstance(said, list) and AUDIENCE in said)
