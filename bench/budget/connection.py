"""One connection for many calls of a benchmark: opening one takes longer than a call."""

import contextlib
import http.client
import json
import ssl
import time
from typing import Any, Self
from urllib.parse import urlsplit

from tools.controlplane.plane import ControlPlane

PATIENCE_S = 30.0


class NotReached(Exception):
    """The API server does not answer."""


class Connection:
    """Not for several threads at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        address = urlsplit(plane.url)
        tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._line = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=PATIENCE_S, context=tls)
        self._token = plane.admin_token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Raises NotReached without an answer. An answer that is an error is a failure of the benchmark."""
        status, content = self.ask(method, path, body)
        assert status < 400, f"{method} {path}: {status} {content[:300]!r}"
        answer: dict[str, Any] = json.loads(content or b"{}")
        return answer

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        content = json.dumps(body) if body is not None else None
        for last in (False, True):  # a server that was stopped has closed the connection
            try:
                self._line.request(method, path, content, headers)
                reply = self._line.getresponse()
                return reply.status, reply.read()
            except (OSError, http.client.HTTPException) as error:
                self._line.close()
                if last:
                    raise NotReached(str(error)) from error
        raise AssertionError("unreachable")

    def listed(self, path: str) -> tuple[float, list[dict[str, Any]]]:
        """When it was asked for, and the objects."""
        now = time.time()
        status, content = self.ask("GET", f"{path}?resourceVersion=0")
        if status >= 400:  # an API server that has just started
            raise NotReached(content[:300].decode(errors="replace"))
        return now, json.loads(content)["items"]

    def counted(self, metric: str, *labels: str) -> float:
        """The sum of a metric of the API server over all series that have these labels."""
        with contextlib.suppress(NotReached):
            lines = self.ask("GET", "/metrics")[1].decode().splitlines()
            found = [line for line in lines if line.startswith(metric) and all(label in line for label in labels)]
            return sum(float(line.rsplit(" ", 1)[1]) for line in found)
        return 0.0
