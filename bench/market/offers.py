"""A market by seed: eight providers, as they differ; and the questions that are put to it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from tgp.core.model.gpus import Gpu, catalogue
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.offer_query import OfferQuery
from tgp.core.model.prices import MICRO
from tgp.core.model.regions import atlas, country_of, region_of

NOW = datetime(2026, 11, 16, tzinfo=UTC)
SEED = 20261116
STATES = ("Oregon", "Texas", "Ohio", "Utah", "New York", "")
COUNTRIES = ("US", "US", "CA", "DE", "SE", "PL", "JP", "KR", "TW", "IN", "FR", "NO")


@dataclass(frozen=True, slots=True)
class Trade:
    """How a provider sells: what part of the whole market, and by what kind of machine."""

    name: str
    share: float
    boot: tuple[BootMode, ...]
    spot: bool = False
    hosts: bool = False  # a marketplace: each offer is one machine of a third party


TRADES = (
    Trade("vast", 0.55, (BootMode.CONTAINER, BootMode.TAKEOVER), spot=True, hosts=True),
    Trade("runpod", 0.15, (BootMode.CONTAINER,)),
    Trade("gcp", 0.14, (BootMode.NATIVE,), spot=True),
    Trade("vultr", 0.06, (BootMode.NATIVE,)),
    Trade("lambdalabs", 0.04, (BootMode.TAKEOVER,)),
    Trade("paperspace", 0.03, (BootMode.TAKEOVER,)),
    Trade("simulated", 0.02, (BootMode.NATIVE,), spot=True),
    Trade("webhook", 0.01, (BootMode.POWER,)),
)


@dataclass(frozen=True, slots=True)
class BenchListing:
    """A listing, as the book reads it."""

    offers: tuple[Offer, ...]
    dropped: dict[str, int] = field(default_factory=dict)
    priced_on: str = ""


def listings(count: int, seed: int = SEED) -> Iterator[tuple[str, BenchListing]]:
    """Each provider's listing in turn; every text is its own, as it is when it was read from an answer."""
    luck = random.Random(seed)
    gpus = tuple(catalogue().gpus.values())
    for trade in TRADES:
        places = _places(trade, luck)
        made = [_offer(trade, number, gpus, places, luck) for number in range(round(count * trade.share))]
        read = msgspec.json.decode(msgspec.json.encode(made), type=tuple[Offer, ...])
        yield trade.name, BenchListing(read)


def _places(trade: Trade, luck: random.Random) -> tuple[str, ...]:
    if trade.hosts:
        return tuple(f"{luck.choice(STATES)}, {country}" for country in COUNTRIES for _ in range(20))
    named = tuple(place for provider, place in atlas().places if provider == trade.name)
    return (
        tuple(f"{place}-{zone}" for place in named for zone in "abc") if trade.name == "gcp" else named or ("us-west",)
    )


def _offer(trade: Trade, number: int, gpus: tuple[Gpu, ...], places: tuple[str, ...], luck: random.Random) -> Offer:
    gpu = luck.choice(gpus)
    count = luck.choice((1, 1, 1, 2, 4, 8))
    place = luck.choice(places)
    fair = gpu.memory_gib * count * 18_000  # micro-dollars: some two dollars for an H100
    return Offer(
        provider=trade.name,
        sku=f"{10_000_000 + number}" if trade.hosts else f"{trade.name}-{gpu.model}-{count}x-{number}".lower(),
        place=place,
        region=region_of(trade.name, place),
        country=country_of(trade.name, place),
        gpu=gpu.model,
        gpu_count=count,
        gpu_memory_gib=gpu.memory_gib,
        vcpus=count * luck.choice((4, 8, 16, 26)),
        memory_gib=count * luck.choice((16, 32, 64, 128)),
        disk_gib=luck.choice((0, 100, 500, 2000)),
        arch="arm64" if gpu.form == "superchip" else "amd64",
        spot=trade.spot and luck.random() < 0.4,
        hourly_microusd=max(1, int(fair * luck.uniform(0.4, 2.5))),
        stock=luck.choice(tuple(Stock)) if not trade.hosts else Stock.CONFIRMED,
        trust=luck.choice(tuple(Trust)) if trade.hosts else Trust.DATACENTER,
        boot=luck.choice(trade.boot),
        host=f"{number // 3}" if trade.hosts else "",
        until=NOW + timedelta(days=luck.randrange(1, 90)) if trade.hosts else None,
    )


def queries(count: int, seed: int = SEED) -> list[OfferQuery]:
    """Questions both sides can be asked: gpuhunt knows no boot modes, trust or regions by our names."""
    luck = random.Random(seed + 1)
    asked = ("A100", "H100", "RTX4090", "L40S", "A100-80GB", "RTX3090", "H200", "V100", "A6000", "B200")
    return [
        OfferQuery(
            models=tuple(luck.sample(asked, luck.choice((1, 1, 2, 3)))),
            gpu_count=luck.choice((1, 1, 2, 4, 8)),
            min_gpu_memory_gib=luck.choice((0, 0, 24, 40)),
            min_vcpus=luck.choice((0, 4, 8)),
            min_memory_gib=luck.choice((0, 16, 64)),
            arch=luck.choice(("", "amd64")),
            max_hourly_microusd=luck.choice((None, 2 * MICRO, 8 * MICRO, 20 * MICRO)),
            boots=tuple(BootMode),
            as_node=False,
            min_trust=Trust.ANY,
        )
        for _ in range(count)
    ]
