"""One world of the benchmark: a provider, two replicas of the operator, users with requests, and a recorder."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from bench.safety import pools, rates
from bench.safety.demand import GPUS, Demand, demands, market_of, places
from tgp.adapters.clouds.registry import facts_of
from tgp.adapters.kube.watch import WatchTimes
from tgp.api.common import OWNED_PROVIDER
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.api.values import rfc3339
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.settings import Settings
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.hold import HOLD
from tgp.core.model.provider_trust import trust_key
from tgp.core.model.token import plain_uid
from tgp.ports.leadership import LeadershipLost
from tgp.sim.checkers.leadership import OneLeader
from tgp.sim.checkers.money import NoOrphan, OneOrderPerAttempt
from tgp.sim.checkers.recorder import Recorder
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.http_factory import Dialler, origin_of
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.registry import pretend
from tgp.sim.clouds.simulated import SimulatedProvider
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.clouds.webhook import WebhookReceiver
from tgp.sim.faults import NONE
from tgp.sim.node_bootstrap import NodeBootstrap
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

PROVIDER = "simulated"
HOME = "tgp-system"
CLASS = "rented"
STANDS = 2  # of each kind of machine: where one is sold out there is another
MOST_GPUS = 2  # of a machine; users' requests ask for one
PLENTY = 50  # of everything in stock: every wait is the operator's
MOST_HOURLY = 0.60  # dollars per place: above the price of every request
# A Lease renewed every twelve seconds rather than two, watches of two minutes rather than half a one, and a look at
# turns that hang every ten seconds: most of what a quiet hour does is that, and it is not what is measured. Hand-overs
# and half-open watches last four times as long for it: what is said of orphans is said of a slower operator than ours.
SETTINGS = Settings(
    lease_duration=timedelta(seconds=60),
    renew_deadline=timedelta(seconds=52),
    retry_period=timedelta(seconds=12),
    require_device_plugin=False,
)
TERM = SETTINGS.renew_deadline.total_seconds()
WATCHES = WatchTimes(at_least=110, at_most=130, silence=timedelta(seconds=135))
TICK = 10.0  # seconds


@dataclass
class SafetyEnv:
    world: World
    node_bootstrap: NodeBootstrap
    simulator: Simulator
    power: WebhookReceiver
    recorder: Recorder
    leader: OneLeader
    orphans: NoOrphan
    orders: OneOrderPerAttempt
    silent_until: float = float("-inf")  # loop time: of the power API

    def machines(self) -> list[SimulatedMachine]:
        """Every one that was ever rented."""
        return [machine for machine in self.simulator.fleet.machines.values() if not machine.foreign]

    def paid_seconds(self) -> float:
        now = self.simulator.fleet.advance()
        return sum(((one.ended_at or now) - one.created_at).total_seconds() for one in self.machines())

    def calm(self) -> None:
        self.world.calm()
        for simulator in (self.simulator, self.power):
            simulator.faults.calm()
            simulator.fleet.lie = None
        self.node_bootstrap.node_faults.calm()


@contextmanager
def safety_env(seed: int, *, faulty: bool, replicas: tuple[str, ...]) -> Iterator[SafetyEnv]:
    """The whole program, over the simulated network."""
    with World(seed, faults=rates.NETWORK_FAULTS if faulty else NONE) as world:
        for crd in crds():
            world.api.local_api.create(CUSTOM_RESOURCE_DEFINITION, crd)
        furnish(world, seed)
        node_bootstrap = NodeBootstrap(world.cluster, world.loop, world.clock, seed)
        simulator = simulator_of(world, seed)
        here = with_recorder(seed, world, node_bootstrap, simulator, term=TERM, faulty=faulty)
        start(world, replicas)
        yield here
        node_bootstrap.close()


def with_recorder(
    seed: int, world: World, node_bootstrap: NodeBootstrap, simulator: Simulator, *, term: float, faulty: bool
) -> SafetyEnv:
    """Every invariant is watched, and what may go wrong at the provider goes wrong."""
    recorder = Recorder(world)
    leader = recorder.add(OneLeader(recorder, term))
    orphans, orders = recorder.add(NoOrphan(recorder, strict=True)), recorder.add(OneOrderPerAttempt(recorder))
    recorder.call(*(kind for kind in INVARIANTS if kind not in (OneLeader, NoOrphan, OneOrderPerAttempt)))
    power = pretend(OWNED_PROVIDER, world.clock, market_of(seed))
    assert isinstance(power, WebhookReceiver), "the power API of machines you own"
    world.mount(pools.POWER, power.handle)
    for each, mounted in ((simulator, place()), (power, pools.POWER)):
        node_bootstrap.adopt(each)
        recorder.adopt(each, mounted)
    if faulty:
        chances = {cloud_fault: row.rate for cloud_fault, row in rates.PROVIDER.items()}
        simulator.faults.chances.update(chances)
        power.faults.chances.update({each: chances[each] for each in chances.keys() - rates.NOT_OF_POWER})
        node_bootstrap.node_faults.chances.update({node_fault: row.rate for node_fault, row in rates.KUBELETS.items()})
    return SafetyEnv(world, node_bootstrap, simulator, power, recorder, leader, orphans, orders)


def people(env: SafetyEnv, seed: int, seconds: float, *, meddle: bool) -> None:
    """Everything that users do, at its moment."""
    loop, began = env.world.loop, env.world.loop.time()
    for demand in demands(seed, seconds):
        loop.call_at(began + demand.at, apply, env, demand)
        loop.call_at(began + demand.until, _drop, env, demand.name)
    pools.play(env, seed, seconds)
    if meddle:
        pools.interfere(env, seed, seconds)
        luck = Random(f"{seed}/meddlers")
        early = [demand for demand in demands(seed, seconds) if luck.random() < rates.WIPED_EARLY.rate]
        for demand in early:
            loop.call_at(began + demand.at + luck.uniform(*rates.WIPED_WITHIN), _wipe_one, env, demand.name)
        deeds = (
            (rates.STRIPPED, _strip),
            (rates.ENDED_AT_THE_CONSOLE, _end),
            (rates.WIPED, _wipe),
            (rates.WIPED_ALL, _wipe_all),
        )
        for row, deed in deeds:
            at = luck.expovariate(row.rate / 3600)
            while at < seconds:
                loop.call_at(began + at, deed, env, luck.random())
                at += luck.expovariate(row.rate / 3600)
        _brake(env, Random(f"{seed}/brake"), seconds)


def _brake(env: SafetyEnv, luck: Random, seconds: float) -> None:
    """Every purchase stops for a while, now and then."""
    loop, began = env.world.loop, env.world.loop.time()
    at = luck.expovariate(rates.HELD.rate / 3600)
    while at < seconds:
        loop.call_at(began + at, _hold, env, "on purpose")
        loop.call_at(began + at + rates.HELD_FOR, _hold, env, None)
        at += rates.HELD_FOR + luck.expovariate(rates.HELD.rate / 3600)


def _hold(env: SafetyEnv, why: str | None) -> None:
    env.world.api.local_api.merge_patch(NAMESPACE, "", HOME, {"metadata": {"annotations": {HOLD: why}}})


def incidents(env: SafetyEnv, seed: int, seconds: float) -> None:
    """The provider's bad quarters of an hour, each at its moment."""
    loop, began, luck = env.world.loop, env.world.loop.time(), Random(f"{seed}/incidents")
    at = luck.expovariate(rates.OVERRUN.rate / 3600)
    while at < seconds:
        loop.call_at(began + at, _be_overrun, env)
        loop.call_at(began + at + rates.OVERRUN_FOR, env.simulator.faults.of_orders.clear)
        at += luck.expovariate(rates.OVERRUN.rate / 3600)


