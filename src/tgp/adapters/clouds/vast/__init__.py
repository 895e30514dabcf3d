"""Vast.ai: a marketplace of third-party machines, on demand and by bids."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.vast.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.vast.client import VastCloud

    return VastCloud(context)
