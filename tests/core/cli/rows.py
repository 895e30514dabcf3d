"""Builders of what the command line shows: only what matters to a test is stated."""

from typing import Any

from tgp.core.model.offer import BootMode, Offer
from tgp.services.market_answers import CheckRow, KeyVerdict, OfferItem, row_of


def an_offer(**more: Any) -> Offer:
    usual: dict[str, Any] = {
        "provider": "vultr",
        "sku": "vcg-l40s",
        "place": "ewr",
        "region": "us-east",
        "gpu": "L40S",
        "gpu_count": 1,
        "gpu_memory_gib": 48,
        "vcpus": 16,
        "memory_gib": 180,
        "disk_gib": 0,
        "hourly_microusd": 1_671_000,
        "boot": BootMode.NATIVE,
    }
    return Offer(**{**usual, **more})


def a_row(
    *, age_seconds: float = 12, failed_seconds_ago: float | None = None, priced_on: str = "", **more: Any
) -> OfferItem:
    return row_of(an_offer(**more), age_seconds=age_seconds, failed_seconds_ago=failed_seconds_ago, priced_on=priced_on)


def a_check(provider: str = "vultr", **more: Any) -> CheckRow:
    usual: dict[str, Any] = {
        "title": provider.title(),
        "key": KeyVerdict.VALID,
        "variable": f"{provider.upper()}_API_KEY",
        "offers": 61,
        "boot": (BootMode.NATIVE,),
    }
    return CheckRow(provider, **{**usual, **more})
