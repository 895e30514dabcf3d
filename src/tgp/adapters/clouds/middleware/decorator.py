"""A `Cloud` around a `Cloud`: every verb goes through one place, where something can be added to it."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, Cloud, HasLeftovers, KeyReport, LaunchOrder, Listing

T = TypeVar("T")

LAUNCH = "launch"
TIDY = "tidy"
SAFE_VERBS = ("offers", "find", "status", "owned", "check", "identity")  # these only read
VERBS = (*SAFE_VERBS, LAUNCH, "terminate")


class CloudDecorator:
    """Passes everything on unchanged; a subclass overrides `_through`."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    @property
    def facts(self) -> CloudFacts:
        return self._cloud.facts

    async def offers(self) -> Listing:
        return await self._through("offers", self._cloud.offers)

    async def launch(self, order: LaunchOrder) -> Instance:
        return await self._through(LAUNCH, lambda: self._cloud.launch(order))

    async def find(self, token: str) -> tuple[Instance, ...]:
        return await self._through("find", lambda: self._cloud.find(token))

    async def status(self, instance_id: str) -> Instance | None:
        return await self._through("status", lambda: self._cloud.status(instance_id))

    async def terminate(self, instance_id: str) -> None:
        return await self._through("terminate", lambda: self._cloud.terminate(instance_id))

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return await self._through("owned", lambda: self._cloud.owned(prefix))

    async def check(self) -> KeyReport:
        return await self._through("check", self._cloud.check)

    async def identity(self) -> Account:
        return await self._through("identity", self._cloud.identity)

    async def tidy(self, token: str) -> None:
        """Providers without leftovers are not called."""
        inner = self._cloud
        if isinstance(inner, HasLeftovers):
            await self._through(TIDY, lambda: inner.tidy(token))

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        """`ask` sends the verb on; each call of it is one call of the provider."""
        raise NotImplementedError
