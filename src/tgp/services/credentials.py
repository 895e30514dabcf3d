"""Where the user's API keys come from: the environment, or a simulated market that publishes its own keys.

A `ProviderAccess` is one provider with the API key of this terminal.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import OWNED_PROVIDER, PROVIDERS, canonical_provider
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source, source_of
from tgp.ports.http import Call, HttpError, HttpFactory, UnreadableReply

SIMULATED = "simulated"
LARGEST_KEY_FILE = 64 << 10


class NoSuchProvider(Exception):
    """The text lists the known providers."""


class NoWorld(Exception):
    """No simulated market answers at the URL."""


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    source: Source
    facts: CloudFacts
    key: Secret | None

    @property
    def keyless(self) -> bool:
        """The provider needs an API key, and there is none."""
        return bool(self.facts.key_variable) and self.key is None

    @property
    def unavailable(self) -> bool:
        return self.keyless and not self.facts.public_offers


def wanted(named: tuple[str, ...], *, simulated: bool) -> list[str]:
    """The providers to ask, in the order of the documentation."""
    canonical = [canonical_provider(name) for name in named]
    unknown = [name for name in canonical if name not in PROVIDERS]
    if unknown:
        raise NoSuchProvider(f"unknown provider {unknown[0]!r}; known are {', '.join(PROVIDERS)}")
    if OWNED_PROVIDER in canonical:
        raise NoSuchProvider("machines you own are listed in a class, not in the market: kubectl describe gpunodeclass")
    if canonical:
        return [name for name in PROVIDERS if name in canonical]
    return [name for name in PROVIDERS if name != OWNED_PROVIDER and (simulated or name != SIMULATED)]


def of_environment(named: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> list[ProviderAccess]:
    return [
        ProviderAccess(source_of(name, "", "", None), facts_of(name), _key(name, environ))
        for name in wanted(named, simulated=False)
    ]


async def of_world(url: str, named: tuple[str, ...], dial: HttpFactory) -> list[ProviderAccess]:
    """The providers of `tgp sim` or `tgp demo`, with the API keys that it publishes."""
    try:
        rows = (await dial(url).send(Call("GET", "/_tgp/clouds"))).json()["clouds"]
        found = {str(row["provider"]): (str(row["url"]), str(row["key"])) for row in rows}
    except (HttpError, UnreadableReply, KeyError, TypeError, ValueError) as error:
        raise NoWorld(f"no simulated market answers at {url}: start one with `tgp sim` or `tgp demo`") from error
    accesses = []
    for name in wanted(named, simulated=True):
        if name in found:
            address, key = found[name]
            source = source_of(name, "", "", ProviderSettings(endpoint=address))
            accesses.append(ProviderAccess(source, facts_of(name), Secret(key) if key else None))
    return accesses


def _key(provider: str, environ: Mapping[str, str]) -> Secret | None:
    facts = facts_of(provider)
    for variable in (facts.key_variable, *facts.other_key_variables):
        if value := environ.get(variable, "").strip():
            return Secret(value)
    if facts.key_file_variable and (path := environ.get(facts.key_file_variable, "")):
        return _from_file(Path(path))
    return None


def _from_file(path: Path) -> Secret | None:
    try:
        with path.open(encoding="utf-8") as file:
            return Secret(file.read(LARGEST_KEY_FILE))
    except (OSError, UnicodeDecodeError):
        return None
