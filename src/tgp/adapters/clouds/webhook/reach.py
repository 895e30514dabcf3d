"""Connects to an endpoint of the class: host checked, resolved, addresses checked, then only these are called.

A later DNS change has no effect: the connection is made to the address, not to the name.
"""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from tgp.adapters.clouds.context import AdapterContext
from tgp.core.classes import power_hosts
from tgp.core.classes.power_hosts import PowerTarget
from tgp.core.model.cloud_errors import CloudBusy
from tgp.ports.http import Call, Http, NeverLeft, Reply, Stream
from tgp.ports.resolver import UnknownHost

ADDRESSES_TRIED = 4  # of one name: two of each kind
UNKNOWN_HOST_PAUSE = timedelta(seconds=30)  # resolvers cache a missing name for about this long


class EndpointGuard:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context

    def refuse_unfit(self, *urls: str) -> None:
        """Raises HostRefused for what is known without DNS."""
        for url in urls:
            power_hosts.read(url, self._context.hosts)

    async def open(self, url: str, who: str) -> tuple[Http, PowerTarget]:
        """Raises HostRefused for an address that is never called, CloudBusy if the name has no address now."""
        target = power_hosts.read(url, self._context.hosts)
        if target.literal is not None:
            return self._context.dial(target.origin, address=str(target.literal)), target
        try:
            found = await self._context.resolver.resolve(target.host)
        except UnknownHost as error:
            raise CloudBusy(f"{who} cannot be reached: {target.host} has no address", UNKNOWN_HOST_PAUSE) from error
        judged = power_hosts.judge(found, target.host, self._context.hosts)
        ways = tuple(self._context.dial(target.origin, address=str(address)) for address in judged[:ADDRESSES_TRIED])
        return InTurn(ways), target


class InTurn:
    """Several addresses of one host. The next is tried only if nothing was sent to the one before."""

    def __init__(self, ways: tuple[Http, ...]) -> None:
        assert ways
        self._ways = ways

    async def send(self, call: Call) -> Reply:
        for way in self._ways[:-1]:
            try:
                return await way.send(call)
            except NeverLeft:
                continue
        return await self._ways[-1].send(call)

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._ways[0].stream(call, idle=idle)
