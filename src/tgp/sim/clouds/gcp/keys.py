"""Service accounts of the simulated Google Cloud: their key files, and the statements they sign.

All of them share one pair of keys, so that equal seeds give equal worlds. It opens nothing but this simulated cloud.
"""

from base64 import urlsafe_b64decode
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tgp.ports.http import NO_JSON

GOOGLES_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
LONGEST_LIFE_S = 3600
SKEW_S = 300  # that a clock may be off
STATEMENT_LONGEST = 16 << 10

_P = int(
    "fbd945ab94a599131e127465a42ced74fc0b9dfe262f18ed1189e084000c153d54d407f9e057a5d5885ead961c70d554"
    "acdf6572c338fc34fc92cded7b0743589ddc2df7d35188d406f78d6229f46ab966ad7454350711ea01c33fcac27e1b98"
    "783394351c049230cde86690c998531fa78fa13938e52b5c07c8e0138058f409",
    16,
)
_Q = int(
    "e59c963900a477b01c6f416ba8adf477eae9aea2e6d6f482b8fff58dc75dd52324e6da5b1bf56912a7fbb97111573d2b"
    "d1512e7356c018e957148f19f55871ad012592e400c34974e1e2114a3ab05b9156d91cd64557b24e16b1d6f3657d023a"
    "b9f10c98864b5353e70f317052783b117c152d4856e1657d240f4dfcc4f1d357",
    16,
)
_E = 65537


class BadStatement(Exception):
    """Why a signed statement is not believed, in Google's words."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One service account's key."""

    project: str
    key_id: str

    @property
    def email(self) -> str:
        return f"tgp@{self.project}.iam.gserviceaccount.com"

    def text(self, token_uri: str = GOOGLES_TOKEN_URI) -> str:
        """As the console would hand it out."""
        fields = {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": self.key_id,
            "private_key": _pem(),
            "client_email": self.email,
            "client_id": "100000000000000000001",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": token_uri,
            "universe_domain": "googleapis.com",
        }
        return msgspec.json.encode(fields).decode()


def key_id_of(statement: str) -> str:
    """Whose key a statement says it was signed with; empty: it does not. Nothing is believed yet."""
    try:
        return str(_decoded(statement.partition(".")[0]).get("kid", ""))
    except BadStatement:
        return ""


def claims_of(statement: str, key: KeyFile, now: float, skew_s: float = SKEW_S) -> dict[str, Any]:
    """What a statement says, once signature, issuer and time are right."""
    pieces = statement.split(".")
    if len(pieces) != 3 or len(statement) > STATEMENT_LONGEST or _decoded(pieces[0]).get("alg") != "RS256":
        raise BadStatement("Invalid JWT: Failed audience check.")
    try:
        _private_key().public_key().verify(_bytes(pieces[2]), f"{pieces[0]}.{pieces[1]}".encode(), PKCS1v15(), SHA256())
    except InvalidSignature:
        raise BadStatement("Invalid JWT Signature.") from None
    claims = _decoded(pieces[1])
    if claims.get("iss") != key.email:
        raise BadStatement("Invalid grant: account not found")
    if not _is_timely(claims.get("iat"), claims.get("exp"), now, skew_s):
        raise BadStatement(
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
            "Check your iat and exp values in the JWT claim."
        )
    return claims


def _is_timely(issued: Any, ends: Any, now: float, skew_s: float) -> bool:
    if not isinstance(issued, int) or not isinstance(ends, int) or ends - issued > LONGEST_LIFE_S:
        return False
    return issued - skew_s <= now < ends + skew_s


def _decoded(piece: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(_bytes(piece))
    except NO_JSON:
        raise BadStatement("Invalid JWT: cannot be read") from None
    if not isinstance(value, dict):
        raise BadStatement("Invalid JWT: cannot be read")
    return value


def _bytes(piece: str) -> bytes:
    try:
        return urlsafe_b64decode(piece + "=" * (-len(piece) % 4))
    except ValueError:
        raise BadStatement("Invalid JWT: cannot be read") from None


@cache
def _private_key() -> RSAPrivateKey:
    secret = pow(_E, -1, (_P - 1) * (_Q - 1))
    numbers = RSAPrivateNumbers(
        _P, _Q, secret, rsa_crt_dmp1(secret, _P), rsa_crt_dmq1(secret, _Q), rsa_crt_iqmp(_P, _Q),
        RSAPublicNumbers(_E, _P * _Q),
    )  # fmt: skip
    return numbers.private_key()


@cache
def _pem() -> str:
    return _private_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
