"""What the simulated RunPod sells. Prices are examples of its price page in November 2026; they wander from there.

A product is one GPU type of one cloud in one data centre (a country, in the community cloud), counted in single GPUs: a
pod takes as many as it asks for.
"""

from dataclasses import dataclass

from tgp.core.model.offer import Trust
from tgp.sim.clouds.stock import Product

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class RunpodGpu:
    """One GPU type, as the catalogue words it."""

    id: str
    name: str
    pool: str | None
    model: str  # our name
    memory: int
    secure: float | None  # dollars an hour for one; None: this cloud has none
    community: float | None
    most_secure: int = 8
    most_community: int = 4
    maker: str = "NVIDIA"
    vcpus: int = 16  # for one GPU
    ram: int = 62


@dataclass(frozen=True, slots=True)
class Centre:
    id: str
    name: str
    continent: str


CARDS = (
    RunpodGpu("NVIDIA GeForce RTX 3090", "RTX 3090", "AMPERE_24", "RTX3090", 24, 0.46, 0.22, vcpus=8, ram=25),
    RunpodGpu("NVIDIA GeForce RTX 4090", "RTX 4090", "ADA_24", "RTX4090", 24, 0.69, 0.34, vcpus=6, ram=41),
    RunpodGpu("NVIDIA GeForce RTX 5090", "RTX 5090", "ADA_32_PRO", "RTX5090", 32, 0.99, 0.69, vcpus=12, ram=92),
    RunpodGpu("NVIDIA RTX A4000", "RTX A4000", "AMPERE_16", "A4000", 16, 0.25, 0.17, vcpus=4, ram=20),
    RunpodGpu("NVIDIA RTX A6000", "RTX A6000", "AMPERE_48", "A6000", 48, 0.49, 0.33, vcpus=9, ram=50),
    RunpodGpu("NVIDIA A40", "A40", "AMPERE_48", "A40", 48, 0.44, None, 10, 0, vcpus=9, ram=50),
    RunpodGpu("NVIDIA L4", "L4", "ADA_24", "L4", 24, 0.43, None, 8, 0, vcpus=12, ram=50),
    RunpodGpu("NVIDIA L40S", "L40S", "ADA_48_PRO", "L40S", 48, 0.99, 0.79, ram=94),
    RunpodGpu("NVIDIA A100 80GB PCIe", "A100 PCIe", "AMPERE_80", "A100-80GB-PCIE", 80, 1.79, 1.19, vcpus=8, ram=117),
    RunpodGpu("NVIDIA A100-SXM4-80GB", "A100 SXM", "AMPERE_80", "A100-80GB-SXM", 80, 1.79, 1.39, ram=125),
    RunpodGpu("NVIDIA H100 PCIe", "H100 PCIe", "ADA_80_PRO", "H100-PCIE", 80, 2.89, 1.99, ram=188),
    RunpodGpu("NVIDIA H100 80GB HBM3", "H100 SXM", "ADA_80_PRO", "H100-SXM", 80, 3.99, 2.69, vcpus=20, ram=125),
    RunpodGpu("NVIDIA H100 NVL", "H100 NVL", "ADA_80_PRO", "H100-NVL", 94, 3.19, 2.59, ram=94),
    RunpodGpu("NVIDIA H200", "H200 SXM", "HOPPER_141", "H200-SXM", 141, 4.39, None, 8, 0, vcpus=24, ram=251),
    RunpodGpu("NVIDIA B200", "B200", "BLACKWELL_180", "B200", 180, 5.98, None, 8, 0, vcpus=28, ram=283),
    RunpodGpu("AMD Instinct MI300X OAM", "MI300X", None, "MI300X", 192, 2.69, None, 8, 0, "AMD", vcpus=24, ram=283),
)
CENTRES = (
    Centre("US-KS-2", "US Kansas 2", "NORTH_AMERICA"),
    Centre("US-TX-3", "US Texas 3", "NORTH_AMERICA"),
    Centre("US-CA-2", "US California 2", "NORTH_AMERICA"),
    Centre("US-GA-1", "US Georgia 1", "NORTH_AMERICA"),
    Centre("CA-MTL-1", "Canada Montreal 1", "NORTH_AMERICA"),
    Centre("EU-RO-1", "Europe Romania 1", "EUROPE"),
    Centre("EU-NL-1", "Europe Netherlands 1", "EUROPE"),
    Centre("EU-SE-1", "Europe Sweden 1", "EUROPE"),
    Centre("EUR-IS-1", "Europe Iceland 1", "EUROPE"),
    Centre("AP-JP-1", "Asia Japan 1", "ASIA"),
)
COUNTRIES = ("US", "CZ", "BG")  # where community hosts stand
BOOT_SECONDS = 75.0
STOCKS = (12, 3, 0, 24, 1, 7, 40, 2, 0, 16)  # GPUs that are free at first, taken in turn


def card_of(gpu_id: str) -> RunpodGpu | None:
    return next((card for card in CARDS if card.id == gpu_id), None)


def products() -> tuple[Product, ...]:
    made: list[Product] = []
    for number, card in enumerate(CARDS):
        if card.secure is not None:
            for step in range(3):
                centre = CENTRES[(number + step * 3) % len(CENTRES)]
                made.append(_product(card, "SECURE", centre.id, card.secure, STOCKS[len(made) % len(STOCKS)]))
        if card.community is not None:
            place = COUNTRIES[number % len(COUNTRIES)]
            made.append(_product(card, "COMMUNITY", place, card.community, STOCKS[len(made) % len(STOCKS)]))
    return tuple(made)


def _product(card: RunpodGpu, cloud: str, place: str, dollars: float, stock: int) -> Product:
    return Product(
        sku=f"{cloud} {card.id}",
        place=place,
        gpu=card.model,
        gpu_count=1,
        gpu_memory_gib=card.memory,
        vcpus=card.vcpus,
        memory_gib=card.ram,
        disk_gib=50,
        hourly_microusd=round(dollars * MICRO),
        stock=stock,
        country=place if cloud == "COMMUNITY" else "",
        trust=Trust.DATACENTER if cloud == "SECURE" else Trust.ANY,
        boot_seconds=BOOT_SECONDS,
        detail={"card": card.id, "cloud": cloud},
    )
