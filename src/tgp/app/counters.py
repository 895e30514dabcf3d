"""Where a person's keys are: in the environment, or in a pretend world that says which keys open it.

A `Counter` is one provider as it can be asked from this terminal.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import ProviderSettings
from tgp.app.clouds import facts_of
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source, source_of
from tgp.ports.cloud import CloudFacts
from tgp.ports.http import Call, Dial, HttpError, Unreadable

OWNED = "webhook"  # its machines stand in a class, and nowhere else
PRETEND = "simulated"
OTHER_NAMES = {"lambdalabs": ("LAMBDA_API_KEY", "LAMBDA_CLOUD_TOKEN")}  # that other tools keep the same key under
GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"  # a path: where Google's own tools keep it
LARGEST_KEY_FILE = 64 << 10


class NoSuchProvider(Exception):
    """The text names those there are."""


class NoWorld(Exception):
    """There is no pretend world where it was said to be."""


@dataclass(frozen=True, slots=True)
class Counter:
    source: Source
    facts: CloudFacts
    key: Secret | None

    @property
    def keyless(self) -> bool:
        """A key is wanted, and there is none."""
        return bool(self.facts.key_variable) and self.key is None

    @property
    def shut(self) -> bool:
        return self.keyless and not self.facts.public_offers


def wanted(named: tuple[str, ...], *, pretend: bool) -> list[str]:
    """The providers to ask, in the order of the documentation."""
    canonical = [canonical_provider(name) for name in named]
    unknown = [name for name in canonical if name not in PROVIDERS]
    if unknown:
        raise NoSuchProvider(f"no provider is called {unknown[0]!r}; there are {', '.join(PROVIDERS)}")
    if OWNED in canonical:
        raise NoSuchProvider("machines you own are named by a class, not by a market: kubectl describe gpunodeclass")
    if canonical:
        return [name for name in PROVIDERS if name in canonical]
    return [name for name in PROVIDERS if name != OWNED and (pretend or name != PRETEND)]


def of_environment(named: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> list[Counter]:
    return [
        Counter(source_of(name, "", "", None), facts_of(name), _key(name, environ))
        for name in wanted(named, pretend=False)
    ]


async def of_world(url: str, named: tuple[str, ...], dial: Dial) -> list[Counter]:
    """The providers of `tgp sim` or `tgp demo`, with the keys it tells itself."""
    try:
        rows = (await dial(url).send(Call("GET", "/_tgp/clouds"))).json()["clouds"]
        found = {str(row["provider"]): (str(row["url"]), str(row["key"])) for row in rows}
    except (HttpError, Unreadable, KeyError, TypeError, ValueError) as error:
        raise NoWorld(f"there is no pretend world at {url}: start one with `tgp sim` or `tgp demo`") from error
    counters = []
    for name in wanted(named, pretend=True):
        if name in found:
            address, key = found[name]
            source = source_of(name, "", "", ProviderSettings(endpoint=address))
            counters.append(Counter(source, facts_of(name), Secret(key) if key else None))
    return counters


def _key(provider: str, environ: Mapping[str, str]) -> Secret | None:
    facts = facts_of(provider)
    for variable in (facts.key_variable, *OTHER_NAMES.get(provider, ())):
        if value := environ.get(variable, "").strip():
            return Secret(value)
    if provider == "gcp" and (path := environ.get(GOOGLE_FILE, "")):
        return _from_file(Path(path))
    return None


def _from_file(path: Path) -> Secret | None:
    try:
        with path.open(encoding="utf-8") as file:
            return Secret(file.read(LARGEST_KEY_FILE))
    except (OSError, UnicodeDecodeError):
        return None
