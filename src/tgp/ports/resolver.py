"""Names to addresses, so that an address can be checked before anything is sent to it."""

from ipaddress import IPv4Address, IPv6Address
from typing import Protocol


class UnknownHost(Exception):
    """The name has no address, or the resolver did not answer."""


class Resolver(Protocol):
    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        """Every address of `host`, at least one, in the resolver's order. Raises UnknownHost."""
        ...
