"""A built-in object as a real server writes it after reading it.

Reading drops what the type does not have; writing leaves out what is empty, except the fields that are always there
(`status: {}`, `resources: {}`, a null time), and gives quantities and times their one form. Applying it twice changes
nothing more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, TypeAlias

from tgp.sim.apiserver.schemas import definition_name
from tgp.sim.apiserver.schemas.language import META
from tgp.sim.apiserver.schemas.layout import LayoutField, fields_of, target_of
from tgp.sim.apiserver.schemas.quantity import canonical_quantity

QUANTITIES_KEPT = 4096  # different amounts; a cluster has a few dozen

Convert: TypeAlias = Callable[[Any], Any]

_ZEROS: Mapping[str, Any] = {"string": "", "boolean": False, "integer": 0, "number": 0}
_ZERO_VALUES: Mapping[str, Any] = {
    f"{META}.Time": None,
    f"{META}.MicroTime": None,
    f"{META}.FieldsV1": None,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": None,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": 0,
}


def canonical(group: str, version: str, kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    """A new object; a kind without a description is copied at its top level only."""
    name = definition_name(group, version, kind)
    if name is None:
        return dict(obj)
    head = {key: obj[key] for key in ("kind", "apiVersion") if key in obj}
    return head | _plan(name).write(obj)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one type is written, worked out once: simulations write pods by the hundred thousand."""

    known: dict[str, tuple[Convert | None, bool]]  # field → its conversion (None: as it is), and whether zero is kept
    always: tuple[tuple[str, Callable[[], Any]], ...]  # fields that are there in any case, and their zero

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        written: dict[str, Any] = {}
        known = self.known
        for key, raw in value.items():
            entry = known.get(key)
            if entry is None or raw is None:
                continue
            convert, keep = entry
            shown = raw if convert is None else convert(raw)
            if shown or keep:
                written[key] = shown
        for key, zero in self.always:
            if key not in written:
                written[key] = zero()
        return written


@cache
def _plan(name: str) -> _Plan:
    fields = fields_of(name) or ()
    known = {field.name: (_conversion(field.schema), field.always or field.pointer) for field in fields}
    return _Plan(known, tuple((field.name, _zero_of(field)) for field in fields if field.always))


def _zero_of(field: LayoutField) -> Callable[[], Any]:
    target = field.target
    if target and not field.pointer:
        return _zero(target)
    zero = None if field.pointer else _ZEROS.get(field.schema.get("type", ""))
    return lambda: zero


def _zero(target: str) -> Callable[[], Any]:
    if target in _ZERO_VALUES:
        value = _ZERO_VALUES[target]
        return lambda: value
    return lambda: _plan(target).write({})


def _conversion(schema: Mapping[str, Any]) -> Convert | None:
    """None: the value is written as it was read."""
    target = target_of(schema)
    if target:
        return _SPECIAL.get(target) or (_written_as(target) if fields_of(target) is not None else None)
    if schema.get("type") == "array":
        return _listed(schema["items"])
    if "additionalProperties" in schema:
        return _mapped(schema["additionalProperties"])
    return None


def _written_as(target: str) -> Convert:
    # The plan is looked up when it is needed: a CustomResourceDefinition's schema contains itself.
    return lambda raw: _plan(target).write(raw) if isinstance(raw, (dict, Mapping)) else raw


def _listed(items: Mapping[str, Any]) -> Convert:
    convert, zero = _element(items)

    def listed(raw: Any) -> Any:
        if not isinstance(raw, list) or (convert is None and None not in raw):
            return raw
        return [zero() if item is None else item if convert is None else convert(item) for item in raw]

    return listed


def _mapped(values: Mapping[str, Any]) -> Convert:
    convert, zero = _element(values)

    def mapped(raw: Any) -> Any:
        if not isinstance(raw, (dict, Mapping)) or (convert is None and None not in raw.values()):
            return raw
        return {k: zero() if v is None else v if convert is None else convert(v) for k, v in raw.items()}

    return mapped


def _element(schema: Mapping[str, Any]) -> tuple[Convert | None, Callable[[], Any]]:
    """How an element of a list or map is written, and what null means there: the zero of its type."""
    target = target_of(schema)
    zero = _ZEROS.get(schema.get("type", ""))
    return _conversion(schema), _zero(target) if target else lambda: zero


def _time(raw: Any) -> Any:
    if _looks_like(raw, len("2026-01-01T00:00:00Z")):
        return raw
    moment = _moment(raw)
    return raw if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(raw: Any) -> Any:
    if _looks_like(raw, len("2026-01-01T00:00:00.000000Z")):
        return raw
    moment = _moment(raw)
    return raw if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _looks_like(raw: Any, length: int) -> bool:
    """Already in its one form, as nearly all are: parsing would cost more than all the rest."""
    return isinstance(raw, str) and len(raw) == length and raw[-1] == "Z"


def _moment(raw: Any) -> datetime | None:
    if not isinstance(raw, str):
        return None
    try:
        return datetime.fromisoformat(raw).astimezone(UTC)
    except ValueError:
        return None


@lru_cache(maxsize=QUANTITIES_KEPT)
def _known_quantity(text: str) -> str:
    return canonical_quantity(text) or text


def _quantity(raw: Any) -> Any:
    if isinstance(raw, str):
        return _known_quantity(raw)
    known = canonical_quantity(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else None
    return raw if known is None else known


_SPECIAL: Mapping[str, Convert] = {
    f"{META}.Time": _time,
    f"{META}.MicroTime": _micro_time,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
}
