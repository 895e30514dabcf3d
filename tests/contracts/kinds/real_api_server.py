"""The real API server's verdict on a manifest, by dry run. Several at a time, each thread on one connection."""

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tgp.api.kinds import Kind
from tools.controlplane.plane import ControlPlane, Wanted

CALLERS = 8  # the API server answers a dry run in some 5 ms of its own time
ANSWER_BOUND_S = 30
DRY = "?dryRun=All&fieldValidation=Strict"
T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]
    warnings: tuple[str, ...] = ()  # texts of the headers

    @property
    def accepted(self) -> bool:
        return self.status in (200, 201)

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """(field, reason, message) of each cause."""
        causes = self.body.get("details", {}).get("causes", [])
        return [(cause.get("field", ""), cause.get("reason", ""), cause.get("message", "")) for cause in causes]


class RealApiServer:
    """Speaks to one API server as its administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.newest = plane.wanted.version == Wanted().version
        self._address = urlsplit(plane.url)
        self._tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._token = plane.admin_token
        self._own = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, *, user: str = "") -> Answer:
        """`user`: as whom; empty: as the administrator."""
        connection = self._connection()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if user:
            headers["Impersonate-User"] = user
        connection.request(method, path, json.dumps(body).encode() if body is not None else None, headers)
        reply = connection.getresponse()
        content = reply.read()
        if reply.headers.get_content_type() != "application/json":  # a path that is not served yet: 404, in words
            return Answer(reply.status, {"message": content.decode()})
        return Answer(reply.status, json.loads(content), tuple(reply.headers.get_all("Warning") or ()))

    def try_create(self, kind: Kind, manifest: dict[str, Any], *, user: str = "") -> Answer:
        return self.call("POST", kind.resource.path(_namespace(manifest)) + DRY, manifest, user=user)

    def try_update(self, kind: Kind, manifest: dict[str, Any]) -> Answer:
        name = manifest["metadata"]["name"]
        return self.call("PUT", kind.resource.path(_namespace(manifest), name) + DRY, manifest)

    def create(self, kind: Kind, manifest: dict[str, Any]) -> dict[str, Any]:
        answer = self.call("POST", kind.resource.path(_namespace(manifest)) + "?fieldValidation=Strict", manifest)
        assert answer.accepted, answer.message
        return answer.body

    def delete(self, kind: Kind, manifest: dict[str, Any]) -> None:
        self.call("DELETE", kind.resource.path(_namespace(manifest), manifest["metadata"]["name"]))

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        found: http.client.HTTPSConnection | None = getattr(self._own, "connection", None)
        if found is None:
            host, port = self._address.hostname, self._address.port
            assert host
            found = http.client.HTTPSConnection(host, port, timeout=ANSWER_BOUND_S, context=self._tls)
            self._own.connection = found
            self._connections.append(found)
        return found


def side_by_side(work: Callable[[A], T], items: Iterable[A]) -> Iterator[T]:
    """In the order of the items, whatever finishes first."""
    with ThreadPoolExecutor(CALLERS) as pool:
        yield from pool.map(work, items)


def _namespace(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"].get("namespace", ""))
