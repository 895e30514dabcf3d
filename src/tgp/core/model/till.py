"""Where a machine is looked for and given back: a provider under one key, whatever else its class says.

Two sources that differ in what they buy (a margin, an image) are one till: they list the same machines.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import msgspec

from tgp.api.nodeclass import ProviderSettings
from tgp.api.request import Attempt
from tgp.core.model.source import PLAIN, Source, source_of

TILLS_KEPT = 1024  # read from records: 64 classes of 16 providers


@dataclass(frozen=True)
class Till:
    provider: str
    secret: str = ""  # the Secret that holds the key; empty: it needs none
    key: str = ""
    settings: ProviderSettings = field(default=PLAIN)  # only what finding and ending need

    @cached_property
    def source(self) -> Source:
        return source_of(self.provider, self.secret, self.key, self.settings)

    @property
    def name(self) -> str:
        """Short, stable and fit for a log line."""
        return self.source.name

    @property
    def credentials(self) -> str:
        return f"{self.secret}/{self.key}" if self.secret else ""

    @property
    def written_settings(self) -> str:
        """For the record of an attempt; empty: there is nothing to write."""
        return msgspec.json.encode(self.settings).decode() if self.settings != PLAIN else ""


def provider_of(till: str) -> str:
    """Of a till, or a source, by its name. They are as many as users make them; providers are few."""
    return till.partition("/")[0].partition("#")[0]


def till_of(source: Source, machine: str = "") -> Till:
    """The till behind a source. Of machines you own each is a till: what is asked of one says nothing of another."""
    settings = source.settings
    kept = ProviderSettings(
        endpoint=settings.endpoint,
        project=settings.project,
        machines=tuple(each for each in settings.machines if each.name == machine or not machine),
    )
    return Till(source.provider, source.secret, source.key, kept)


def tills_of(source: Source) -> tuple[Till, ...]:
    """Every till behind a source: one, or one for each machine you own."""
    return tuple(till_of(source, machine) for machine in [each.name for each in source.settings.machines] or [""])


def till_of_attempt(attempt: Attempt) -> Till | None:
    """From the record alone, whatever became of the class. None: the record does not say where."""
    if attempt.offer is None:
        return None
    return _till(attempt.offer.provider, attempt.credentials or "", attempt.settings or "", attempt.endpoint)


@lru_cache(maxsize=TILLS_KEPT)
def _till(provider: str, credentials: str, written_settings: str, endpoint: str | None) -> Till:
    secret, _, key = credentials.partition("/")
    try:
        settings = msgspec.json.decode(written_settings, type=ProviderSettings) if written_settings else PLAIN
    except msgspec.DecodeError:
        settings = ProviderSettings(endpoint=endpoint)
    return Till(provider, secret, key, settings)
