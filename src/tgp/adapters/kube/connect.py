"""Connects to a real cluster: from a kubeconfig, or the pod's own account, to an authenticated `Http`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tgp import __version__
from tgp.adapters.clock import SystemClock
from tgp.adapters.compute import Threads
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.exec import SystemExec
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.config_connect import http_for
from tgp.adapters.kube.config_files import find_target
from tgp.adapters.resolver import SystemResolver
from tgp.core.classes.power_hosts import Address
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.compute import Compute
from tgp.ports.entropy import Entropy
from tgp.ports.http import Http
from tgp.ports.resolver import UnknownHost

OUTSIDE_NAMESPACE = "tgp-system"  # where the operator lives, seen from a kubeconfig


@dataclass(frozen=True, slots=True)
class Connection:
    http: Http
    clock: Clock
    entropy: Entropy
    server: str
    context: str  # empty: the pod's own account
    namespace: str  # the operator's: the pod's own, else the usual one
    addresses: tuple[Address, ...] = ()  # of the server; none: its name could not be resolved here
    home: str = "default"  # the context's own namespace: the default namespace of a user's objects
    compute: Compute = field(default_factory=Threads)

    @property
    def cluster(self) -> Cluster:
        """A writer without leadership: for the CLI."""
        return KubeCluster(self.http, self.entropy)


async def _addresses(server: str) -> tuple[Address, ...]:
    try:
        return await SystemResolver().resolve(urlsplit(server).hostname or "")
    except UnknownHost:
        return ()


@asynccontextmanager
async def connect(kubeconfig: str = "", context: str = "") -> AsyncIterator[Connection]:
    """Raises ConfigInvalid, naming the file and field, before anything is sent."""
    clock, entropy, compute = SystemClock(), SystemEntropy(), Threads()
    target = find_target(kubeconfig, context)
    http = http_for(target, clock, compute, SystemExec(), headers=(("User-Agent", f"tgp/{__version__}"),))
    namespace = OUTSIDE_NAMESPACE if target.context else target.namespace
    try:
        server = target.cluster.server
        addresses = await _addresses(server)
        yield Connection(http, clock, entropy, server, target.context, namespace, addresses, target.namespace, compute)
    finally:
        await http.close()
        compute.close()
