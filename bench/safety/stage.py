"""One world of the bench: a provider, two replicas of the operator, people with wishes, and a witness to it all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from bench.safety import rates
from bench.safety.demand import GPUS, Wish, market_of, places, wishes
from tgp.adapters.kube.watch import WatchTimes
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.api.values import rfc3339
from tgp.app.clouds import facts_of
from tgp.app.operator import Operator, Outside
from tgp.app.settings import Settings
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.hold import HOLD
from tgp.core.model.token import plain_uid
from tgp.core.model.trust import trust_key
from tgp.ports.leadership import LeadershipLost
from tgp.sim.checkers.everyone import INVARIANTS
from tgp.sim.checkers.leadership import OneLeader
from tgp.sim.checkers.money import NoOrphan, OneOrderPerAttempt
from tgp.sim.checkers.witness import Witness
from tgp.sim.clouds.dialling import Dialler, origin_of
from tgp.sim.clouds.everyone import pretend
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Machine, Phase
from tgp.sim.clouds.simulated import SimulatedProvider
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.estate import Estate
from tgp.sim.faults import NONE
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

PROVIDER = "simulated"
HOME = "tgp-system"
CLASS = "rented"
STANDS = 2  # of each GPU: whoever finds one sold out has another to go to
PLENTY = 50  # of everything in stock: whoever waits waits for us
MOST_HOURLY = 0.60  # dollars per place: above what any of the wishes costs
# A Lease renewed every twelve seconds rather than two, watches of two minutes rather than half a one, and a look at
# turns that hang every ten seconds: most of what a quiet hour does is that, and it is not what is measured. Hand-overs
# and half-open watches last four times as long for it: what is said of orphans is said of a slower operator than ours.
SETTINGS = Settings(
    lease_duration=timedelta(seconds=60),
    renew_deadline=timedelta(seconds=52),
    retry_period=timedelta(seconds=12),
    require_device_plugin=False,
)
WATCHES = WatchTimes(at_least=110, at_most=130, silence=timedelta(seconds=135))
TICK = 10.0  # seconds


@dataclass
class Stage:
    world: World
    estate: Estate
    shop: Simulator
    witness: Witness
    leader: OneLeader
    orphans: NoOrphan
    orders: OneOrderPerAttempt

    def machines(self) -> list[Machine]:
        """Every one that was ever rented."""
        return [machine for machine in self.shop.fleet.machines.values() if not machine.foreign]

    def paid_seconds(self) -> float:
        now = self.shop.fleet.advance()
        return sum(((one.ended_at or now) - one.created_at).total_seconds() for one in self.machines())

    def calm(self) -> None:
        self.world.calm()
        self.shop.mishaps.calm()
        self.shop.fleet.lie = None
        self.estate.ailments.calm()


@contextmanager
def stage(seed: int, *, faulty: bool, replicas: tuple[str, ...]) -> Iterator[Stage]:
    """The whole program, over the pretend network."""
    with World(seed, faults=rates.WEATHER_FAULTS if faulty else NONE) as world:
        for crd in crds():
            world.api.backstage.create(CUSTOM_RESOURCE_DEFINITION, crd)
        furnish(world, places(seed))
        estate = Estate(world.cluster, world.loop, world.clock, seed)
        shop = shop_of(world, seed)
        here = witnessed(world, estate, shop, SETTINGS.renew_deadline.total_seconds(), faulty=faulty)
        start(world, replicas)
        yield here
        estate.close()


def witnessed(world: World, estate: Estate, shop: Simulator, term: float, *, faulty: bool) -> Stage:
    """Every invariant is watched, and what may go wrong at the provider goes wrong."""
    witness = Witness(world)
    leader = witness.add(OneLeader(witness, term))
    orphans, orders = witness.add(NoOrphan(witness, strict=True)), witness.add(OneOrderPerAttempt(witness))
    witness.call(*(kind for kind in INVARIANTS if kind not in (OneLeader, NoOrphan, OneOrderPerAttempt)))
    estate.adopt(shop)
    witness.adopt(shop, place())
    if faulty:
        shop.mishaps.chances.update({mishap: row.rate for mishap, row in rates.PROVIDER.items()})
        estate.ailments.chances.update({ailment: row.rate for ailment, row in rates.KUBELETS.items()})
    return Stage(world, estate, shop, witness, leader, orphans, orders)


def people(stage: Stage, seed: int, seconds: float, *, meddle: bool) -> None:
    """Everything that people do, at its moment."""
    loop, began = stage.world.loop, stage.world.loop.time()
    for wish in wishes(seed, seconds):
        loop.call_at(began + wish.at, apply, stage, wish)
        loop.call_at(began + wish.until, _drop, stage, wish.name)
    if meddle:
        luck = Random(f"{seed}/meddlers")
        early = [wish for wish in wishes(seed, seconds) if luck.random() < rates.WIPED_EARLY.rate]
        for wish in early:
            loop.call_at(began + wish.at + luck.uniform(*rates.WIPED_WITHIN), _wipe_one, stage, wish.name)
        deeds = (
            (rates.STRIPPED, _strip),
            (rates.ENDED_AT_THE_CONSOLE, _end),
            (rates.WIPED, _wipe),
            (rates.WIPED_ALL, _wipe_all),
        )
        for row, deed in deeds:
            at = luck.expovariate(row.rate / 3600)
            while at < seconds:
                loop.call_at(began + at, deed, stage, luck.random())
                at += luck.expovariate(row.rate / 3600)
        _brake(stage, Random(f"{seed}/brake"), seconds)


def _brake(stage: Stage, luck: Random, seconds: float) -> None:
    """Every purchase stops for a while, now and then."""
    loop, began = stage.world.loop, stage.world.loop.time()
    at = luck.expovariate(rates.HELD.rate / 3600)
    while at < seconds:
        loop.call_at(began + at, _hold, stage, "on purpose")
        loop.call_at(began + at + rates.HELD_FOR, _hold, stage, None)
        at += rates.HELD_FOR + luck.expovariate(rates.HELD.rate / 3600)


def _hold(stage: Stage, why: str | None) -> None:
    stage.world.api.backstage.merge_patch(NAMESPACE, "", HOME, {"metadata": {"annotations": {HOLD: why}}})


def incidents(stage: Stage, seed: int, seconds: float) -> None:
    """The provider's bad quarters of an hour, each at its moment."""
    loop, began, luck = stage.world.loop, stage.world.loop.time(), Random(f"{seed}/incidents")
    at = luck.expovariate(rates.OVERRUN.rate / 3600)
    while at < seconds:
        loop.call_at(began + at, _be_overrun, stage)
        loop.call_at(began + at + rates.OVERRUN_FOR, stage.shop.mishaps.of_orders.clear)
        at += luck.expovariate(rates.OVERRUN.rate / 3600)


