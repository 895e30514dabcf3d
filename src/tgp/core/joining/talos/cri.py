"""Fragments of containerd's configuration that users wrote for NVIDIA's runtime: what remains with the extension.

Talos merges exactly one user file, 20-customization.part; any other under /etc/cri/conf.d stops the boot.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

PARTS = "/etc/cri/conf.d/"
CUSTOMIZATION = f"{PARTS}20-customization.part"
# containerd 1.x called its CRI plugin by one name, 2.x (Talos 1.10 and later) by another.
_OLD_PLUGIN, _PLUGIN = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
_RUNTIMES = ("plugins", _PLUGIN, "containerd", "runtimes")


class NotToml(Exception):
    pass


def without_nvidia(content: str) -> dict[str, Any]:
    """The settings of a fragment besides the runtime `nvidia`, which the extension registers. Raises NotToml."""
    try:
        said = tomllib.loads(content)
    except tomllib.TOMLDecodeError:
        raise NotToml from None
    plugins = said.get("plugins")
    if isinstance(plugins, dict) and isinstance(plugins.get(_OLD_PLUGIN), dict):
        plugins.setdefault(_PLUGIN, {}).update(plugins.pop(_OLD_PLUGIN))
    said.pop("version", None)  # of the file's format: the merged file has one
    _drop(said, (*_RUNTIMES, "nvidia"))
    return said


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Both merged; the second wins."""
    both = dict(one)
    for key, value in other.items():
        mine = both.get(key)
        both[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def conflicts(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """Keys with different values in the two."""
    for key, value in other.items():
        mine = one.get(key, value)
        if isinstance(mine, dict) and isinstance(value, dict):
            yield from conflicts(mine, value)
        elif mine != value:
            yield key


def write_toml(said: dict[str, Any], path: tuple[str, ...] = ()) -> str:
    """Tables, arrays and scalars as containerd's files have them."""
    scalars = {key: value for key, value in said.items() if not isinstance(value, dict)}
    lines = [f"[{'.'.join(map(_key, path))}]"] if path and (scalars or not said) else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in scalars.items()]
    text = "\n".join(lines) + ("\n" if lines else "")
    for key, value in said.items():
        if isinstance(value, dict):
            text += write_toml(value, (*path, key))
    return text


def _drop(said: dict[str, Any], path: tuple[str, ...]) -> None:
    """Removes it, and every table that becomes empty."""
    first, *rest = path
    inner = said.get(first)
    if rest and isinstance(inner, dict):
        _drop(inner, tuple(rest))
        if not inner:
            del said[first]
    elif not rest:
        said.pop(first, None)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())}}}"
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    escaped = "".join(
        f"\\u{ord(sign):04x}" if ord(sign) < 0x20 or ord(sign) == 0x7F else sign
        for sign in value.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'
