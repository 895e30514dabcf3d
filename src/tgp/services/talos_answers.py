"""What the Talos service takes and returns: the choice of a config, its parts, and the stored join Secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgp.core.joining.talos.preview import Materials
from tgp.core.model.object_key import ObjectKey


class NoMachineConfig(Exception):
    """Something that a machine config needs is missing or unclear. The text says what."""


@dataclass(frozen=True, slots=True)
class ConfigChoice:
    """Which config to build."""

    node_class: str = ""  # empty: the request's
    provider: str = ""  # empty: the request's, else the first of the class
    request: ObjectKey | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The parts of a config, and notes about it."""

    materials: Materials
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """The join Secret as stored in the cluster."""

    values: Mapping[str, str] = field(repr=False)
    uid: str
    resource_version: str
