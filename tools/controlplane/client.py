"""A small blocking client for what the harness itself asks of the API server; the product has its own."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ANSWER_BOUND_S = 10
SHOWN = 500  # bytes of an error: enough for the message of a Status object


class Refused(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class AdminClient:
    """JSON calls with the administrator's token; one connection per call, so that a restarted server is no matter."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        address = urlsplit(url)
        assert address.hostname
        assert address.port
        self._host, self._port = address.hostname, address.port
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._token = token

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Raises OSError when there is no answer and Refused when the answer is an error. A PATCH is a merge patch."""
        status, content = self.ask(method, path, json.dumps(body).encode() if body is not None else None)
        if status >= 400:
            raise Refused(status, content[:SHOWN].decode(errors="replace"))
        answer: dict[str, Any] = json.loads(content or b"{}")
        return answer

    def ask(
        self, method: str, path: str, body: bytes | None = None, within_s: float = ANSWER_BOUND_S
    ) -> tuple[int, bytes]:
        """Status and body, whatever they are."""
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=within_s, context=self._tls)
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
