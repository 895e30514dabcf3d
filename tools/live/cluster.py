"""A cluster in memory for one real machine: the operator under its shipped rights, a class with a cap, one request.

How a rented machine joins is not part of this walk: when the provider says that it runs, a pretend kubelet takes its
Node's name. Everything between the operator and the provider is real.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from tgp import __version__
from tgp.adapters.compute import Threads
from tgp.adapters.http.client import HttpClient
from tgp.adapters.http.serve import listen
from tgp.api.crds import crds
from tgp.api.nodeclass import ProviderSettings
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SERVICE_ACCOUNT
from tgp.api.values import usd
from tgp.app.demo.fixtures import create_object, resource_of
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.settings import Settings
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.gpus import resource_name
from tgp.core.model.identity import cluster_id
from tgp.core.model.offer import Offer
from tgp.core.model.spend import SpendEntry, entries
from tgp.core.model.token import cluster_prefix
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.ports.http import Handler, Http, HttpFactory
from tgp.ports.resolver import Resolver
from tgp.services.shipped import operator_rights
from tgp.sim.apiserver import ApiServer
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.cluster.machines import Hardware
from tgp.sim.plain_boot import PlainBoot
from tools.live.asked import Asked

OURS, ACCOUNT = "tgp-system", "tgp-operator"
NAME = "live"  # of the class, the request and the pod
LIFE = "1h"  # the operator's own end of it; the walk is shorter
TOKEN_LASTS = timedelta(days=1)

Serve = Callable[[Handler], AbstractAsyncContextManager[Callable[[str], Http]]]


@dataclass(frozen=True, slots=True)
class Ways:
    """Of the walk to the world, and of the operator to its cluster."""

    clock: Clock
    entropy: Entropy
    dial: HttpFactory
    resolver: Resolver
    serve: Serve  # mounts a handler; returns a client for a given token


@asynccontextmanager
async def on_loopback(handler: Handler, clock: Clock) -> AsyncIterator[Callable[[str], Http]]:
    listening = await listen(handler)
    opened: list[HttpClient] = []

    def way(token: str) -> Http:
        headers = (("User-Agent", f"tgp/{__version__}"), ("Authorization", f"Bearer {token}"))
        opened.append(HttpClient(listening.url, clock, headers=headers))
        return opened[-1]

    try:
        yield way
    finally:
        for client in opened:
            await client.close()
        await listening.stop()


class LiveCluster:
    """Strangers are refused: the Secret in here holds a real key, and others may use this machine."""

    def __init__(self, asked: Asked, ways: Ways) -> None:
        self._asked = asked
        self.server = ApiServer(ways.clock, ways.entropy, unidentified=None)
        for definition in crds():
            self.server.local_api.create(CUSTOM_RESOURCE_DEFINITION, definition)
        for manifest in operator_rights():
            create_object(self.server, manifest)
        for manifest in (_secret(asked), _device_plugin(), _class(asked)):
            create_object(self.server, manifest)
        untrusted = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}  # whose host it is does not matter to a walk
        self.server.local_api.merge_patch(NAMESPACE, "", "default", untrusted)
        self._operator: asyncio.Task[None] | None = None
        self._machines = ControlPlane(self.server.core, Random(NAME), asyncio.get_running_loop())

    @property
    def prefix(self) -> str:
        """What every machine of this cluster carries, and no other cluster's."""
        kube_system = self.server.local_api.get(NAMESPACE, "", "kube-system")
        assert kube_system is not None, "every API server has one"
        return cluster_prefix(cluster_id(str(kube_system["metadata"]["uid"])))

    @asynccontextmanager
    async def operated(self, ways: Ways) -> AsyncIterator[None]:
        """The operator at work, while the block lasts."""
        account = self.server.local_api.get(SERVICE_ACCOUNT, OURS, ACCOUNT)
        assert account is not None, "the shipped rights name it"
        token, _ = self.server.authentication.issue(account, TOKEN_LASTS, ())
        async with ways.serve(self.server.handle) as way:
            outside = Environment(
                way(token),
                ways.clock,
                ways.entropy,
                NAME,
                OURS,
                Threads(),
                dial=ways.dial,
                resolver=ways.resolver,
                boot=PlainBoot(),
            )
            operator = Operator(Settings(namespace=OURS, listen=""), outside)
            self._operator = asyncio.create_task(operator.run())
            try:
                yield
                operator.stop()
                await self._operator
            finally:
                self._operator.cancel()
                await asyncio.gather(self._operator, return_exceptions=True)
                self._machines.close()

    def must_be_operated(self) -> None:
        """Raises what ended the operator, if something did."""
        assert self._operator is not None, "it was never started"
        if self._operator.done():
            self._operator.result()

    def order(self, offer: Offer) -> None:
        create_object(self.server, _request(self._asked, offer))
        create_object(self.server, _pod(offer))

    def delete(self) -> None:
        resource = resource_of(self.server, _kind("v1", "Pod"))
        if self.server.local_api.get(resource, "default", NAME) is not None:
            self.server.local_api.delete(resource, "default", NAME)
        if self.request is not None:
            self.server.local_api.delete(resource_of(self.server, _kind("tgp.io/v1", "GPURequest")), "default", NAME)

    def join(self, node: str, provider_id: str, offer: Offer) -> None:
        """The pretend kubelet."""
        gpus = {resource_name(offer.gpu): offer.gpu_count}
        self._machines.power_on(Hardware(node, devices=gpus, provider_id=provider_id))

    @property
    def request(self) -> dict[str, Any] | None:
        """None: it is gone."""
        return self.server.local_api.get(resource_of(self.server, _kind("tgp.io/v1", "GPURequest")), "default", NAME)

    @property
    def status(self) -> dict[str, Any]:
        return dict((self.request or {}).get("status", {}))

    @property
    def pod_runs(self) -> bool:
        pod = self.server.local_api.get(resource_of(self.server, _kind("v1", "Pod")), "default", NAME)
        return pod is not None and pod.get("status", {}).get("phase") == "Running"

    def spent(self) -> tuple[SpendEntry, ...]:
        """What the operator wrote down of the cost."""
        maps = self.server.local_api.objects(resource_of(self.server, _kind("v1", "ConfigMap")), OURS)
        return entries(maps)


