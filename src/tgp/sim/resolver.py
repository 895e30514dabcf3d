"""Names to addresses from a table that a scenario may change at any time (a name that moves is an attack)."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address

from tgp.ports.resolver import UnknownHost

Addresses = tuple[IPv4Address | IPv6Address, ...]


class TableResolver:
    def __init__(self, table: Mapping[str, Addresses] | None = None) -> None:
        self._table = dict(table or {})

    def point(self, host: str, *addresses: IPv4Address | IPv6Address) -> None:
        """From now on `host` has these addresses; none: it is unknown."""
        self._table[host] = addresses

    async def resolve(self, host: str) -> Addresses:
        addresses = self._table.get(host, ())
        if not addresses:
            raise UnknownHost(f"{host} has no address")
        return addresses
