"""Turns bytes into records of one kind: a line of a watch, a page of a list.

Reading never loses an object over a field: one whose spec or status is malformed is kept by its metadata, with the
reason in `unreadable`. Only a text without readable metadata cannot be kept, because it is unknown which object
it is; that raises `UnreadableReply`, and the caller lists again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tgp.adapters.kube.errors import Status, status_of
from tgp.adapters.kube.interning import InternPool
from tgp.adapters.kube.records.meta import UNDECODABLE, MetadataWire, NoMetadata, PartialObject, version
from tgp.api.quantity import NotAQuantity
from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.ports.http import UnreadableReply

R = TypeVar("R", bound=ObjectRecord)

JSON = "application/json"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

LOOKS_AT_ONCE = 2000  # per pool: below a millisecond; with one check per watch, 100,000 values in half an hour

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class Reader(Protocol[R]):
    """How one kind's objects are read. `known` is what is held already, so that keys are shared with it."""

    wire: Any  # what an object is decoded as: a msgspec type

    def read(self, wire: Any, known: Mapping[ObjectKey, R]) -> R: ...

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, R]) -> R:
        """The record of an object that `read` could not decode: its metadata, and the reason."""
        ...


class Bookmark(NamedTuple):
    version: int
    initial_events_end: bool


class ListPage(NamedTuple, Generic[R]):
    version: int
    following: str  # the continue token; empty: this was the last page
    records: list[R]
    unreadable: list[str]  # why; items without readable metadata


class Projection(Generic[R]):
    def __init__(
        self,
        resource: Resource,
        reader: Reader[R],
        *,
        pools: tuple[InternPool[Any, Any], ...] = (),  # what its records share
        accept: str = JSON,
        accept_list: str = JSON,
        field_selector: str = "",  # other objects are not sent by the server
    ) -> None:
        self.resource = resource
        self.field_selector = field_selector
        self.accept = accept
        self.accept_list = accept_list
        self.on_unreadable: Callable[[R, str], None] = _ignore
        """Called when a record becomes unreadable, with the reason; not again while it stays so."""
        self._reader = reader
        self._pools = pools
        self._read = reader.read
        self._line: Any = msgspec.json.Decoder(_line_of(reader.wire)).decode
        self._page: Any = msgspec.json.Decoder(_page_of(reader.wire)).decode
        self._item: Any = msgspec.json.Decoder(reader.wire).decode

    def line(self, line: bytes, known: Mapping[ObjectKey, R]) -> tuple[str, R | Bookmark | Status]:
        """One line of a watch: (ADDED | MODIFIED | DELETED, record), (BOOKMARK, …) or (ERROR, …)."""
        if line.startswith(_BOOKMARK_LINE):  # in a quiet cluster nearly all: not read as an object first
            return self._salvaged_line(line, known, "")
        try:
            said = self._line(line)
            verb = said.type
            if verb in _OBJECTS:
                return verb, self._read(said.object, known)
        except _MALFORMED as error:
            return self._salvaged_line(line, known, str(error))
        return self._salvaged_line(line, known, f"an event of type {verb[:32]!r}")

    def page(self, body: bytes, known: Mapping[ObjectKey, R]) -> ListPage[R]:
        try:
            page = self._page(body)
            records = [self._read(item, known) for item in page.items or ()]
            return ListPage(version(page.metadata.resource_version), page.metadata.following, records, [])
        except _MALFORMED:
            return self._salvaged_page(body, known)

    def tend(self) -> None:
        """Drop some of the unused shared values. Call it now and then, also when nothing changes."""
        for pool in self._pools:
            pool.tend(LOOKS_AT_ONCE)

    def _salvaged_page(self, body: bytes, known: Mapping[ObjectKey, R]) -> ListPage[R]:
        """The same, item by item, so that one bad item affects only itself."""
        try:
            page = _ANY_PAGE.decode(body)
            listed = version(page.metadata.resource_version)
        except (*UNDECODABLE, NoMetadata) as error:
            why = str(error) if not body.lstrip().startswith(b"<") else "this is HTML, as a proxy or a login page sends"
            raise UnreadableReply(f"{len(body)} bytes are not a list of {self.resource.plural}: {why}") from error
        records: list[R] = []
        unreadable: list[str] = []
        for item in page.items or ():
            try:
                records.append(self._item_record(item, known))
            except UnreadableReply as error:
                unreadable.append(str(error))
        return ListPage(listed, page.metadata.following, records, unreadable)

    def _item_record(self, item: msgspec.Raw, known: Mapping[ObjectKey, R]) -> R:
        try:
            return self._read(self._item(item), known)
        except _MALFORMED as error:
            return self._salvaged(bytes(item), known, str(error))

    def _salvaged_line(self, line: bytes, known: Mapping[ObjectKey, R], why: str) -> tuple[str, R | Bookmark | Status]:
        try:
            said = _ANY_LINE.decode(line)
        except UNDECODABLE as error:
            raise UnreadableReply(f"a watch line without a type and an object: {error}") from error
        if said.type == ERROR:
            return ERROR, _status(bytes(said.object))
        document = bytes(said.object)
        if said.type == BOOKMARK:
            return BOOKMARK, _bookmark(document)
        if said.type not in _OBJECTS:
            raise UnreadableReply(why)
        return said.type, self._salvaged(document, known, why)

    def _salvaged(self, document: bytes, known: Mapping[ObjectKey, R], why: str) -> R:
        try:
            record = self._reader.bare(PartialObject(_PLATE.decode(document).metadata, document, why), known)
        except (*UNDECODABLE, NoMetadata) as error:
            raise UnreadableReply(f"an object without readable metadata: {error}") from error
        held = known.get(record.key)
        if held is None or held.uid != record.uid or getattr(held, "unreadable", "") != why:
            self.on_unreadable(record, why)
        return record


def _ignore(record: ObjectRecord, why: str) -> None:
    pass


def _status(document: bytes) -> Status:
    try:
        body = msgspec.json.decode(document)
    except UNDECODABLE:
        body = None
    return status_of(body if isinstance(body, dict) else {})


def _bookmark(document: bytes) -> Bookmark:
    try:
        meta = _PLATE.decode(document).metadata
        said = _ANNOTATIONS.decode(bytes(meta.annotations) or b"null") or {}
        return Bookmark(version(meta.resource_version), said.get(INITIAL_EVENTS_END) == "true")
    except (*UNDECODABLE, NoMetadata) as error:
        raise UnreadableReply(f"a bookmark without a version: {error}") from error


def _line_of(wire: Any) -> Any:
    return msgspec.defstruct("Line", [("type", str), ("object", wire)], gc=False)


def _page_of(wire: Any) -> Any:
    return msgspec.defstruct("ListPage", [("metadata", _ListMeta), ("items", list[wire] | None)])


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    following: str = msgspec.field(default="", name="continue")


class _AnyPage(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _AnyLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_OBJECTS = (MODIFIED, ADDED, DELETED)
_BOOKMARK_LINE = b'{"type":"BOOKMARK",'
_MALFORMED = (*UNDECODABLE, NoMetadata, NotAQuantity)
_ANY_PAGE: msgspec.json.Decoder[_AnyPage] = msgspec.json.Decoder(_AnyPage)
_ANNOTATIONS: msgspec.json.Decoder[dict[str, str] | None] = msgspec.json.Decoder(dict[str, str] | None)
_PLATE: msgspec.json.Decoder[MetadataWire] = msgspec.json.Decoder(MetadataWire)
_ANY_LINE: msgspec.json.Decoder[_AnyLine] = msgspec.json.Decoder(_AnyLine)
