"""Values to calls and answers to values, for Headscale's own API v1 (0.28 and 0.29). No I/O."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tgp.adapters.clouds.parse import ParseError, identifier, moment, shown, whatever_came
from tgp.adapters.mesh.control_server import Minted
from tgp.adapters.mesh.membership import Member
from tgp.adapters.mesh.parse import mapping_of, rows_of
from tgp.adapters.mesh.tailscale.tokens import is_fit
from tgp.adapters.mesh.tailscale.wire import addresses_of, text_of, texts_of
from tgp.core.model.mesh import Device
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, Reply, json_call
from tgp.ports.mesh import MeshBusy

BASE = "/api/v1"
NUMBER = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
OLDEST = (0, 28)  # a key with tags needs no user from here on, and can be expired by its id


def probe() -> Call:
    """Known to Headscale from 0.30 on; older releases answer 404."""
    return Call("GET", "/api/v2/tailnet/-/keys")


def version() -> Call:
    return Call("GET", "/version")


def mint(expires_at: datetime, *, ephemeral: bool, tags: tuple[str, ...]) -> Call:
    body = {
        "reusable": False,
        "ephemeral": ephemeral,
        "expiration": expires_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "aclTags": list(tags),
    }
    return json_call("POST", f"{BASE}/preauthkey", body)


def expire_key(key_id: str) -> Call:
    return json_call("POST", f"{BASE}/preauthkey/expire", {"id": key_id})


def delete_key(key_id: str) -> Call:
    return Call("DELETE", f"{BASE}/preauthkey", query=(("id", key_id),))


def nodes() -> Call:
    return Call("GET", f"{BASE}/node")


def delete_node(node_id: str) -> Call:
    return Call("DELETE", f"{BASE}/node/{quote(node_id, safe='')}")


def read_key(reply: Reply, title: str) -> Minted:
    row = mapping_of(reply, title, "the new key").get("preAuthKey")
    key = row.get("key") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not is_fit(key) or "*" in str(key):
        raise MeshBusy(f"{title} created a key and did not return it")
    try:
        return Minted(identifier(row.get("id")), Secret(str(key)))
    except ParseError as error:
        raise MeshBusy(f"{title} created a key without an id") from error


def read_nodes(reply: Reply, title: str) -> tuple[Member, ...]:
    """All nodes. One unreadable node fails the list: it could be the wanted one."""
    rows = rows_of(mapping_of(reply, title, "the list of nodes"), "nodes", title)
    try:
        return tuple(_member(row) for row in rows)
    except ParseError as error:
        raise MeshBusy(f"{title} listed a node that cannot be parsed: {error}") from error


def _member(row: dict[str, Any]) -> Member:
    hostname = row.get("name")
    if not isinstance(hostname, str):
        raise ParseError(f"name is not a string: {shown(hostname)}")
    key, online = row.get("preAuthKey"), row.get("online")
    device = Device(
        id=identifier(row.get("id")),
        hostname=hostname,
        name=text_of(row.get("givenName")),
        addresses=addresses_of(row.get("ipAddresses")),
        tags=texts_of(row.get("tags")),
        created_at=moment(row.get("createdAt") or None, "createdAt"),
        online=online if isinstance(online, bool) else None,
        last_seen=moment(row.get("lastSeen") or None, "lastSeen"),
    )
    return Member(device, identifier(key.get("id"), "preAuthKey.id") if isinstance(key, dict) else "")


def read_version(reply: Reply) -> tuple[int, int] | None:
    """None: unknown, or a custom build."""
    body = whatever_came(reply)
    told = body.get("version") if reply.status == 200 and isinstance(body, dict) else None
    found = NUMBER.match(told) if isinstance(told, str) else None
    return (int(found[1]), int(found[2])) if found else None
