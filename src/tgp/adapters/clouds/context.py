"""What an adapter is given when it is built: an HTTP factory, its key, and the class's settings for it."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tgp.api.nodeclass import ProviderSettings
from tgp.core.classes.power_hosts import STRICT, HostRules
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.cloud import Account
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Http, HttpFactory, Pairs, Reply, Stream
from tgp.ports.resolver import Resolver


@dataclass(frozen=True, slots=True)
class AdapterContext:
    dial: HttpFactory = field(repr=False)
    clock: Clock
    entropy: Entropy
    resolver: Resolver
    key: Secret | None = None  # None: only public endpoints can be called
    settings: ProviderSettings = field(default_factory=ProviderSettings)
    secrets: Mapping[tuple[str, str], Secret] = field(default_factory=dict)  # (Secret, key) that the settings name
    hosts: HostRules = STRICT  # which hosts of the settings may be called

    def endpoint(self, facts: CloudFacts) -> str:
        return self.settings.endpoint or facts.endpoint

    def http(self, facts: CloudFacts) -> Http:
        """To the provider's API, with the key as a bearer token where there is one."""
        plain = self.dial(self.endpoint(facts))
        if self.key is None:
            return plain
        return KeyedHttp(plain, (("Authorization", f"Bearer {self.key.reveal()}"),))

    @property
    def account(self) -> Account:
        """For providers that name no account: a fingerprint of the key."""
        return Account(self.key.fingerprint if self.key is not None else "key:none")


class KeyedHttp:
    """Adds headers with a key in them to every call. They are never printed."""

    def __init__(self, http: Http, headers: Pairs) -> None:
        self._http = http
        self._headers = headers

    async def send(self, call: Call) -> Reply:
        return await self._http.send(self._keyed(call))

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._http.stream(self._keyed(call), idle=idle)

    def _keyed(self, call: Call) -> Call:
        return replace(call, headers=(*self._headers, *call.headers))
