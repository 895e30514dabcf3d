"""What is asked of etcd itself, behind the API server's back: JSON to its gateway, on its socket."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

ANSWER_BOUND_S = 10


class _OnSocket(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("etcd", timeout=ANSWER_BOUND_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def compact(socket_path: Path) -> int:
    """Forget every revision but the newest, as the API server itself asks for every five minutes; gives that one."""
    newest = int(_ask(socket_path, "/v3/maintenance/status", {})["header"]["revision"])
    _ask(socket_path, "/v3/kv/compaction", {"revision": newest, "physical": True})
    return newest


def _ask(socket_path: Path, path: str, body: dict[str, Any]) -> dict[str, Any]:
    connection = _OnSocket(socket_path)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
    finally:
        connection.close()
    assert reply.status == 200, f"etcd refused {path}: {content[:300]!r}"
    answer: dict[str, Any] = json.loads(content)
    return answer
