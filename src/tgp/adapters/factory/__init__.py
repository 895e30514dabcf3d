"""The Image Factory: Talos images with the extensions one asks for. The README says what is relied on."""

from tgp.adapters.factory.client import FactoryClient
from tgp.adapters.factory.wire import DEFAULT_URL

__all__ = ["DEFAULT_URL", "FactoryClient"]
