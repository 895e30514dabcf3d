"""Our plan for a case: the operator's own records of the pods, one pool, and a price book with the machines."""

import gc
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from bench.karpenter.cases import CPU, MEMORY, PROVIDER, Answer, Case, Machine, MachineType
from tgp.adapters.kube.records.pod import PodReader, PodWire
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.core.market.sources import sources_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.pod import Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import Plan, PlanInput, PlannedPool, Shape
from tgp.core.requests.purchase import every_source

T = TypeVar("T", GPUNodeClass, GPUNodePool)

NOW = datetime(2026, 11, 16, 12, 5, tzinfo=UTC)
NAMESPACE = "default"
WITHOUT_END = 1_000_000  # machines of an offer
ROUNDS = 3  # the middle one counts


@dataclass(frozen=True)
class _Listing:
    offers: tuple[Offer, ...]
    dropped: dict[str, int] = field(default_factory=dict)


def our_plan(case: Case, rounds: int = ROUNDS) -> Answer:
    """Seconds on the processor, of everything from the pods' records to the orders."""
    world = a_world(case)
    found, seconds = Plan(), []
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        found = plan(world)
        seconds.append(time.process_time() - began)
    zones = {_place(zone): zone for each in case.types for zone in each.zones}
    machines = tuple(
        Machine(
            order.offer.sku,
            zones[order.offer.place],
            order.hourly_microusd,
            tuple(uid_text(pod.uid) for pod in order.pods),
        )
        for order in found.orders
    )
    unserved = {uid_text(each.pod.uid): each.message for each in found.unserved}
    return Answer(machines, sorted(seconds)[len(seconds) // 2], unserved)


def a_world(case: Case) -> PlanInput:
    spec: dict[str, object] = {"providers": [{"name": PROVIDER}], "instanceRequirements": {"spotAllowed": True}}
    node_class = _decoded(GPUNodeClass, spec, "c")
    template = {"spec": {"ephemeralTaint": bool(case.taints)}}
    pool = _decoded(GPUNodePool, {"nodeClassRef": {"name": "c"}, "template": template}, "p")
    planned = PlannedPool(
        ObjectKey(NAMESPACE, "p"),
        pool,
        "c",
        node_class,
        namespaces=frozenset({NAMESPACE}),
        sources=every_source(node_class),
    )
    offers = tuple(offer for each in case.types for offer in _offers(each))
    source = next(iter(sources_of(node_class).values()))
    return PlanInput(
        NOW,
        tuple(_read(case)),
        (planned,),
        PriceBook().with_listing(source.name, _Listing(offers), NOW),
        device_plugin_required=False,
        namespaces={NAMESPACE: {}},
        shapes={offer.key: Shape(_resources(each)) for each in case.types for offer in _offers(each)},
    )


def _decoded(kind: type[T], spec: dict[str, object], name: str) -> T:
    manifest = {"apiVersion": "tgp.io/v1", "kind": kind.__name__, "metadata": {"name": name}, "spec": spec}
    read = decode(kind, manifest)
    assert isinstance(read, kind)
    return read


def _read(case: Case) -> list[Pod]:
    """As the operator's cache reads them from the API server."""
    reader, decoder = PodReader(), msgspec.json.Decoder(PodWire)
    return [reader.read(decoder.decode(msgspec.json.encode(pod)), {}) for pod in case.pods]


def _offers(each: MachineType) -> list[Offer]:
    return [
        Offer(
            provider=PROVIDER,
            sku=each.name,
            place=_place(zone),
            region="us-west",
            gpu=each.gpu,
            gpu_count=each.gpus,
            gpu_memory_gib=each.gpu_memory_gib,
            vcpus=each.capacity[CPU] // 1000,
            memory_gib=each.capacity[MEMORY] >> 30,
            disk_gib=100,
            spot=each.spot,
            hourly_microusd=each.microusd,
            stock=Stock.CONFIRMED,
            left=WITHOUT_END,
            boot=BootMode.NATIVE,
        )
        for zone in each.zones
    ]


def _place(zone: str) -> str:
    return zone.removeprefix(f"{PROVIDER}-")


def _resources(each: MachineType) -> Resources:
    room = each.allocatable
    others = sorted((name, amount) for name, amount in room.items() if name not in (CPU, MEMORY))
    return Resources(room[CPU], room[MEMORY], tuple(others))
