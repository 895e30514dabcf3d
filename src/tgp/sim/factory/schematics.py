"""Schematics as the factory reads and names them: strictly, and by the digest of their canonical YAML."""

from hashlib import sha256
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


class Extensions(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    official_extensions: list[str] = msgspec.field(default_factory=list)


class Meta(msgspec.Struct, forbid_unknown_fields=True):
    key: int
    value: str


class SecureBoot(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    enroll_keys: str = ""
    include_well_known_certificates: bool = False


class DiskImage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    sector_size: int = 0


class Customization(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    extra_kernel_args: list[str] = msgspec.field(default_factory=list)
    meta: list[Meta] = msgspec.field(default_factory=list)
    system_extensions: Extensions = msgspec.field(default_factory=Extensions)
    secureboot: SecureBoot = msgspec.field(default_factory=SecureBoot)
    bootloader: str = ""
    embedded_machine_configuration: str = ""
    disk_image: DiskImage = msgspec.field(default_factory=DiskImage)


class SchematicPlan(msgspec.Struct, forbid_unknown_fields=True):
    customization: Customization = msgspec.field(default_factory=Customization)


def read(body: bytes) -> SchematicPlan | str:
    """The schematic, or what is wrong with it."""
    try:
        raw = YAML(typ="safe", pure=True).load(body.decode())
        return msgspec.convert({} if raw is None else raw, SchematicPlan)
    except (YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        return f"yaml: unmarshal errors: {' '.join(str(error).split())}"


def canonical(plan: SchematicPlan) -> str:
    """Four spaces deeper each time, and nothing that was not said: the empty one is `customization: {}`."""
    return _yaml({"customization": _said(msgspec.to_builtins(plan.customization))})


def digest(plan: SchematicPlan) -> str:
    return sha256(canonical(plan).encode()).hexdigest()


def _said(value: dict[str, Any]) -> dict[str, Any]:
    """Without parts in which nothing was said."""
    inner = {key: _said(each) if isinstance(each, dict) else each for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


def _yaml(value: dict[str, Any], depth: int = 0) -> str:
    indent = " " * 4 * depth
    text = ""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            text += f"{indent}{key}:\n{_yaml(inner, depth + 1)}"
        elif isinstance(inner, list):
            text += f"{indent}{key}:\n" + "".join(f"{indent}    - {_flow(each)}\n" for each in inner)
        else:
            text += f"{indent}{key}: {_flow(inner)}\n"
    return text


def _flow(value: Any) -> str:
    return value if isinstance(value, str) and value.replace("/", "").replace("-", "").isalnum() else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
