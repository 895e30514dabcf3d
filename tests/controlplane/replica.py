"""The operator as it is shipped, with its own name service: well-known names lead to the ports of the simulators.

Run as `python -m tests.controlplane.replica operator …`. Settings, rights, sockets and the rest are the real ones; only
where a provider's name leads is different, as it would be with another name service. Where a test asks for it, pauses
that have no setting are shorter, too.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tests.controlplane.simulators import POWER_HOST
from tgp.adapters.kube.connect import Connection
from tgp.adapters.telemetry.redaction import Redactor
from tgp.app.commands import operator as command
from tgp.app.deps import Environment
from tgp.app.main import main
from tgp.ports.http import Http, HttpFactory
from tgp.ports.resolver import Resolver

VARIABLE = "TGP_TEST_SIGNPOSTS"
SHORTENED = "TGP_TEST_SHORTENED"
# Module and name → seconds, each a fraction of what is shipped. What is tried with them is the order of things on a
# real API server; tests/sim/lifecycle tries the same in virtual time and at full length.
SHORT: Mapping[str, float] = {
    "tgp.controllers.instances.poller:SOON": 3,
    "tgp.controllers.instances.poller:USUALLY": 6,
    "tgp.controllers.instances.poller:SELDOM": 18,
    "tgp.controllers.instances.poller:AT_STAKE": 6,
    "tgp.controllers.instances.poller:EMPTY_AGAIN": 3,
    "tgp.controllers.instances.consistency:CONTRADICTED_AFTER": 12,
    "tgp.controllers.instances.orphan_collector:GRACE": 5,
    "tgp.controllers.instances.orphan_collector:NONE_FOR": 8,
    "tgp.controllers.requests.observe:NEVER_LISTED_FOR": 30,
    "tgp.controllers.joining.reconciler:SWEEP_EVERY": 6,
    "tgp.core.disruption.causes:SCHEDULED_WITHIN": 3,
    "tgp.controllers.disruption.reconciler:BELIEVED_AFTER": 3,
    "tgp.controllers.disruption.reconciler:SEARCHED_EVERY": 3,
    "tgp.controllers.disruption.observe:SEARCHED_EVERY": 3,
    "tgp.core.disruption.candidates:SETTLED_FOR": 5,
    "tgp.core.disruption.candidates:HELD_FOR": 10,
}
POWER_ADDRESS = ip_address("10.77.0.2")  # private: where the machines of a household live


class Signposts:
    """Implements `HttpFactory`. What has no signpost is dialled as it is written, the class's endpoints for one."""

    def __init__(self, dial: HttpFactory, table: dict[str, str]) -> None:
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
    real = command.environment

    def environment(connection: Connection, dial: HttpFactory, redactor: Redactor) -> Environment:
        world = real(connection, dial, redactor)
        return replace(world, dial=Signposts(world.dial, table), resolver=PowerResolver(world.resolver))

    command.environment = environment


def shorten(wanted: Mapping[str, float]) -> None:
    """Raises AttributeError where a name is not there, or not there any more."""
    for place, seconds in wanted.items():
        where, _, name = place.partition(":")
        module = import_module(where)
        shipped = getattr(module, name)
        setattr(module, name, timedelta(seconds=seconds) if isinstance(shipped, timedelta) else float(seconds))


if __name__ == "__main__":
    _with_signposts()
    shorten(json.loads(os.environ.get(SHORTENED, "{}")))
    main()
