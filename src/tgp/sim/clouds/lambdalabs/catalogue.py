"""What the simulated Lambda sells: types, prices and regions as they were listed at the end of 2025."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tgp.sim.clouds.stock import Product

REGIONS: Mapping[str, str] = MappingProxyType(
    {
        "asia-northeast-1": "Osaka, Japan",
        "asia-northeast-2": "Tokyo, Japan",
        "asia-south-1": "India",
        "australia-east-1": "Sydney, Australia",
        "europe-central-1": "Germany",
        "me-west-1": "Israel",
        "us-east-1": "Virginia, USA",
        "us-east-2": "Washington DC, USA",
        "us-east-3": "Washington DC, USA",
        "us-midwest-1": "Illinois, USA",
        "us-midwest-2": "Illinois, USA",
        "us-south-1": "Texas, USA",
        "us-south-2": "North Texas, USA",
        "us-south-3": "Central Texas, USA",
        "us-west-1": "California, USA",
        "us-west-2": "Arizona, USA",
        "us-west-3": "Utah, USA",
    }
)
MICROUSD_A_CENT = 10_000
COUNTRIES: Mapping[str, str] = MappingProxyType(
    {"asia-n": "JP", "asia-s": "IN", "austra": "AU", "europe": "DE", "me-wes": "IL"}
)


@dataclass(frozen=True, slots=True)
class LambdaType:
    """One instance type."""

    name: str
    words: str  # gpu_description
    gpu: str  # our name of the model
    memory: int  # GB of one GPU
    gpus: int
    cents: int
    vcpus: int
    memory_gib: int
    storage_gib: int
    boot_seconds: float
    places: tuple[tuple[str, int], ...]  # region and how many there are; 0: sold out


def _kind(row: str, *places: tuple[str, int]) -> LambdaType:
    name, words, gpu, *numbers = (each.strip() for each in row.split("|"))
    memory, gpus, cents, vcpus, memory_gib, storage_gib, boot_seconds = map(int, numbers)
    return LambdaType(name, words, gpu, memory, gpus, cents, vcpus, memory_gib, storage_gib, boot_seconds, places)


KINDS = (
    _kind(
        "gpu_1x_a10 | A10 (24 GB PCIe) | A10 | 24 | 1 | 75 | 30 | 200 | 1400 | 150",
        ("us-east-1", 3),
        ("us-west-1", 5),
        ("us-west-2", 0),
    ),
    _kind("gpu_1x_rtx6000 | RTX 6000 (24 GB) | RTX6000 | 24 | 1 | 50 | 14 | 46 | 512 | 150", ("us-south-1", 0)),
    _kind(
        "gpu_1x_a6000 | A6000 (48 GB) | A6000 | 48 | 1 | 80 | 14 | 100 | 200 | 150",
        ("us-south-1", 2),
        ("us-east-1", 0),
    ),
    _kind("gpu_4x_a6000 | A6000 (48 GB) | A6000 | 48 | 4 | 320 | 56 | 400 | 1024 | 300", ("us-south-1", 1)),
    _kind(
        "gpu_1x_a100 | A100 (40 GB PCIe) | A100-40GB-PCIE | 40 | 1 | 129 | 30 | 200 | 512 | 180",
        ("us-south-1", 0),
        ("asia-south-1", 1),
    ),
    _kind(
        "gpu_1x_a100_sxm4 | A100 (40 GB SXM4) | A100-40GB-SXM | 40 | 1 | 129 | 30 | 200 | 512 | 180",
        ("us-east-1", 2),
        ("us-west-2", 3),
        ("asia-south-1", 1),
    ),
    _kind(
        "gpu_8x_a100 | A100 (40 GB SXM4) | A100-40GB-SXM | 40 | 8 | 1032 | 124 | 1800 | 6144 | 900",
        ("us-west-1", 1),
        ("europe-central-1", 1),
        ("asia-northeast-2", 1),
        ("me-west-1", 0),
    ),
    _kind(
        "gpu_8x_a100_80gb_sxm4 | A100 (80 GB SXM4) | A100-80GB-SXM | 80 | 8 | 1432 | 240 | 1800 | 20480 | 1200",
        ("us-midwest-1", 1),
        ("australia-east-1", 1),
    ),
    _kind(
        "gpu_1x_h100_pcie | H100 (80 GB PCIe) | H100-PCIE | 80 | 1 | 249 | 26 | 200 | 1024 | 240",
        ("us-west-3", 2),
    ),
    _kind(
        "gpu_1x_h100_sxm5 | H100 (80 GB SXM5) | H100-SXM | 80 | 1 | 329 | 26 | 225 | 2816 | 300",
        ("us-south-2", 1),
        ("us-south-3", 1),
    ),
    _kind("gpu_2x_h100_sxm5 | H100 (80 GB SXM5) | H100-SXM | 80 | 2 | 638 | 52 | 450 | 5632 | 420", ("us-south-3", 1)),
    _kind(
        "gpu_8x_h100_sxm5 | H100 (80 GB SXM5) | H100-SXM | 80 | 8 | 2392 | 208 | 1800 | 22528 | 1500",
        ("us-west-3", 1),
        ("us-south-2", 0),
    ),
    _kind("gpu_1x_gh200 | GH200 (96 GB) | GH200 | 96 | 1 | 149 | 64 | 432 | 4096 | 240", ("us-east-3", 1)),
    _kind(
        "gpu_8x_b200_sxm6 | B200 (180 GB SXM6) | B200 | 180 | 8 | 3992 | 208 | 2900 | 22528 | 1500",
        ("us-east-1", 1),
        ("australia-east-1", 0),
    ),
    _kind("gpu_8x_v100 | Tesla V100 (16 GB) | V100-16GB | 16 | 8 | 440 | 92 | 448 | 6041 | 600", ("us-south-1", 0)),
)
WITHOUT_GPU = {  # listed among the others, as Lambda does
    "name": "cpu_4x_general",
    "description": "4x CPU General (16 GiB)",
    "gpu_description": "N/A",
    "price_cents_per_hour": 20,
    "specs": {"vcpus": 4, "memory_gib": 16, "storage_gib": 100, "gpus": 0},
}


def products() -> Iterator[Product]:
    for kind in KINDS:
        for place, stock in kind.places:
            yield _product(kind, place, stock)


def _product(kind: LambdaType, place: str, stock: int) -> Product:
    return Product(
        sku=kind.name,
        place=place,
        gpu=kind.gpu,
        gpu_count=kind.gpus,
        gpu_memory_gib=kind.memory,
        vcpus=kind.vcpus,
        memory_gib=kind.memory_gib,
        disk_gib=kind.storage_gib,
        hourly_microusd=kind.cents * MICROUSD_A_CENT,
        stock=stock,
        arch="arm64" if kind.gpu == "GH200" else "amd64",
        country=COUNTRIES.get(place[:6], "US"),
        boot_seconds=kind.boot_seconds,
        detail={"words": kind.words},
    )
