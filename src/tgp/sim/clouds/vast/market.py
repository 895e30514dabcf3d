"""What the hosts of a simulated Vast.ai offer: one product per ask, drawn by seed."""

from dataclasses import dataclass
from random import Random

from tgp.core.model.offer import Trust
from tgp.sim.clouds.stock import Product

FIRST_ASK = 21_000_000
ASKS_PER_CARD = 9
MOST_RELIABLE = 0.9995
DATACENTER_CHANCE, VERIFIED_CHANCE, VM_CHANCE, SOLD_CHANCE = 0.3, 0.8, 0.35, 0.12
SPOT_SHARE = (0.4, 0.75)  # of the price on demand
STORAGE_MONTHLY = (0.08, 0.30)  # dollars per GB
BOOT_SECONDS = (25.0, 240.0)  # pulling an image over a private line takes its time
DAYS_LEFT = (3.0, 180.0)


@dataclass(frozen=True, slots=True)
class VastGpu:
    gpu: str  # ours
    name: str  # Vast's
    megabytes: int  # as drivers report it
    gib: int
    compute_cap: int
    dollars: float  # an hour and GPU, roughly as in 2026
    counts: tuple[int, ...]


CARDS = (
    VastGpu("RTX3090", "RTX 3090", 24576, 24, 860, 0.17, (1, 1, 2, 4)),
    VastGpu("RTX4090", "RTX 4090", 24564, 24, 890, 0.35, (1, 1, 1, 2, 4, 8)),
    VastGpu("RTX5090", "RTX 5090", 32607, 32, 1200, 0.55, (1, 1, 2, 8)),
    VastGpu("A5000", "RTX A5000", 24564, 24, 860, 0.21, (1, 2)),
    VastGpu("A6000", "RTX A6000", 49140, 48, 860, 0.45, (1, 2, 4)),
    VastGpu("L40S", "L40S", 46068, 48, 890, 0.72, (1, 2, 4)),
    VastGpu("T4", "Tesla T4", 15360, 16, 750, 0.11, (1,)),
    VastGpu("V100-16GB", "Tesla V100", 16384, 16, 700, 0.14, (1, 2)),
    VastGpu("A100-80GB-PCIE", "A100 PCIE", 81920, 80, 800, 0.95, (1, 2)),
    VastGpu("A100-80GB-SXM", "A100 SXM4", 81920, 80, 800, 1.10, (1, 4, 8)),
    VastGpu("A100-40GB-SXM", "A100 SXM4", 40960, 40, 800, 0.70, (1, 8)),
    VastGpu("H100-SXM", "H100 SXM", 81559, 80, 900, 2.15, (1, 2, 8)),
    VastGpu("H100-NVL", "H100 NVL", 95830, 94, 900, 2.00, (1, 2)),
    VastGpu("H200-SXM", "H200", 143771, 141, 900, 2.60, (1, 8)),
)
PLACES = (  # as hosts are placed: free text that ends in a country
    ("Oregon, US", "US"),
    ("California, US", "US"),
    ("Texas, US", "US"),
    ("Virginia, US", "US"),
    (", US", "US"),
    ("Quebec, CA", "CA"),
    ("Sweden, SE", "SE"),
    ("Norway, NO", "NO"),
    ("Germany, DE", "DE"),
    ("Netherlands, NL", "NL"),
    ("Czechia, CZ", "CZ"),
    ("Spain, ES", "ES"),
    ("Japan, JP", "JP"),
    ("South Korea, KR", "KR"),
    ("Taiwan, TW", "TW"),
    ("Singapore, SG", "SG"),
    ("Australia, AU", "AU"),
)


def catalogue(seed: int | str) -> list[Product]:
    luck = Random(f"{seed}/catalogue")
    return [
        _product(FIRST_ASK + 37 * (ASKS_PER_CARD * number + turn), card, luck)
        for number, card in enumerate(CARDS)
        for turn in range(ASKS_PER_CARD)
    ]


def _product(ask: int, card: VastGpu, luck: Random) -> Product:
    place, country = luck.choice(PLACES)
    count = luck.choice(card.counts)
    in_host = luck.choice([size for size in (1, 2, 4, 8) if size >= count])
    datacenter = luck.random() < DATACENTER_CHANCE
    verified = datacenter or luck.random() < VERIFIED_CHANCE
    price = int(card.dollars * count * luck.uniform(0.85, 1.3) * (1.15 if datacenter else 1.0) * 1_000_000)
    cores = luck.choice((16, 24, 32, 48, 64, 96, 128, 256))
    memory = cores * luck.choice((2, 4, 8))
    share = count / in_host
    return Product(
        sku=str(ask),
        place=place,
        gpu=card.gpu,
        gpu_count=count,
        gpu_memory_gib=card.gib,
        vcpus=int(cores * share),
        memory_gib=int(memory * share),
        disk_gib=luck.choice((100, 200, 400, 800, 1600)),
        hourly_microusd=price,
        spot_microusd=int(price * luck.uniform(*SPOT_SHARE)),
        stock=0 if luck.random() < SOLD_CHANCE else 1,
        country=country,
        trust=Trust.DATACENTER if datacenter else Trust.VERIFIED if verified else Trust.ANY,
        boot_seconds=round(luck.uniform(*BOOT_SECONDS), 1),
        host=str(luck.randrange(10_000, 60_000)),
        detail={
            "gpu_name": card.name,
            "gpu_ram": card.megabytes,
            "compute_cap": card.compute_cap,
            "gpu_frac": share,
            "cpu_cores": cores,
            "cpu_cores_effective": cores * share,
            "cpu_ram": memory * 1024,
            "host_id": luck.randrange(1_000, 300_000),
            "reliability": round(min(luck.uniform(0.93, 1.0), MOST_RELIABLE), 4),
            "storage_cost": round(luck.uniform(*STORAGE_MONTHLY), 4),
            "vms_enabled": luck.random() < VM_CHANCE,
            "days_left": luck.uniform(*DAYS_LEFT),
            "inet_up": round(luck.uniform(80, 9000), 1),
            "inet_down": round(luck.uniform(80, 9000), 1),
            "dlperf": round(count * card.compute_cap / 20 * luck.uniform(0.8, 1.2), 3),
            "driver_version": luck.choice(("550.127.05", "565.57.01", "570.86.15", "580.65.06")),
            "ports": luck.choice((0, 4, 16, 100, 250)),
        },
    )
