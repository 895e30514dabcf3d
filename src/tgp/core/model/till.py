"""Where a machine is looked for and given back: a provider under one key, whatever else its class says.

Two sources that differ in what they buy (a margin, an image) are one till: they list the same machines.
"""

from dataclasses import dataclass, field
from functools import cached_property

from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.source import PLAIN, Source, source_of


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
