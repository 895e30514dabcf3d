"""Markets and pods to plan for: 14 GPU models, 24 regions, a third of the offers spot, no two machines alike."""

from dataclasses import dataclass

import numpy as np

from tgp.core.pools.planner.problem import Problem

# memory of one GPU in GiB, and what one costs an hour on average, in micro-dollars
MODELS = (
    (12, 90_000), (16, 160_000), (16, 240_000), (24, 220_000), (24, 340_000), (24, 450_000), (32, 550_000),
    (48, 700_000), (48, 790_000), (40, 1_100_000), (80, 1_390_000), (80, 1_990_000), (94, 2_490_000), (141, 3_290_000),
)  # fmt: skip
REGIONS = 24
SPOT_SHARE = 0.35
PENALTY = 1e9  # a pod is left unserved only where it cannot be served
GIB = float(1 << 30)


@dataclass(frozen=True)
class Size:
    pods: int
    offers: int
    classes: int
    tight: bool

    @property
    def name(self) -> str:
        return f"{self.pods}x{self.offers}x{self.classes} {'tight' if self.tight else 'loose'}"


def a_market(size: Size, seed: int) -> Problem:
    """Resources: CPU (milli), memory (bytes), GPUs, pods."""
    luck = np.random.default_rng([seed, size.pods, size.offers, size.classes, size.tight])
    offers, classes = size.offers, size.classes
    model = luck.integers(len(MODELS), size=offers)
    vram = np.array([each[0] for each in MODELS])[model]
    gpus = luck.choice([1, 2, 4, 8], size=offers, p=[0.4, 0.25, 0.2, 0.15])
    region = luck.integers(REGIONS, size=offers)
    spot = luck.random(offers) < SPOT_SHARE
    per_gpu = np.array([each[1] for each in MODELS])[model] * luck.lognormal(0, 0.25, offers)
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
    for number in range(classes):
        if luck.random() < 0.3:
            fits[number] &= np.isin(region, luck.choice(REGIONS, 8, replace=False))
        if luck.random() < 0.4:
            fits[number] &= ~spot
        if luck.random() < 0.2:
            fits[number] &= np.isin(model, luck.choice(len(MODELS), 6, replace=False))
    stock = _stock(luck, (need, count), (capacity, fits), 4.0 if size.tight else 40.0)
    return Problem(need, count, np.full(classes, PENALTY), capacity, price, stock, fits)


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
