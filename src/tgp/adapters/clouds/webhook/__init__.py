"""Machines you own, powered on and off by HTTP calls."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.webhook.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.webhook.client import WebhookCloud

    return WebhookCloud(context)
