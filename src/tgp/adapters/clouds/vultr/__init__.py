"""Vultr (API v2): Cloud GPU plans (`vcg`), on demand, booted from a Talos image with user data."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.ports.cloud import Cloud
from tgp.ports.images import ImageStore

__all__ = ["FACTS", "build", "build_images"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.vultr.client import VultrCloud

    return VultrCloud(context)


def build_images(context: AdapterContext) -> ImageStore:
    from tgp.adapters.clouds.vultr.snapshots import VultrImageStore

    return VultrImageStore(context.http(FACTS), context.key)
