"""Our own kinds, decoded tolerantly into their types: unknown fields are ignored, unreadable objects are kept."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from tgp.adapters.kube.records.meta import ABSENT, UNDECODABLE, MetaWire, ObjectMetaReader, PartialObject, given
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.labels import NO_LABELS
from tgp.core.model.object_key import ObjectKey

T = TypeVar("T")


class _MetaWire(MetaWire, frozen=True, gc=False, rename="camel"):
    generation: int = 0


class _Wire(msgspec.Struct, frozen=True, gc=False):
    metadata: _MetaWire
    status: msgspec.Raw = ABSENT


class _StatusWire(msgspec.Struct, frozen=True, gc=False):
    status: msgspec.Raw = ABSENT


class _LifetimeWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    max_lifetime: Any = None
    ttl: Any = None


class _SpecWire(msgspec.Struct, frozen=True, gc=False):
    spec: _LifetimeWire = _LifetimeWire()


class TypedReader(Generic[T]):
    wire = msgspec.Raw  # each object is read twice: for its metadata, and whole

    def __init__(self, kind: type[T]) -> None:
        self._plates = ObjectMetaReader()
        self._whole: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self.pools = self._plates.pools()

    def read(self, wire: msgspec.Raw, known: Mapping[ObjectKey, KubeObject[T]]) -> KubeObject[T]:
        document = bytes(wire)
        outline = _OUTLINE.decode(document)
        meta = outline.metadata
        return KubeObject(
            **{
                **self._plates.fields(meta, known),
                "annotations": given(meta.annotations, self._plates.labels, NO_LABELS),
            },
            generation=meta.generation,
            owners=given(meta.owner_references, self._plates.owners, ()),
            value=self._whole.decode(document),
            status_document=bytes(outline.status),
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, KubeObject[T]]) -> KubeObject[T]:
        return KubeObject(
            **self._plates.bare(found, known),
            status_document=_status(found.document),
            lifetime_written=_lifetime(found.document),
        )


def _status(document: bytes) -> bytes:
    try:
        return bytes(_STATUS.decode(document).status)
    except UNDECODABLE:
        return b""


def _lifetime(document: bytes) -> str:
    try:
        spec = _LIFETIME.decode(document).spec
    except UNDECODABLE:
        return ""
    return next((each for each in (spec.max_lifetime, spec.ttl) if isinstance(each, str)), "")


_OUTLINE: msgspec.json.Decoder[_Wire] = msgspec.json.Decoder(_Wire)
_STATUS: msgspec.json.Decoder[_StatusWire] = msgspec.json.Decoder(_StatusWire)
_LIFETIME: msgspec.json.Decoder[_SpecWire] = msgspec.json.Decoder(_SpecWire)