def lies(env: SafetyEnv, seed: int, seconds: float) -> None:
    """What the provider says that is not so, each at its moment."""
    luck = Random(f"{seed}/lies")
    for row, lie, lasts in (
        (rates.DENIES, Lie(denies=True), rates.DENIES_FOR),
        (rates.SAYS_HIGHER_PRICE, Lie(times=rates.HIGHER_PRICE_TIMES), rates.SAYS_FOR),
        (rates.SAYS_STOPPED, Lie(phase=Phase.STOPPED), rates.SAYS_FOR),
    ):
        at = luck.expovariate(row.rate / 3600)
        while at < seconds:
            once = 1 if not lie.denies and luck.random() < 0.5 else None
            _lie(env, at, luck.uniform(*lasts), replace(lie, lists=once))
            at += luck.expovariate(row.rate / 3600)


def _lie(env: SafetyEnv, at: float, lasts: float, lie: Lie) -> None:
    loop, fleet = env.world.loop, env.simulator.fleet

    def begin() -> None:
        if env.simulator.faults.chances:  # without faults every report is true
            fleet.lie = lie

    def end() -> None:
        if fleet.lie is lie:
            fleet.lie = None

    began = loop.time() + at
    loop.call_at(began, begin)
    loop.call_at(began + lasts, end)
    loop.call_at(began + lasts + rates.FORGIVEN_AFTER, _forgive, env)


def _forgive(env: SafetyEnv) -> None:
    change = {"metadata": {"annotations": {trust_key(PROVIDER): rfc3339(env.world.clock.now())}}}
    env.world.api.local_api.merge_patch(NAMESPACE, "", HOME, change)