def lies(stage: Stage, seed: int, seconds: float) -> None:
    """What the provider says that is not so, each at its moment."""
    luck = Random(f"{seed}/lies")
    for row, lie, lasts in (
        (rates.DENIES, Lie(denies=True), rates.DENIES_FOR),
        (rates.SAYS_DEARER, Lie(times=rates.DEARER_TIMES), rates.SAYS_FOR),
        (rates.SAYS_STOPPED, Lie(phase=Phase.STOPPED), rates.SAYS_FOR),
    ):
        at = luck.expovariate(row.rate / 3600)
        while at < seconds:
            once = 1 if not lie.denies and luck.random() < 0.5 else None
            _lie(stage, at, luck.uniform(*lasts), replace(lie, lists=once))
            at += luck.expovariate(row.rate / 3600)


def _lie(stage: Stage, at: float, lasts: float, lie: Lie) -> None:
    loop, fleet = stage.world.loop, stage.shop.fleet

    def begin() -> None:
        if stage.shop.mishaps.chances:  # in fair weather everything is true
            fleet.lie = lie

    def end() -> None:
        if fleet.lie is lie:
            fleet.lie = None

    began = loop.time() + at
    loop.call_at(began, begin)
    loop.call_at(began + lasts, end)
    loop.call_at(began + lasts + rates.FORGIVEN_AFTER, _forgive, stage)


def _forgive(stage: Stage) -> None:
    change = {"metadata": {"annotations": {trust_key(PROVIDER): rfc3339(stage.world.clock.now())}}}
    stage.world.api.backstage.merge_patch(NAMESPACE, "", HOME, change)


def _be_overrun(stage: Stage) -> None:
    if stage.shop.mishaps.chances:  # in fair weather nothing goes wrong
        stage.shop.mishaps.of_orders.update(rates.WHILE_OVERRUN)


