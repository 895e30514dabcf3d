"""Adapters of a process that must reach nothing outside."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address

from tgp.ports.boot import BootPayload, BootRefused, BootRequest
from tgp.ports.http import Call, Http, NeverLeft, Reply, Stream
from tgp.ports.resolver import UnknownHost


class NoHttp:
    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def send(self, call: Call) -> Reply:  # noqa: ARG002 - nothing is sent
        raise NeverLeft(f"{self._endpoint} cannot be reached from this process")

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:  # noqa: ARG002
        raise NeverLeft(f"{self._endpoint} cannot be reached from this process")


def no_http(base_url: str, *, address: str = "") -> Http:  # noqa: ARG001
    return NoHttp(base_url)


class NoResolver:
    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        raise UnknownHost(f"{host}: this process resolves no names")


class NoBoot:
    """Implements `Boot` where nothing is ever bought."""

    async def pack(self, boot_request: BootRequest) -> BootPayload:
        raise BootRefused("Observing", f"Node {boot_request.node_name}: the operator runs with --observe")

    async def discard(self, token: str) -> None:
        """Nothing was made."""


class NoEvents:
    """Events of an operator with --observe: logged, not sent to the cluster."""

    def emit(self, *_what: object, **_how: object) -> None:
        pass
