"""The name plate that every object has, as it is on the wire, and the parts of it worth sharing."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from tgp.adapters.kube.sharing import Pool
from tgp.core.model.key import Key
from tgp.core.model.labels import NO_LABELS
from tgp.core.model.pod import Owner
from tgp.core.model.record import pack_uid

T = TypeVar("T")

# What decoding raises for bytes that are not what they should be: no JSON, not of the type, no UTF-8, nested too deep.
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

ABSENT = msgspec.Raw(b"")  # the default of a sub-document; compared by identity

MAX_VERSION_DIGITS = 20  # an unsigned 64-bit number

# Annotations somebody here reads. All others (checksums, network addresses, last-applied copies) differ from pod to
# pod, weigh more than the rest of the record together, and are dropped.
KEPT_ANNOTATIONS = (
    "tgp.io/",
    "budget.zxuhan.dev/",
    "cluster-autoscaler.kubernetes.io/",
    "controller.kubernetes.io/",
    "kubernetes.io/config.mirror",
    "eks-node-viewer/",
)
# One search instead of decoding: 0.5 us for the usual 200 bytes, of which nothing is kept.
_ANY_KEPT = re.compile(b'"(?:' + b"|".join(re.escape(prefix.encode()) for prefix in KEPT_ANNOTATIONS) + b")").search


class MetaWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: msgspec.Raw = ABSENT
    annotations: msgspec.Raw = ABSENT
    owner_references: msgspec.Raw = ABSENT
    finalizers: msgspec.Raw = ABSENT


class BareMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The least that says which object it is; whatever else is in there may be malformed."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: msgspec.Raw = ABSENT
    deletion_timestamp: msgspec.Raw = ABSENT
    labels: msgspec.Raw = ABSENT
    annotations: msgspec.Raw = ABSENT
    finalizers: msgspec.Raw = ABSENT


class PlateWire(msgspec.Struct, frozen=True, gc=False):
    """Any object, of which only the name plate is read."""

    metadata: BareMeta


class Salvage(NamedTuple):
    """An object that could not be read as a whole: what is sure of it, and why."""

    meta: BareMeta
    document: bytes
    why: str


class NoPlate(ValueError):
    """Not even the name plate can be read: there is no telling which object this is."""


class Plates:
    """Turns wire metadata into record fields; the values it gives out are shared."""

    def __init__(self) -> None:
        self.names: Pool[str, str] = Pool(str)  # namespaces, nodes, schedulers: few, and repeated in every record
        self.labels: Pool[bytes, Mapping[str, str]] = Pool(msgspec.json.Decoder(dict[str, str]).decode)
        self.owners: Pool[bytes, tuple[Owner, ...]] = Pool(msgspec.json.Decoder(tuple[Owner, ...]).decode)
        self.texts: Pool[bytes, tuple[str, ...]] = Pool(msgspec.json.Decoder(tuple[str, ...]).decode)
        self._annotations: Pool[bytes, Mapping[str, str]] = Pool(msgspec.json.Decoder(dict[str, str]).decode)

    def pools(self) -> tuple[Pool[Any, Any], ...]:
        return (self.names, self.labels, self.owners, self.texts, self._annotations)

    def annotations(self, came: bytes) -> Mapping[str, str]:
        """Those somebody reads. Shared by what is kept, not by what came: the rest is different for every pod."""
        if _ANY_KEPT(came) is None:
            return NO_LABELS
        every = msgspec.json.decode(came, type=dict[str, str])
        kept = {name: value for name, value in every.items() if name.startswith(KEPT_ANNOTATIONS)}
        return self._annotations.share(msgspec.json.encode(kept, order="deterministic")) if kept else NO_LABELS

    def key(self, meta: MetaWire | BareMeta, known: Mapping[Key, Any]) -> Key:
        """The object's key: the very one a store holds already, if it holds it."""
        if not meta.name:
            raise NoPlate("an object without a name")
        # As Key(…) does, without the call of its __new__ in Python: there is one per event.
        key = tuple.__new__(Key, (self.names.share(meta.namespace), meta.name))
        held = known.get(key)
        return key if held is None else held.key

    def fields(self, meta: MetaWire, known: Mapping[Key, Any]) -> dict[str, Any]:
        """All of it as keyword arguments of a record; for kinds that are few."""
        return {
            "key": self.key(meta, known),
            "uid": pack_uid(meta.uid),
            "resource_version": version(meta.resource_version),
            "created_at": meta.creation_timestamp,
            "deletion_requested_at": meta.deletion_timestamp,
            "labels": given(meta.labels, self.labels, NO_LABELS),
            "annotations": NO_LABELS if meta.annotations is ABSENT else self.annotations(bytes(meta.annotations)),
            "finalizers": given(meta.finalizers, self.texts, ()),
        }

    def bare(self, found: Salvage, known: Mapping[Key, Any]) -> dict[str, Any]:
        """What can be had of an object that is malformed somewhere, perhaps in its metadata."""
        meta = found.meta
        return {
            "key": self.key(meta, known),
            "uid": pack_uid(meta.uid),
            "resource_version": version(meta.resource_version),
            "created_at": _or(None, _moment.decode, meta.creation_timestamp),
            "deletion_requested_at": _or(None, _moment.decode, meta.deletion_timestamp),
            "labels": _or(NO_LABELS, self.labels.share, meta.labels),
            "annotations": _or(NO_LABELS, self.annotations, meta.annotations),
            "finalizers": _or(_NONE, self.texts.share, meta.finalizers),
            "unreadable": found.why,
        }


_NONE: tuple[str, ...] = ()
_moment: msgspec.json.Decoder[datetime | None] = msgspec.json.Decoder(datetime | None)


def _or(otherwise: T, read: Callable[[bytes], T], raw: msgspec.Raw) -> T:
    document = bytes(raw)
    if document in (b"", b"null"):
        return otherwise
    try:
        return read(document)
    except UNDECODABLE:
        return otherwise


def given(raw: msgspec.Raw, pool: Pool[bytes, Any], otherwise: Any) -> Any:
    """The shared value of a sub-document, or what its absence means."""
    if raw is ABSENT:
        return otherwise
    document = bytes(raw)
    return otherwise if document == b"null" else pool.share(document)


def version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_VERSION_DIGITS):
        raise NoPlate(f"resourceVersion {text[:32]!r} is not a number")
    return int(text)
