"""Builders for books and offers: each test states only what matters to it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.price_book import PriceBook

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
DOLLAR = 1_000_000
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no finding


@dataclass(frozen=True)
class AListing:
    offers: tuple[Offer, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)


def an_offer(sku: str = "a", **said: Any) -> Offer:
    fields: dict[str, Any] = {
        "provider": "acme",
        "place": "us-west-1",
        "region": "us-west",
        "country": "US",
        "gpu": "A100-80GB-SXM",
        "gpu_count": 1,
        "gpu_memory_gib": 80,
        "vcpus": 16,
        "memory_gib": 128,
        "disk_gib": 500,
        "hourly_microusd": DOLLAR,
        "stock": Stock.CONFIRMED,
        "boot": BootMode.NATIVE,
    }
    return Offer(sku=sku, **fields | said)


def a_book(*offers: Offer, source: str = "acme", seen_at: datetime = NOW) -> PriceBook:
    return PriceBook().with_listing(source, AListing(offers), seen_at)


def offers_of(provider: str) -> st.SearchStrategy[Offer]:
    """Any offer of a provider, from a world small enough for ties, collisions and repetitions."""
    return st.builds(
        an_offer,
        st.sampled_from("abcdefgh"),
        provider=st.just(provider),
        place=st.sampled_from(("us-west-1", "us-east-1", "nowhere")),
        region=st.sampled_from(("us-west", "us-east", "unknown")),
        country=st.sampled_from(("US", "")),
        gpu=st.sampled_from(("A100-80GB-SXM", "A100-40GB-PCIE", "RTX4090", "GH200")),
        gpu_count=st.integers(1, 3),
        gpu_memory_gib=st.sampled_from((24, 40, 80)),
        vcpus=st.integers(0, 4),
        memory_gib=st.integers(0, 4),
        arch=st.sampled_from(("amd64", "arm64")),
        spot=st.booleans(),
        hourly_microusd=st.integers(1, 6),
        stock=st.sampled_from(Stock),
        trust=st.sampled_from(Trust),
        boot=st.sampled_from(BootMode),
        host=st.sampled_from(("", "h1", "h2")),
        until=st.none() | st.datetimes(datetime(2026, 11, 16), datetime(2026, 11, 17), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis wants naive bounds beside the time zone
    )
