"""What a machine that boots Talos makes of what it was ordered with: it finds its machine config, and does as it says.

The config may be wrapped in whatever its provider takes (packed, in a cloud-config, in a script that writes a volume,
in an environment variable): a machine unwraps it by running it, and here it is looked for.
"""

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tgp.core.joining.talos.stream import read_stream
from tgp.core.model.machine_config import TemplateRefused

_PACKED = re.compile(rb"[A-Za-z0-9+/]{160,}={0,2}")
_CONFIG = re.compile(rb"version: v1alpha1\n[^\0]*")
_GZIP = b"\x1f\x8b"
_LOGIN = re.compile(r"--login-server=(\S+)")


@dataclass(frozen=True, slots=True)
class TalosGuest:
    """The machine as its config describes it."""

    node: str
    provider_id: str = ""
    token: str = field(default="", repr=False)  # its bootstrap token
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, Any], ...] = ()
    auth_key: str = field(default="", repr=False)  # of a tailnet; empty: it joins none
    hostname: str = ""
    login_server: str = ""
    address: str = ""  # in a WireGuard tunnel
    endpoint: str = ""  # of the control plane
    authority: bytes = b""  # PEM: whom it believes to be that


def guest_in(blob: bytes) -> TalosGuest | None:
    """None: there is no machine config in it that Talos would take."""
    return next((guest for documents in documents_in(blob) if (guest := _guest(documents)) is not None), None)


def documents_in(blob: bytes) -> Iterator[list[Any]]:
    """Every machine config in it, as its documents."""
    for found in configs_in(blob):
        try:
            yield [document.data for document in read_stream(found.decode())]
        except (TemplateRefused, UnicodeDecodeError):
            continue


def configs_in(blob: bytes, depth: int = 2) -> Iterator[bytes]:
    """Every machine config in it, as text."""
    if blob.startswith(_GZIP):
        try:
            blob = gzip.decompress(blob)
        except (OSError, EOFError, zlib.error):
            return
    if (plain := _CONFIG.search(blob)) is not None:
        yield plain[0]
    if depth:
        for packed in _PACKED.findall(blob):
            try:
                inner = base64.b64decode(packed, validate=True)
            except binascii.Error:
                continue
            yield from configs_in(inner, depth - 1)


def _guest(documents: list[Any]) -> TalosGuest | None:
    config = next((each for each in documents if isinstance(each, dict) and "machine" in each), None)
    if config is None:
        return None
    others = [each for each in documents if isinstance(each, dict) and "kind" in each]
    kubelet = _at(config, "machine", "kubelet", "extraConfig") or {}
    named = next((each.get("hostname") for each in others if each["kind"] == "HostnameConfig"), None)
    node = named or _at(config, "machine", "network", "hostname")
    if not isinstance(node, str):
        return None
    environment = _environment(others)
    login = _LOGIN.search(environment.get("TS_EXTRA_ARGS", ""))
    return TalosGuest(
        node,
        str(kubelet.get("providerID", "")),
        str(_at(config, "cluster", "token") or ""),
        dict(_at(config, "machine", "nodeLabels") or {}),
        tuple(kubelet.get("registerWithTaints") or ()),
        environment.get("TS_AUTHKEY", ""),
        environment.get("TS_HOSTNAME", ""),
        login[1] if login is not None else "",
        _tunnel_address(config, others),
        str(_at(config, "cluster", "controlPlane", "endpoint") or ""),
        _plain(_at(config, "cluster", "ca", "crt")),
    )


def _plain(packed: Any) -> bytes:
    """Empty: it is not base64."""
    try:
        return base64.b64decode(packed, validate=True) if isinstance(packed, str) else b""
    except binascii.Error:
        return b""


def _environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    service = next((each for each in documents if each["kind"] == "ExtensionServiceConfig"), {})
    pairs = (str(line).partition("=") for line in service.get("environment") or ())
    return {name: value for name, _, value in pairs}


def _tunnel_address(config: dict[str, Any], documents: list[dict[str, Any]]) -> str:
    for each in documents:
        if each["kind"] == "WireguardConfig":
            return str(each["addresses"][0]["address"]).partition("/")[0]
    for each in _at(config, "machine", "network", "interfaces") or ():
        if "wireguard" in each:
            return str(each["addresses"][0]).partition("/")[0]
    return ""


def _at(data: Any, *path: str) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data
