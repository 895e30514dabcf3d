"""A user at a terminal, in a world whose machines boot Talos and join by a tailnet."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner, Result

from tests.sim.an_operator import NAMESPACE_NAME
from tgp.adapters.clouds.registry import AllClouds, facts_of
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.connect import Connection
from tgp.adapters.mesh.registry import AllMeshes
from tgp.api.resource import NAMESPACE
from tgp.app.cli_context import NotConnected
from tgp.app.main import tgp
from tgp.core.model.identity import cluster_id
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Call, Http, Reply
from tgp.services.cluster import ClusterService
from tgp.services.setup import SetupService
from tgp.services.talos import TalosService
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import KUBERNETES, World

PROXY = "/proxy/healthz"
REVIEWS = "/selfsubjectaccessreviews"


class Kubelets:
    """The API server, and the way to kubelets that it has and the one in memory does not. May refuse reads, too."""

    def __init__(self, http: Http, answer: Reply, forbidden: str) -> None:
        self._http = http
        self._answer = answer
        self._forbidden = forbidden

    async def send(self, call: Call) -> Reply:
        if call.path.endswith(PROXY):
            return self._answer
        if self._forbidden and call.path.endswith(REVIEWS):
            allowed = self._forbidden.removeprefix("/") not in (call.body or b"").decode()
            return Reply(201, json.dumps({"status": {"allowed": allowed}}).encode())
        if self._forbidden and self._forbidden in call.path:
            return refusal(403, f'User "ada" cannot get resource at {call.path}')
        return await self._http.send(call)

    def __getattr__(self, name: str) -> object:
        return getattr(self._http, name)


def refusal(status: int, message: str) -> Reply:
    """As the API server writes one."""
    body = {"kind": "Status", "code": status, "reason": "Forbidden", "message": message}
    return Reply(status, json.dumps(body).encode())


class Person:
    """The services of the command line, on the simulated network."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kubelet = Reply(200, b"ok")  # what the API server says of the way to one
        self.forbidden = ""  # a part of a path that may not be read

    @asynccontextmanager
    async def cluster(self, _kubeconfig: str, _context: str, namespace: str) -> AsyncIterator[ClusterService]:
        clock, entropy, http = self.world.clock, SeededEntropy(self.world.seed, "person"), self._http()
        cluster, dial = KubeCluster(http, entropy), Dialler(self.world.network, self.world.clock)
        kube_system = self.world.api.local_api.get(NAMESPACE, "", "kube-system")
        yield ClusterService(
            http,
            cluster,
            clock,
            AllClouds(dial, clock, entropy, self.world.resolver),
            namespace=namespace or NAMESPACE_NAME,
            context="cellar",
            identity=cluster_id(kube_system["metadata"]["uid"]),
            meshes=AllMeshes(dial, clock, entropy, cluster, namespace=NAMESPACE_NAME),
        )

    facts = staticmethod(facts_of)

    @asynccontextmanager
    async def talos(self, _kubeconfig: str, _context: str, namespace: str) -> AsyncIterator[TalosService]:
        http = self._http()
        try:
            yield TalosService(http, KubeCluster(http, SeededEntropy(1, "person")), namespace or NAMESPACE_NAME)
        except ClusterError as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def setup(self, _kubeconfig: str, _context: str, namespace: str) -> AsyncIterator[SetupService]:
        world = self.world
        entropy = SeededEntropy(world.seed, "person")
        connection = Connection(
            self._http(), world.clock, entropy, "https://cellar:6443", "cellar", NAMESPACE_NAME, compute=world.compute
        )
        dial = Dialler(world.network, world.clock)
        yield SetupService(connection, namespace or NAMESPACE_NAME, dial, world.resolver)

    def _http(self) -> Http:
        return Kubelets(self.world.visitor(KUBERNETES), self.kubelet, self.forbidden)

    def tgp(self, *words: str, typed: str = "", given: str = "") -> Result:
        """`typed`: answers to questions, on a terminal; `given`: standard input, without one."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "run", self.world.until)
            patch.setattr("tgp.app.cli_context.CliContext", lambda _world: self)
            patch.setattr("tgp.interfaces.cli.confirm.interactive", lambda: bool(typed))
            patch.setenv("COLUMNS", "160")
            return CliRunner().invoke(tgp, words, input=typed or given)
