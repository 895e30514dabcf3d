"""What Vultr makes of a create request: every field is checked as its documents say, unknown ones refused.

A field that is null was not given: govultr writes `tags` and `ddos_protection` so.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from tgp.sim.clouds.vultr.catalogue import REGIONS

IMAGES = ("os_id", "app_id", "image_id", "snapshot_id", "iso_id", "ipxe_chain_url")


def given(body: Any) -> Any:
    """A body without what it names and does not say, and with its numbers as numbers."""
    if not isinstance(body, dict):
        return body
    return {name: _plain(name, value) for name, value in body.items() if value is not None}


def _plain(name: str, value: Any) -> Any:
    return int(value) if name in ("os_id", "app_id") and isinstance(value, str) and _whole(value) else value


def complaint(body: Any) -> str:
    """What is wrong with a create request; empty: nothing."""
    if not isinstance(body, dict) or "region" not in body or "plan" not in body:
        return "Bad request."
    if words := _odd_field(body, FIELDS):
        return words
    if sum(1 for name in IMAGES if body.get(name)) != 1:
        return "Invalid OS, application, image, snapshot or ISO chosen."
    return ""


def complaint_about_change(body: Any) -> str:
    """What is wrong with an update; empty: nothing."""
    return _odd_field(body, CHANGES) if isinstance(body, dict) else "Bad request."


def _odd_field(body: Mapping[str, Any], fields: Mapping[str, Callable[[Any], bool]]) -> str:
    for name, value in body.items():
        check = fields.get(name)
        if check is None or not check(value):
            return f"Invalid {name}"
    return ""


def is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except ValueError:  # not ASCII, or not base64
        return False


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 255


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    """A number, or one in a text: libcloud has always sent `os_id` so."""
    return _number(value) or (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(_text(each) for each in value)


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "region": lambda value: isinstance(value, str) and value in REGIONS,
    "plan": _text,
    "os_id": _whole,
    "app_id": _whole,
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
    "app_variables": lambda value: isinstance(value, dict),
    "block_devices": lambda value: isinstance(value, list),
    "attach_vpc2": _texts,
    "enable_vpc2": _flag,
}
FOR_LIFE = frozenset((
    "region", "hostname", "snapshot_id", "iso_id", "ipxe_chain_url", "script_id", "sshkey_id", "reserved_ipv4",
    "disable_public_ipv4", "vpc_only", "activation_email", "app_variables", "block_devices",
))  # fmt: skip
CHANGES: Mapping[str, Callable[[Any], bool]] = {
    **{name: check for name, check in FIELDS.items() if name not in FOR_LIFE},
    "detach_vpc": _texts,
    "detach_vpc2": _texts,
}
