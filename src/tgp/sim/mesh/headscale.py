"""A simulated Headscale: 0.29 with its own API v1, or 0.30 with Tailscale's shapes beside it."""

from dataclasses import replace
from datetime import datetime, timedelta
from http import HTTPStatus
from random import Random
from typing import Any

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Reply
from tgp.sim.mesh.mesh_faults import MeshVerb
from tgp.sim.mesh.server import JSON, RETRY_AFTER
from tgp.sim.mesh.tailnet import AuthKey, Seat, Tailnet
from tgp.sim.mesh.v2 import OAuthClient, V2Server, answer, problem

INACTIVITY = (timedelta(minutes=30), timedelta(minutes=30))  # node.ephemeral.inactivity_timeout
UNAUTHORIZED = Reply(401, b"Unauthorized", (("Content-Type", "text/plain; charset=utf-8"),))
NO_PAGE = Reply(404, b"404 page not found\n", (("Content-Type", "text/plain; charset=utf-8"),))
UNKNOWN, INVALID, NOT_FOUND = 2, 3, 5  # codes of gRPC
STATUS = {UNKNOWN: 500, INVALID: 400, NOT_FOUND: 404}


class HeadscaleSimulator(V2Server):
    """`api_key` opens everything. `minor`: 29, or 30 and above for the v2 shapes too, and for errors in RFC 7807.

    `without_v2`: as a 0.30 behind something that lets v1 through alone.
    """

    tells_tags = False

    def __init__(self, clock: Clock, seed: int | str, *, minor: int = 29, without_v2: bool = False) -> None:
        tailnet = Tailnet(
            clock, seed, domain="tail.example.com", key_prefix="hskey-auth-", lingering=INACTIVITY, in_order=True
        )
        super().__init__(clock, seed, tailnet)
        self.minor = minor
        self._without_v2 = without_v2
        self.api_key = f"hskey-api-{Random(f'{seed}/headscale').randrange(16**40):040x}"
        self._admin = OAuthClient("admin", "", scopes=("all",), tags=())

    @property
    def has_v2(self) -> bool:
        return self.minor >= 30 and not self._without_v2

    def problem(self, code: int, message: str, doing: str = "") -> Reply:
        """An error of v1: gRPC's up to 0.29; from 0.30 on a problem document, which has `doing` and then the cause."""
        return rfc_problem(STATUS[code], doing or message, message) if self.minor >= 30 else grpc_problem(code, message)

    def verb_of(self, call: Call) -> MeshVerb:
        match (call.method, call.path.split("/")[1:]):
            case ("POST", ["api", "v1", "preauthkey"]):
                return MeshVerb.MINT
            case ("GET", ["api", "v1", "preauthkey"]):
                return MeshVerb.KEYS
            case ("POST", ["api", "v1", "preauthkey", "expire"]) | ("DELETE", ["api", "v1", "preauthkey"]):
                return MeshVerb.REVOKE
            case ("GET", ["api", "v1", "node"]):
                return MeshVerb.LIST
            case ("DELETE", ["api", "v1", "node", _]):
                return MeshVerb.DELETE
            case _:
                return super().verb_of(call) if self.has_v2 else MeshVerb.OTHER

    def route(self, call: Call, verb: MeshVerb) -> Reply:
        if call.path == "/version":
            return answer({"version": f"v0.{self.minor}.3", "commit": "", "buildTime": "", "dirty": False})
        if call.path.startswith("/api/v2/") and self.has_v2:
            return _with_status(super().route(call, verb))
        if not call.path.startswith("/api/"):
            return NO_PAGE
        if call.header("Authorization") != f"Bearer {self.api_key}":
            return UNAUTHORIZED
        return self._v1(call) if call.path.startswith("/api/v1/") else NO_PAGE

    def visitor(self, call: Call) -> OAuthClient | None:
        if call.header("Authorization") == f"Bearer {self.api_key}":
            return self._admin
        return super().visitor(call)

    def refused_tags(self, tags: tuple[str, ...], client: OAuthClient) -> Reply | None:
        """An administrator's key gives any tag; a client what it has, or owns by the policy."""
        if client is self._admin:
            return None if tags else problem(400, "an auth key without tags must be created with a user-owned API key")
        for tag in tags:
            if tag not in self.tag_owners:
                return problem(400, f"tag {tag} is not defined in policy")
            if tag not in client.tags and not self.tag_owners[tag] & set(client.tags):
                return problem(403, f"token may not assign tag {tag}")
        return None if tags else problem(403, "an OAuth client must create tagged auth keys")

    def stranger(self) -> Reply:
        body = {"error": "invalid_client", "error_description": "invalid client credentials"}
        return Reply(401, msgspec.json.encode(body), JSON)

    # -- its own API v1 ------------------------------------------------------------------------------------------------

    def _v1(self, call: Call) -> Reply:
        match (call.method, call.path.split("/")[3:]):
            case ("POST", ["preauthkey"]):
                return self._make_key(call)
            case ("GET", ["preauthkey"]):
                return answer({"preAuthKeys": [self._pre_auth_key(key) for key in self.tailnet.keys.values()]})
            case ("POST", ["preauthkey", "expire"]):
                return self._expire_key(call)
            case ("DELETE", ["preauthkey"]):
                return self._delete_key(call.parameter("id"))
            case ("GET", ["node"]):
                return answer({"nodes": [self._node(seat) for seat in self.tailnet.devices()]})
            case ("DELETE", ["node", node_id]):
                return answer({}) if self.tailnet.remove(node_id) else self.problem(NOT_FOUND, "node not found")
            case _:
                return self.problem(NOT_FOUND, "Not Found")

    def _make_key(self, call: Call) -> Reply:
        body = _body(call)
        tags = body.get("aclTags") or []
        if body.get("user") not in (None, "0", 0):
            return self.problem(UNKNOWN, "user not found")
        for tag in tags:
            if not str(tag).startswith("tag:"):
                return self.problem(INVALID, "tag must start with the string 'tag:'")
        if not tags:
            return self.problem(UNKNOWN, "auth-key must be either tagged or owned by user")
        try:
            ends_at = datetime.fromisoformat(body["expiration"])
        except (KeyError, TypeError, ValueError):
            return self.problem(INVALID, "proto: invalid value for google.protobuf.Timestamp")
        key = self.tailnet.issue(
            tuple(sorted(set(tags))),
            reusable=bool(body.get("reusable")),
            ephemeral=bool(body.get("ephemeral")),
            lasts=ends_at - self.clock.now(),
        )
        return answer({"preAuthKey": self._pre_auth_key(key) | {"key": key.secret}})

    def _expire_key(self, call: Call) -> Reply:
        """Up to 0.29 it succeeds for a key that is not there, too."""
        if not self.tailnet.revoke(str(_body(call).get("id", ""))) and self.minor >= 30:
            return self.problem(NOT_FOUND, "record not found", "expiring pre-auth key")
        return answer({})

    def _delete_key(self, key_id: str) -> Reply:
        """Its nodes do not remember it any more, and with it that they were ephemeral."""
        if self.tailnet.keys.pop(key_id, None) is None and self.minor >= 30:
            return self.problem(NOT_FOUND, "record not found", "deleting pre-auth key")
        for seat in self.tailnet.devices():
            if seat.key_id == key_id:
                seat.key_id, seat.ephemeral, seat.ends_at = "", False, None
        return answer({})

    def _pre_auth_key(self, key: AuthKey) -> dict[str, Any]:
        return {
            "user": None,
            "id": key.id,
            "key": f"{key.secret[:20]}-***",
            "reusable": key.reusable,
            "ephemeral": key.ephemeral,
            "used": key.used > 0,
            "expiration": _stamp(key.revoked_at or key.expires_at),
            "createdAt": _stamp(key.created_at),
            "aclTags": list(key.tags),
        }

    def _node(self, seat: Seat) -> dict[str, Any]:
        key = self.tailnet.keys.get(seat.key_id)
        return {
            "id": seat.id,
            "ipAddresses": list(seat.addresses),
            "name": seat.hostname,
            "givenName": seat.label,
            "user": {"id": "2147455555", "name": "tagged-devices"},
            "lastSeen": _stamp(seat.last_seen or self.clock.now()),
            "preAuthKey": self._pre_auth_key(key) if key is not None else None,
            "createdAt": _stamp(seat.created_at),
            "registerMethod": "REGISTER_METHOD_AUTH_KEY",
            "online": seat.online,
            "approvedRoutes": [],
            "availableRoutes": [],
            "subnetRoutes": [],
            "tags": list(seat.tags),
        }

    def device_row(self, seat: Seat) -> dict[str, Any]:
        """As its v2 shows it: numbers for ids, a short name, and `lastSeen` only of one that is away."""
        row = super().device_row(seat)
        row.pop("connectedToControl")
        return row | {"id": seat.id, "nodeId": seat.id, "name": seat.label, "tags": list(seat.tags)}

    def busy(self) -> Reply:
        """Headscale has no limits of its own; what stands before it has."""
        headers = (("Retry-After", str(int(RETRY_AFTER.total_seconds()))), ("Content-Type", "text/plain"))
        return Reply(429, b"Too Many Requests\n", headers)

    def failure(self) -> Reply:
        said = "database is locked"
        return problem(500, said) if self.has_v2 else self.problem(UNKNOWN, said, "listing nodes")

    def unknown(self) -> Reply:
        return problem(404, "node not found") if self.has_v2 else self.problem(NOT_FOUND, "node not found")


def rfc_problem(status: int, detail: str, why: str) -> Reply:
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, "errors": [{"message": why}]}
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/problem+json"),))


def _with_status(reply: Reply) -> Reply:
    """Its v2 writes errors as Tailscale does, and their status beside."""
    if reply.ok or reply.header("Content-Type") != JSON[0][1]:
        return reply
    body = msgspec.json.decode(reply.content)
    return replace(reply, content=msgspec.json.encode({"status": reply.status, **body}))


def grpc_problem(code: int, message: str) -> Reply:
    return Reply(STATUS[code], msgspec.json.encode({"code": code, "message": message, "details": []}), JSON)


def _body(call: Call) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(call.body)
    except NO_JSON:
        return {}
    return body if isinstance(body, dict) else {}


def _stamp(moment: datetime) -> str:
    """As protobuf writes it, with nanoseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}000Z"
