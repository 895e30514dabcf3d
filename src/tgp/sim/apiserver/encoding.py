"""Objects, lists and watch events as bytes, made from the bytes each record keeps."""

import msgspec

from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.storage import StoredObject


def _prefix(served: Served) -> bytes:
    if served.custom:
        return f'{{"apiVersion":"{served.api_version}","kind":"{served.kind}",'.encode()
    return f'{{"kind":"{served.kind}","apiVersion":"{served.api_version}",'.encode()


def object_bytes(served: Served, record: StoredObject) -> bytes:
    body = record.body(served.api_version, served.view)
    return _prefix(served) + body[1:]


def list_bytes(served: Served, records: list[StoredObject], metadata: Json) -> bytes:
    """Items of built-in kinds carry no kind and apiVersion of their own; custom ones do."""
    version, view = served.api_version, served.view
    if served.custom:
        prefix = _prefix(served)
        items = b",".join([prefix + record.body(version, view)[1:] for record in records])
        head = b'{"apiVersion":"%s","items":[' % version.encode()
        tail = b'],"kind":"%s","metadata":%s}' % (served.list_kind.encode(), msgspec.json.encode(metadata))
        return head + items + tail
    items = b",".join([record.body(version, view) for record in records])
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        served.list_kind.encode(),
        version.encode(),
        msgspec.json.encode(metadata),
    )
    return head + items + b"]}"


def event_line(kind: str, object_json: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), object_json)


def bookmark_line(served: Served, revision: int, *, initial_events_end: bool = False) -> bytes:
    metadata: Json = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    shown: Json = {"kind": served.kind, "apiVersion": served.api_version, "metadata": metadata}
    return event_line("BOOKMARK", msgspec.json.encode(shown))
