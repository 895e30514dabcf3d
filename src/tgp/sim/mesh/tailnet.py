"""A simulated tailnet: auth keys, devices, and what becomes of them with time. Both control servers stand on it.

The machines' side is here too: `join` by an auth key, `leave`, `go_offline`. Nothing happens by a timer: every read
first makes the time that has passed count.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from random import Random

from tgp.core.model.mesh import Device
from tgp.ports.clock import Clock

FIRST_ADDRESS = int(IPv4Address("100.64.0.1"))
LAST_ADDRESS = int(IPv4Address("100.127.255.254"))
FIRST_ADDRESS_6 = int(IPv6Address("fd7a:115c:a1e0::1"))
DAYS_WITHOUT_EXPIRY = timedelta(days=90)
LINGERING = (timedelta(minutes=30), timedelta(hours=48))  # of an ephemeral device that was cut off without a word


class JoinRefused(Exception):
    """The control server does not let this machine in; the text is what its client would print."""


@dataclass(slots=True)
class AuthKey:
    id: str
    secret: str = field(repr=False)
    tags: tuple[str, ...]
    reusable: bool
    ephemeral: bool
    created_at: datetime
    expires_at: datetime
    description: str = ""
    preauthorized: bool = True
    used: int = 0
    revoked_at: datetime | None = None


@dataclass(slots=True)
class Seat:
    """One device, with what the API does not show."""

    id: str
    number: int
    hostname: str
    label: str  # the first part of its name, made unique
    addresses: tuple[str, ...]
    tags: tuple[str, ...]
    created_at: datetime
    ephemeral: bool
    key_id: str
    online: bool = True
    last_seen: datetime | None = None
    ends_at: datetime | None = None  # of an ephemeral one that is cut off
    foreign: bool = False  # shared by another tailnet, or owned by one: not ours to remove


def node_ids(luck: Random) -> Callable[[int], str]:
    """As Tailscale makes them; a number serves at Headscale."""
    signs = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"
    return lambda _number: "n" + "".join(luck.choices(signs, k=9)) + "CNTRL"


class Tailnet:
    def __init__(
        self,
        clock: Clock,
        seed: int | str,
        *,
        domain: str = "tail1234.ts.net",
        key_prefix: str = "tskey-auth-",
        new_id: Callable[[int], str] | None = None,  # None: numbers, 1, 2, 3
        lingering: tuple[timedelta, timedelta] = LINGERING,
        in_order: bool = False,  # addresses are given out from the lowest free one
    ) -> None:
        self.domain = domain
        self.keys: dict[str, AuthKey] = {}
        self.seats: dict[str, Seat] = {}
        self._clock = clock
        self._luck = Random(f"{seed}/tailnet")
        self._key_prefix = key_prefix
        self._new_id = new_id or str
        self._lingering = lingering
        self._in_order = in_order
        self._numbers = 0
        self._key_numbers = 0

    # -- keys ----------------------------------------------------------------------------------------------------------

    def issue(
        self,
        tags: tuple[str, ...],
        *,
        reusable: bool = False,
        ephemeral: bool = True,
        preauthorized: bool = True,
        lasts: timedelta = DAYS_WITHOUT_EXPIRY,
        description: str = "",
    ) -> AuthKey:
        """An auth key, as an administrator or the API makes one."""
        self._key_numbers += 1
        number = self._key_numbers
        key_id = str(number) if self._new_id is str else f"k{self._luck.randrange(16**8):08x}{number}CNTRL"
        now = self._clock.now()
        secret = f"{self._key_prefix}{key_id}-{self._luck.randrange(16**32):032x}"
        key = AuthKey(key_id, secret, tags, reusable, ephemeral, now, now + lasts, description, preauthorized)
        self.keys[key_id] = key
        return key

    def is_valid(self, key: AuthKey) -> bool:
        return key.revoked_at is None and self._clock.now() < key.expires_at and (key.reusable or key.used == 0)

    def revoke(self, key_id: str) -> bool:
        """False: there is no such key."""
        key = self.keys.get(key_id)
        if key is None:
            return False
        key.revoked_at = key.revoked_at or self._clock.now()
        return True

    # -- the machines' side --------------------------------------------------------------------------------------------

    def join(self, auth_key: str, hostname: str, tags: tuple[str, ...] = ()) -> Device:
        """A machine logs in. A single-use key is burned by it. `tags`: what it asks for beside its key's own."""
        self.advance()
        key = next((each for each in self.keys.values() if each.secret == auth_key), None)
        if key is None or not self.is_valid(key):
            raise JoinRefused(f"invalid key: API key {key.id if key else 'unknown'} not valid")
        if not set(tags) <= set(key.tags):
            raise JoinRefused(f"requested tags [{' '.join(tags)}] are invalid or not permitted")
        key.used += 1
        seat = self._seat(hostname, key.tags, ephemeral=key.ephemeral, key_id=key.id)
        return self.shown(seat)

    def leave(self, device_id: str) -> None:
        """It logs out: an ephemeral device is gone at once, another stays, disconnected."""
        seat = self.seats.get(device_id)
        if seat is not None and seat.ephemeral:
            del self.seats[device_id]
        elif seat is not None:
            self.go_offline(device_id)

    def go_offline(self, device_id: str) -> None:
        """It is cut off, or killed, without logging out: an ephemeral device lingers."""
        seat = self.seats.get(device_id)
        if seat is None or not seat.online:
            return
        seat.online = False
        seat.last_seen = self._clock.now()
        if seat.ephemeral:
            least, most = self._lingering
            seat.ends_at = seat.last_seen + least + (most - least) * self._luck.random()

    def come_back(self, device_id: str) -> bool:
        """It is connected again; False: its device was removed, and it must log in again."""
        self.advance()
        seat = self.seats.get(device_id)
        if seat is not None:
            seat.online, seat.ends_at = True, None
        return seat is not None

    def add(self, hostname: str, tags: tuple[str, ...] = (), *, foreign: bool = False) -> Device:
        """A device of another user."""
        self.advance()
        seat = self._seat(hostname, tags, ephemeral=False, key_id="")
        seat.foreign = foreign
        return self.shown(seat)

    # -- looking -------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """What time has done: ephemeral devices that were cut off long enough are gone."""
        now = self._clock.now()
        for device_id, seat in list(self.seats.items()):
            if seat.ends_at is not None and seat.ends_at <= now:
                del self.seats[device_id]

    def devices(self) -> list[Seat]:
        self.advance()
        return sorted(self.seats.values(), key=lambda seat: seat.number)

    def remove(self, device_id: str) -> bool:
        """False: it was not there."""
        self.advance()
        return self.seats.pop(device_id, None) is not None

    def name_of(self, seat: Seat) -> str:
        return f"{seat.label}.{self.domain}"

    def shown(self, seat: Seat) -> Device:
        return Device(
            id=seat.id,
            hostname=seat.hostname,
            name=self.name_of(seat),
            addresses=seat.addresses,
            tags=seat.tags,
            created_at=seat.created_at,
            online=seat.online,
            last_seen=seat.last_seen,
        )

    def _seat(self, hostname: str, tags: tuple[str, ...], *, ephemeral: bool, key_id: str) -> Seat:
        self._numbers += 1
        seat = Seat(
            id=self._new_id(self._numbers),
            number=self._numbers,
            hostname=hostname,
            label=self._label(hostname),
            addresses=self._addresses(),
            tags=tags,
            created_at=self._clock.now(),
            ephemeral=ephemeral,
            key_id=key_id,
        )
        self.seats[seat.id] = seat
        return seat

    def _label(self, hostname: str) -> str:
        """The hostname is kept; the name by which others reach it is made unique."""
        taken = {seat.label for seat in self.seats.values()}
        label, count = hostname.lower(), 0
        while label in taken:
            count += 1
            label = f"{hostname.lower()}-{count}"
        return label

    def _addresses(self) -> tuple[str, str]:
        taken = {address for seat in self.seats.values() for address in seat.addresses}
        number = 0
        while True:
            number = number + 1 if self._in_order else self._luck.randrange(1, LAST_ADDRESS - FIRST_ADDRESS)
            four = str(IPv4Address(FIRST_ADDRESS + number - 1))
            if four not in taken:
                return four, str(IPv6Address(FIRST_ADDRESS_6 + number - 1))
