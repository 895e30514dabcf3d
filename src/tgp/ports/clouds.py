"""All providers: facts about each, and a client for each under a key."""

from collections.abc import Mapping
from typing import Protocol

from tgp.api.common import PROVIDERS
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source
from tgp.ports.cloud import Cloud
from tgp.ports.images import ImageStore


class Clouds(Protocol):
    def facts(self, provider: str) -> CloudFacts:
        """Of a provider of this version; `known_facts` is for any name."""
        ...

    def open(self, source: Source, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> Cloud:
        """The same object for equal arguments, so that rate limits are kept by all its users together.

        `secrets` are those that the settings refer to, by Secret and key. Raises CloudError if the key cannot be one.
        """
        ...

    def open_images(self, source: Source, key: Secret | None) -> ImageStore | None:
        """None: this provider keeps no images of ours."""
        ...


def known_facts(clouds: Clouds, provider: str) -> CloudFacts | None:
    """None: a provider that only a newer version knows."""
    return clouds.facts(provider) if provider in PROVIDERS else None