def _be_overrun(env: SafetyEnv) -> None:
    if env.simulator.faults.chances:  # without faults nothing fails
        env.simulator.faults.of_orders.update(rates.WHILE_OVERRUN)


def start(world: World, replicas: tuple[str, ...]) -> None:
    """The operator, as often as there are names."""

    async def main(host: Host) -> None:
        environment = Environment(
            host.http(KUBERNETES),
            host.clock,
            host.entropy,
            host.name,
            HOME,
            host.compute,
            dial=Dialler(world.network, host.clock, host),
            resolver=host.resolver,
            watches=WATCHES,
            tick=TICK,
            boot=PlainBoot(),
        )
        try:
            await Operator(SETTINGS, environment).run()
        except LeadershipLost:
            await host.exit()

    for name in replicas:
        world.process(name, main)


def furnish(world: World, seed: int) -> None:
    local_api, most = world.api.local_api, places(seed)
    local_api.create(NAMESPACE, {"metadata": {"name": HOME}})
    limits = {"maxNodes": most, "maxHourlyCost": f"{most * MOST_HOURLY:.2f}"}
    spec = {"providers": [{"name": PROVIDER}], "networking": {"backend": "none"}, "limits": limits}
    local_api.create(GPU_NODE_CLASS, {"metadata": {"name": CLASS}, "spec": spec})
    if pools.has_pools(seed):
        pools.furnish(world)


def simulator_of(world: World, seed: int) -> Simulator:
    simulator = pretend(PROVIDER, world.clock, market_of(seed))
    assert isinstance(simulator, SimulatedProvider), "the only one with a configurable busy time"
    simulator.busy_for = rates.BUSY_FOR
    simulator.fleet.habits = replace(simulator.fleet.habits, moves=False)
    kept: Counter[tuple[str, int]] = Counter()
    for name, stand in list(simulator.fleet.stands.items()):
        stand.stock = PLENTY
        product = stand.product
        kept[product.gpu, product.gpu_count] += 1
        # A catalogue is read every other minute, and the rest of it is not needed here.
        many = kept[product.gpu, product.gpu_count] > STANDS
        if product.gpu not in GPUS or product.gpu_count > MOST_GPUS or many:
            del simulator.fleet.stands[name]
    world.mount(place(), simulator.handle)
    return simulator


def place() -> str:
    return origin_of(facts_of(PROVIDER).endpoint)


# -- what users do ----------------------------------------------------------------------------------------------------


def apply(env: SafetyEnv, demand: Demand) -> None:
    spec = {
        "nodeClassRef": {"name": CLASS},
        **({"provider": PROVIDER} if demand.names_provider else {}),
        "gpuType": demand.gpu,
        "maxLifetime": f"{demand.life}s",
        "idleTimeout": "Never",
        "restartPolicy": "OnLoss",
    }
    env.world.api.local_api.create(
        GPU_REQUEST, {"metadata": {"name": demand.name, "namespace": "default"}, "spec": spec}
    )


def _drop(env: SafetyEnv, name: str) -> None:
    if env.world.api.local_api.get(GPU_REQUEST, "default", name) is not None:
        env.world.api.local_api.delete(GPU_REQUEST, "default", name)


def _strip(env: SafetyEnv, luck: float) -> None:
    found = _one_of(sorted(env.world.api.local_api.objects(GPU_REQUEST), key=_name), luck)
    if found is not None:
        name = _name(found)
        left = [each for each in found["metadata"].get("finalizers", ()) if each != FINALIZER]
        env.recorder.forced[plain_uid(found["metadata"]["uid"])] = None
        _drop(env, name)
        if env.world.api.local_api.get(GPU_REQUEST, "default", name) is not None:
            env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": left}})


def _end(env: SafetyEnv, luck: float) -> None:
    machine = _one_of([one for one in env.machines() if one.alive], luck)
    if machine is not None:
        env.simulator.fleet.end(machine)


def _wipe(env: SafetyEnv, luck: float) -> None:
    found = _one_of(sorted(env.world.api.local_api.objects(GPU_REQUEST), key=_name), luck)
    if found is not None:
        _wipe_one(env, _name(found))


def _wipe_all(env: SafetyEnv, _luck: float) -> None:
    for found in sorted(env.world.api.local_api.objects(GPU_REQUEST), key=_name):
        _wipe_one(env, _name(found))


def _wipe_one(env: SafetyEnv, name: str) -> None:
    found = env.world.api.local_api.get(GPU_REQUEST, "default", name)
    if found is not None:
        nothing = dict.fromkeys(found.get("status") or {})
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": nothing}, "status")


def _one_of(things: list[Any], luck: float) -> Any:
    return things[int(luck * len(things))] if things else None


def _name(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])
