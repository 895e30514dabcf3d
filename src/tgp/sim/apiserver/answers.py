"""How an answer is shown: plain JSON, a Table for people, or metadata only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.apiserver.core import Ask
from tgp.sim.apiserver.encoding import list_bytes, object_bytes
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import JSON_HEADERS, Failure, bad_request
from tgp.sim.apiserver.storage import Record
from tgp.sim.apiserver.tables.view import TableView
from tgp.sim.apiserver.verbs.read import Page, list_metadata

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


@dataclass(slots=True)
class Answer:
    """The form one client asked for."""

    served: Served
    now: Callable[[], datetime]  # asked anew for every row: a watch outlives the moment it began
    table: TableView | None
    metadata_only: bool

    @classmethod
    def wanted(cls, call: Call, served: Served, now: Callable[[], datetime]) -> "Answer":
        check_acceptable(call)
        table = TableView.wanted(call, served)
        if table is not None:
            _check_include(call.parameter("includeObject"))
        return cls(served, now, table, _wants_metadata(call))

    def one(self, record: Record) -> bytes:
        if self.table is not None:
            obj = self.served.shown(record.obj)
            return self.table.listed([obj], _single_metadata(obj), self.now())
        if self.metadata_only:
            return msgspec.json.encode(_partial(record.obj))
        return object_bytes(self.served, record)

    def many(self, page: Page) -> bytes:
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

    def watched(self, record: Record) -> bytes:
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


def _offers(call: Call) -> list[dict[str, str]]:
    found = []
    for offer in call.header("Accept").split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        words = dict(part.partition("=")[::2] for part in parameters)
        words["media"] = media.lower()
        found.append(words)
    return found


def check_acceptable(call: Call) -> None:
    spoken = [offer for offer in _offers(call) if offer["media"] in READABLE]
    if not spoken:
        raise Failure(406, "NotAcceptable", NOT_SPOKEN, {})
    if not any(offer.get("as", "") in FORMS for offer in spoken):
        raise Failure(406, "NotAcceptable", NOT_ACCEPTABLE)


def _wants_metadata(call: Call) -> bool:
    first = next((offer for offer in _offers(call) if offer["media"] in READABLE), {})
    return first.get("as", "").startswith("PartialObjectMetadata")


def warnings_of(ask: Ask) -> Pairs:
    return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in ask.warnings)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def reply(content: bytes, ask: Ask, status: int = 200) -> Reply:
    return Reply(status, content, JSON_HEADERS + warnings_of(ask))


def json_answer(value: Json, ask: Ask, status: int = 200) -> Reply:
    return reply(msgspec.json.encode(value), ask, status)
