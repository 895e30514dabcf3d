"""The catalogue: cards and data centres, narrowed as the query asks."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tgp.core.model.regions import country_of
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.runpod.market import CARDS, CENTRES, MICRO, RunpodGpu

CUDA = (12, 8)  # of every host with NVIDIA cards
LEVELS = ("NONE", "LOW", "MEDIUM", "HIGH")
Stands: TypeAlias = Callable[[str, str], list[Stand]]  # of a GPU type in a cloud


def gpus(stands: Stands, query: dict[str, str]) -> list[dict[str, Any]]:
    """Every card; with countries, those that stand there at all."""
    cloud = query.get("cloud", "SECURE")
    return [
        shown(card, stands, query)
        for card in CARDS
        if "countryCodes" not in query or any(_in_country(stand, query) for stand in stands(card.id, cloud))
    ]


def shown(card: RunpodGpu, stands: Stands, query: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": card.id,
        "name": card.name,
        "pool": card.pool,
        "manufacturer": card.maker,
        "memory": card.memory,
        "secure": card.secure is not None,
        "community": card.community is not None,
        "price": {
            "secure": price_of(stands(card.id, "SECURE")) / MICRO,
            "community": price_of(stands(card.id, "COMMUNITY")) / MICRO,
        },
        "maxCount": {"secure": card.most_secure, "community": card.most_community},
    }
    return row | _availability(card, stands, query) if "include" in query else row


def price_of(stands: list[Stand]) -> int:
    """Of one GPU, the same in all data centres: the highest any of them wandered to. 0: not sold."""
    return max((stand.hourly_microusd for stand in stands), default=0)


def _availability(card: RunpodGpu, stands: Stands, query: dict[str, str]) -> dict[str, Any]:
    cloud, count = query.get("cloud", "SECURE"), int(query.get("count", "1"))
    free = [
        stand
        for stand in stands(card.id, cloud)
        if stand.stock >= count and _in_country(stand, query) and _has_cuda(card, query)
    ]
    row: dict[str, Any] = {
        "availability": max((level(stand.stock, count) for stand in free), default="NONE", key=LEVELS.index)
    }
    if cloud == "SECURE" and free:  # community hosts stand in countries, not in data centres
        row["dataCenters"] = [
            {**_named(stand.product.place), "availability": level(stand.stock, count)} for stand in free
        ]
    if card.maker == "NVIDIA":
        row["cudaVersions"] = [{"version": "12.8", "available": bool(free)}] if _has_cuda(card, query) else []
    return row


def level(stock: int, count: int) -> str:
    return LEVELS[min(stock // count, 1) + (stock >= 3 * count) + (stock >= 6 * count)]


def _in_country(stand: Stand, query: dict[str, str]) -> bool:
    place = stand.product.place
    country = place if stand.product.detail["cloud"] == "COMMUNITY" else country_of("runpod", place)
    return "countryCodes" not in query or country in query["countryCodes"].split(",")


def suits(card: RunpodGpu, query: dict[str, Any]) -> bool:
    """Have its hosts what an order asks of them for each GPU?"""
    enough = query.get("minVcpuCountPerGpu", 0) <= card.vcpus and query.get("minRamPerGpu", 0) <= card.ram
    allowed = query.get("allowedCudaVersions")
    filters = {"cudaVersions": ",".join(allowed)} if allowed else {}
    filters |= {"minCudaVersion": query["minCudaVersion"]} if "minCudaVersion" in query else {}
    return enough and _has_cuda(card, filters)


def _has_cuda(card: RunpodGpu, query: dict[str, str]) -> bool:
    if "cudaVersions" in query:
        return card.maker == "NVIDIA" and "12.8" in query["cudaVersions"].split(",")
    if "minCudaVersion" in query:
        return card.maker == "NVIDIA" and tuple(map(int, query["minCudaVersion"].split("."))) <= CUDA
    return True


# -- data centres ------------------------------------------------------------------------------------------------------


def centres(stands: Stands, query: dict[str, str]) -> list[dict[str, Any]]:
    wanted = query["regions"].split(",") if "regions" in query else None
    return [
        {
            **_named(centre.id),
            "region": centre.continent,
            "globalNetwork": True,
            "networkVolumeTypes": ["STANDARD"],
            "compliance": ["SOC_2_TYPE_2"],
            **({"gpuAvailability": _standing_in(centre.id, stands)} if "include" in query else {}),
        }
        for centre in CENTRES
        if wanted is None or centre.continent in wanted
    ]


def _standing_in(centre: str, stands: Stands) -> list[dict[str, str]]:
    return [
        {"id": card.id, "name": card.name, "availability": level(stand.stock, 1)}
        for card in CARDS
        for stand in stands(card.id, "SECURE")
        if stand.product.place == centre
    ]


def _named(centre_id: str) -> dict[str, str]:
    name = next((centre.name for centre in CENTRES if centre.id == centre_id), centre_id)
    return {"id": centre_id, "name": name}
