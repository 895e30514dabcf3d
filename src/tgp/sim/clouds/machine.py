"""One rented machine of the simulated world, with its bill to the second."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tgp.sim.clouds.stock import Product

HOUR_MICROSECONDS = 3_600_000_000


class Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"  # by an outbid, an empty balance, or asked for: the disk still costs
    LOST = "lost"  # its host is gone
    ENDING = "ending"
    GONE = "gone"


@dataclass(slots=True)
class SimulatedMachine:
    id: str
    account: str  # the account that pays
    product: Product
    name: str
    created_at: datetime
    visible_at: datetime  # lists show it from then on
    rate_microusd: int  # an hour, while it runs
    idle_rate_microusd: int  # an hour, while it is stopped: its disk
    spot: bool = False
    bid_microusd: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    user_data: bytes = field(default=b"", repr=False)
    detail: dict[str, Any] = field(default_factory=dict)  # what only this provider's wire shows
    max_run: timedelta | None = None
    foreign: bool = False  # another tenant's, in the same account
    by_hand: bool = False  # you own it, and a person switched it on
    phase: Phase = Phase.STARTING
    why: str = ""  # of the phase, for users
    interrupted: bool = False
    running_at: datetime | None = None
    ends_at: datetime | None = None  # when it is taken back, as announced; None: its offer says so, or nothing does
    ended_at: datetime | None = None
    stuck: bool = False  # never leaves its first phase
    addressless: bool = False  # runs, and cannot be reached
    public_ip: str = ""
    private_ip: str = ""
    _rate: int = 0
    _since: datetime | None = None
    _owed: int = 0  # micro-dollars times microseconds of an hour

    def charge(self, rate_microusd: int, now: datetime) -> None:
        """From now on it costs so much an hour."""
        self._owed = self._due(now)
        self._rate, self._since = rate_microusd, now

    def cost_microusd(self, now: datetime) -> int:
        """What it has cost so far, rounded up."""
        return -(-self._due(now) // HOUR_MICROSECONDS)

    @property
    def charged_microusd(self) -> int:
        """An hour, at the moment."""
        return self._rate

    @property
    def alive(self) -> bool:
        return self.phase is not Phase.GONE

    def _due(self, now: datetime) -> int:
        if self._since is None:
            return self._owed
        passed = max(now - self._since, type(now - self._since)())
        microseconds = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
        return self._owed + self._rate * microseconds
