"""A table of accounts in one in-memory ConfigMap, loaded at once."""

from collections.abc import Coroutine
from typing import Any

from tgp.api.request import GPURequest
from tgp.api.resource import CONFIG_MAP, Resource
from tgp.controllers.instances.accounts import AccountTable
from tgp.core.model.cloud_account import CloudAccount, line_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import NotFound, View, Written
from tgp.ports.journal import Journal


class MemoryConfigMap:
    """A `Cluster` as far as one ConfigMap goes."""

    def __init__(self, *accounts: CloudAccount) -> None:
        self.data: dict[str, str] | None = {each.id: line_of(each) for each in accounts} or None
        self.version = 1
        self.writes: list[dict[str, Any]] = []

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        assert (resource, key.name) == (CONFIG_MAP, "tgp-accounts")
        if self.data is None:
            raise NotFound("no such ConfigMap")
        return {"metadata": {"resourceVersion": str(self.version), "uid": "u"}, "data": dict(self.data)}

    async def create(self, _resource: Resource, manifest: dict[str, Any]) -> Written:
        return self._written(manifest["data"])

    async def patch(self, _resource: Resource, _key: ObjectKey, change: dict[str, Any], **_how: Any) -> Written:
        return self._written(change["data"])

    def _written(self, change: dict[str, Any]) -> Written:
        self.writes.append(change)
        self.data = {name: line for name, line in {**(self.data or {}), **change}.items() if line is not None}
        self.version += 1
        return Written(str(self.version), "u", 0, changed=True)


class _Silence:
    def note(self, fact: Any) -> None:
        pass


def accounts_on(
    config_map: MemoryConfigMap,
    requests: View[KubeObject[GPURequest]],
    clock: Clock,
    journal: Journal | None = None,
    **rest: Any,
) -> AccountTable:
    accounts = AccountTable(
        requests, config_map, clock, _Silence() if journal is None else journal, namespace="tgp-system", **rest
    )  # type: ignore[arg-type]  # as far as it is asked
    at_once(accounts.load())
    return accounts


def at_once(deed: Coroutine[Any, Any, None]) -> None:
    """For calls that never wait."""
    try:
        deed.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")
