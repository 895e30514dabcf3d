"""Machines you own, switched on and off by HTTP calls."""

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.webhook.client import WebhookCloud
from tgp.adapters.clouds.webhook.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: Door) -> Cloud:
    return WebhookCloud(door)
