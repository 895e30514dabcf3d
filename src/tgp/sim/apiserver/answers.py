"""How an answer is shown: plain JSON, a Table for users, or metadata only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.apiserver.core import Ask
from tgp.sim.apiserver.encoding import list_bytes, object_bytes
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import JSON_HEADERS, Failure, bad_request
from tgp.sim.apiserver.storage import StoredObject
from tgp.sim.apiserver.tables.view import TableView
from tgp.sim.apiserver.verbs.read import ReadPage, list_metadata

NOT_ACCEPTABLE = (
    "only the following media types are accepted: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
READABLE = frozenset({"", "*/*", "application/json"})
NOT_SPOKEN = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
FORMS = frozenset({"", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
ACCEPTS_KEPT = 256  # different Accept headers; a client has one or two


@dataclass(slots=True)
class ResponseForm:
    """The form one client asked for."""

    served: Served
    now: Callable[[], datetime]  # called for every row: a watch outlives the moment it began
    table: TableView | None
    metadata_only: bool

    @classmethod
    def wanted(cls, call: Call, served: Served, now: Callable[[], datetime]) -> "ResponseForm":
        forms = _forms(call.header("Accept"))
        check_acceptable(forms)
        table = TableView.wanted(call, served) if "Table" in forms else None
        if table is not None:
            _check_include(call.parameter("includeObject"))
        return cls(served, now, table, forms[0].startswith("PartialObjectMetadata"))

    def one(self, record: StoredObject) -> bytes:
        if self.table is not None:
            obj = self.served.shown(record.obj)
            return self.table.listed([obj], _single_metadata(obj), self.now())
        if self.metadata_only:
            return msgspec.json.encode(_partial(record.obj))
        return object_bytes(self.served, record)

    def many(self, page: ReadPage) -> bytes:
        meta = list_metadata(page, custom=self.served.custom and self.is_plain)
        if self.table is not None:
            return self.table.listed([self.served.shown(record.obj) for record in page.records], meta, self.now())
        if self.metadata_only:
            shown = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "items": [_partial(record.obj) for record in page.records],
            }
            return msgspec.json.encode(shown)
        return list_bytes(self.served, page.records, meta)

    def watched(self, record: StoredObject) -> bytes:
        if self.table is not None:
            return self.table.row(self.served.shown(record.obj), self.now())
        return self.one(record)

    @property
    def is_plain(self) -> bool:
        return self.table is None and not self.metadata_only


def _check_include(asked: str) -> None:
    if asked not in {"", "Metadata", "Object", "None"}:
        why = f"includeObject: Invalid value: \"{asked}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {why}")


def _single_metadata(obj: Mapping[str, Any]) -> Json:
    return {"resourceVersion": obj["metadata"].get("resourceVersion", "")}


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


@lru_cache(maxsize=ACCEPTS_KEPT)
def _forms(accept: str) -> tuple[str, ...]:
    """What each offer that we could speak asks objects to be shown as; empty: as they are."""
    found = []
    for offer in accept.split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        if media.lower() in READABLE:
            found.append(dict(part.partition("=")[::2] for part in parameters).get("as", ""))
    return tuple(found)


def check_acceptable(forms: tuple[str, ...]) -> None:
    if not forms:
        raise Failure(406, "NotAcceptable", NOT_SPOKEN, {})
    if FORMS.isdisjoint(forms):
        raise Failure(406, "NotAcceptable", NOT_ACCEPTABLE)


def warnings_of(ask: Ask) -> Pairs:
    return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in ask.warnings)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def reply(content: bytes, ask: Ask, status: int = 200) -> Reply:
    return Reply(status, content, JSON_HEADERS + warnings_of(ask))


def json_answer(value: Json, ask: Ask, status: int = 200) -> Reply:
    return reply(msgspec.json.encode(value), ask, status)
