"""A small blocking client for what the harness itself asks of the API server; the product has its own."""

import http.client
import json
import ssl
import threading
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
    """JSON calls with the administrator's token.

    What only reads goes over one connection that is kept, and opened again where a server was restarted: tests look
    many times a second, and a handshake costs both sides more than the answer. What changes something gets a connection
    of its own: it must not be sent twice.
    """

    def __init__(self, url: str, authority: Path, token: str) -> None:
        address = urlsplit(url)
        assert address.hostname
        assert address.port
        self._host, self._port = address.hostname, address.port
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._token = token
        self._kept: http.client.HTTPSConnection | None = None
        self._in_turn = threading.Lock()  # who finds the kept one taken opens another

    def close(self) -> None:
        with self._in_turn:
            self._forget()

    def __del__(self) -> None:
        self._forget()

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
        if method == "GET" and self._in_turn.acquire(blocking=False):
            try:
                return self._look(path, within_s)
            finally:
                self._in_turn.release()
        connection = self._open(within_s)
        try:
            return self._exchange(connection, method, path, body)
        finally:
            connection.close()

    def _look(self, path: str, within_s: float) -> tuple[int, bytes]:
        if self._kept is not None and self._kept.sock is not None:
            self._kept.sock.settimeout(within_s)
            try:
                return self._exchange(self._kept, "GET", path, None)
            except TimeoutError:
                self._forget()
                raise
            except OSError:
                pass  # it was closed meanwhile: once more, on another
        self._forget()
        self._kept = self._open(within_s)
        try:
            return self._exchange(self._kept, "GET", path, None)
        except OSError:
            self._forget()
            raise

    def _open(self, within_s: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=within_s, context=self._tls)

    def _forget(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def _exchange(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
