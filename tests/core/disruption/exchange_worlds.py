"""Pools in use, to be consolidated: builders that state only what matters to a test, and worlds drawn at random."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from tests.core.pools.planner.worlds import (
    GIB,
    GPU,
    HOSTNAME,
    NOW,
    a_market,
    a_pod,
    a_pool,
    a_world,
    on_sale,
)
from tgp.api.request import GPURequest
from tgp.core.disruption.causes import Machine, Standing
from tgp.core.disruption.ending import EndingMachine
from tgp.core.disruption.exchange import ExchangeInput, MachineExchange
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.pod import RUNNING, OwnerRef, Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint
from tgp.core.pools.capacity import node_capacity
from tgp.core.pools.planner.world import PlannedPool

EPHEMERAL = Taint("tgp.io/ephemeral", "NoSchedule")
JOB = (OwnerRef("Job", "train", "uid-train", "batch/v1", controller=True),)
SERVING = (OwnerRef("ReplicaSet", "serve", "uid-serve", "apps/v1", controller=True),)
POLICY = {"consolidationPolicy": "WhenEmptyOrUnderutilized"}


def a_serving_pod(name: str, gpus: int = 1, *, hours: float = 3.0, **said: Any) -> Pod:
    began = NOW - timedelta(hours=hours)
    usual = {"owners": SERVING, "started_at": began, "accepted_at": began, "created_at": began}
    return a_pod(name, gpus, **{**usual, "unplaced_reason": "", "phase": RUNNING, **said})


def consolidated_pool(name: str = "p", **disruption: Any) -> PlannedPool:
    return a_pool(name, disruption={**POLICY, **disruption})


def standing(
    name: str,
    dollars: float,
    *pods: Pod,
    gpus: int = 4,
    pool: PlannedPool | None = None,
    cpu: int = 32_000,
    memory: int = 128 * GIB,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    ready_hours: float = 5.0,
    node: dict[str, Any] | None = None,
    **rest: Any,
) -> Standing:
    room = Resources(cpu, memory, ((GPU, gpus), ("pods", 110)))
    shown = {"ready": True, "allocatable": room, "labels": {HOSTNAME: name, **(labels or {})}, "taints": (EPHEMERAL,)}
    seen = Node(key=ObjectKey("", name), **{**shown, **(node or {})})
    ready = (NOW - timedelta(hours=ready_hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    value = msgspec.convert({"spec": {}, "status": {"phase": "Ready", "readyAt": ready, "nodeName": name}}, GPURequest)
    record = KubeObject(
        key=ObjectKey("team", name), uid=f"uid-{name}", created_at=NOW, annotations=annotations or {}, value=value
    )
    bound = tuple(msgspec.structs.replace(pod, node=name) for pod in pods)
    used = pool or consolidated_pool()
    return Standing(Machine(record, seen, bound), used.pool, int(dollars * 1_000_000), **rest)


def in_use(
    *machines: Standing, offers: tuple[Offer, ...] = (), pools: tuple[PlannedPool, ...] = (), **world: Any
) -> ExchangeInput:
    rooms = [
        node_capacity(each.machine.node, each.machine.pods, NOW)[0]
        for each in machines
        if each.machine.node is not None
    ]
    given = a_world((), a_market(*offers), *(pools or (consolidated_pool(),)), capacity=tuple(rooms), **world)
    ending = {
        each.machine.node.name: EndingMachine(each.expected_microusd, GPU)
        for each in machines
        if each.machine.node is not None
    }
    return ExchangeInput(given, machines, ending=ending)


def an_offer(sku: str, dollars: float, gpus: int = 4, **said: Any) -> Offer:
    return on_sale(
        sku, dollars, **{"gpu_count": gpus, "vcpus": 8 * gpus, "memory_gib": 32 * gpus, "gpu": "RTX4090", **said}
    )


# -- at random ---------------------------------------------------------------------------------------------------------


def a_random_world(seed: int) -> ExchangeInput:
    """Machines of up to three pools."""
    luck = random.Random(f"exchange {seed}")
    among = random.Random(f"pools {seed}")
    pools = tuple(consolidated_pool(f"p{number}") for number in range(among.randint(1, 3)))
    offers = tuple(
        an_offer(f"t{number}", round(gpus * luck.uniform(0.3, 1.2), 2), gpus, left=luck.randint(1, 3))
        for number in range(luck.randint(1, 6))
        for gpus in (luck.choice((1, 2, 4, 8)),)
    )
    machines = []
    for number in range(luck.randint(1, 8)):
        gpus = luck.choice((1, 2, 4, 8))
        free, pods = gpus, []
        while free and luck.random() < 0.7:
            wanted = luck.choice((1, 1, 2))
            if wanted > free:
                break
            free -= wanted
            pods.append(a_random_pod(luck, f"p{number}-{len(pods)}", wanted))
        price = round(gpus * luck.uniform(0.3, 1.5), 2)
        size = {"gpus": gpus, "cpu": 8000 * gpus, "memory": 32 * gpus * GIB}
        machines.append(standing(f"n{number}", price, *pods, pool=among.choice(pools), **size))
    return in_use(*machines, offers=offers, pools=pools)


def a_random_pod(luck: random.Random, name: str, gpus: int) -> Pod:
    owners = JOB if luck.random() < 0.3 else SERVING
    return a_serving_pod(name, gpus, hours=luck.uniform(0.5, 6), owners=owners, memory=luck.choice((1, 8)) * GIB)


def carried_out(seen: ExchangeInput, found: tuple[MachineExchange, ...]) -> ExchangeInput:
    """The pools afterwards, at the same prices, long enough after that nothing has to settle.

    Pods are as old as they were: what has restarted may move more cheaply, and must not move again for that.
    """
    pools = {each.key: each for each in seen.world.pools}
    gone = {key for each in found for key in each.candidates}
    stay = {each.machine.node.name: each for each in seen.machines if each.key not in gone and each.machine.node}
    more: dict[str, list[Pod]] = {name: list(each.machine.pods) for name, each in stay.items()}
    bought = []
    running = {uid_text(pod.uid): pod for each in seen.machines for pod in each.machine.pods}
    taken: dict[str, int] = {}
    for number, exchange in enumerate(found):
        for pod in exchange.pods:
            if (there := exchange.placed.get(uid_text(pod.uid))) is not None:
                more[there].append(running[uid_text(pod.uid)])
        for place, order in enumerate(exchange.orders):
            offer = order.offer
            taken[offer.key] = taken.get(offer.key, 0) + 1
            pods = [running[uid_text(pod.uid)] for pod in order.pods]
            name = f"{offer.sku}-{number}-{place}-{len(seen.machines)}"
            price, gpus = order.hourly_microusd / 1e6, offer.gpu_count
            bought.append(
                standing(name, price, *pods, gpus=gpus, cpu=8000 * gpus - 200, memory=int(32 * gpus * GIB * 0.925),
                         spot_loss=order.spot_loss, pool=pools[order.pool])
            )  # fmt: skip
    kept = [
        standing(name, each.hourly_microusd / 1e6, *more[name], gpus=each.machine.node.allocatable.of(GPU),
                 cpu=each.machine.node.allocatable.cpu_milli, memory=each.machine.node.allocatable.memory_bytes,
                 spot_loss=each.spot_loss, pool=next(one for one in seen.world.pools if one.pool is each.pool))
        for name, each in stay.items()
    ]  # fmt: skip
    offers = tuple(
        msgspec.structs.replace(offer, left=(offer.left or 0) - taken.get(offer.key, 0))
        for offer in seen.world.book.offers
    )
    return replace(in_use(*kept, *bought, offers=offers, pools=seen.world.pools), budgets=seen.budgets)
