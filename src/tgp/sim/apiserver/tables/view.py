"""A client's request for tables, read from its Accept header, and the bytes that answer it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tgp.ports.http import Call
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.tables import GROUP, printer_for, table
from tgp.sim.apiserver.tables.column import Printer

_VERSIONS = frozenset({"v1", "v1beta1"})


@dataclass(slots=True)
class TableView:
    """Shows objects of one resource to one client. A watch shows its columns with the first row only."""

    printer: Printer
    version: str
    include_object: str
    headers_due: bool = True

    @classmethod
    def wanted(cls, call: Call, served: Served, kind: tuple[str, str] | None = None) -> "TableView | None":
        """None: the client wants plain objects. Of several forms it names, the first we know counts.

        `kind` (group and kind) names what a subresource shows, where that is not the resource's own kind.
        """
        for offer in call.header("Accept").split(","):
            words = dict(part.strip().partition("=")[::2] for part in offer.split(";"))
            if "application/json" not in words:
                continue
            if "as" not in words:
                return None
            version = words.get("v", "")
            if (words["as"], words.get("g")) == ("Table", GROUP) and version in _VERSIONS:
                return cls(printer_for(*kind) if kind else printer_of(served), version, call.parameter("includeObject"))
        return None

    def listed(self, objects: Iterable[Mapping[str, Any]], list_metadata: Mapping[str, Any], now: datetime) -> bytes:
        """A whole list, or one object with its own metadata, as one Table."""
        return self._encode(objects, list_metadata, now, headers=True)

    def row(self, obj: Mapping[str, Any], now: datetime) -> bytes:
        """One changed object, for a watch."""
        headers, self.headers_due = self.headers_due, False
        return self._encode([obj], obj.get("metadata") or {}, now, headers=headers)

    def _encode(
        self, objects: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any], now: datetime, *, headers: bool
    ) -> bytes:
        shown = table(
            self.printer,
            objects,
            metadata,
            now=now,
            include_object=self.include_object,
            headers=headers,
            version=self.version,
        )
        return msgspec.json.encode(shown)


def printer_of(served: Served) -> Printer:
    """A custom resource is shown by its definition's columns for this version."""
    if served.crd is None:
        return printer_for(served.group, served.kind)
    versions = served.crd["spec"].get("versions") or ()
    mine: Mapping[str, Any] = next((entry for entry in versions if entry.get("name") == served.version), {})
    return printer_for(served.group, served.kind, mine.get("additionalPrinterColumns") or ())
