"""Vast.ai: a marketplace of other people's machines, on demand and by bids."""

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.vast.client import VastCloud
from tgp.adapters.clouds.vast.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: Door) -> Cloud:
    return VastCloud(door)
