"""The truth: the suite's line to a real kube-apiserver on etcd."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contracts.apiserver.run import Host
from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import ConnectionPool, HttpClient
from tools.controlplane.plane import ControlPlane

AT_ONCE = 12  # cases side by side: more only queue up inside the server on two cores
ETCD_BOUND_S = 10.0
ETCD_ANSWER_BYTES = 1 << 16


class RealServer:
    """What cases may do to the machine under the real API."""

    def __init__(self, plane: ControlPlane) -> None:
        self._socket = str(plane.directory / "etcd.sock")

    async def compact(self) -> None:
        """Compact etcd up to its newest revision, as the API server itself does every five minutes."""
        status = await asyncio.to_thread(self._etcd, "/v3/maintenance/status", {})
        newest = status["header"]["revision"]
        await asyncio.to_thread(self._etcd, "/v3/kv/compaction", {"revision": newest, "physical": True})

    def _etcd(self, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        """One JSON call to etcd's gateway on its socket."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ETCD_BOUND_S)
            line.connect(self._socket)
            line.sendall(head + content)
            answer = b""
            while piece := line.recv(ETCD_ANSWER_BYTES):
                answer += piece
        first, _, rest = answer.partition(b"\r\n\r\n")
        assert b" 200 " in first.split(b"\r\n")[0], f"etcd refused {path}: {answer[:300]!r}"
        found: dict[str, dict[str, str]] = json.loads(rest)
        return found


@asynccontextmanager
async def real_host(plane: ControlPlane) -> AsyncIterator[Host]:
    tls = ssl.create_default_context(cafile=str(plane.ca_file))
    headers = (("Authorization", f"Bearer {plane.admin_token}"),)
    pool = ConnectionPool(connections=4 * AT_ONCE, fresh_for_changes=False)
    http = HttpClient(plane.url, SystemClock(), tls=tls, headers=headers, pool=pool)
    try:
        yield Host(http, RealServer(plane), AT_ONCE)
    finally:
        await http.close()
