"""Paperspace: virtual machines from the vendor's templates, by its API v1. The README says what it relies on."""

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.paperspace.client import PaperspaceCloud
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: Door) -> Cloud:
    return PaperspaceCloud(door.http(FACTS), door.clock, door.settings, door.key)
