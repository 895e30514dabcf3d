"""All providers: facts about each, and a client for each under a key."""

from collections.abc import Mapping
from typing import Protocol

from tgp.core.model.secret import Secret
from tgp.core.model.source import Source
from tgp.ports.cloud import Cloud, CloudFacts


class Clouds(Protocol):
    def facts(self, provider: str) -> CloudFacts: ...

    def open(self, source: Source, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> Cloud:
        """The same object for equal arguments, so that rate limits are kept by all its users together.

        `secrets` are those that the settings refer to, by Secret and key. Raises CloudError if the key cannot be one.
        """
        ...
