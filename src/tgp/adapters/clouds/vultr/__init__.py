"""Vultr (API v2): Cloud GPU plans (`vcg`), on demand, booted from a Talos image with user data."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.vultr.client import VultrCloud
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: AdapterContext) -> Cloud:
    return VultrCloud(door)
