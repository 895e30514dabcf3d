"""How an account is called to find and terminate machines: a provider under one key, whatever else the class says.

Two sources that differ in what they buy (a margin, an image) are one account access: they list the same machines.
"""

from dataclasses import dataclass, field
from functools import cached_property

from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.source import PLAIN, Source, source_of


@dataclass(frozen=True)
class AccountAccess:
    provider: str
    secret: str = ""  # the Secret that holds the key; empty: it needs none
    key: str = ""
    settings: ProviderSettings = field(default=PLAIN)  # only what finding and terminating need

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


def provider_of(access: str) -> str:
    """The provider of an account access or a source, from its name: a bounded metric label."""
    return access.partition("/")[0].partition("#")[0]


def access_of(source: Source, machine: str = "") -> AccountAccess:
    """The account access of a source. Each owned machine has its own: an answer about one says nothing of another."""
    settings = source.settings
    kept = ProviderSettings(
        endpoint=settings.endpoint,
        project=settings.project,
        machines=tuple(each for each in settings.machines if each.name == machine or not machine),
    )
    return AccountAccess(source.provider, source.secret, source.key, kept)


def accesses_of(source: Source) -> tuple[AccountAccess, ...]:
    """Every account access of a source: one, or one for each machine you own."""
    return tuple(access_of(source, machine) for machine in [each.name for each in source.settings.machines] or [""])
