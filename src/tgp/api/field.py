"""How a field is described: its doc, its bounds, its rules. The CRDs, the reference and the checks all read this.

A field's Python type says its JSON type, its default says the CRD's default (`None`, `()` and `{}` say "absent").
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

PythonCheck: TypeAlias = Callable[[Any, Any], bool]  # (self, oldSelf or None) -> does the rule hold?

# JSON names whose capitals do not follow from the snake-case name; early manifests have them so.
_IRREGULAR = {
    "min_vcpu": "minVCPU",
    "min_memory_gib": "minMemoryGiB",
    "min_gpu_memory_gib": "minGPUMemoryGiB",
    "memory_gib": "memoryGiB",
    "gpu_memory_gib": "gpuMemoryGiB",
    "disk_gib": "diskGiB",
    "allowed_ips": "allowedIPs",
    "allowed_ips_secret_ref": "allowedIPsSecretRef",
    "available_gpus": "availableGPUs",
    "electricity_price_per_kwh": "electricityPricePerKWh",
}


def wire_name(name: str) -> str:
    """min_hourly_price is minHourlyPrice in JSON, but for a few irregular ones."""
    first, *rest = name.split("_")
    return _IRREGULAR.get(name) or first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of the CRD and the Python predicate that decides the same."""

    cel: str
    message: str  # what would be right
    holds: PythonCheck
    field: str = ""  # relative path of the field to blame, ".settings.prices"; empty: the value the rule stands on
    reason: Literal["", "FieldValueForbidden", "FieldValueRequired"] = ""  # FieldValueDuplicate swallows the message


@dataclass(frozen=True, slots=True)
class Field:
    """What stands beside a type in `Annotated[...]`. Bounds are there for users and for the cost limits of CEL."""

    doc: str = ""
    enum: tuple[str, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    pattern: str = ""  # where CEL would cost too much: int-or-string in lists. Elsewhere a rule has a readable message
    format: str = ""
    list_type: Literal["", "atomic", "set", "map"] = ""
    list_key: str = ""  # of a list of type map
    map_type: Literal["", "atomic"] = ""
    rules: tuple[Rule, ...] = ()
    deprecated: str = ""  # the release that drops the field; empty: it stays


class ApiStruct(msgspec.Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """A value as users write it: frozen, snake case here, camel case in JSON, unknown fields ignored."""

    object_rules: ClassVar[tuple[Rule, ...]] = ()  # CEL rules on the object as a whole
    secret_members: ClassVar[tuple[str, ...]] = ()  # values that must not show in a repr, and so in no log or error
    object_map_type: ClassVar[str] = ""  # "atomic": server-side apply treats the object as one value

    def __repr__(self) -> str:
        """Only what differs from the defaults, and nothing that is secret."""
        shown = []
        for info in msgspec.structs.fields(type(self)):
            value = getattr(self, info.name)
            if value in (info.default, (), {}, None):
                continue
            shown.append(f"{info.name}={'***' if info.name in self.secret_members else repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"
