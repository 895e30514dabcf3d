"""Objects as the rows of a `meta.k8s.io/v1` Table: what `kubectl get` asks for and prints as it comes.

Built-in kinds have their own printers; custom kinds have the columns of their CustomResourceDefinition; every other
kind shows its name and when it was made.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tgp.sim.apiserver.tables.autoscalers import AUTOSCALERS
from tgp.sim.apiserver.tables.cluster import CLUSTER
from tgp.sim.apiserver.tables.column import Cells, Printer, TableColumnSpec
from tgp.sim.apiserver.tables.jsonpath import Path, parse
from tgp.sim.apiserver.tables.networking import NETWORKING
from tgp.sim.apiserver.tables.storage import STORAGE
from tgp.sim.apiserver.tables.text import age, parse_time
from tgp.sim.apiserver.tables.workloads import WORKLOADS

GROUP = "meta.k8s.io"
_DEFAULT_CUSTOM_COLUMNS = ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},)
_BUILT_IN = {**CLUSTER, **WORKLOADS, **NETWORKING, **STORAGE, **AUTOSCALERS}
_LIST_FIELDS = ("resourceVersion", "continue", "remainingItemCount")


def printer_for(group: str, kind: str, custom_columns: Sequence[Mapping[str, Any]] | None = None) -> Printer:
    """How rows of a kind are made. `custom_columns` (None: a built-in kind) are a definition's printer columns."""
    if custom_columns is not None:
        return _custom(tuple(custom_columns) or _DEFAULT_CUSTOM_COLUMNS)
    return _BUILT_IN.get((group, kind), _GENERIC)


def table(
    printer: Printer,
    objects: Iterable[Mapping[str, Any]],
    list_metadata: Mapping[str, Any],
    *,
    now: datetime,
    include_object: str = "",
    headers: bool = True,
    version: str = "v1",
) -> dict[str, Any]:
    """A Table of `objects`. `include_object` is the query parameter: None, Object, or Metadata (the default)."""
    return {
        "kind": "Table",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {key: list_metadata[key] for key in _LIST_FIELDS if key in list_metadata},
        "columnDefinitions": [column.as_json() for column in printer.columns] if headers else None,
        "rows": [_row(printer, obj, now, include_object or "Metadata", version) for obj in objects],
    }


def _row(printer: Printer, obj: Mapping[str, Any], now: datetime, include: str, version: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": printer.cells(obj, now)}
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"{GROUP}/{version}",
            "metadata": obj["metadata"],
        }
    return row


def _generic(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    del now  # a date is shown as it is written
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


_GENERIC = Printer((TableColumnSpec("Name", format="name"), TableColumnSpec("Created At", "date")), _generic)


def _custom(definitions: Sequence[Mapping[str, Any]]) -> Printer:
    columns = [TableColumnSpec("Name", format="name")]
    paths: list[tuple[str, Path]] = []
    for entry in definitions:
        described = entry.get("description") or f"Read from {entry['jsonPath']}."
        columns.append(
            TableColumnSpec(entry["name"], entry["type"], entry.get("priority", 0), entry.get("format", ""), described)
        )
        paths.append((entry["type"], parse(entry["jsonPath"])))
    return Printer(tuple(columns), _custom_cells(paths))


def _custom_cells(paths: Sequence[tuple[str, Path]]) -> Cells:
    def cells(obj: Mapping[str, Any], now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], *(_cell(kind, path.find(obj), now) for kind, path in paths)]

    return cells


def _cell(kind: str, found: list[Any], now: datetime) -> Any:
    """The first value found, if it is what the column promises; otherwise an empty cell."""
    value = found[0] if found else None
    match kind, value:
        case _, None:
            return None
        case "string", _:
            return _text(value)
        case "boolean", bool():
            return value
        case (("integer" | "number"), bool()):
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return float(value)
        case "date", str():
            return age(value, now) if parse_time(value) else "<invalid>"
        case _:
            return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
