"""A machine config being checked: its documents, its expectations, and how a finding is made."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from tgp.core.joining.talos.keys import CLASSIC_KIND, kinds
from tgp.core.joining.talos.plan import NodePlan
from tgp.core.joining.talos.stream import Document, Path, WrittenFloat, WrittenInt, spell
from tgp.core.model.machine_config import ConfigFinding, Severity
from tgp.core.model.mesh import Network, NoMesh, TailscaleJoin
from tgp.core.model.talos import TalosVersion


@dataclass(frozen=True, slots=True)
class NodeExpectations:
    """Expectations about the node. Each is checked only if set."""

    node_name: str = ""
    provider_id: str = ""
    ranges: tuple[Network, ...] = ()  # of the mesh: the node's address must lie in one of them
    tailscale: bool = False
    single_use: bool = False  # the auth key works once
    nvidia: bool = False
    shared_secrets: bool = True  # False: an untrusted host, which must not get the cluster's own secrets
    api_server: str = ""  # v1.36.3: no kubelet may be newer
    schematic: str = ""  # id of the schematic with the needed extensions: the installer must have it
    user_data_bytes: int = 0  # what the provider accepts; 0: unknown
    literal_braces: bool = False  # it has literal {{, escaped in the template

    @classmethod
    def of(
        cls, plan: NodePlan, *, api_server: str = "", schematic: str = "", user_data_bytes: int = 0
    ) -> "NodeExpectations":
        mesh = plan.mesh
        return cls(
            node_name=plan.node_name,
            provider_id=plan.provider_id,
            ranges=() if isinstance(mesh, NoMesh) else mesh.ranges,
            tailscale=isinstance(mesh, TailscaleJoin),
            single_use=isinstance(mesh, TailscaleJoin) and mesh.single_use,
            nvidia=plan.nvidia,
            shared_secrets=plan.shared_secrets,
            api_server=api_server,
            schematic=schematic,
            user_data_bytes=user_data_bytes,
        )


class ConfigDocument(msgspec.Struct, frozen=True):
    """One document of the stream."""

    kind: str  # v1alpha1: the classic one, which has no kind
    name: str  # empty: its kind has none
    document: Document
    prefix: str = ""  # of paths: HostnameConfig, or ExtensionServiceConfig/tailscale; empty for the classic one

    def at(self, *path: str | int) -> Any:
        """None: not set."""
        value = self.document.data
        for step in path:
            if isinstance(step, str) and isinstance(value, dict):
                value = value.get(step)
            elif isinstance(step, int) and isinstance(value, list) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def text(self, *path: str | int) -> str:
        return as_text(self.at(*path))

    def truth(self, *path: str | int) -> bool:
        return as_truth(self.at(*path)) is True

    def has(self, *path: str | int) -> bool:
        """A section, though it may be empty."""
        return isinstance(self.at(*path), dict)

    def section(self, *path: str | int) -> dict[str, Any]:
        found = self.at(*path)
        return found if isinstance(found, dict) else {}

    def items(self, *path: str | int) -> list[Any]:
        found = self.at(*path)
        return found if isinstance(found, list) else []

    def error(self, path: Path, message: str) -> ConfigFinding:
        return ConfigFinding(self.document.line_of(path), self.spelled(path), message)

    def warning(self, path: Path, message: str) -> ConfigFinding:
        return ConfigFinding(self.document.line_of(path), self.spelled(path), message, Severity.WARNING)

    def unchecked(self, path: Path, message: str) -> ConfigFinding:
        return ConfigFinding(self.document.line_of(path), self.spelled(path), message, Severity.UNCHECKED)

    def spelled(self, path: Path) -> str:
        inner = spell(path)
        return f"{self.prefix}.{inner}" if self.prefix and inner else self.prefix or inner


@dataclass(frozen=True, slots=True)
class Config:
    """All of it, as one check may look at it."""

    text: str = field(repr=False)
    version: TalosVersion
    expects: NodeExpectations
    pages: tuple[ConfigDocument, ...]

    @property
    def classic(self) -> ConfigDocument | None:
        return next((page for page in self.pages if page.kind == CLASSIC_KIND), None)

    def of_kind(self, kind: str) -> Iterator[ConfigDocument]:
        """None for a kind that this release does not know: it is already reported."""
        known = kind in kinds(self.version.minor)
        return (page for page in self.pages if known and page.kind == kind)


Check: TypeAlias = Callable[[Config], Iterator[ConfigFinding]]

_YES = frozenset(("true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"))
_NO = frozenset(("false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"))


def as_text(value: Any) -> str:
    """As Talos reads a scalar as a string: by its spelling. Empty for other values."""
    if isinstance(value, str):
        return value
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.source
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else ""


def as_truth(value: Any) -> bool | None:
    """As Talos reads it as a boolean; None: it does not."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _YES - {"true", "True", "TRUE"}:
        return True
    if isinstance(value, str) and value in _NO - {"false", "False", "FALSE"}:
        return False
    return None
