"""Documents about offers and prices."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from tgp.core.market.breakeven import BreakEven, break_even
from tgp.core.model.offer import BootMode
from tgp.core.model.prices import MICRO
from tgp.core.model.text import plain
from tgp.services.documents import API_VERSION, ApiVersion, usd
from tgp.services.market_answers import (
    NO_DRIVER,
    STOCK,
    BreakevenQuestion,
    GpuModelRow,
    NoKey,
    OfferAnswer,
    OfferItem,
    OfferNotes,
    ProviderTrouble,
)

OFFER_LIST = "OfferList"
SPOT, TABLE_OF = "spot", "table of "
JOB_HOURS = (1, 10, 50)  # a short job, a working day, a training run


class OfferListItem(TypedDict):
    name: str
    provider: str
    gpu: str
    gpuCount: int
    gpuMemoryGiB: int
    vcpus: int | None
    memoryGiB: int | None
    region: str
    place: str
    kind: str
    virtualMachine: bool | None
    usdPerHour: float
    usdPerGpuHour: float
    ageSeconds: float
    availability: str
    left: int | None
    failedSecondsAgo: float | None
    bootMode: str
    join: str
    source: str
    openPorts: int | None
    cuda: str | None
    downloadMbps: int | None


class WithoutKeyItem(TypedDict):
    provider: str
    set: str
    publicPrices: bool


class ProviderErrorItem(TypedDict):
    provider: str
    message: str
    staleSeconds: float | None


class OfferList(TypedDict):
    """Offers, best first."""

    apiVersion: ApiVersion
    kind: Literal["OfferList"]
    items: list[OfferListItem]
    rejected: dict[str, int]
    dropped: dict[str, int]
    withoutKey: list[WithoutKeyItem]
    errors: list[ProviderErrorItem]
    advice: list[str]


class GpuPriceItem(TypedDict):
    gpu: str
    gpuMemoryGiB: int | None
    usdPerGpuHour: float | None
    spotUsdPerGpuHour: float | None
    availability: str
    offers: int
    providers: list[str]


class GpuPriceList(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["GpuPriceList"]
    items: list[GpuPriceItem]


class PriceRange(TypedDict):
    low: float | None
    high: float | None


class TimeRange(TypedDict):
    soonest: float | None
    latest: float | None


class BreakEvenJobs(TypedDict):
    hours: int
    jobs: TimeRange


class BreakEvenDocument(TypedDict):
    """Null: owning never pays."""

    apiVersion: ApiVersion
    kind: Literal["BreakEven"]
    gpu: str
    hardwareUsd: float
    rentUsdPerHour: PriceRange
    priceSource: str
    electricityUsdPerHour: float
    hours: TimeRange
    hoursPerDay: float
    days: TimeRange
    jobs: list[BreakEvenJobs]


class NotAnOfferList(Exception):
    """The text says what is missing."""


def offer_list(rows: Sequence[OfferItem], notes: OfferNotes) -> OfferList:
    return {
        "apiVersion": API_VERSION,
        "kind": "OfferList",
        "items": [_offer_item(row) for row in rows],
        "rejected": _counts(notes.rejected),
        "dropped": _counts(notes.dropped),
        "withoutKey": [
            {"provider": one.title, "set": one.variable, "publicPrices": one.public} for one in notes.no_key
        ],
        "errors": [
            {"provider": one.title, "message": plain(one.why), "staleSeconds": one.stale_seconds}
            for one in notes.troubles
        ],
        "advice": list(notes.advice),
    }


def counted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def read_offer_list(document: Any) -> OfferAnswer:
    """What `offer_list` wrote, here or in an operator of a near version. Raises NotAnOfferList."""
    try:
        if document["kind"] != OFFER_LIST:
            raise NotAnOfferList(f"expected {OFFER_LIST}, got {document['kind']!r}")
        notes = OfferNotes(
            rejected=dict(document["rejected"]),
            dropped=dict(document["dropped"]),
            no_key=tuple(NoKey(one["provider"], one["set"], one["publicPrices"]) for one in document["withoutKey"]),
            troubles=tuple(
                ProviderTrouble(one["provider"], one["message"], one["staleSeconds"]) for one in document["errors"]
            ),
            advice=tuple(document["advice"]),
        )
        return OfferAnswer(tuple(_offer_row(item) for item in document["items"]), notes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotAnOfferList(f"{OFFER_LIST}: {type(error).__name__} {error}") from error


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(why): count for why, count in counted(counts)}


def _offer_item(row: OfferItem) -> OfferListItem:
    return {
        "name": row.name,
        "provider": row.provider,
        "gpu": row.gpu,
        "gpuCount": row.count,
        "gpuMemoryGiB": row.gpu_memory_gib,
        "vcpus": row.vcpus or None,
        "memoryGiB": row.memory_gib or None,
        "region": row.region,
        "place": row.place,
        "kind": row.kind,
        "virtualMachine": row.virtual,
        "usdPerHour": row.hourly_microusd / MICRO,
        "usdPerGpuHour": row.per_gpu_microusd / MICRO,
        "ageSeconds": round(row.age_seconds, 1),
        "availability": STOCK[row.stock],
        "left": row.left,
        "failedSecondsAgo": None if row.failed_seconds_ago is None else round(row.failed_seconds_ago, 1),
        "bootMode": str(row.boot),
        "join": row.join,
        "source": row.source,
        "openPorts": row.open_ports or None,
        "cuda": row.cuda or None,
        "downloadMbps": row.download_mbps or None,
    }


def _offer_row(item: Mapping[str, Any]) -> OfferItem:
    return OfferItem(
        name=item["name"],
        provider=item["provider"],
        gpu=item["gpu"],
        count=item["gpuCount"],
        gpu_memory_gib=item["gpuMemoryGiB"],
        vcpus=item["vcpus"] or 0,
        memory_gib=item["memoryGiB"] or 0,
        region=item["region"],
        place=item["place"],
        spot=item["kind"] == SPOT,
        hourly_microusd=round(item["usdPerHour"] * MICRO),
        per_gpu_microusd=round(item["usdPerGpuHour"] * MICRO),
        age_seconds=item["ageSeconds"],
        stock={text: stock for stock, text in STOCK.items()}[item["availability"]],
        boot=BootMode(item["bootMode"]),
        failed_seconds_ago=item["failedSecondsAgo"],
        priced_on=item["source"].removeprefix(TABLE_OF) if item["source"].startswith(TABLE_OF) else "",
        left=item["left"],
        no_driver=NO_DRIVER if item["join"] == NO_DRIVER else "",
        virtual=item["virtualMachine"],
        open_ports=item.get("openPorts") or 0,  # an earlier operator does not say these three
        cuda=item.get("cuda") or "",
        download_mbps=item.get("downloadMbps") or 0,
    )


def gpu_price_list(models: Sequence[GpuModelRow]) -> GpuPriceList:
    return GpuPriceList(
        apiVersion=API_VERSION,
        kind="GpuPriceList",
        items=[
            {
                "gpu": model.gpu,
                "gpuMemoryGiB": model.gpu_memory_gib or None,
                "usdPerGpuHour": _per_gpu_hour(model.on_demand),
                "spotUsdPerGpuHour": _per_gpu_hour(model.spot),
                "availability": STOCK[model.stock],
                "offers": model.offers,
                "providers": list(model.providers),
            }
            for model in models
        ],
    )


def _per_gpu_hour(row: OfferItem | None) -> float | None:
    return None if row is None else usd(row.per_gpu_microusd)


def break_even_document(question: BreakevenQuestion) -> BreakEvenDocument:
    """For programs: hours and days to a tenth; null where owning never pays."""
    owning, renting = question.owning, question.prices.renting
    found = break_even(owning, renting)
    return BreakEvenDocument(
        apiVersion=API_VERSION,
        kind="BreakEven",
        gpu=question.gpu,
        hardwareUsd=usd(owning.hardware_microusd),
        rentUsdPerHour=_ends(usd(renting.low_microusd), usd(renting.high_microusd)),
        priceSource=question.prices.source,
        electricityUsdPerHour=round(float(owning.electricity_microusd) / MICRO, 6),
        hours=_range(found),
        hoursPerDay=float(question.hours_per_day),
        days=_range(found.days(question.hours_per_day)),
        jobs=[{"hours": hours, "jobs": _range(found.jobs(hours))} for hours in JOB_HOURS],
    )


def _range(found: BreakEven) -> TimeRange:
    soonest, latest = (None if end is None else round(float(end), 1) for end in (found.soonest, found.latest))
    return {"soonest": soonest, "latest": latest}


def _ends(low: float | None, high: float | None) -> PriceRange:
    return {"low": low, "high": high}
