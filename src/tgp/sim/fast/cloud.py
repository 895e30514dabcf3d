"""A provider as a process sees it: what only looks is answered from the fleet, what pays goes the whole way.

Orders and ends pass the shipped client, the shipped fence and the simulated network, byte for byte. Lists are asked for
hundreds of times in an hour: of them only what a caller can notice is left, provider and network faults included.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import msgspec

from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, Cloud, KeyReport, LaunchOrder, Listing, Right
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import LISTS, LOOKS, WHERE, CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.fast.cluster import NEAR, RETRY_AFTER, TIMEOUT, UNHEARD
from tgp.sim.fast.draw import Dice
from tgp.sim.fast.world import FastWorld
from tgp.sim.faults import OF_CALLS, Fault
from tgp.sim.process import Host
from tgp.sim.router import BREAK_NOTICED, REFUSED_AFTER, Exchange

T = TypeVar("T")

STATES = {
    Phase.STARTING: InstanceState.STARTING,
    Phase.RUNNING: InstanceState.RUNNING,
    Phase.STOPPED: InstanceState.STOPPED,
    Phase.LOST: InstanceState.BROKEN,
    Phase.ENDING: InstanceState.ENDING,
}
LIST = Call("GET", "/v1/machines")
WELL = Reply(200)
BUSY = {CloudFault.HANG_UP, CloudFault.ERROR, CloudFault.BUSY, CloudFault.BUSY_TEXT, CloudFault.LIST_PARTIAL}
RIDDLES = {CloudFault.HTML, CloudFault.EMPTY_BODY, CloudFault.GARBAGE}


@dataclass(frozen=True, slots=True)
class SharedProvider:
    """A provider as all processes of a world share it."""

    simulator: Simulator
    place: str  # the name that it is mounted under
    catalogue: dict[str, Offer] = field(default_factory=dict)
    """Read off the wire by the first caller; from then on stock and prices move."""


class FastCloud:
    """`client` is the shipped one, over the simulated network."""

    def __init__(self, client: Cloud, shared: SharedProvider, world: FastWorld, host: Host) -> None:
        simulator = shared.simulator
        self._client = client
        self._simulator = simulator
        self._place = shared.place
        self._world = world
        self._host = host
        self._catalogue = shared.catalogue
        self._luck = world.network.luck(host.name)
        self._dice = world.dice(OF_CALLS)
        self._cloud_faults = {verb: Dice(_chances(simulator, verb)) for verb in (*LISTS, *LOOKS)}
        self._known: dict[str, tuple[tuple[object, ...], Instance]] = {}  # as they were last shown

    @property
    def facts(self) -> CloudFacts:
        return self._client.facts

    async def launch(self, order: LaunchOrder) -> Instance:
        return await self._client.launch(order)

    async def terminate(self, instance_id: str) -> None:
        await self._client.terminate(instance_id)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def offers(self) -> Listing:
        if not self._catalogue:
            self._catalogue.update({offer.key: offer for offer in (await self._client.offers()).offers})
        return await self._look(CloudVerb.OFFERS, self._offers)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(one for one in await self.owned(token) if one.token == token)

    async def status(self, instance_id: str) -> Instance | None:
        def one() -> Instance | None:
            machine = self._simulator.fleet.get(self._tenant(), instance_id)
            return None if machine is None else self._shown(machine)

        return await self._look(CloudVerb.STATUS, one)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        def every() -> tuple[Instance, ...]:
            if self._simulator.fault is CloudFault.LIST_NOTHING:
                return ()
            shown = [
                machine for machine in self._simulator.fleet.listed(self._tenant()) if machine.name.startswith(prefix)
            ]
            return tuple(self._shown(machine) for machine in sorted(shown, key=lambda one: one.id))

        return await self._look(CloudVerb.LIST, every)

    async def check(self) -> KeyReport:
        def report() -> KeyReport:
            tenant, fleet = self._tenant(), self._simulator.fleet
            left = fleet.balance_microusd(tenant, fleet.advance())
            rights = (Right("list", held=True), Right("rent", held=True))
            return KeyReport(Account(tenant.id, tenant.name), rights, left)

        return await self._look(CloudVerb.ACCOUNT, report)

    async def identity(self) -> Account:
        return await self._look(CloudVerb.ACCOUNT, lambda: Account(self._tenant().id, self._tenant().name))

    def _shown(self, machine: SimulatedMachine) -> Instance:
        looks = (machine.phase, machine.why, machine.rate_microusd, machine.interrupted)
        known = self._known.get(machine.id)
        if known is None or known[0] != looks:
            known = self._known[machine.id] = (looks, instance_of(machine))
        return known[1]

    def _tenant(self) -> Tenant:
        tenant = self._simulator.fleet.accounts.of("")
        assert tenant is not None, "a call without a key uses the demo account"
        return tenant

    def _offers(self) -> Listing:
        stands = {stand.product.id: stand for stand in self._simulator.fleet.selling()}
        for name, offer in self._catalogue.items():
            stand = stands[f"{offer.sku}@{offer.place}"]
            price = stand.spot_microusd if offer.spot else stand.hourly_microusd
            assert price is not None, "what was sold by bid is sold by bid"
            if (offer.left, offer.hourly_microusd) != (stand.stock, price):
                self._catalogue[name] = _moved(offer, stand, price)
        return Listing(tuple(self._catalogue.values()))

    # -- on the way ----------------------------------------------------------------------------------------------------

    async def _look(self, verb: CloudVerb, answer: Callable[[], T]) -> T:
        host, network = self._host, self._world.network
        if host.gone:
            await host.for_ever()
        fault = None if self._world.calm_now else self._dice.draw(self._luck)
        if fault is Fault.REFUSED:
            await asyncio.sleep(REFUSED_AFTER)
            raise CloudBusy(f"{verb}: the connection was refused")
        if network.is_cut_off(host.name, self._place):
            await asyncio.sleep(TIMEOUT)
            raise CloudBusy(f"{verb}: no connection")
        way = self._luck.uniform(*NEAR)
        if self._luck.random() < 0.5:  # it is long on its way there, or back
            await asyncio.sleep(way)
            seen = self._seen(verb, fault, answer)
        else:
            seen = self._seen(verb, fault, answer)
            await asyncio.sleep(way)
        if isinstance(seen, _Unheard):
            await asyncio.sleep(seen.for_s)
            raise CloudBusy(f"{verb}: {fault or 'hang-up'}")
        if isinstance(seen, CloudError):
            raise seen
        return seen

    def _seen(self, verb: CloudVerb, fault: Fault | None, answer: Callable[[], T]) -> "T | CloudError | _Unheard":
        """What the provider answers, at the moment when it does."""
        simulator = self._simulator
        simulator.calls[verb] += 1
        lost = fault is Fault.LOST or fault in (Fault.PROXY, Fault.BUSY, Fault.ERROR)
        lucky = lost or not simulator.faults.chances
        simulator.fault = cloud_fault = None if lucky else self._cloud_faults[verb].draw(self._luck)
        found: T | CloudError | _Unheard
        if fault is not None:
            found = self._unheard(fault) if fault in UNHEARD else CloudBusy(f"{verb}: {fault}", _retry(fault))
        elif cloud_fault in BUSY:
            found = CloudBusy(f"{verb}: {cloud_fault}")
        elif cloud_fault in RIDDLES:
            found = CannotTell(f"{verb}: {cloud_fault}")
        else:
            found = answer()
        if verb is CloudVerb.LIST:
            self._notify(fault)
        return found

    def _unheard(self, fault: Fault) -> "_Unheard":
        noticed = fault is not Fault.SLOW and self._luck.random() < 0.5
        return _Unheard(self._luck.uniform(*BREAK_NOTICED) if noticed else TIMEOUT)

    def _notify(self, fault: Fault | None) -> None:
        """Recorders need to know whether a replica could have seen a machine."""
        network = self._world.network
        endpoint = network.endpoint(self._place)
        assert endpoint is not None, "a provider is mounted before the first call"
        exchange = Exchange(endpoint, LIST, self._host, fault)
        for tap in network.taps:
            tap.served(exchange, WELL)
        self._world.trace.note(self._host.name, "lists", self._place, fault or self._simulator.fault or "")


def _chances(simulator: Simulator, verb: CloudVerb) -> dict[CloudFault, float]:
    return {
        cloud_fault: chance for cloud_fault, chance in simulator.faults.chances.items() if verb in WHERE[cloud_fault]
    }


@dataclass(frozen=True, slots=True)
class _Unheard:
    for_s: float  # seconds until the caller gives up


def instance_of(machine: SimulatedMachine) -> Instance:
    """As the shipped client reads it off the wire."""
    reachable = machine.phase is Phase.RUNNING and not machine.addressless
    said = machine.phase.value
    return Instance(
        id=machine.id,
        token=machine.name,
        state=STATES[machine.phase],
        said=f"{said}: {machine.why}" if machine.why else said,
        sku=machine.product.sku,
        place=machine.product.place,
        hourly_microusd=machine.rate_microusd,
        spot=machine.spot,
        interrupted=machine.interrupted,
        created_at=machine.created_at,
        public_ip=machine.public_ip if reachable else "",
        private_ip=machine.private_ip if reachable else "",
        progress=f"{said} {machine.why}".strip(),
        tags=machine.tags,
    )


def _moved(offer: Offer, stand: Stand, price: int) -> Offer:
    stock = Stock.CONFIRMED if stand.stock else Stock.NONE
    beside = stand.hourly_microusd if offer.spot else None
    return msgspec.structs.replace(
        offer, left=stand.stock, stock=stock, hourly_microusd=price, on_demand_microusd=beside
    )


def _retry(fault: Fault) -> timedelta | None:
    return RETRY_AFTER if fault is Fault.BUSY else None
