"""Every provider's simulator on a loopback port of its own, in a thread with its own loop, and quick to boot.

Whatever is asked of the simulators from outside (`look`) is asked on that loop, so calls do not overlap.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.registry import facts_of, path_of
from tgp.adapters.http.serve import listen
from tgp.adapters.image_factory.wire import DEFAULT_URL as FACTORY_URL
from tgp.adapters.mesh.tailscale.server_flavour import TAILSCALE_API
from tgp.api.common import DEFAULT_KEYS
from tgp.app.demo.market import OPERATOR_TAG, TAGS
from tgp.ports.http import Call, Handler, Reply, Streaming
from tgp.sim.clouds.admin_api import AdminApi
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.fleet import Fleet
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.registry import SIMULATORS, pretend
from tgp.sim.factory.simulator import FactorySimulator
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tgp.sim.mesh.tailnet import Tailnet
from tgp.sim.mesh.v2 import TailscaleSimulator
from tgp.sim.talos_guest import TalosGuest

T = TypeVar("T")
START_BOUND_S = 120
BOOT_S = 2.0
LIST_LAG_S = (0.0, 1.0)
ENDING_S = (0.5, 1.5)
PLENTY = 4  # of everything, so that no test meets an empty product by luck
HEADSCALE_URL = "https://headscale.cellar.internal"
POWER_HOST = "power.cellar.internal"  # what the switches of owned machines hang on: loopback may never be called


@dataclass
class Held:
    """An answer that waits. The provider has done as it was asked; the caller does not know yet."""

    provider: str
    verb: CloudVerb
    _loop: asyncio.AbstractEventLoop
    _reached: threading.Event = field(default_factory=threading.Event)
    _go: asyncio.Event = field(default_factory=asyncio.Event)

    def wait(self, within_s: float) -> None:
        assert self._reached.wait(within_s), f"no {self.verb} reached {self.provider} within {within_s} s"

    def release(self) -> None:
        """To every caller that still waits."""
        self._loop.call_soon_threadsafe(self._go.set)

    async def stand(self) -> None:
        self._reached.set()
        await self._go.wait()


class Simulators:
    def __init__(self, seed: str = "lives") -> None:
        self._seed = seed
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulators", daemon=True)
        self._ports = AsyncExitStack()
        self._held: list[Held] = []
        self._api = AdminApi({})
        self.tailscale = TailscaleSimulator(SystemClock(), seed)
        self.tailscale.client.tags = (OPERATOR_TAG,)
        self.tailscale.tag_owners = {OPERATOR_TAG: set(), **{tag: {OPERATOR_TAG} for tag in TAGS}}
        self.headscale = HeadscaleSimulator(SystemClock(), seed)
        self._beside: dict[str, str] = {}  # from names that are no provider's to their ports here

    # -- coming and going --------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(START_BOUND_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for held in self._held:
            held.release()
        asyncio.run_coroutine_threadsafe(self._ports.aclose(), self._loop).result(START_BOUND_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_BOUND_S)
        self._loop.close()

    async def _open(self) -> None:
        clock = SystemClock()
        self._api = AdminApi({provider: pretend(provider, clock, self._seed) for provider in SIMULATORS})
        for provider, simulator in self._api.simulators.items():
            _hurry(simulator.fleet)
            listening = await listen(self._door(provider))
            self._ports.push_async_callback(listening.stop)
            self._api.urls[provider] = listening.url + path_of(provider)
        for known, handler in (
            (TAILSCALE_API, self.tailscale.handle),
            (HEADSCALE_URL, self.headscale.handle),
            (FACTORY_URL, FactorySimulator(clock, timedelta(seconds=1)).handle),
        ):
            listening = await listen(handler)
            self._ports.push_async_callback(listening.stop)
            self._beside[urlsplit(known).netloc] = listening.url

    def _door(self, provider: str) -> Handler:
        inside = self._api.beside(provider)
        simulator = self._api.simulators[provider]

        async def answer(call: Call) -> Reply | Streaming:
            reply = await inside(call)
            for held in self._held:
                if (held.provider, held.verb) == (provider, simulator.verb_of(call)):
                    self._held.remove(held)
                    await held.stand()
                    break
            return reply

        return answer

    # -- from outside ------------------------------------------------------------------------------------------------

    def look(self, at: Callable[[AdminApi], T]) -> T:
        """What `at` makes of the simulators, up to date."""
        seen: Future[T] = Future()

        def on_the_loop() -> None:
            try:
                for simulator in self._api.simulators.values():
                    simulator.fleet.advance()
                seen.set_result(at(self._api))
            except Exception as error:  # noqa: BLE001 - it is raised again in the caller
                seen.set_exception(error)

        self._loop.call_soon_threadsafe(on_the_loop)
        return seen.result(START_BOUND_S)

    def hold(self, provider: str, verb: CloudVerb) -> Held:
        """The next answer of this kind waits until it is released."""

        def hold(_api: AdminApi) -> Held:
            held = Held(provider, verb, self._loop)
            self._held.append(held)
            return held

        return self.look(hold)

    def machines(self, provider: str = "") -> list[tuple[str, SimulatedMachine]]:
        """Every one there ever was, with its provider."""
        return self.look(
            lambda api: [
                (name, machine)
                for name, simulator in api.simulators.items()
                for machine in simulator.fleet.machines.values()
                if provider in ("", name)
            ]
        )

    def urls(self) -> dict[str, str]:
        return self.look(lambda api: dict(api.urls))

    @property
    def factory_url(self) -> str:
        """Of the pretend image factory."""
        return self._beside[urlsplit(FACTORY_URL).netloc]

    def keys(self) -> dict[str, str]:
        """As people keep them in the operator's Secret."""
        return self.look(
            lambda api: (
                {variable: api.simulators[name].key_at(api.urls[name]) for name, variable in DEFAULT_KEYS.items()}
                | {"client-id": self.tailscale.client.id, "client-secret": self.tailscale.client.secret}
                | {"headscale": self.headscale.api_key}
            )
        )

    def joins(self, guest: TalosGuest) -> str:
        """A machine goes into its mesh: its address there; empty: it was told of none."""
        if not guest.auth_key:
            return guest.address
        tailnet = self.tailnets[guest.login_server]
        return self.look(lambda _api: tailnet.join(guest.auth_key, guest.hostname)).addresses[0]

    @property
    def tailnets(self) -> dict[str, Tailnet]:
        """By the login server of their clients."""
        return {"": self.tailscale.tailnet, HEADSCALE_URL: self.headscale.tailnet}

    def devices(self) -> list[str]:
        """In whichever tailnet."""
        nets = self.tailnets.values()
        return self.look(lambda _api: [seat.hostname for net in nets for seat in net.devices()])

    def open_keys(self) -> list[str]:
        """Auth keys that still allow a device to join."""
        nets = self.tailnets.values()
        return self.look(lambda _api: [key.id for net in nets for key in net.keys.values() if net.is_valid(key)])

    def signposts(self) -> str:
        """From the public names to the ports here, for a replica whose class names no endpoint."""
        known = {urlsplit(facts_of(name).endpoint).netloc: name for name in DEFAULT_KEYS} | {POWER_HOST: "webhook"}
        origins = {name: "{0.scheme}://{0.netloc}".format(urlsplit(url)) for name, url in self.urls().items()}
        return json.dumps({host: origins[name] for host, name in known.items()} | self._beside)


def _hurry(fleet: Fleet) -> None:
    """Seconds instead of minutes, and no other customer."""
    fleet.habits = replace(fleet.habits, list_lag=LIST_LAG_S, ending=ENDING_S, moves=False)
    for stand in fleet.stands.values():
        stand.product = replace(stand.product, boot_seconds=BOOT_S)
        stand.stock = stand.product.stock if stand.product.host else max(stand.stock, PLENTY)
