"""Documents about offers and prices."""

from typing import Literal, TypedDict

from tgp.interfaces.documents import ApiVersion


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
