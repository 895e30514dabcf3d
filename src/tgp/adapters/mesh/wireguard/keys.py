"""WireGuard's keys: X25519, 32 bytes in base64."""

import binascii
from base64 import b64decode, b64encode
from dataclasses import dataclass

from tgp.core.model.secret import Secret
from tgp.ports.entropy import Entropy

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeyPair:
    private: Secret
    public: str


def new_pair(entropy: Entropy) -> KeyPair:
    """Clamped as X25519 does anyway and as `wg genkey` prints keys: some tools check for it."""
    luck = bytearray(entropy.token(KEY_BYTES))
    luck[0] &= 0b1111_1000
    luck[31] = luck[31] & 0b0111_1111 | 0b0100_0000
    return _pair(bytes(luck))


def pair_of(private: Secret) -> KeyPair | None:
    """None: not a key."""
    raw = key_bytes(private.reveal())
    return _pair(raw) if raw is not None else None


def key_bytes(text: str) -> bytes | None:
    """None: not a key as WireGuard writes them."""
    try:
        raw = b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == KEY_BYTES else None


def _pair(raw: bytes) -> KeyPair:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    public = X25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw()
    return KeyPair(Secret(b64encode(raw).decode()), b64encode(public).decode())
