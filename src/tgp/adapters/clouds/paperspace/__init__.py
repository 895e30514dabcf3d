"""Paperspace: virtual machines from the vendor's templates, by its API v1. The README lists the facts it relies on."""

from dataclasses import replace

from msgspec import structs

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.paperspace.client import PaperspaceCloud

    return PaperspaceCloud(_at_the_root(door).http(FACTS), door.clock, door.settings, door.key)


def _at_the_root(door: AdapterContext) -> AdapterContext:
    """The vendor writes its base URL with the version, which is part of our paths: both forms are accepted."""
    told = door.settings.endpoint
    root = told.rstrip("/").removesuffix("/v1") if told else None
    return replace(door, settings=structs.replace(door.settings, endpoint=root))
