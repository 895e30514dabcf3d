"""The operator as it is shipped, in a town with its own signposts: well-known names lead to the village's ports.

Run as `python -m tests.controlplane.replica operator …`. Settings, rights, sockets and the rest are the real ones; only
where a provider's name leads is different, as it would be with another name service.
"""

import json
import os
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tests.controlplane.village import POWER_HOST
from tgp.adapters.telemetry.redaction import Redactor
from tgp.app.commands import operator as command
from tgp.app.connect import Connection
from tgp.app.main import main
from tgp.app.operator import Outside
from tgp.ports.http import Dial, Http
from tgp.ports.resolver import Resolver

VARIABLE = "TGP_TEST_SIGNPOSTS"
POWER_ADDRESS = ip_address("10.77.0.2")  # private: where the machines of a household live


class Signposts:
    """Implements `Dial`. What has no signpost is dialled as it is written, the class's endpoints for one."""

    def __init__(self, dial: Dial, table: dict[str, str]) -> None:
        self._dial = dial
        self._table = table

    def __call__(self, base_url: str, *, address: str = "") -> Http:
        parts = urlsplit(base_url)
        origin = self._table.get(parts.netloc)
        return self._dial(base_url, address=address) if origin is None else self._dial(origin + parts.path)


class PowerResolver:
    """Implements `Resolver`: one name more."""

    def __init__(self, others: Resolver) -> None:
        self._others = others

    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        return (POWER_ADDRESS,) if host == POWER_HOST else await self._others.resolve(host)


def _with_signposts() -> None:
    table = json.loads(os.environ[VARIABLE])
    real = command.outside

    def outside(connection: Connection, dial: Dial, redactor: Redactor) -> Outside:
        world = real(connection, dial, redactor)
        return replace(world, dial=Signposts(world.dial, table), resolver=PowerResolver(world.resolver))

    command.outside = outside


if __name__ == "__main__":
    _with_signposts()
    main()
