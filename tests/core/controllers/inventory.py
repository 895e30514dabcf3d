"""An API server in memory, the controllers' writer before it, and views that are filled by hand: so they can lag."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import msgspec

from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.records.typed import TypedReader
from tgp.adapters.kube.store import Store
from tgp.api.crds import crds
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    GPU_NODE_CLASS,
    GPU_REQUEST,
    NAMESPACE,
    SECRET,
    Resource,
)
from tgp.controllers.requests.indexes import INDEXES
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import account_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.http import Call, Reply, Stream
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.clock import WorldClock
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import VirtualLoop

HOME = "tgp-system"
CLUSTER = "0123456789"
KEYS = account_of(AccountAccess("simulated", "keys", "k"), "acme")


class Line:
    """To the server, with every changing call written down."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.changes: list[Call] = []
        self.looks = 0

    async def send(self, call: Call) -> Reply:
        if call.changes_things:
            self.changes.append(call)
        else:
            self.looks += 1
        reply = await self._server.handle(call)
        assert isinstance(reply, Reply)
        return reply

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError


class MemoryApi:
    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = WorldClock(loop)
        self.server = ApiServer(self.clock, SeededEntropy(1, "server"))
        self.line = Line(self.server)
        self.cluster = KubeCluster(self.line, SeededEntropy(2, "client"))
        self.classes: Store[KubeObject[GPUNodeClass]] = Store(GPU_NODE_CLASS)
        self.requests: Store[KubeObject[GPURequest]] = Store(GPU_REQUEST, INDEXES)
        for crd in crds(legacy=False):
            self.server.local_api.create(CUSTOM_RESOURCE_DEFINITION, crd)
        for name in (HOME, "default"):
            if self.server.local_api.get(NAMESPACE, "", name) is None:
                self.create(NAMESPACE, "", name)

    def create(self, resource: Resource, namespace: str, name: str, **rest: Any) -> dict[str, Any]:
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **rest}
        return self.server.local_api.create(resource, obj)

    def a_class(self, name: str = "rented", **rest: Any) -> None:
        spec = {"providers": [{"name": "simulated"}], "networking": {"backend": "none"}, **rest.pop("spec", {})}
        self.create(GPU_NODE_CLASS, "", name, spec=spec, **rest)

    def a_secret(self, name: str = "keys", **rest: Any) -> None:
        self.create(SECRET, HOME, name, stringData={"k": "a value that is not kept"}, **rest)

    def a_request(self, name: str = "train", node_class: str = "rented", **attempt: Any) -> None:
        made = self.create(GPU_REQUEST, "default", name, spec={"gpuType": "A10", "nodeClassRef": {"name": node_class}})
        self.status(name, nodeClass=node_class, attempts=[an_attempt(made["metadata"]["uid"], **attempt)])

    def status(self, name: str, **status: Any) -> None:
        self.server.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": status}, "status")

    def attempt(self, name: str, **change: Any) -> None:
        held = self.get(GPU_REQUEST, "default", name)
        self.status(name, attempts=[{**held["status"]["attempts"][0], **change}])

    def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        found = self.server.local_api.get(resource, namespace, name)
        assert found is not None, f"{resource.kind} {name} is gone"
        return found

    def finalizers(self, resource: Resource, namespace: str, name: str) -> list[str] | None:
        """None: it is gone."""
        found = self.server.local_api.get(resource, namespace, name)
        return None if found is None else found["metadata"].get("finalizers", [])

    def look(self) -> None:
        """Both views catch up."""
        self._fill(self.classes, GPU_NODE_CLASS, GPUNodeClass)
        self._fill(self.requests, GPU_REQUEST, GPURequest)

    def _fill(self, store: Store[Any], resource: Resource, kind: type[Any]) -> None:
        reader = TypedReader(kind)
        found = [reader.read(msgspec.Raw(msgspec.json.encode(each)), {}) for each in self._objects(resource)]
        for record in sorted(found, key=lambda each: each.resource_version):
            store.put(record)
        for record in [each for each in store.values() if each.key not in {one.key for one in found}]:
            store.drop(record)

    def _objects(self, resource: Resource) -> list[dict[str, Any]]:
        return list(self.server.local_api.objects(resource))


def an_attempt(uid: str, **said: Any) -> dict[str, Any]:
    token = f"tgp-{CLUSTER}-{uid.replace('-', '')}-1"
    offer = {"provider": "simulated", "instanceType": "a10", "gpuType": "A10", "gpuCount": 1, "hourlyPrice": "1.50"}
    return {"number": 1, "token": token, "offer": offer, "account": KEYS.id, **said}


def secret_key(name: str = "keys") -> ObjectKey:
    return ObjectKey(HOME, name)
