"""What is known of a source of offers beside its offers: what its provider can do, and what it said of the key."""

from dataclasses import dataclass
from datetime import datetime

from tgp.core.model.offer import BootMode


@dataclass(frozen=True, slots=True)
class KeyState:
    """What the provider last said of a key."""

    valid: bool | None = None  # None: not tried, or no answer
    why: str = ""  # of a refusal, or of an account that cannot buy
    weak: bool = False  # the key is accepted, and may not do all that is needed
    exhausted: bool = False  # the key is good, and no balance or quota is left
    account: str = ""
    checked_at: datetime | None = None
    fingerprint: str = ""  # of the key that was tried


@dataclass(frozen=True, slots=True)
class Seller:
    provider: str
    title: str  # as people write it
    boot: tuple[BootMode, ...]
    sells_spot: bool
    key: KeyState = KeyState()
    missing_key: bool = False  # there is none, so only what is public can be asked
