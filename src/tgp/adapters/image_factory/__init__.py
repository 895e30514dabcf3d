"""The Image Factory: Talos images with system extensions. The README lists the facts we rely on."""

from tgp.adapters.image_factory.client import FactoryClient
from tgp.adapters.image_factory.wire import DEFAULT_URL

__all__ = ["DEFAULT_URL", "FactoryClient"]
