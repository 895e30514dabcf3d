"""What Vultr makes of a create request: every field is checked as its documents say, unknown ones refused."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from tgp.sim.clouds.vultr.catalogue import REGIONS

IMAGES = ("os_id", "app_id", "image_id", "snapshot_id", "iso_id", "ipxe_chain_url")


def complaint(body: Any) -> str:
    """What is wrong with a create request; empty: nothing."""
    if not isinstance(body, dict) or "region" not in body or "plan" not in body:
        return "Bad request."
    for name, value in body.items():
        check = FIELDS.get(name)
        if check is None or not check(value):
            return f"Invalid {name}"
    if sum(1 for name in IMAGES if body.get(name)) != 1:
        return "Invalid OS, application, image, snapshot or ISO chosen."
    return ""


def is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except binascii.Error:
        return False


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 255


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(_text(each) for each in value)


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "region": lambda value: isinstance(value, str) and value in REGIONS,
    "plan": _text,
    "os_id": _number,
    "app_id": _number,
    "image_id": _text,
    "snapshot_id": _text,
    "iso_id": _text,
    "ipxe_chain_url": _text,
    "script_id": _text,
    "label": _text,
    "hostname": _text,
    "tag": _text,
    "tags": _texts,
    "sshkey_id": _texts,
    "attach_vpc": _texts,
    "attach_private_network": _texts,
    "firewall_group_id": _text,
    "reserved_ipv4": _text,
    "user_scheme": _text,
    "backups": lambda value: value in ("enabled", "disabled"),
    "user_data": is_base64,
    "enable_ipv6": _flag,
    "disable_public_ipv4": _flag,
    "enable_vpc": _flag,
    "vpc_only": _flag,
    "enable_private_network": _flag,
    "ddos_protection": _flag,
    "activation_email": _flag,
}
