"""Every provider is a folder here, of the name that classes use; how a source and a key become its client."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from urllib.parse import urlsplit

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.middleware.account_throttle import AccountThrottles
from tgp.adapters.clouds.middleware.guarded_cloud import GuardedCloud, RetryPolicy
from tgp.adapters.clouds.middleware.metrics import CloudMetrics
from tgp.api.common import PROVIDERS
from tgp.core.classes.power_hosts import STRICT, HostRules
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud
from tgp.ports.entropy import Entropy
from tgp.ports.http import HttpFactory
from tgp.ports.images import ImageStore
from tgp.ports.resolver import Resolver

OPEN_MAX = (
    1024  # clients kept: 64 classes of 16 providers, each with a key of its own; the least recently used goes first
)


@cache
def _package(provider: str) -> ModuleType:
    """Imported on first use, without its client, which `build` imports: other providers are asked for facts alone."""
    assert provider in PROVIDERS, "the names of an API object are checked before"
    return import_module(f"tgp.adapters.clouds.{provider}")


def facts_of(provider: str) -> CloudFacts:
    facts: CloudFacts = _package(provider).FACTS
    return facts


def titled(provider: str) -> str:
    """The display name; an unknown name stays as it is."""
    return facts_of(provider).title if provider in PROVIDERS else provider


def path_of(provider: str) -> str:
    """The path prefix of every call to the provider's API."""
    return urlsplit(facts_of(provider).endpoint).path.rstrip("/")


@dataclass(slots=True)
class AllClouds:
    """Implements the `Clouds` port."""

    dial: HttpFactory
    clock: Clock
    entropy: Entropy
    resolver: Resolver
    metrics: CloudMetrics | None = None
    retry_policy: RetryPolicy | None = None  # None: the default of a long-running process
    hosts: HostRules = STRICT  # which hosts of a class's own machines may be called
    _throttles: AccountThrottles = field(default_factory=AccountThrottles)
    _open: OrderedDict[object, Cloud] = field(default_factory=OrderedDict)

    def facts(self, provider: str) -> CloudFacts:
        return facts_of(provider)

    def open(self, source: Source, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> Cloud:
        asked = (source, key, tuple(sorted(secrets.items(), key=lambda pair: pair[0])))
        found = self._open.get(asked)
        if found is None:
            counted = f"{source.provider}/{key.fingerprint if key else 'public'}"
            found = GuardedCloud(
                _package(source.provider).build(self._context(source, key, secrets)),
                source=counted,
                throttles=self._throttles,
                entropy=self.entropy,
                metrics=self.metrics,
                retry_policy=self.retry_policy,
                endpoint=source.settings.endpoint or "",
            )
            self._open[asked] = found
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(asked)  # it may hold a token that was costly to get
        return found

    def open_images(self, source: Source, key: Secret | None) -> ImageStore | None:
        package = _package(source.provider)
        return package.build_images(self._context(source, key, {})) if package.FACTS.imported_image else None

    def _context(self, source: Source, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> AdapterContext:
        return AdapterContext(
            self.dial,
            self.clock,
            self.entropy,
            self.resolver,
            key,
            source.settings,
            secrets=dict(secrets),
            hosts=self.hosts,
        )
