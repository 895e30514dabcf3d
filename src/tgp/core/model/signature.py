"""Signed calls, as Standard Webhooks writes them: HMAC-SHA256 over `id.timestamp.body`, in three headers.

The id is also the idempotency key: a receiver that gets the same id twice acts once. Several secrets at a
time give several signatures, so that a secret can be rotated without a gap.

A secret is `whsec_` and base64, or any other text. Receivers disagree about a text without the prefix: the reference
library decodes it as base64, others take its bytes. Where both are possible both signatures are sent: either receiver
finds its own, and neither can be made without the secret.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from tgp.core.model.secret import Secret

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
PREFIX = "whsec_"
VERSION = "v1"  # HMAC-SHA256; v1a would be ed25519
TOLERANCE = timedelta(minutes=5)  # the reference libraries'
LEAST_KEY_BYTES = 24  # the specification asks for 24 to 64; only where we guess does it decide
MOST_KEY_BYTES = 64
MOST_SECRETS = 4  # one old, one new, and one spare
MOST_SIGNATURES = 16  # of a received header
LONGEST_ID = 256


class NotASecret(ValueError):
    """A signing secret is unusable; the message quotes nothing of it."""


class NotSigned(ValueError):
    """A received call must not be trusted; the message says why, for the receiver's log."""


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """A signing key. It prints nothing."""

    _keys: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"SigningKeys({len(self._keys)})"

    @property
    def weakest_bits(self) -> int:
        return min(len(key) for key in self._keys) * 8

    def sign(self, message_id: str, at: datetime, body: bytes) -> tuple[tuple[str, str], ...]:
        """The three headers of one call."""
        assert "." not in message_id, "a full stop divides what is signed"
        stamp = str(int(at.timestamp()))
        signatures = " ".join(_signature(key, message_id, stamp, body) for key in self._keys)
        return (ID, message_id), (TIMESTAMP, stamp), (SIGNATURE, signatures)

    def verify(self, message_id: str, stamp: str, signatures: str, body: bytes, now: datetime) -> datetime:
        """The receiver's side: when it was signed. Raises NotSigned.

        Every signature is compared with every key in constant time, whichever matches first.
        """
        if not message_id.isascii() or not 0 < len(message_id) <= LONGEST_ID or "." in message_id:
            raise NotSigned("the message id is missing or invalid")
        signed_at = _moment(stamp, now)
        received = [given.encode(errors="replace") for given in signatures.split(" ")[:MOST_SIGNATURES]]
        wanted = [_signature(key, message_id, stamp, body).encode() for key in self._keys]
        matches = [hmac.compare_digest(given, one) for given in received for one in wanted]
        if not any(matches):
            raise NotSigned("no signature matches")
        return signed_at


def keys_of(secret: Secret) -> SigningKeys:
    """From what stands in a Secret: one signing secret, or several separated by spaces."""
    texts = secret.reveal().split()
    if not 1 <= len(texts) <= MOST_SECRETS:
        raise NotASecret(f"contains {len(texts)} secrets; 1 to {MOST_SECRETS} are allowed, separated by spaces")
    return SigningKeys(tuple(dict.fromkeys(key for text in texts for key in _readings(text))))


def _readings(text: str) -> Sequence[bytes]:
    if text.startswith(PREFIX):
        decoded = _decoded(text.removeprefix(PREFIX))
        if not decoded:
            raise NotASecret(f"begins with {PREFIX}, but the rest is not base64")
        return (decoded,)
    raw, decoded = text.encode(), _decoded(text)
    if decoded is not None and LEAST_KEY_BYTES <= len(decoded) <= MOST_KEY_BYTES:
        return decoded, raw
    return (raw,)


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):  # ValueError: not ASCII
        return None


def _signature(key: bytes, message_id: str, stamp: str, body: bytes) -> str:
    digest = hmac.new(key, b".".join((message_id.encode(), stamp.encode(), body)), sha256).digest()
    return f"{VERSION},{b64encode(digest).decode()}"


def _moment(stamp: str, now: datetime) -> datetime:
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 11):
        raise NotSigned("the timestamp is not in whole seconds")
    signed_at = datetime.fromtimestamp(int(stamp), now.tzinfo)
    if now - signed_at > TOLERANCE:
        raise NotSigned("the timestamp is too old")
    if signed_at - now > TOLERANCE:
        raise NotSigned("the timestamp is too far in the future")
    return signed_at
