"""Values to calls and answers to values, for API v2 in Tailscale's shapes. No I/O."""

from datetime import timedelta
from math import ceil
from typing import Any
from urllib.parse import quote

from tgp.adapters.clouds.parse import ParseError, address, identifier, moment, shown
from tgp.adapters.mesh.control_server import Minted
from tgp.adapters.mesh.membership import Member
from tgp.adapters.mesh.parse import mapping_of, rows_of
from tgp.adapters.mesh.tailscale.tokens import is_fit
from tgp.core.model.mesh import Device
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, Reply, json_call
from tgp.ports.mesh import JoinRequest, MeshBusy

TAILNET = "/api/v2/tailnet/-"  # the tailnet that the credentials belong to
DESCRIPTION_LONGEST = 50
TAIL_KEPT = 12  # characters at the end of a node's name: the unique part


def mint(join_request: JoinRequest, lasts: timedelta, *, ephemeral: bool, tags: tuple[str, ...]) -> Call:
    create = {"reusable": False, "ephemeral": ephemeral, "preauthorized": True, "tags": list(tags)}
    body = {
        "capabilities": {"devices": {"create": create}},
        "expirySeconds": ceil(lasts.total_seconds()),
        "description": description(join_request.node_name),
    }
    return json_call("POST", f"{TAILNET}/keys", body)


def description(name: str) -> str:
    """Of letters, digits, hyphens and spaces; of a long name the beginning and the end."""
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in name).strip("-")
    if len(plain) <= DESCRIPTION_LONGEST:
        return plain
    return plain[: DESCRIPTION_LONGEST - TAIL_KEPT - 1].rstrip("-") + "-" + plain[-TAIL_KEPT:].lstrip("-")


def read_key(reply: Reply, title: str) -> Minted:
    body = mapping_of(reply, title, "the new key")
    key = body.get("key")
    try:
        key_id = identifier(body.get("id"))
    except ParseError as error:
        raise MeshBusy(f"{title} created a key without an id") from error
    if not is_fit(key):
        raise MeshBusy(f"{title} created a key and did not return it")
    return Minted(key_id, Secret(str(key)))


def devices() -> Call:
    return Call("GET", f"{TAILNET}/devices")


def keys() -> Call:
    return Call("GET", f"{TAILNET}/keys")


def key(key_id: str) -> Call:
    return Call("GET", f"{TAILNET}/keys/{quote(key_id, safe='')}")


def read_unused(reply: Reply, title: str) -> bool:
    """A single-use key is invalid once it was used, as it is when it has ended or was revoked."""
    return mapping_of(reply, title, "a key").get("invalid") is False


def delete_device(device_id: str) -> Call:
    return Call("DELETE", f"/api/v2/device/{quote(device_id, safe='')}")


def delete_key(key_id: str) -> Call:
    return Call("DELETE", f"{TAILNET}/keys/{quote(key_id, safe='')}")


def read_devices(reply: Reply, title: str) -> tuple[Member, ...]:
    """All devices, without those shared from other tailnets. One unreadable device fails the list: it could
    be the wanted one.
    """
    rows = rows_of(mapping_of(reply, title, "the list of devices"), "devices", title)
    try:
        return tuple(Member(_device(row)) for row in rows if row.get("isExternal") is not True)
    except ParseError as error:
        raise MeshBusy(f"{title} listed a device that cannot be parsed: {error}") from error


def _device(row: dict[str, Any]) -> Device:
    hostname = row.get("hostname")
    if not isinstance(hostname, str):
        raise ParseError(f"hostname is not a string: {shown(hostname)}")
    connected = row.get("connectedToControl")
    return Device(
        id=identifier(row.get("nodeId") or row.get("id"), "nodeId"),
        hostname=hostname,
        name=text_of(row.get("name")),
        addresses=addresses_of(row.get("addresses")),
        tags=texts_of(row.get("tags")),
        created_at=moment(row.get("created") or None, "created"),
        online=connected if isinstance(connected, bool) else None,
        last_seen=moment(row.get("lastSeen") or None, "lastSeen"),
    )


def text_of(value: Any) -> str:
    return shown(value) if isinstance(value, str) else ""


def texts_of(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def addresses_of(value: Any) -> tuple[str, ...]:
    return tuple(found for each in value if (found := address(each))) if isinstance(value, list) else ()
