"""A config that is safe to show: every value that is or may be a secret shows its length only."""

import re
from typing import Any

from tgp.core.joining.talos.stream import read_stream, write_stream
from tgp.core.joining.talos.variables import Path

# By the last step of a path. Includes whole file contents: users may write anything into them.
_SECRET_KEYS = frozenset(
    (
        "auth",
        "content",
        "identityToken",
        "identitytoken",
        "key",
        "passphrase",
        "password",
        "presharedKey",
        "privateKey",
        "secret",
        "token",
    )
)
_SECRET_PATHS = frozenset((("cluster", "id"),))
_SECRET_NAMES = re.compile(r"KEY|SECRET|TOKEN|PASS|AUTH", re.IGNORECASE)  # of variables in an environment
_HARMLESS = frozenset(("TS_AUTH_ONCE",))
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def masked(text: str) -> str:
    """The same documents without their secrets. For rendered texts; raises UnreadableStream for others."""
    return write_stream(_masked(document.data, ()) for document in read_stream(text))


def _masked(data: Any, path: Path) -> Any:
    if isinstance(data, dict):
        return {key: _masked(item, (*path, key)) for key, item in data.items()}
    if isinstance(data, list):
        return [_masked(item, (*path, place)) for place, item in enumerate(data)]
    if data is None or isinstance(data, bool):
        return data
    if _is_secret(path):
        return _stars(str(data))
    if isinstance(data, str):
        return _of_environment(data) if "environment" in path else _IN_URL.sub("***@", data)
    return data


def _is_secret(path: Path) -> bool:
    last = next((step for step in reversed(path) if isinstance(step, str)), "")
    in_environment = "env" in path and bool(_SECRET_NAMES.search(last))
    if last == "key" and "registerWithTaints" in path:  # of a taint: not secret
        return False
    return last in _SECRET_KEYS or path in _SECRET_PATHS or in_environment


def _of_environment(entry: str) -> str:
    name, equals, value = entry.partition("=")
    if equals and _SECRET_NAMES.search(name) and name not in _HARMLESS:
        return f"{name}={_stars(value)}"
    return _IN_URL.sub("***@", entry)


def _stars(value: str) -> str:
    return f"*** ({len(value)} characters)" if value else ""
