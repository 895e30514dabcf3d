"""The market of the demo world: simulators of every provider, a tailnet and the Talos image factory, on one port.

Classes are the same as in a real cluster. Requests to the internet go to the simulators instead:
`https://api.acme.example` is `/clouds/acme` of this world.
"""

from dataclasses import replace
from datetime import timedelta

from tgp.adapters.clouds.registry import facts_of, path_of
from tgp.api.common import DEFAULT_KEYS, OWNED_PROVIDER
from tgp.core.joining.mesh.selection import CLIENT_ID, CLIENT_SECRET
from tgp.interfaces.terminal.summary import ProviderBill
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Handler, Reply, Streaming
from tgp.services.demo_http import BELOW, FACTORY, TAILSCALE
from tgp.sim.clouds.admin_api import PREFIX, AdminApi
from tgp.sim.clouds.registry import SIMULATORS, pretend
from tgp.sim.clouds.webhook import WebhookReceiver
from tgp.sim.factory.simulator import FactorySimulator
from tgp.sim.mesh.v2 import TailscaleSimulator

BEHIND = timedelta(days=2)  # the demo starts a day ago, and its clients use the present time
OPERATOR_TAG = "tag:tgp-operator"  # of the OAuth client, and owner of those below
TAGS = (
    "tag:tgp-gpu",
    "tag:k8s",
    "tag:gpu",
)  # that the OAuth client may assign: the current one, and those of early manifests
UNKNOWN_PROVIDER = Reply(404, b"unknown provider in the demo world\n", (("Content-Type", "text/plain"),))


class EmbeddedMarket:
    def __init__(self, clock: Clock, seed: int | str) -> None:
        self.admin = AdminApi({provider: pretend(provider, clock, seed) for provider in SIMULATORS})
        for simulator in self.admin.simulators.values():
            simulator.tolerate(BEHIND)
        self.tailscale = TailscaleSimulator(clock, seed)
        self.tailscale.client.tags = (OPERATOR_TAG,)
        self.tailscale.tag_owners = {OPERATOR_TAG: set(), **{tag: {OPERATOR_TAG} for tag in TAGS}}
        self.factory = FactorySimulator(clock)
        owned = self.admin.simulators[OWNED_PROVIDER]
        assert isinstance(owned, WebhookReceiver), "the power API of the machines in the cellar"
        self.power = owned
        self._handlers: dict[str, Handler] = {provider: self.admin.beside(provider) for provider in SIMULATORS}
        self._handlers |= {TAILSCALE: self.tailscale.handle, FACTORY: self.factory.handle}

    def open_at(self, url: str) -> None:
        """Set the URL of this world, from which the providers' URLs are built."""
        self.admin.urls = {provider: f"{url}{BELOW}{provider}{path_of(provider)}" for provider in SIMULATORS}

    def key(self, variable: str) -> str:
        """The API key of the account here, by the name of its variable; empty: unknown variable."""
        if variable in (client := self.mesh_keys()):
            return client[variable]
        provider = next((name for name, known in DEFAULT_KEYS.items() if known == variable), "")
        return self.admin.simulators[provider].key_at(facts_of(provider).endpoint) if provider else ""

    def mesh_keys(self) -> dict[str, str]:
        """The OAuth client of the tailnet here, by the keys of the Secret."""
        client = self.tailscale.client
        return {CLIENT_ID: client.id, CLIENT_SECRET: client.secret}

    def bills(self) -> tuple[ProviderBill, ...]:
        """Of every provider that rented out a machine, as the simulator counts it."""
        found = []
        for provider, simulator in self.admin.simulators.items():
            fleet, now = simulator.fleet, simulator.fleet.advance()
            machines = fleet.machines.values()
            if machines and provider != OWNED_PROVIDER:
                spent = sum(fleet.bill_microusd(tenant, now) for tenant in fleet.accounts)
                found.append(
                    ProviderBill(provider, spent, len(machines), sum(not machine.alive for machine in machines))
                )
        return tuple(found)

    def serves(self, call: Call) -> bool:
        return call.path.startswith((BELOW, PREFIX))

    async def handle(self, call: Call) -> Reply | Streaming:
        if call.path.startswith(PREFIX):
            return self.admin.answer(call)
        provider, _, rest = call.path.removeprefix(BELOW).partition("/")
        handler = self._handlers.get(provider)
        return await handler(replace(call, path=f"/{rest}")) if handler is not None else UNKNOWN_PROVIDER
