"""An API server in memory under the shipped roles, the operator's writer before it, and views that a test fills."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tests.core.controllers.account_access import a_record, a_token, an_attempt
from tests.core.joining.requests import NODE, a_document
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.records.kinds import signing_requests
from tgp.adapters.kube.store import Store
from tgp.api.request import GPURequest
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, GPU_REQUEST, SECRET, Resource
from tgp.api.resource import NODE as NODES
from tgp.controllers.joining.csrs import SigningRequests
from tgp.controllers.joining.tokens import BootstrapTokens
from tgp.controllers.requests.indexes import INDEXES
from tgp.core.model.facts import Fact
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.core.model.signing import SigningRequest
from tgp.ports.http import Call, NoAnswer, Reply, Stream
from tgp.services.shipped import operator_rights
from tgp.sim.apiserver.identity import service_account
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.clock import WorldClock
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import VirtualLoop

TOKEN = a_token(1)
OPERATOR = "operators-own-token"
FOR = timedelta(minutes=15)


class Line:
    """To the server, as some user; `breaks` may lose an answer, or cut the line before."""

    def __init__(self, server: ApiServer, token: str) -> None:
        self._server = server
        self._token = token
        self.changes: list[tuple[str, str]] = []
        self.breaks: Callable[[Call], str] = lambda _call: ""

    async def send(self, call: Call) -> Reply:
        if call.changes_things:
            self.changes.append((call.method, call.path))
        how = self.breaks(call)
        if how == "before":
            raise NoAnswer("cut")
        headers = (*call.headers, ("Authorization", f"Bearer {self._token}"))
        reply = await self._server.handle(replace(call, headers=headers))
        assert isinstance(reply, Reply)
        if how == "after":
            raise NoAnswer("cut")
        return reply

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError


class CsrEnv:
    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = WorldClock(loop)
        self.server = ApiServer(self.clock, SeededEntropy(1, "server"), unidentified=None)
        self.server.authentication.add_token(OPERATOR, service_account("tgp-system", "tgp-operator"))
        for document in operator_rights():
            self.server.local_api.create(self._resource(document), document)
        self.asked: Store[SigningRequest] = Store(CERTIFICATE_SIGNING_REQUEST)
        self.requests: Store[KubeObject[GPURequest]] = Store(GPU_REQUEST, INDEXES)
        self.nodes: Store[Node] = Store(NODES)
        self.facts: list[Fact] = []
        self.learnt: list[Secret] = []
        self.judge = self.new_judge()

    def new_judge(self) -> SigningRequests:
        """Another replica, or the same one started again."""
        self.line = Line(self.server, OPERATOR)
        cluster = KubeCluster(self.line, SeededEntropy(2, "client"))
        self.tokens = BootstrapTokens(cluster, SeededEntropy(len(self.facts), "tokens"), self.clock, self.learnt.append)
        return SigningRequests(
            asked=self.asked,
            requests=self.requests,
            tokens=self.tokens,
            cluster=cluster,
            journal=self,
            clock=self.clock,
        )

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)

    def _resource(self, document: dict[str, Any]) -> Resource:
        group, _, version = document["apiVersion"].rpartition("/")
        served = next(
            each
            for each in self.server.registry
            if (each.group, each.version, each.kind) == (group, version, document["kind"])
        )
        return Resource(group, version, served.plural, served.kind, served.namespaced)

    # -- what is there

    def waits(self, number: int = 1, node: str = NODE, attempt: int = 1, **status: Any) -> None:
        """A GPURequest whose newest attempt is open, as our view shows it."""
        record = a_record(number, an_attempt(number, attempt))
        told = {**record.status, "nodeName": node, "phase": "Booting", **status}
        self.requests.put(
            msgspec.structs.replace(
                record, status_document=msgspec.json.encode(told), resource_version=self.server.store.revision + 1
            )
        )

    async def minted(self, token: str = TOKEN, node: str = NODE, lasts: timedelta = FOR) -> str:
        return (await self.tokens.mint(token, node, self.now + lasts)).reveal()

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def secret(self, token_id: str) -> dict[str, Any] | None:
        return self.server.local_api.get(SECRET, "kube-system", f"bootstrap-token-{token_id}")

    def data(self, token_id: str) -> dict[str, str]:
        stored = self.secret(token_id)
        assert stored is not None
        return {name: b64decode(value).decode() for name, value in stored["data"].items()}

    # -- who comes

    async def asks(self, bearer: str, name: str = "node-csr-1", document: bytes = b"", **spec: Any) -> Reply:
        """A client with a bootstrap token writes a request; our cache shows it at once."""
        body = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": b64encode(document or a_document()).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
                **spec,
            },
        }
        headers = (("Content-Type", "application/json"),)
        path = CERTIFICATE_SIGNING_REQUEST.path()
        reply = await Line(self.server, bearer).send(Call("POST", path, (), headers, msgspec.json.encode(body)))
        if reply.ok:
            self.show(name)
        return reply

    def show(self, name: str = "node-csr-1") -> None:
        line = {"type": "MODIFIED", "object": self.csr(name)}
        _, record = signing_requests().line(msgspec.json.encode(line), {})
        assert isinstance(record, SigningRequest)
        self.asked.put(record)

    def csr(self, name: str = "node-csr-1") -> dict[str, Any]:
        found = self.server.local_api.get(CERTIFICATE_SIGNING_REQUEST, "", name)
        assert found is not None
        return found

    async def turn(self, name: str = "node-csr-1") -> datetime | None:
        again = await self.judge.reconcile(ObjectKey("", name))
        if self.server.local_api.get(CERTIFICATE_SIGNING_REQUEST, "", name) is not None:
            self.show(name)
        return again

    def verdict(self, name: str = "node-csr-1") -> str:
        """Approved, or why not; empty: no verdict yet."""
        said = (self.csr(name).get("status") or {}).get("conditions") or ()
        return " ".join(row["type"] if row["type"] == "Approved" else row["reason"] for row in said)
