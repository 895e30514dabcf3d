"""The ways out of a process that has none: for worlds without providers."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.model.offer import Offer
from tgp.ports.boot import Birth, BootRefused, Luggage
from tgp.ports.http import Call, Http, NeverLeft, Reply, Stream
from tgp.ports.resolver import UnknownHost


class DeadLine:
    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def send(self, call: Call) -> Reply:  # noqa: ARG002 - whatever it is, it does not leave
        raise NeverLeft(f"there is no way to {self._endpoint} from here")

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:  # noqa: ARG002
        raise NeverLeft(f"there is no way to {self._endpoint} from here")


def nowhere(base_url: str, *, address: str = "") -> Http:  # noqa: ARG001
    return DeadLine(base_url)


class NobodyKnows:
    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        raise UnknownHost(f"{host}: nobody knows names here")


class NoBoot:
    """Implements `Boot` where nothing is ever bought."""

    def refuses(self, offer: Offer, node_class: GPUNodeClass) -> str:  # noqa: ARG002 - it looks at nothing
        return ""

    async def pack(self, birth: Birth) -> Luggage:
        raise BootRefused("Observing", f"{birth.node_name} is not started: the operator only looks")

    async def discard(self, token: str) -> None:
        """Nothing was made."""