def start(world: World, replicas: tuple[str, ...]) -> None:
    """The operator, as often as there are names."""

    async def main(host: Host) -> None:
        outside = Outside(
            host.http(KUBERNETES),
            host.clock,
            host.entropy,
            host.name,
            HOME,
            dial=Dialler(world.network, host.clock, host),
            resolver=host.resolver,
            watches=WATCHES,
            tick=TICK,
            boot=PlainBoot(),
        )
        try:
            await Operator(SETTINGS, outside).run()
        except LeadershipLost:
            await host.exit()

    for name in replicas:
        world.process(name, main)


def furnish(world: World, most: int) -> None:
    backstage = world.api.backstage
    backstage.create(NAMESPACE, {"metadata": {"name": HOME}})
    limits = {"maxNodes": most, "maxHourlyCost": f"{most * MOST_HOURLY:.2f}"}
    spec = {"providers": [{"name": PROVIDER}], "networking": {"backend": "none"}, "limits": limits}
    backstage.create(GPU_NODE_CLASS, {"metadata": {"name": CLASS}, "spec": spec})


def shop_of(world: World, seed: int) -> Simulator:
    shop = pretend(PROVIDER, world.clock, market_of(seed))
    assert isinstance(shop, SimulatedProvider), "the only one that can be told for how long to be busy"
    shop.busy_for = rates.BUSY_FOR
    shop.fleet.habits = replace(shop.fleet.habits, moves=False)
    kept: Counter[str] = Counter()
    for name, stand in list(shop.fleet.stands.items()):
        stand.stock = PLENTY
        kept[stand.shelf.gpu] += 1
        # A catalogue is read every other minute, and nobody here wants the rest of it.
        if stand.shelf.gpu not in GPUS or stand.shelf.gpu_count > 1 or kept[stand.shelf.gpu] > STANDS:
            del shop.fleet.stands[name]
    world.mount(place(), shop.handle)
    return shop


def place() -> str:
    return origin_of(facts_of(PROVIDER).endpoint)


# -- what people do ----------------------------------------------------------------------------------------------------


def apply(stage: Stage, wish: Wish) -> None:
    spec = {
        "nodeClassRef": {"name": CLASS},
        "gpuType": wish.gpu,
        "maxLifetime": f"{wish.life}s",
        "idleTimeout": "Never",
        "restartPolicy": "OnLoss",
    }
    stage.world.api.backstage.create(
        GPU_REQUEST, {"metadata": {"name": wish.name, "namespace": "default"}, "spec": spec}
    )


def _drop(stage: Stage, name: str) -> None:
    if stage.world.api.backstage.get(GPU_REQUEST, "default", name) is not None:
        stage.world.api.backstage.delete(GPU_REQUEST, "default", name)


def _strip(stage: Stage, luck: float) -> None:
    found = _one_of(sorted(stage.world.api.backstage.objects(GPU_REQUEST), key=_name), luck)
    if found is not None:
        name = _name(found)
        left = [each for each in found["metadata"].get("finalizers", ()) if each != FINALIZER]
        stage.witness.forced[plain_uid(found["metadata"]["uid"])] = None
        _drop(stage, name)
        if stage.world.api.backstage.get(GPU_REQUEST, "default", name) is not None:
            stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": left}})


def _end(stage: Stage, luck: float) -> None:
    machine = _one_of([one for one in stage.machines() if one.alive], luck)
    if machine is not None:
        stage.shop.fleet.end(machine)


def _wipe(stage: Stage, luck: float) -> None:
    found = _one_of(sorted(stage.world.api.backstage.objects(GPU_REQUEST), key=_name), luck)
    if found is not None:
        _wipe_one(stage, _name(found))


def _wipe_all(stage: Stage, _luck: float) -> None:
    for found in sorted(stage.world.api.backstage.objects(GPU_REQUEST), key=_name):
        _wipe_one(stage, _name(found))


def _wipe_one(stage: Stage, name: str) -> None:
    found = stage.world.api.backstage.get(GPU_REQUEST, "default", name)
    if found is not None:
        nothing = dict.fromkeys(found.get("status") or {})
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"status": nothing}, "status")


def _one_of(things: list[Any], luck: float) -> Any:
    return things[int(luck * len(things))] if things else None


def _name(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])