def _kind(api_version: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind}


def _secret(asked: Asked) -> dict[str, Any]:
    key, variable = asked.counter.key, asked.counter.facts.key_variable
    held = {variable: key.reveal()} if key is not None and variable else {}
    return {**_kind("v1", "Secret"), "metadata": {"name": OPERATOR_SECRET, "namespace": OURS}, "stringData": held}


def _class(asked: Asked) -> dict[str, Any]:
    plain = msgspec.to_builtins(ProviderSettings())
    settings = {name: value for name, value in msgspec.to_builtins(asked.settings).items() if value != plain.get(name)}
    entry = {"name": asked.provider, **({"settings": settings} if settings else {})}
    return {
        **_kind("tgp.io/v1", "GPUNodeClass"),
        "metadata": {"name": NAME},
        "spec": {
            "providers": [entry],
            "networking": {"backend": "none"},
            "limits": {"maxNodes": 1, "maxHourlyCost": usd(asked.cap_microusd)},
        },
    }


def _request(asked: Asked, offer: Offer) -> dict[str, Any]:
    wanted = {
        "nodeClassRef": {"name": NAME},
        "provider": asked.provider,
        "gpuType": offer.gpu,
        "gpuCount": offer.gpu_count,
        "maxHourlyPrice": usd(asked.cap_microusd),
        "maxLifetime": LIFE,
        "terminationGracePeriod": "30s",
    }
    return {
        **_kind("tgp.io/v1", "GPURequest"),
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": wanted,
    }


def _pod(offer: Offer) -> dict[str, Any]:
    work = {"name": "work", "image": "any", "resources": {"limits": {resource_name(offer.gpu): "1"}}}
    return {
        **_kind("v1", "Pod"),
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"containers": [work], "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1},
    }


def _device_plugin() -> dict[str, Any]:
    labels = {"app": "nvidia-device-plugin"}
    pod = {"containers": [{"name": "plugin", "image": "k8s-device-plugin"}], "tolerations": [{"operator": "Exists"}]}
    return {
        **_kind("apps/v1", "DaemonSet"),
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
