"""From what a server said to what two servers can be compared by.

Identity becomes relation: uids are numbered in the order they were first seen, resourceVersions by their rank among
the case's own, times and tokens by their form. What a name, a number or a sentence says stays as it is.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tests.contracts.apiserver.api import Json, Note

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b(\d{4})-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
VERSIONS = re.compile(r"(?i)(resource version: )\d+(?:( \()\d+(\)))?(, current: )?(\d+)?")
PRECONDITION = re.compile(r"(ResourceVersion in (?:the precondition|record)) \(\d+\)")
SEVERAL = re.compile(r"( is invalid: \[).*\]$", re.DOTALL)  # the real server tells mistakes in the order of a Go map
# The server quotes the object back at us, with all it knows; or a struct of its own, in the spelling of its source.
WHOLE_OBJECT = re.compile(r'Invalid value: (?:"\{.*\}"|\{.*\}|\[\{.*\}\])')
# Each JSON reader has its own words for what it could not read.
READERS_WORDS = re.compile(
    r"(?:json: cannot unmarshal|JSON is malformed|invalid character|unexpected end of JSON|unexpected EOF).*", re.DOTALL
)
MOUNTED_TOKEN = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
AGE = re.compile(r"\d+[smhd]")  # a cell of a table
STORAGE_DIGEST = "storageVersionHash"  # of the real server's own storage; clients are told not to read it
# Lists whose order follows the clock (managedFields, by the second of the last write), the order in which definitions
# were noticed (discovery), or a Go map (causes); and what puts them in an order of ours.
UNORDERED = {
    "managedFields": ("manager", "operation", "subresource"),
    "resources": ("name", "resource"),
    "causes": ("field", "message"),
}
FIRST_YEAR_OF_SERVERS = 2020  # cases write times of 2001, servers those of today (or of a simulated day)


def normal(notes: list[Note]) -> list[Json]:
    """The notes of one case, comparable with the same case's notes from another server."""
    return _Normaliser(notes).all()


class _Normaliser:
    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes
        own = sorted({int(version) for note in notes for version in _object_versions(note.body)})
        self._ranks = {version: rank for rank, version in enumerate(own, 1)}
        self._uids: dict[str, str] = {}

    def all(self) -> list[Json]:
        return [self._note(note) for note in self._notes]

    def _note(self, note: Note) -> Json:
        seen: Json = {"at": self._text(note.title)}
        if note.query:
            seen["query"] = {name: self._parameter(name, value) for name, value in note.query.items()}
        if note.sent is not None:
            seen["sent"] = self._value(note.sent, "")
        if note.status:
            seen["status"] = note.status
        if note.warnings:
            seen["warnings"] = note.warnings
        if note.retry_after:
            seen["retry after"] = note.retry_after
        seen["saw"] = self._value(note.body, "")
        return seen

    def _parameter(self, name: str, value: str) -> str:
        if name == "resourceVersion" and value.isdigit() and int(value) > 1:  # 0 and 1 mean themselves
            return self._floor(int(value))  # a list's may or may not be that of its newest object
        if name == "continue" and len(value) > 20:  # a token of the server's, not one a case made up
            return "<continue>"
        return self._text(value)

    def _value(self, value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self._value(one, name) for one in value]
        if not isinstance(value, str):
            return value
        if name == "resourceVersion" and value.isdigit():
            return self._version(int(value))
        if name == "continue" and value:
            return "<continue>"
        if name == "cells" and AGE.fullmatch(value):
            return "<age>"
        if name == "token" and value.count(".") == 2:
            return "<token>"
        return self._text(value)

    def _object(self, value: Json) -> Json:
        shown = {self._text(name): self._value(inner, name) for name, inner in sorted(value.items())}
        shown.pop(STORAGE_DIGEST, None)
        for column in shown.get("columnDefinitions") or ():
            column.pop("description", None)  # a paragraph of the API reference, which is not parsed
        for name, keys in UNORDERED.items():
            if name in shown:
                shown[name] = _ordered(shown[name], keys)
        meta = shown.get("metadata")
        if isinstance(meta, dict):
            version = str(value["metadata"].get("resourceVersion", ""))
            shown["metadata"] = self._metadata(meta, version, collection="items" in value or "rows" in value)
        if value.get("type") == "BOOKMARK" and isinstance(shown.get("object"), dict):
            bookmark = value["object"]["metadata"]
            shown["object"]["metadata"]["resourceVersion"] = self._floor(int(bookmark["resourceVersion"]))
        return shown

    def _metadata(self, meta: Json, version: str, *, collection: bool) -> Json:
        if collection and version.isdigit():
            meta["resourceVersion"] = self._floor(int(version))
        prefix = meta.get("generateName")
        if prefix and str(meta.get("name", "")).startswith(prefix):
            meta["name"] = f"{prefix}<{len(meta['name']) - len(prefix)} drawn>"
        return meta

    def _version(self, version: int) -> str:
        return f"rv{self._ranks[version]}" if version in self._ranks else self._floor(version)

    def _floor(self, version: int) -> str:
        """Where a version that is no object's stands among the case's own: a list's, a bookmark's."""
        below = [rank for own, rank in self._ranks.items() if own <= version]
        return f"rv{max(below)} or later" if below else "before rv1"

    def _text(self, text: str) -> str:
        text = UUID.sub(lambda found: self._uids.setdefault(found[0], f"uid{len(self._uids) + 1}"), text)
        text = TIME.sub(_time, text)
        text = MOUNTED_TOKEN.sub("kube-api-access-<5 drawn>", text)
        text = PRECONDITION.sub(r"\1 (<version>)", text)
        text = SEVERAL.sub(r"\1<the causes>]", text)
        text = WHOLE_OBJECT.sub("Invalid value: <the object>", text)
        text = READERS_WORDS.sub("<the reader's words>", text)
        return VERSIONS.sub(_versions, text)


def _ordered(value: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return value
    return sorted(value, key=lambda one: [str(one.get(key, "")) for key in keys])


def _object_versions(value: Any) -> Iterator[str]:
    """The resourceVersions of objects (not of lists, tables and bookmarks) anywhere inside an answer."""
    if isinstance(value, list):
        for one in value:
            yield from _object_versions(one)
        return
    if not isinstance(value, dict) or value.get("type") == "BOOKMARK":
        return
    meta = value.get("metadata")
    collection = "items" in value or "rows" in value
    if isinstance(meta, dict) and not collection and str(meta.get("resourceVersion", "")).isdigit():
        yield meta["resourceVersion"]
    for inner in value.values():
        yield from _object_versions(inner)


def _time(found: re.Match[str]) -> str:
    if int(found[1]) < FIRST_YEAR_OF_SERVERS:
        return found[0]
    return f"<time{'.' + str(len(found[2]) - 1) if found[2] else ''} {found[3]}>"


def _versions(found: re.Match[str]) -> str:
    current = f"{found[4]}<version>" if found[4] else ""
    return f"{found[1]}<version>{' (<version>)' if found[2] else ''}{current}"


def seconds_between(earlier: str, later: str) -> float:
    """The length between two times as the API writes them."""
    return (_moment(later) - _moment(earlier)).total_seconds()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
