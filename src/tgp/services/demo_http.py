"""How the demo world is reached: the addresses of real providers lead to its simulators."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tgp.adapters.clouds.registry import facts_of
from tgp.adapters.image_factory.wire import DEFAULT_URL as FACTORY_URL
from tgp.adapters.mesh.tailscale.server_flavour import TAILSCALE_API
from tgp.api.common import OWNED_PROVIDER
from tgp.ports.http import Http, HttpFactory
from tgp.ports.resolver import UnknownHost
from tgp.sim.clouds.registry import SIMULATORS

BELOW = "/clouds/"
POWER_HOST = "power.cellar.internal"  # controls the power of the owned machines
POWER_ADDRESS = ip_address("10.77.0.2")
TAILSCALE, FACTORY = "tailscale", "factory"


class EmbeddedDial:
    """Implements `HttpFactory`: every provider's address leads into the demo world."""

    def __init__(self, dial: HttpFactory, url: str) -> None:
        self._dial = dial
        self._url = url
        self._providers = {urlsplit(facts_of(name).endpoint).netloc: name for name in SIMULATORS}
        self._providers[POWER_HOST] = OWNED_PROVIDER
        self._providers |= {urlsplit(TAILSCALE_API).netloc: TAILSCALE, urlsplit(FACTORY_URL).netloc: FACTORY}

    def __call__(self, base_url: str, *, address: str = "") -> Http:  # noqa: ARG002 - one address serves all
        parts = urlsplit(base_url)
        provider = self._providers.get(parts.netloc, "unknown")
        return self._dial(f"{self._url}{BELOW}{provider}{parts.path}")


class EmbeddedResolver:
    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        if host == POWER_HOST:
            return (POWER_ADDRESS,)
        raise UnknownHost(f"{host}: unknown host in the demo world")
