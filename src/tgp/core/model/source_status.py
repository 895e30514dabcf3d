"""The state of a source beside its offers: what its provider can do, and whether the key was accepted."""

from dataclasses import dataclass
from datetime import datetime

from tgp.core.model.offer import BootMode


@dataclass(frozen=True, slots=True)
class KeyState:
    """The provider's last answer about a key."""

    valid: bool | None = None  # None: not checked, or no answer
    why: str = ""  # of a refusal, or of an account that cannot buy
    weak: bool = False  # the key is accepted, but rights are missing
    exhausted: bool = False  # the key is valid, but no balance or quota is left
    account: str = ""
    checked_at: datetime | None = None
    fingerprint: str = ""  # of the key that was checked


@dataclass(frozen=True, slots=True)
class SourceStatus:
    provider: str
    title: str  # display name
    boot: tuple[BootMode, ...]
    sells_spot: bool
    key: KeyState = KeyState()
    missing_key: bool = False  # there is none, so only public offers can be read
