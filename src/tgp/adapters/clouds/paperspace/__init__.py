"""Paperspace: virtual machines from the vendor's templates, by its API v1. The README lists the facts it relies on."""

from dataclasses import replace

from msgspec import structs

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.paperspace.client import PaperspaceCloud

    return PaperspaceCloud(_at_the_root(context).http(FACTS), context.clock, context.settings, context.key)


def _at_the_root(context: AdapterContext) -> AdapterContext:
    """The vendor writes its base URL with the version, which is part of our paths: both forms are accepted."""
    told = context.settings.endpoint
    root = told.rstrip("/").removesuffix("/v1") if told else None
    return replace(context, settings=structs.replace(context.settings, endpoint=root))
