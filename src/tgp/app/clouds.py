"""Every provider, one line each; and the way from a source and a key to a client with its coat on."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from urllib.parse import urlsplit

from tgp.adapters.clouds.around.guarded import guarded
from tgp.adapters.clouds.around.meter import Meter
from tgp.adapters.clouds.around.patient import Patience
from tgp.adapters.clouds.around.turnstile import Turnstiles
from tgp.adapters.clouds.door import Door
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source
from tgp.core.rules.power_hosts import STRICT, HostRules
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, CloudFacts
from tgp.ports.entropy import Entropy
from tgp.ports.http import Dial
from tgp.ports.resolver import Resolver

PROVIDERS = {
    "vast": "tgp.adapters.clouds.vast",
    "runpod": "tgp.adapters.clouds.runpod",
    "lambdalabs": "tgp.adapters.clouds.lambdalabs",
    "paperspace": "tgp.adapters.clouds.paperspace",
    "vultr": "tgp.adapters.clouds.vultr",
    "gcp": "tgp.adapters.clouds.gcp",
    "webhook": "tgp.adapters.clouds.webhook",
    "simulated": "tgp.adapters.clouds.simulated",
}
OPEN_MAX = 1024  # clients kept: 64 classes of 16 providers, each with a key of its own; the longest unused goes first


@cache
def _package(provider: str) -> ModuleType:
    """Imported when it is first asked for: a class of one provider does not pay for eight."""
    return import_module(PROVIDERS[provider])


def facts_of(provider: str) -> CloudFacts:
    facts: CloudFacts = _package(provider).FACTS
    return facts


def titled(provider: str) -> str:
    """As people write it; a name nobody knows stays as it is."""
    return facts_of(provider).title if provider in PROVIDERS else provider


def path_of(provider: str) -> str:
    """What every call to the provider's API begins with, after the host."""
    return urlsplit(facts_of(provider).endpoint).path.rstrip("/")


@dataclass(slots=True)
class AllClouds:
    """Implements the `Clouds` port."""

    dial: Dial
    clock: Clock
    entropy: Entropy
    resolver: Resolver
    meter: Meter | None = None
    patience: Patience | None = None  # None: that of a process that has all day
    hosts: HostRules = STRICT  # which hosts of a class's own machines may be called
    _turnstiles: Turnstiles = field(default_factory=Turnstiles)
    _open: OrderedDict[object, Cloud] = field(default_factory=OrderedDict)

    def facts(self, provider: str) -> CloudFacts:
        return facts_of(provider)

    def open(self, source: Source, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> Cloud:
        asked = (source, key, tuple(sorted(secrets.items(), key=lambda pair: pair[0])))
        found = self._open.get(asked)
        if found is None:
            door = Door(
                self.dial,
                self.clock,
                self.entropy,
                self.resolver,
                key,
                source.settings,
                secrets=dict(secrets),
                hosts=self.hosts,
            )
            counted = f"{source.provider}/{key.fingerprint if key else 'public'}"
            found = guarded(
                _package(source.provider).build(door),
                source=counted,
                turnstiles=self._turnstiles,
                entropy=self.entropy,
                meter=self.meter,
                patience=self.patience,
            )
            self._open[asked] = found
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(asked)  # it may hold a token that was costly to get
        return found
