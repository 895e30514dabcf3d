"""Names to addresses by the system's resolver."""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from tgp.ports.resolver import UnknownHost

ANSWER_WITHIN = 10.0  # seconds; the C library's own default is 5 s per server and try


class SystemResolver:
    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise UnknownHost(f"{host}: the resolver did not answer within {ANSWER_WITHIN:.0f} s") from None
        except (socket.gaierror, UnicodeError) as error:
            raise UnknownHost(f"{host}: no address") from error
        # Link-local addresses come with a zone ("fe80::1%eth0"), which is not part of the address.
        addresses = dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)
        if not addresses:
            raise UnknownHost(f"{host}: no address")
        return tuple(addresses)
