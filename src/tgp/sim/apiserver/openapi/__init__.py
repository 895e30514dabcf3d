"""OpenAPI v3 and v2: what `kubectl explain`, `apply` and `--validate` read before they act.

v3 is an index of one document per group and version, each address carrying a hash of its content; v2 is one document
for everything, as JSON or, which is all that kubectl understands, as protobuf.
"""

import hashlib
from typing import Any

import msgspec

from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.apiserver.openapi.document import document_v3
from tgp.sim.apiserver.openapi.v2 import document_v2
from tgp.sim.apiserver.openapi.v2_protobuf import encode_v2
from tgp.sim.apiserver.registry import Registry

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_V2_PROTOBUF_ANSWER = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_A_YEAR_SECONDS = 31_536_000


class OpenApi:
    """Answers /openapi/v2 and everything below /openapi/v3, from the registry as it is now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, Reply] = {}  # emptied when the registry changes
        self._made_at = registry.changes

    def answer(self, call: Call) -> Reply | None:
        """The document at this path; None: the path is none of ours, or no such group and version is served."""
        if call.method not in {"GET", "HEAD"} or not call.path.startswith("/openapi/"):
            return None
        if self._made_at != self._registry.changes:
            self._made, self._made_at = {}, self._registry.changes
        path = call.path.removeprefix("/openapi/").rstrip("/")
        reply: Reply | None
        if path == "v2":
            reply = self._v2(protobuf=V2_PROTOBUF in call.header("Accept"))
        elif path == "v3":
            reply = self._index()
        else:
            reply = self._group_version(path.removeprefix("v3/"))
        if reply is None:
            return None
        if reply.header("ETag") and call.header("If-None-Match") == reply.header("ETag"):
            return Reply(304, b"", reply.headers)
        if call.parameter("hash") and f'"{call.parameter("hash")}"' == reply.header("ETag"):
            return Reply(reply.status, reply.content, (*reply.headers, *_FOREVER))
        return reply

    def _index(self) -> Reply:
        paths = {}
        for served in self._registry:
            place = f"apis/{served.group}/{served.version}" if served.group else f"api/{served.version}"
            if place not in paths:
                tag = _known(self._group_version(place)).header("ETag").strip('"')
                paths[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={tag}"}
        return _tagged(msgspec.json.encode({"paths": paths}), "application/json")

    def _group_version(self, place: str) -> Reply | None:
        if place not in self._made:
            made = self._make(place)
            if made is None:
                return None
            self._made[place] = made
        return self._made[place]

    def _make(self, place: str) -> Reply | None:
        match place.split("/"):
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                return None
        served = [one for one in self._registry if (one.group, one.version) == (group, version)]
        return _tagged(msgspec.json.encode(document_v3(served)), "application/json") if served else None

    def _v2(self, *, protobuf: bool) -> Reply:
        key = "v2+protobuf" if protobuf else "v2"
        if key not in self._made:
            document: dict[str, Any] = document_v2(tuple(self._registry))
            if protobuf:
                self._made[key] = _tagged(encode_v2(document), _V2_PROTOBUF_ANSWER)
            else:
                self._made[key] = _tagged(msgspec.json.encode(document), "application/json")
        return self._made[key]


_FOREVER: Pairs = (("Cache-Control", f"public, immutable, max-age={_A_YEAR_SECONDS}"),)


def _known(reply: Reply | None) -> Reply:
    assert reply is not None, "a served group and version has a document"
    return reply


def _tagged(content: bytes, content_type: str) -> Reply:
    tag = hashlib.sha512(content).hexdigest().upper()
    return Reply(200, content, (("Content-Type", content_type), ("ETag", f'"{tag}"'), ("Vary", "Accept")))
