"""Pools of the benchmark, in every second world: services that come and go, prices that wander, and machines you own.

Drawn by the market alone, as the users' requests are: the same services at the same moments with and without faults.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from bench.safety import rates
from bench.safety.demand import market_of
from tgp.api.common import OWNED_PROVIDER
from tgp.api.resource import DEPLOYMENT, GPU_NODE_CLASS, GPU_NODE_POOL, NODE, POD
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.webhook import WebhookReceiver, settings_at
from tgp.sim.clouds.webhook.machines import name_of
from tgp.sim.world import World

if TYPE_CHECKING:
    from bench.safety.environment import SafetyEnv

WORLDS = 2  # every second market, so every odd seed, has pools: they double what an hour of simulation costs
POOL, CELLAR = "pooled", "cellar"  # the class and the pool of each
POWER = "http://10.77.0.2"
OWNED = (0, 2)  # machines you own: of two GPUs, and of one
PLACES = 3  # services at any time: one per place, the next when the last was deleted
LASTS = (1800.0, 9000.0)  # seconds
PAUSE = (60.0, 1800.0)  # seconds between two services of a place
SIZES = ((1, 1), (1, 2), (2, 1), (1, 3))  # GPUs of a pod, and pods
AT_HOME = 0.3  # of the services run on machines you own, the others on rented ones
OVER_BY = 1800.0  # seconds before the end of the faults: what is left is given back by its idle time
WANDER, STEP = 0.04, 600.0  # of every price, and seconds
GPU = "nvidia.com/gpu"
RENTED, AT_HOME_ONLY = "tgp.io/ephemeral", "cellar"  # taints of rented machines, and of those that you own
OWN_TAINT = {"key": AT_HOME_ONLY, "effect": "NoSchedule"}
MOVING = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "5m",
    "budgets": [{"nodes": "50%"}],
}


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    at: float  # seconds from the beginning
    until: float
    gpus: int
    pods: int
    at_home: bool


def services(seed: int, seconds: float) -> Iterator[Service]:
    """In the order of their beginnings; the last is deleted well before the end."""
    found = [each for place in range(PLACES) for each in _of_place(seed, place, seconds - OVER_BY)]
    return iter(sorted(found, key=lambda each: (each.at, each.name)))


def _of_place(seed: int, place: int, seconds: float) -> Iterator[Service]:
    luck = Random(f"{market_of(seed)}/service/{place}")
    at, number = luck.uniform(*PAUSE), 0
    while at < seconds:
        until = min(at + luck.uniform(*LASTS), seconds)
        at_home = luck.random() < AT_HOME
        gpus, pods = luck.choice(SIZES[:1] if at_home else SIZES)  # each fits there: a pod that waits is planned for
        yield Service(f"service-{place}-{number}", at, until, gpus, pods, at_home)
        at, number = until + luck.uniform(*PAUSE), number + 1


def has_pools(seed: int) -> bool:
    return market_of(seed) % WORLDS == 1


def furnish(world: World) -> None:
    """Two pools, and the Nodes of machines you own as their kubelets left them; and a pod that asks for no GPU.

    Every cluster has such pods: where none is shown, nothing is concluded from it.
    """
    local_api = world.api.local_api
    elsewhere = {"containers": [{"name": "dns", "image": "any"}], "nodeSelector": {"kubernetes.io/os": "none"}}
    local_api.create(POD, {"metadata": {"name": "dns", "namespace": "default"}, "spec": elsewhere})
    for number in OWNED:
        status = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
        local_api.create(NODE, {"metadata": {"name": name_of(number)}, "spec": {}, "status": status})
    settings: Any = msgspec.json.decode(msgspec.json.encode(settings_at(POWER, OWNED)))
    for name, provider, taints, disruption in (
        (POOL, {"name": "simulated"}, [], MOVING),
        (CELLAR, {"name": OWNED_PROVIDER, "settings": settings}, [OWN_TAINT], {"consolidateAfter": "5m"}),
    ):
        spec = {"providers": [provider], "networking": {"backend": "none"}}
        local_api.create(GPU_NODE_CLASS, {"metadata": {"name": name}, "spec": spec})
        template = {"spec": {"taints": taints}}
        spec = {"nodeClassRef": {"name": name}, "disruption": disruption, "template": template}
        local_api.create(GPU_NODE_POOL, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def play(env: "SafetyEnv", seed: int, seconds: float) -> None:
    """Services come and go, and prices wander."""
    if not has_pools(seed):
        return
    loop, began = env.world.loop, env.world.loop.time()
    for each in services(seed, seconds):
        loop.call_at(began + each.at, _serve, env, each)
        loop.call_at(began + each.until, _drop, env, each.name)
    luck, at = Random(f"{market_of(seed)}/prices"), STEP
    while at < seconds:
        loop.call_at(began + at, _wander, env, luck.random())
        at += STEP


def interfere(env: "SafetyEnv", seed: int, seconds: float) -> None:
    """What people and the power API do to machines you own."""
    if not has_pools(seed):
        return
    luck = Random(f"{seed}/power")
    for row, deed in (
        (rates.POWER_LIES, _lie),
        (rates.POWER_SILENT, _fall_silent),
        (rates.SWITCHED_BY_HAND, _switch_by_hand),
    ):
        _at_random(env, luck, row.rate, seconds, deed)


def _at_random(
    env: "SafetyEnv", luck: Random, rate: float, seconds: float, deed: Callable[["SafetyEnv", Random], None]
) -> None:
    """Each deed draws from its own luck: what one needs changes nothing of the others."""
    loop, began = env.world.loop, env.world.loop.time()
    at = luck.expovariate(rate / 3600)
    while at < seconds:
        loop.call_at(began + at, deed, env, Random(luck.random()))
        at += luck.expovariate(rate / 3600)


# -- deeds -------------------------------------------------------------------------------------------------------------


def _serve(env: "SafetyEnv", service: Service) -> None:
    labels = {"app": service.name}
    asked = {"cpu": "1", GPU: str(service.gpus)}
    work = {"name": "work", "image": "any", "resources": {"requests": asked, "limits": asked}}
    tolerations = [{"key": AT_HOME_ONLY if service.at_home else RENTED, "operator": "Exists"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [work], "tolerations": tolerations}}
    spec = {"replicas": service.pods, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": service.name, "namespace": "default"}
    env.world.api.local_api.create(DEPLOYMENT, {"metadata": meta, "spec": spec})


def _drop(env: "SafetyEnv", name: str) -> None:
    env.world.api.local_api.delete(DEPLOYMENT, "default", name, propagation="Background")


def _wander(env: "SafetyEnv", luck: float) -> None:
    """Prices of new machines, each its own way."""
    fleet, steps = env.simulator.fleet, Random(luck)
    for name in sorted(fleet.stands):
        stand = fleet.stands[name]
        least, most = stand.product.hourly_microusd // 2, stand.product.hourly_microusd
        fleet.reprice(name, min(max(round(stand.hourly_microusd * math.exp(steps.gauss(0, WANDER))), least), most))


def _lie(env: "SafetyEnv", luck: Random) -> None:
    """Every machine is said to be off, or broken."""
    fleet = env.power.fleet
    lie = fleet.lie = Lie(denies=True) if luck.random() < 0.5 else Lie(phase=Phase.LOST)

    def end() -> None:
        if fleet.lie is lie:
            fleet.lie = None

    env.world.loop.call_later(rates.POWER_LIES_FOR * luck.random(), end)


def _fall_silent(env: "SafetyEnv", luck: Random) -> None:
    """Silences may overlap: it answers again when the last one ends."""
    loop, chances = env.world.loop, env.power.faults.chances
    chances[CloudFault.HANG_UP] = 1.0
    env.silent_until = max(env.silent_until, loop.time() + rates.POWER_SILENT_FOR * luck.random())

    def end() -> None:
        if chances and loop.time() >= env.silent_until:
            chances[CloudFault.HANG_UP] = rates.PROVIDER[CloudFault.HANG_UP].rate

    loop.call_at(env.silent_until, end)


def _switch_by_hand(env: "SafetyEnv", luck: Random) -> None:
    name = name_of(luck.choice(OWNED))
    if env.power.is_on(name):
        env.power.switch_off_by_hand(name)
    else:
        env.power.switch_on_by_hand(name)


def on_now(receiver: WebhookReceiver) -> list[str]:
    return [name_of(number) for number in OWNED if receiver.is_on(name_of(number))]
