"""A stand-in for a kubelet: from the machine config in its user data to a Node of its own, over the real API.

It knows nothing but that config. Honest ones do as a kubelet does; whoever is not says what else he wants to be.
"""

import asyncio
import ssl
import tempfile
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import HttpClient
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, NODE
from tgp.core.model.signing import KUBELET_SIGNER
from tgp.ports.http import Call, Reply, json_call
from tgp.sim.talos_guest import TalosGuest
from tools.controlplane.certificates import Pair, signing_request
from tools.controlplane.nodes import fake_node

LOOKS = 200
STEP_S = 0.1
USAGES = ("digital signature", "client auth")


class Denied(Exception):
    """The certificate request was denied: the words of its condition."""


class Line:
    """To the API server, as whoever it is opened for."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer, whatever they are. A PATCH is a merge patch."""
        call = Call(method, path) if body is None else json_call(method, path, body)
        if method == "PATCH":
            headers = (("Content-Type", "application/merge-patch+json"),)
            call = Call(method, path, (), headers, msgspec.json.encode(body))
        reply: Reply = await self._http.send(call)
        return reply.status, msgspec.json.decode(reply.content)


IN_MESH, LOOPBACK = "control-plane.mesh.test", "127.0.0.1"


class FakeKubelet:
    def __init__(self, told: TalosGuest) -> None:
        self.told = told

    @asynccontextmanager
    async def bearing_the_token(self) -> AsyncIterator[Line]:
        headers = (("Authorization", f"Bearer {self.told.token}"),)
        http = HttpClient(self.told.endpoint, SystemClock(), tls=self._tls(), headers=headers, **self._way())
        try:
            yield Line(http)
        finally:
            await http.close()

    @asynccontextmanager
    async def certified(self, pair: Pair) -> AsyncIterator[Line]:
        tls = self._tls()
        with tempfile.NamedTemporaryFile() as chain:
            chain.write(pair.certificate + pair.key)
            chain.flush()
            tls.load_cert_chain(chain.name)
        http = HttpClient(self.told.endpoint, SystemClock(), tls=tls, **self._way())
        try:
            yield Line(http)
        finally:
            await http.close()

    def _way(self) -> dict[str, str]:
        """Here the mesh is this host: a name in it leads to the loopback address, which the certificate names."""
        in_mesh = urlsplit(self.told.endpoint).hostname == IN_MESH
        return {"address": LOOPBACK, "server_name": LOOPBACK} if in_mesh else {}

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.told.authority.decode())

    async def bootstraps(
        self,
        *,
        user: str = "",
        groups: tuple[str, ...] = ("system:nodes",),
        names: tuple[str, ...] = (),
        usages: tuple[str, ...] = USAGES,
    ) -> Pair:
        """A certificate, and the key that it is for. Raises Denied; PermissionError where the token opens nothing."""
        asked = signing_request(user or f"system:node:{self.told.node}", groups, names)
        request = f"node-csr-{sha256(asked.certificate).hexdigest()[:32]}"
        async with self.bearing_the_token() as line:
            await self._ask(line, request, asked, usages)
            certificate = await self._wait(line, request)
        return Pair(certificate, asked.key)

    async def _ask(self, line: Line, name: str, asked: Pair, usages: tuple[str, ...]) -> None:
        spec = {"request": b64encode(asked.certificate).decode(), "signerName": KUBELET_SIGNER, "usages": list(usages)}
        body = {
            "apiVersion": CERTIFICATE_SIGNING_REQUEST.api_version,
            "kind": CERTIFICATE_SIGNING_REQUEST.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        status = 0
        for _ in range(LOOKS // 4):  # a token that was just made is not known yet, nor is a role
            status, _answer = await line.call("POST", CERTIFICATE_SIGNING_REQUEST.path(), body)
            if status not in (401, 403):
                break
            await asyncio.sleep(STEP_S)
        if status != 201:
            raise PermissionError(f"{status} for a certificate request")

    async def _wait(self, line: Line, name: str) -> bytes:
        for _ in range(LOOKS):
            status, found = await line.call("GET", CERTIFICATE_SIGNING_REQUEST.path("", name))
            assert status == 200, found
            said = found.get("status", {})
            for condition in said.get("conditions", ()):
                if condition["type"] in ("Denied", "Failed"):
                    raise Denied(f"{condition['reason']}: {condition['message']}")
            if "certificate" in said:
                return b64decode(said["certificate"])
            await asyncio.sleep(STEP_S)
        raise AssertionError(f"nobody answered {name}")

    async def registers(
        self, line: Line, capacity: Mapping[str, str] | None = None, address: str = "", **labels: str
    ) -> tuple[int, Any]:
        """As a kubelet does; by the annotation KWOK knows whom to keep alive."""
        node = fake_node(self.told.node, capacity, self.told.labels | labels)
        node["spec"] = {"providerID": self.told.provider_id, "taints": list(self.told.taints)}
        if address:
            node["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
        return await line.call("POST", NODE.path(), node)
