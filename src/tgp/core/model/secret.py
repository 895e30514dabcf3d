"""A secret value: it prints as nothing, wherever it is printed by mistake."""

from hashlib import sha256
from hmac import compare_digest
from typing import NoReturn

FINGERPRINT_DIGITS = 16  # hex: distinguishes keys, and reveals nothing of a key with 128 bits of entropy


class Secret:
    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Only where it is about to be sent to the service it belongs to."""
        return self._value

    @property
    def fingerprint(self) -> str:
        """Equal for equal secrets; written into statuses and logs in their place."""
        return "key:" + sha256(f"tgp fingerprint\n{self._value}".encode()).hexdigest()[:FINGERPRINT_DIGITS]

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, _spec: str) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is never serialised")
