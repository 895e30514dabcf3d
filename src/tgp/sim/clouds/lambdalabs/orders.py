"""What Lambda makes of a launch request: every field is checked as its OpenAPI document says, unknown ones refused."""

import re
from collections.abc import Callable, Container, Mapping
from typing import Any

from tgp.sim.clouds.lambdalabs.catalogue import REGIONS

TAG_KEY = re.compile(r"[a-z][a-z0-9:-]+\Z")
HOSTNAME = re.compile(r"[a-z0-9][0-9a-z-]{0,62}\Z")
NAME_CHARACTERS = 64
PUBLIC_KEY_CHARACTERS = 4_096
USER_DATA_BYTES = 1_000_000
REQUIRED = ("region_name", "instance_type_name", "ssh_key_names")


def complaint(body: Any) -> str:
    """What is wrong with a launch request; empty: nothing."""
    if not isinstance(body, dict):
        return "The body must be an object."
    for name in REQUIRED:
        if name not in body:
            return f"{name} is required."
    for name, value in body.items():
        check = FIELDS.get(name)
        if check is None:
            return f"{name} is not a known parameter."
        if not check(value):
            return f"{name} is not valid."
    return ""


def key_complaint(body: Any, taken: Container[str]) -> str:
    """What is wrong with a request to add an SSH key; empty: nothing."""
    name = body.get("name") if isinstance(body, dict) else None
    if not _text(NAME_CHARACTERS, 1)(name) or name in taken:
        return f"name must be a new text of 1 to {NAME_CHARACTERS} characters."
    if "public_key" in body and not _text(PUBLIC_KEY_CHARACTERS, 1)(body["public_key"]):
        return f"public_key must be a text of 1 to {PUBLIC_KEY_CHARACTERS} characters."
    return ""


def _text(longest: int, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and least <= len(value) <= longest


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _objects(*names: str) -> Callable[[Any], bool]:
    def good(value: Any) -> bool:
        rows = value if isinstance(value, list) else [None]
        return all(isinstance(row, dict) and set(row) == set(names) and _texts(list(row.values())) for row in rows)

    return good


def _tags(value: Any) -> bool:
    return _objects("key", "value")(value) and all(
        TAG_KEY.match(tag["key"]) and len(tag["key"]) <= 55 and len(tag["value"]) <= 128 for tag in value
    )


def _image(value: Any) -> bool:
    return isinstance(value, dict) and set(value) in ({"id"}, {"family"}) and _texts(list(value.values()))


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "region_name": lambda value: isinstance(value, str) and value in REGIONS,
    "instance_type_name": _text(255, 1),
    "ssh_key_names": lambda value: _texts(value) and len(value) == 1,
    "file_system_names": _texts,
    "file_system_mounts": _objects("file_system_id", "mount_point"),
    "hostname": lambda value: isinstance(value, str) and HOSTNAME.match(value) is not None,
    "name": _text(NAME_CHARACTERS),
    "image": _image,
    "user_data": lambda value: isinstance(value, str) and len(value.encode()) <= USER_DATA_BYTES,
    "tags": _tags,
    "firewall_rulesets": _objects("id"),
    "quantity": lambda value: value == 1 and not isinstance(value, bool),  # no longer documented; only 1 is taken
}
