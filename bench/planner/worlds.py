"""Markets and pods to plan for: 14 GPU models, 24 regions, a third of the offers spot, no two machines alike."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np

from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.core.market.sources import sources_of
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.offer_labels import INSTANCE_TYPE
from tgp.core.model.placement import Affinity, NodeTerm
from tgp.core.model.pod import UNSCHEDULABLE, Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.problem import Problem
from tgp.core.pools.planner.world import PlanInput, PlannedPool, Shape
from tgp.core.requests.purchase import every_source

T = TypeVar("T", GPUNodeClass, GPUNodePool)
PROVIDER = "simulated"
CLASS: dict[str, object] = {"providers": [{"name": PROVIDER}], "instanceRequirements": {"spotAllowed": True}}
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)

# model, memory of one GPU in GiB, and what one costs an hour on average, in micro-dollars
MODELS = (
    ("GTX1080Ti", 12, 90_000), ("T4", 16, 160_000), ("V100", 16, 240_000), ("RTX3090", 24, 220_000),
    ("RTX4090", 24, 340_000), ("L4", 24, 450_000), ("RTX5090", 32, 550_000), ("A40", 48, 700_000),
    ("L40S", 48, 790_000), ("A100", 40, 1_100_000), ("A100-80GB", 80, 1_390_000), ("H100", 80, 1_990_000),
    ("H100-NVL", 94, 2_490_000), ("H200", 141, 3_290_000),
)  # fmt: skip
REGIONS = 24
SPOT_SHARE = 0.35
PENALTY = 1e9  # a pod is left unserved only where it cannot be served
GIB = float(1 << 30)


@dataclass(frozen=True)
class _Listing:
    offers: tuple[Offer, ...]
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Size:
    pods: int
    offers: int
    classes: int
    tight: bool

    @property
    def name(self) -> str:
        return f"{self.pods}x{self.offers}x{self.classes} {'tight' if self.tight else 'loose'}"


@dataclass(frozen=True)
class Market:
    """The problem, and of it what a world says in labels. Resources: CPU (milli), memory (bytes), GPUs, pods."""

    problem: Problem
    model: np.ndarray  # by offer, as the next two
    region: np.ndarray
    spot: np.ndarray
    terms: tuple[tuple[NodeTerm, ...] | None, ...]  # by class: what its pods require of a Node

    def world(self) -> PlanInput:
        """The same as the operator would see it: pods, a pool, and a price book."""
        problem, node_class = self.problem, _read(GPUNodeClass, CLASS, "c")
        pool = _read(GPUNodePool, {"nodeClassRef": {"name": "c"}, "template": {"spec": {"ephemeralTaint": False}}}, "p")
        offers = [self._offer(number) for number in range(problem.sources)]
        listed = PriceBook().with_listing(
            next(iter(sources_of(node_class).values())).name, _Listing(tuple(offers)), NOW
        )
        shapes = {each.key: Shape(_resources(room)) for each, room in zip(offers, problem.capacity, strict=True)}
        key = ObjectKey("team", "p")
        planned = PlannedPool(
            key, pool, "c", node_class, namespaces=frozenset({"team"}), sources=every_source(node_class)
        )
        return PlanInput(
            NOW,
            tuple(pod for number in range(problem.classes) for pod in self._pods(number)),
            (planned,),
            listed,
            device_plugin_required=False,
            namespaces={"team": {}},
            shapes=shapes,
            spot_loss={(PROVIDER, gpu): 0.0 for gpu, _, _ in MODELS},
        )

    def _offer(self, number: int) -> Offer:
        gpu, memory_gib, _ = MODELS[int(self.model[number])]
        cpu, memory, gpus, _ = self.problem.capacity[number].tolist()
        region = f"region-{self.region[number]}"
        return Offer(
            provider=PROVIDER,
            sku=f"type-{number}",
            place=region,
            region=region,
            gpu=gpu,
            gpu_count=int(gpus),
            gpu_memory_gib=memory_gib,
            vcpus=int(cpu) // 1000,
            memory_gib=int(memory) >> 30,
            disk_gib=100,
            spot=bool(self.spot[number]),
            hourly_microusd=int(self.problem.price[number]),
            stock=Stock.CONFIRMED,
            left=int(self.problem.stock[number]),
            boot=BootMode.NATIVE,
        )

    def _pods(self, number: int) -> list[Pod]:
        """They share their documents, as those that the cache reads do."""
        affinity = Affinity(self.terms[number])
        requests = _resources(self.problem.need[number])
        return [
            Pod(
                key=ObjectKey("team", f"pod-{number}-{each}"),
                uid=f"uid-{number}-{each}",
                created_at=NOW,
                requests=requests,
                affinity=affinity,
                unplaced_reason=UNSCHEDULABLE,
            )
            for each in range(int(self.problem.count[number]))
        ]


def a_market(size: Size, seed: int) -> Market:
    luck = np.random.default_rng([seed, size.pods, size.offers, size.classes, size.tight])
    offers, classes = size.offers, size.classes
    model = luck.integers(len(MODELS), size=offers)
    vram = np.array([memory for _, memory, _ in MODELS])[model]
    gpus = luck.choice([1, 2, 4, 8], size=offers, p=[0.4, 0.25, 0.2, 0.15])
    region = luck.integers(REGIONS, size=offers)
    spot = luck.random(offers) < SPOT_SHARE
    per_gpu = np.array([price for _, _, price in MODELS])[model] * luck.lognormal(0, 0.25, offers)
    price = np.rint(per_gpu * gpus * np.where(spot, 0.45, 1.0) * luck.uniform(0.92, 1.0, offers))
    cpu = gpus * luck.integers(4, 33, size=offers) * 1000.0
    memory = gpus * luck.integers(12, 129, size=offers) * GIB
    capacity = np.stack([cpu, memory, gpus.astype(float), np.full(offers, 110.0)], axis=1)

    share = luck.dirichlet(np.full(classes, 0.5))
    count = np.maximum(np.rint(share * size.pods), 1).astype(np.int64)
    wanted = luck.choice([1, 1, 1, 2, 4, 8], size=classes)
    need = np.stack(
        [
            wanted * luck.integers(2, 13, size=classes) * 500.0,
            wanted * luck.integers(4, 49, size=classes) * GIB,
            wanted.astype(float),
            np.ones(classes),
        ],
        axis=1,
    )
    fits = np.ones((classes, offers), np.bool_)
    least_vram = luck.choice([0, 16, 24, 40, 80], size=classes, p=[0.3, 0.2, 0.25, 0.15, 0.1])
    fits &= vram[None, :] >= least_vram[:, None]
    terms = [[_more_than("tgp.io/gpu-memory", least - 1)] if least else [] for least in least_vram.tolist()]
    for number in range(classes):
        if luck.random() < 0.3:
            allowed = luck.choice(REGIONS, 8, replace=False)
            fits[number] &= np.isin(region, allowed)
            terms[number].append(_one_of("tgp.io/region", [f"region-{each}" for each in allowed]))
        if luck.random() < 0.4:
            fits[number] &= ~spot
            terms[number].append(_one_of("tgp.io/capacity-type", ["on-demand"]))
        if luck.random() < 0.2:
            allowed = luck.choice(len(MODELS), 6, replace=False)
            fits[number] &= np.isin(model, allowed)
            terms[number].append(_one_of("tgp.io/gpu-type", [MODELS[each][0] for each in allowed]))
    labelled = fits.copy()
    stock = _stock(luck, (need, count), (capacity, fits), 4.0 if size.tight else 40.0)
    problem = Problem(need, count, np.full(classes, PENALTY), capacity, price, stock, fits)
    read = [(NodeTerm(tuple(each)),) if each else None for each in terms]
    for number, place in np.argwhere(fits & ~labelled).tolist():  # it fitted nowhere: a machine was given to it
        read[number] = (*(read[number] or ()), NodeTerm((_one_of(INSTANCE_TYPE, [f"type-{place}"]),)))
    return Market(problem, model, region, spot, tuple(read))


def _one_of(key: str, values: list[str]) -> LabelRequirement:
    return LabelRequirement(key, "In", tuple(values))


def _more_than(key: str, value: int) -> LabelRequirement:
    return LabelRequirement(key, "Gt", (str(value),))


def _resources(amounts: np.ndarray) -> Resources:
    cpu, memory, gpus, pods = (int(each) for each in amounts)
    return Resources(cpu, memory, (("nvidia.com/gpu", gpus), ("pods", pods)))


def _read(kind: type[T], spec: dict[str, object], name: str) -> T:
    manifest = {"apiVersion": "tgp.io/v1", "kind": kind.__name__, "metadata": {"name": name}, "spec": spec}
    read = decode(kind, manifest)
    assert isinstance(read, kind)
    return read


def _stock(
    luck: np.random.Generator,
    wanted: tuple[np.ndarray, np.ndarray],
    offered: tuple[np.ndarray, np.ndarray],
    supply: float,
) -> np.ndarray:
    """So many GPUs as `supply` times the demand; and each class could stand alone three times."""
    (need, count), (capacity, fits) = wanted, offered
    demand = float(need[:, 2] @ count)
    raw = luck.pareto(1.5, len(capacity)) + 0.1
    stock = np.maximum(np.rint(raw * supply * demand / float(raw @ capacity[:, 2])), 1).astype(np.int64)
    for number in range(len(count)):
        holds = np.where(fits[number], np.floor((capacity / need[number]).min(axis=1)), 0)
        have, want = float(holds @ stock), 3.0 * count[number]
        if have < want:
            places = np.flatnonzero(holds)
            if not len(places):
                place = int(np.argmax(np.floor((capacity / need[number]).min(axis=1))))
                fits[number, place] = True
                stock[place] += int(want)
                continue
            stock[places] = np.ceil(stock[places] * want / max(have, 1.0)).astype(np.int64)
    return stock
