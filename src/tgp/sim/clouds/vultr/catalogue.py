"""What the simulated Vultr sells: Cloud GPU plans as they have been published, slices of a card among them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tgp.sim.clouds.stock import Product

MICROUSD_A_CENT = 10_000
REGIONS: Mapping[str, tuple[str, str, str]] = MappingProxyType(  # id → city, country, continent
    {
        "ams": ("Amsterdam", "NL", "Europe"),
        "atl": ("Atlanta", "US", "North America"),
        "blr": ("Bangalore", "IN", "Asia"),
        "ewr": ("New Jersey", "US", "North America"),
        "fra": ("Frankfurt", "DE", "Europe"),
        "itm": ("Osaka", "JP", "Asia"),
        "lax": ("Los Angeles", "US", "North America"),
        "lhr": ("London", "GB", "Europe"),
        "mel": ("Melbourne", "AU", "Australia"),
        "nrt": ("Tokyo", "JP", "Asia"),
        "ord": ("Chicago", "US", "North America"),
        "sea": ("Seattle", "US", "North America"),
        "sgp": ("Singapore", "SG", "Asia"),
        "sjc": ("Silicon Valley", "US", "North America"),
        "sto": ("Stockholm", "SE", "Europe"),
    }
)
# id | type | GPU | our model | memory of one card | GB of all | vcpus | ram GB | disk GB | cents an hour | where: stock
PLANS = """
vcg-a16-2c-8g-2vram         |vcg|A16 |A16           |16 |2   |2  |8   |50   |6   |ewr:4 fra:3 lhr:2
vcg-a16-3c-32g-8vram        |vcg|A16 |A16           |16 |8   |3  |32  |170  |24  |ewr:2 nrt:1
vcg-a16-6c-64g-16vram       |vdm|A16 |A16           |16 |16  |6  |64  |350  |47  |ewr:4 ord:3 fra:2 blr:0
vcg-a16-12c-128g-32vram     |vcg|A16 |A16           |16 |32  |12 |128 |700  |95  |ewr:2 lhr:1 sjc:2
vcg-a16-24c-256g-64vram     |vcg|A16 |A16           |16 |64  |24 |256 |1200 |188 |ord:1 nrt:1
vcg-a40-12c-60g-24vram      |vcg|A40 |A40           |48 |24  |12 |60  |1110 |86  |lhr:2
vcg-a40-24c-120g-48vram     |vdm|A40 |A40           |48 |48  |24 |120 |1400 |171 |blr:1 lax:2 sgp:0
vcg-l40s-16c-180g-48vram    |vcg|L40S|L40S          |48 |48  |16 |180 |1200 |167 |ewr:2 lax:1 mel:1
vcg-l40s-32c-375g-96vram    |vcg|L40S|L40S          |48 |96  |32 |375 |2200 |334 |ewr:1 ams:1
vcg-a100-6c-60g-40vram      |vcg|A100|A100-80GB-PCIE|80 |40  |6  |60  |700  |120 |fra:1 sjc:1
vcg-a100-12c-120g-80vram    |vdm|A100|A100-80GB-PCIE|80 |80  |12 |120 |1400 |240 |lhr:1 fra:2 nrt:1
vcg-a100-24c-240g-160vram   |vcg|A100|A100-80GB-PCIE|80 |160 |24 |240 |1400 |479 |fra:1 blr:0
vcg-a100-96c-960g-640vram   |vdm|A100|A100-80GB-PCIE|80 |640 |96 |960 |5600 |1917|fra:0 nrt:0
vcg-h100-24c-240g-80vram    |vcg|H100|H100-SXM      |80 |80  |24 |240 |2000 |299 |sto:0 itm:0
vcg-h100-216c-1914gb-640vram|vdm|H100|H100-SXM      |80 |640 |216|1914|27000|2392|ord:1 sto:0
vcg-b200-248c-2826g-1536vram|vdm|B200|B200          |180|1536|248|2826|27000|2384|ord:1
"""
DEDICATED = "vdm"  # of whole cards: no word of the GPU in the plan, no location without a key
RESERVED_ONLY = "vcg-a100-24c-240g-160vram"  # not to be had on demand
BLANK_AMONG = "vcg-l40s-16c-180g-48vram"  # its locations hold an empty string, as some have
WITHOUT_GPU: Mapping[str, Any] = MappingProxyType(
    {
        "id": "vc2-1c-1gb",
        "vcpu_count": 1,
        "ram": 1024,
        "disk": 25,
        "disk_count": 1,
        "bandwidth": 1024,
        "monthly_cost": 5,
        "hourly_cost": 0.007,
        "type": "vc2",
        "locations": sorted(REGIONS),
        "deploy_ondemand": True,
    }
)


def products() -> Iterator[Product]:
    for line in PLANS.strip().splitlines():
        plan, kind, name, model, card, vram, vcpus, ram, disk, cents, places = map(str.strip, line.split("|"))
        for place, _, stock in (each.partition(":") for each in places.split()):
            yield Product(
                sku=plan,
                place=place,
                gpu=model,
                gpu_count=max(int(vram) // int(card), 1),
                gpu_memory_gib=min(int(card), int(vram)),
                vcpus=int(vcpus),
                memory_gib=int(ram),
                disk_gib=int(disk),
                hourly_microusd=int(cents) * MICROUSD_A_CENT,
                stock=int(stock),
                country=REGIONS[place][1],
                boot_seconds=90.0,
                detail={"type": kind, "gpu_type": f"NVIDIA_{name}", "gpu_vram_gb": int(vram)},
            )
