"""Connects to one address only: the checked address is the one that is called, even if DNS changes meanwhile."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult


class OneAddress(AbstractResolver):
    """Has one answer for every name. Sends no DNS query."""

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = socket.AF_INET if self._address.version == 4 else socket.AF_INET6
        if family not in (found, socket.AF_UNSPEC):
            raise OSError(None, "the address is of another family")
        return [
            ResolveResult(
                hostname=host,
                host=str(self._address),
                port=port,
                family=found,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        ]

    async def close(self) -> None:
        """Nothing to close."""


def pinned(address: str, base_url: str, proxy: str) -> IPv4Address | IPv6Address | None:
    """The address to connect to; None: whichever the name has. Raises ValueError if it cannot be enforced."""
    if not address:
        return None
    found = ip_address(address)
    if proxy:
        raise ValueError("a proxy resolves the address itself: use a pinned address or a proxy, not both")
    host = urlsplit(base_url).hostname or ""
    try:
        literal = ip_address(host)
    except ValueError:
        return found  # a name
    if literal != found:  # the library connects to an address in a URL without asking a resolver
        raise ValueError(f"the URL's address is {literal}, but the pinned address is {found}")
    return found
