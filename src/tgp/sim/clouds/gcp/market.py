"""What the simulated Google Cloud sells: zones, machine types, GPUs, and what is left of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from tgp.core.model.prices import MICRO
from tgp.sim.clouds.stock import Product


@dataclass(frozen=True, slots=True)
class GcpMachineKind:
    """A machine type; its GPUs are part of it, or there are none."""

    name: str
    vcpus: int
    memory_mib: int
    gpu: str = ""
    count: int = 0
    hourly_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class AttachedGpu:
    """A GPU that is attached to N1 machines."""

    name: str
    title: str
    most: int
    hourly_usd: float
    smallest: dict[int, int]  # how many → the fewest vCPUs sold with so many
    largest: dict[int, int]


N1_SIZES = (1, 2, 4, 8, 16, 32, 64, 96)
N1 = tuple(GcpMachineKind(f"n1-standard-{size}", size, size * 3840, hourly_usd=0.0475 * size) for size in N1_SIZES)
PLAIN = (
    GcpMachineKind("e2-standard-4", 4, 16384, hourly_usd=0.134),
    GcpMachineKind("n2-standard-8", 8, 32768, hourly_usd=0.389),
    *N1,
)
G2 = (
    GcpMachineKind("g2-standard-4", 4, 16384, "nvidia-l4", 1, 0.71),
    GcpMachineKind("g2-standard-8", 8, 32768, "nvidia-l4", 1, 0.85),
    GcpMachineKind("g2-standard-12", 12, 49152, "nvidia-l4", 1, 1.00),
    GcpMachineKind("g2-standard-16", 16, 65536, "nvidia-l4", 1, 1.15),
    GcpMachineKind("g2-standard-24", 24, 98304, "nvidia-l4", 2, 2.00),
    GcpMachineKind("g2-standard-48", 48, 196608, "nvidia-l4", 4, 4.00),
    GcpMachineKind("g2-standard-96", 96, 393216, "nvidia-l4", 8, 8.00),
)
A2 = (
    GcpMachineKind("a2-highgpu-1g", 12, 87040, "nvidia-tesla-a100", 1, 3.67),
    GcpMachineKind("a2-highgpu-2g", 24, 174080, "nvidia-tesla-a100", 2, 7.35),
    GcpMachineKind("a2-highgpu-4g", 48, 348160, "nvidia-tesla-a100", 4, 14.69),
    GcpMachineKind("a2-highgpu-8g", 96, 696320, "nvidia-tesla-a100", 8, 29.39),
    GcpMachineKind("a2-megagpu-16g", 96, 1392640, "nvidia-tesla-a100", 16, 55.74),
)
A2_ULTRA = (
    GcpMachineKind("a2-ultragpu-1g", 12, 174080, "nvidia-a100-80gb", 1, 5.07),
    GcpMachineKind("a2-ultragpu-2g", 24, 348160, "nvidia-a100-80gb", 2, 10.14),
    GcpMachineKind("a2-ultragpu-4g", 48, 696320, "nvidia-a100-80gb", 4, 20.28),
    GcpMachineKind("a2-ultragpu-8g", 96, 1392640, "nvidia-a100-80gb", 8, 40.55),
)
A3 = (
    GcpMachineKind("a3-highgpu-1g", 26, 239616, "nvidia-h100-80gb", 1, 11.06),
    GcpMachineKind("a3-highgpu-2g", 52, 479232, "nvidia-h100-80gb", 2, 22.12),
    GcpMachineKind("a3-highgpu-4g", 104, 958464, "nvidia-h100-80gb", 4, 44.25),
    GcpMachineKind("a3-highgpu-8g", 208, 1916928, "nvidia-h100-80gb", 8, 88.49),
    GcpMachineKind("a3-megagpu-8g", 208, 1916928, "nvidia-h100-mega-80gb", 8, 92.88),
)
A4 = (GcpMachineKind("a4-highgpu-8g", 224, 4063232, "nvidia-b200", 8, 130.0),)

T4 = AttachedGpu("nvidia-tesla-t4", "NVIDIA T4", 4, 0.35, {1: 1, 2: 1, 4: 1}, {1: 48, 2: 48, 4: 96})
P4 = AttachedGpu("nvidia-tesla-p4", "NVIDIA Tesla P4", 4, 0.60, {1: 1, 2: 1, 4: 1}, {1: 24, 2: 48, 4: 96})
P100 = AttachedGpu("nvidia-tesla-p100", "NVIDIA Tesla P100", 4, 1.46, {1: 1, 2: 1, 4: 1}, {1: 16, 2: 32, 4: 96})
V100 = AttachedGpu("nvidia-tesla-v100", "NVIDIA V100", 8, 2.48, {1: 1, 2: 1, 4: 1, 8: 1}, {1: 12, 2: 24, 4: 48, 8: 96})

MODELS = {  # Google's name → ours, and the memory of one
    "nvidia-tesla-t4": ("T4", 16),
    "nvidia-tesla-p4": ("P4", 8),
    "nvidia-tesla-p100": ("P100", 16),
    "nvidia-tesla-v100": ("V100-16GB", 16),
    "nvidia-l4": ("L4", 24),
    "nvidia-tesla-a100": ("A100-40GB-SXM", 40),
    "nvidia-a100-80gb": ("A100-80GB-SXM", 80),
    "nvidia-h100-80gb": ("H100-SXM", 80),
    "nvidia-h100-mega-80gb": ("H100-SXM", 80),
    "nvidia-b200": ("B200", 180),
}

ZONES: dict[str, tuple[tuple[GcpMachineKind, ...], tuple[AttachedGpu, ...]]] = {
    "africa-south1-a": (PLAIN, ()),
    "asia-northeast1-c": ((*PLAIN, *G2), (T4,)),
    "asia-southeast1-c": ((*PLAIN, *G2, *A2, *A2_ULTRA), (T4, P4)),
    "europe-southwest1-b": ((*PLAIN, *G2), ()),
    "europe-west1-b": ((*PLAIN, *G2, *A3[:4]), (T4, P100)),
    "europe-west4-a": ((*PLAIN, *G2, *A2, *A2_ULTRA), (T4, P100, V100)),
    "europe-west4-b": ((*PLAIN, *G2, *A3), (T4, P4, V100)),
    "us-central1-a": ((*PLAIN, *G2, *A2, *A2_ULTRA, *A3), (T4, P4, V100)),
    "us-central1-b": ((*PLAIN, *G2, *A3, *A4), (T4, V100)),
    "us-central1-c": ((*PLAIN, *G2, *A2, *A2_ULTRA, *A3), (T4, P4, P100, V100)),
    "us-east4-c": ((*PLAIN, *G2, *A2_ULTRA, *A3), (T4, P4)),
    "us-south1-a": (PLAIN, ()),
    "us-west1-b": ((*PLAIN, *G2, *A2, *A3), (T4, P100, V100)),
}
PRICE_FACTOR = {"asia": 1.25, "europe": 1.07, "us": 1.0, "africa": 1.2}  # by the first word of a zone
SPOT_SHARE = 0.20  # of the ordinary price; Google speaks of 9 % to 40 %
SCARCE = ("a3-", "a4-", "a2-ultragpu", "a2-megagpu")  # 0 to 2 of them are left
SOLD_OUT = ("a3-highgpu-8g@us-central1-a", "a2-ultragpu-8g@us-central1-c", "a2-megagpu-16g@europe-west4-a")


def regions() -> list[str]:
    return sorted({region_of(zone) for zone in ZONES})


def region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def kinds_in(zone: str) -> dict[str, GcpMachineKind]:
    return {kind.name: kind for kind in ZONES[zone][0]}


def cards_in(zone: str) -> dict[str, AttachedGpu]:
    """What can be attached; then what comes with a machine type, which the API lists here too."""
    return {card.name: card for card in ZONES[zone][1]}


def gpus_in(zone: str) -> dict[str, int]:
    """Every GPU of a zone and the most of it that one machine has."""
    found = {card.name: card.most for card in ZONES[zone][1]}
    for kind in ZONES[zone][0]:
        if kind.gpu:
            found[kind.gpu] = max(found.get(kind.gpu, 0), kind.count)
    return found


def sku(kind: str, card: str = "", count: int = 0) -> str:
    return f"{kind}/{card}/{count}" if card else kind


def products() -> list[Product]:
    return [product for zone in ZONES for product in _shelves_of(zone)]


def _shelves_of(zone: str) -> Iterator[Product]:
    factor = PRICE_FACTOR[zone.partition("-")[0]]
    kinds, cards = ZONES[zone]
    for kind in kinds:
        if kind.gpu:
            yield _product(zone, kind, (kind.gpu, kind.count), kind.hourly_usd * factor, kind.name)
    for card in cards:
        for count, largest in card.largest.items():
            for kind in N1:
                if card.smallest[count] <= kind.vcpus <= largest:
                    price = (kind.hourly_usd + card.hourly_usd * count) * factor
                    yield _product(zone, kind, (card.name, count), price, sku(kind.name, card.name, count))


def _product(zone: str, kind: GcpMachineKind, gpus: tuple[str, int], usd: float, name: str) -> Product:
    gpu, count = gpus
    stock = 1 if name.startswith(SCARCE) else 4
    hourly = round(usd * MICRO)
    return Product(
        sku=name,
        place=zone,
        gpu=MODELS[gpu][0],
        gpu_count=count,
        gpu_memory_gib=MODELS[gpu][1],
        vcpus=kind.vcpus,
        memory_gib=kind.memory_mib // 1024,
        disk_gib=0,
        hourly_microusd=hourly,
        spot_microusd=round(hourly * SPOT_SHARE),
        stock=0 if f"{name}@{zone}" in SOLD_OUT else stock,
        boot_seconds=60.0,
        detail={"machineType": kind.name, "gpu": gpu, "count": count, "attached": not kind.gpu},
    )
