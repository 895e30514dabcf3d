"""A simulated webhook receiver: owned machines switched on and off by HTTP, as a home-made receiver does it."""

from tgp.sim.clouds.webhook.machines import HEADERS_REF, SIGNING_REF, settings_at
from tgp.sim.clouds.webhook.receiver import WebhookReceiver, simulator

__all__ = ["HEADERS_REF", "SIGNING_REF", "WebhookReceiver", "settings_at", "simulator"]
