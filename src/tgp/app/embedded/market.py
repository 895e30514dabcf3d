"""The market of the embedded world: every provider pretends, behind the world's own port; so do a tailnet and the
factory of Talos images.

Classes there are written as anywhere else. What the operator would dial on the internet is dialled here instead:
`https://console.vast.ai` is `/clouds/vast` of this world.
"""

from dataclasses import replace
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tgp.adapters.factory.wire import DEFAULT_URL as FACTORY_URL
from tgp.adapters.mesh.tailscale.dialect import TAILSCALE_API
from tgp.app.clouds import facts_of, path_of
from tgp.core.rules.mesh.choice import CLIENT_ID, CLIENT_SECRET
from tgp.core.rules.secrets import DEFAULT_KEYS
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Dial, Handler, Http, Reply, Streaming
from tgp.ports.resolver import UnknownHost
from tgp.sim.clouds.desk import PREFIX, Desk
from tgp.sim.clouds.everyone import SIMULATORS, pretend
from tgp.sim.factory.simulator import FactorySimulator
from tgp.sim.mesh.v2 import TailscaleSimulator
from tgp.surfaces.terminal.summary import Bill

BEHIND = timedelta(days=2)  # the world begins a day ago, and its visitors live in the present
OWNED = "webhook"  # its machines cost nothing by the hour
BELOW = "/clouds/"
POWER_HOST = "power.cellar.internal"  # what the owned machines' switches hang on
POWER_ADDRESS = ip_address("10.77.0.2")
TAILSCALE, FACTORY = "tailscale", "factory"
OPERATORS_TAG = "tag:tgp-operator"  # of the OAuth client, and owner of those below
TAGS = ("tag:tgp-gpu", "tag:k8s", "tag:gpu")  # that the tailnet's client may give: ours, and those of early manifests
NOBODY = Reply(404, b"there is no such provider in this world\n", (("Content-Type", "text/plain"),))


class EmbeddedMarket:
    def __init__(self, clock: Clock, seed: int | str) -> None:
        self.desk = Desk({provider: pretend(provider, clock, seed) for provider in SIMULATORS})
        for simulator in self.desk.simulators.values():
            simulator.tolerate(BEHIND)
        self.tailscale = TailscaleSimulator(clock, seed)
        self.tailscale.client.tags = (OPERATORS_TAG,)
        self.tailscale.tag_owners = {OPERATORS_TAG: set(), **{tag: {OPERATORS_TAG} for tag in TAGS}}
        self.factory = FactorySimulator(clock)
        self._handlers: dict[str, Handler] = {provider: self.desk.beside(provider) for provider in SIMULATORS}
        self._handlers |= {TAILSCALE: self.tailscale.handle, FACTORY: self.factory.handle}

    def open_at(self, url: str) -> None:
        """Where this world's port is, so that visitors can be told."""
        self.desk.urls = {provider: f"{url}{BELOW}{provider}{path_of(provider)}" for provider in SIMULATORS}

    def key(self, variable: str) -> str:
        """The key that opens an account here, by the name people keep it under; empty: nobody's."""
        if variable in (client := self.mesh_keys()):
            return client[variable]
        provider = next((name for name, known in DEFAULT_KEYS.items() if known == variable), "")
        return self.desk.simulators[provider].key_at(facts_of(provider).endpoint) if provider else ""

    def mesh_keys(self) -> dict[str, str]:
        """The OAuth client of the tailnet here, by the names people keep it under."""
        client = self.tailscale.client
        return {CLIENT_ID: client.id, CLIENT_SECRET: client.secret}

    def bills(self) -> tuple[Bill, ...]:
        """Of every provider that rented something out, by its own count."""
        found = []
        for provider, simulator in self.desk.simulators.items():
            fleet, now = simulator.fleet, simulator.fleet.advance()
            machines = fleet.machines.values()
            if machines and provider != OWNED:
                spent = sum(fleet.bill_microusd(tenant, now) for tenant in fleet.accounts)
                found.append(Bill(provider, spent, len(machines), sum(not machine.alive for machine in machines)))
        return tuple(found)

    def serves(self, call: Call) -> bool:
        return call.path.startswith((BELOW, PREFIX))

    async def handle(self, call: Call) -> Reply | Streaming:
        if call.path.startswith(PREFIX):
            return self.desk.answer(call)
        provider, _, rest = call.path.removeprefix(BELOW).partition("/")
        handler = self._handlers.get(provider)
        return await handler(replace(call, path=f"/{rest}")) if handler is not None else NOBODY


class EmbeddedDial:
    """Implements `Dial`: what is out there for others is in this world for its operator."""

    def __init__(self, dial: Dial, url: str) -> None:
        self._dial = dial
        self._url = url
        self._providers = {urlsplit(facts_of(name).endpoint).netloc: name for name in SIMULATORS}
        self._providers[POWER_HOST] = "webhook"
        self._providers |= {urlsplit(TAILSCALE_API).netloc: TAILSCALE, urlsplit(FACTORY_URL).netloc: FACTORY}

    def __call__(self, base_url: str, *, address: str = "") -> Http:  # noqa: ARG002 - everything is here
        parts = urlsplit(base_url)
        provider = self._providers.get(parts.netloc, "nobody")
        return self._dial(f"{self._url}{BELOW}{provider}{parts.path}")


class EmbeddedResolver:
    async def resolve(self, host: str) -> tuple[IPv4Address | IPv6Address, ...]:
        if host == POWER_HOST:
            return (POWER_ADDRESS,)
        raise UnknownHost(f"{host}: this world does not know that name")
