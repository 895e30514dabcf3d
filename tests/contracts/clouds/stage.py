"""What a promise is played on: one provider's simulator and its adapter, joined by a network in memory.

Everything is in virtual time and from one seed. Nothing is shared between two promises.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from tests.contracts.clouds.provider import Provider, Slots
from tgp.adapters.clouds.context import AdapterContext
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.instance import Instance
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.secret import Secret
from tgp.ports.cloud import Cloud, LaunchOrder, Listing
from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import WHERE, CloudFault, CloudVerb
from tgp.sim.clouds.fleet import LONG_LAG
from tgp.sim.clouds.http_factory import Dialler, origin_of
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import VirtualLoop, close
from tgp.sim.resolver import TableResolver
from tgp.sim.router import Network
from tgp.sim.trace import RunTrace

CLUSTER = "c0ffee0123"
USER_DATA = b"machine:\n  token: join-secret-of-the-cluster\n"
PAYING = (CloudVerb.LAUNCH, CloudVerb.TERMINATE)
JSON: Pairs = (("Content-Type", "application/json"),)
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def cheapest(listing: Listing, *, spot: bool = False) -> Offer:
    had = [offer for offer in listing.offers if offer.spot == spot and offer.stock is not Stock.NONE]
    assert had, f"nothing is sold {'as spot' if spot else 'on demand'}"
    return min(had, key=lambda offer: (offer.hourly_microusd, offer.key))


def an_order(provider: Provider, offer: Offer, token: str) -> LaunchOrder:
    """All that this provider needs to make a machine of that offer."""
    order = LaunchOrder(
        offer,
        token,
        max_hourly_microusd=offer.hourly_microusd * 2,
        bid_microusd=offer.hourly_microusd * 5 // 4 if offer.spot else None,
        user_data=USER_DATA if provider.facts.user_data_bytes else b"",
    )
    return provider.complete(order)


class Stage:
    def __init__(self, provider: Provider, seed: int | str, loop: VirtualLoop) -> None:
        self.provider = provider
        self.loop = loop
        self.clock = WorldClock(loop)
        self.simulator = provider.simulator(self.clock, seed)
        self.fleet = self.simulator.fleet
        self.network = Network(loop, RunTrace(loop.time), seed)
        self.url = f"http://{provider.name}.test{urlsplit(provider.facts.endpoint).path.rstrip('/')}"
        self.key = self.simulator.key_at(self.url)
        self.calls: list[tuple[CloudVerb, Call]] = []  # everything that arrived
        self._instead: list[tuple[CloudVerb, Reply]] = []
        self._rewrites: list[tuple[CloudVerb, Callable[[Reply], Reply]]] = []
        self._retellings: list[tuple[CloudVerb, Callable[[Reply], Reply]]] = []
        self._page_rows: dict[CloudVerb, int] = {}
        self._entropy = SeededEntropy(seed, "stage")
        self.plug_in()
        self.cloud = self.cloud_of(self.key if provider.keyed else None)

    # -- the network ---------------------------------------------------------------------------------------------------

    def plug_in(self) -> None:
        self.network.mount(origin_of(self.url), self._answer)

    def unplug(self) -> None:
        """No listener any more: nothing is sent."""
        self.network.unmount(origin_of(self.url))

    def context(self, key: str | None) -> AdapterContext:
        context = AdapterContext(
            dial=Dialler(self.network, self.clock),
            clock=self.clock,
            entropy=self._entropy,
            resolver=TableResolver(),
            key=Secret(key) if key is not None else None,
            settings=self.provider.settings(self.url),
        )
        return self.provider.furnish(context)

    def cloud_of(self, key: str | None) -> Cloud:
        """The adapter under another key; None: under none."""
        return self.provider.build(self.context(key))

    def other_cloud(self) -> Cloud:
        """The adapter under a key of another account."""
        return self.cloud_of(self.provider.other_key(self.simulator, self.url))

    async def _answer(self, call: Call) -> Reply:
        verb = self.simulator.verb_of(call)
        self.calls.append((verb, call))
        for place, (wanted, reply) in enumerate(self._instead):
            if wanted is verb:
                del self._instead[place]
                return reply
        reply = await self.simulator.handle(self._cut(verb, call))
        for wanted, rewrite in self._rewrites if reply.ok else self._retellings:
            if wanted is verb:
                reply = rewrite(reply)
        return reply

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def aim(self, cloud_fault: CloudFault, verb: CloudVerb | None = None, times: int = 1) -> None:
        """At the next questions of that verb, at all the calls of each."""
        self.simulator.faults.aim(cloud_fault, verb, times * self._askings(verb))

    def _askings(self, verb: CloudVerb | None) -> int:
        return self.provider.askings.get(verb, 1) if verb is not None else 1

    @staticmethod
    def can_befall(cloud_fault: CloudFault, verb: CloudVerb) -> bool:
        return verb in WHERE[cloud_fault]

    def instead(
        self, verb: CloudVerb, status: int, content: bytes = b"", headers: Pairs = JSON, times: int = 1
    ) -> None:
        """The next questions of that verb do not reach the provider: something between answers them."""
        self._instead += [(verb, Reply(status, content, headers))] * (times * self._askings(verb))

    def page_by(self, rows: int, verb: CloudVerb = CloudVerb.LIST) -> None:
        """From now on the provider puts no more than so many rows on a page, whatever it is asked for."""
        self._page_rows[verb] = rows

    def _cut(self, verb: CloudVerb, call: Call) -> Call:
        name, rows = self.provider.page_parameter, self._page_rows.get(verb)
        if rows is None:
            return call
        others = tuple(pair for pair in call.query if pair[0] != name)
        return replace(call, query=(*others, (name, str(rows))))

    def rewrite(self, verb: CloudVerb, change: Callable[[Reply], Reply]) -> None:
        """From now on each good answer to that verb is changed on its way back."""
        self._rewrites.append((verb, change))

    def retell(self, verb: CloudVerb, change: Callable[[Reply], Reply]) -> None:
        """From now on each error that answers that verb is changed on its way back."""
        self._retellings.append((verb, change))

    def spoil(self, verb: CloudVerb, slots: Slots, value: Any) -> None:
        """From now on those values of each good answer to that verb are replaced; at least one must be there."""

        def change(reply: Reply) -> Reply:
            body = msgspec.json.decode(reply.content)
            found = list(slots(body))
            assert found, f"the provider's file finds nothing to spoil in an answer to {verb}"
            for container, key in found:
                container[key] = value
            return replace(reply, content=msgspec.json.encode(body))

        self.rewrite(verb, change)

    # -- buying --------------------------------------------------------------------------------------------------------

    def token(self, number: int = 1, attempt: int = 1, cluster: str = CLUSTER) -> str:
        return f"tgp-{cluster}-{number:032x}-{attempt}"

    @property
    def prefix(self) -> str:
        """Of every token of our cluster."""
        return f"tgp-{CLUSTER}-"

    def stock_up(self) -> None:
        for stand in self.fleet.selling():
            stand.stock = max(stand.stock, 2)

    async def offer(self, *, spot: bool = False) -> Offer:
        """The cheapest that can be had."""
        self.stock_up()
        return cheapest(await self.cloud.offers(), spot=spot)

    async def order(self, token: str = "", *, spot: bool = False, **changes: Any) -> LaunchOrder:
        offer = await self.offer(spot=spot)
        return replace(an_order(self.provider, offer, token or self.token()), **changes)

    async def launched(self, token: str = "", *, spot: bool = False, **changes: Any) -> Instance:
        """A machine that is there and listed."""
        made = await self.cloud.launch(await self.order(token, spot=spot, **changes))
        await self.settle()
        return made

    async def running(self, token: str = "", *, spot: bool = False) -> Instance:
        made = await self.launched(token, spot=spot)
        await asyncio.sleep(self.slowest_boot)
        return made

    @property
    def slowest_boot(self) -> float:
        return max(stand.product.boot_seconds for stand in self.fleet.selling()) * 1.5

    async def settle(self) -> None:
        """Longer than any ordinary lag of the provider's lists."""
        await asyncio.sleep(max(self.cloud.facts.listing_lag.total_seconds(), self.fleet.habits.list_lag[1]) + 1)

    async def outlast_the_longest_lag(self) -> None:
        await asyncio.sleep((LONG_LAG + timedelta(seconds=1)).total_seconds())

    async def wait_for_endings(self) -> None:
        await asyncio.sleep(self.fleet.habits.ending[1] + 1)

    # -- looking behind the curtain ------------------------------------------------------------------------------------

    @property
    def tenant(self) -> Tenant:
        """Whose account our key opened at first."""
        return next(iter(self.fleet.accounts))

    def machines(self, token: str = "") -> list[SimulatedMachine]:
        """Everything alive that we ordered (under `token`), listed or not."""
        self.fleet.advance()
        ours = [machine for machine in self.fleet.machines.values() if machine.alive and not machine.foreign]
        return [machine for machine in ours if not token or machine.name == token]

    def machine(self, token: str = "") -> SimulatedMachine:
        (one,) = self.machines(token)
        return one

    def count(self, *verbs: CloudVerb) -> int:
        """How many calls of these verbs arrived."""
        return sum(verb in verbs for verb, _ in self.calls)

    @property
    def paying_calls(self) -> list[Call]:
        return [call for verb, call in self.calls if verb is CloudVerb.LAUNCH]

    async def raises(self, kinds: type[E] | tuple[type[E], ...], doing: Awaitable[Any]) -> E:
        """The error, which must be one of `kinds` and nothing else."""
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        names = " or ".join(kind.__name__ for kind in wanted)
        try:
            result = await doing
        except wanted as error:
            return error
        except CloudError as error:
            raise AssertionError(f"expected {names}, got {type(error).__name__}: {error}") from error
        raise AssertionError(f"expected {names}, got {repr(result)[:300]}")


def play(provider: Provider, script: Callable[[Stage], Awaitable[T]], seed: int | str = 1) -> T:
    """Run one script on a stage of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_begin(provider, script, seed, loop))
    finally:
        close(loop)


async def _begin(provider: Provider, script: Callable[[Stage], Awaitable[T]], seed: int | str, loop: VirtualLoop) -> T:
    return await script(Stage(provider, seed, loop))
