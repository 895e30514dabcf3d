"""A pretend cellar: boxes with power buttons behind a small HTTP receiver, as somebody would write it at home."""

from tgp.sim.clouds.webhook.boxes import HEADERS_REF, SIGNING_REF, settings_at
from tgp.sim.clouds.webhook.room import BoxRoom, simulator

__all__ = ["HEADERS_REF", "SIGNING_REF", "BoxRoom", "settings_at", "simulator"]
