"""PersistentVolumeClaims, PersistentVolumes and StorageClasses: what they say about where a pod may run."""

from collections.abc import Mapping

import msgspec

from tgp.adapters.kube.interning import InternPool
from tgp.adapters.kube.records.meta import ABSENT, MetaWire, ObjectMetaReader, PartialObject, given
from tgp.adapters.kube.records.podspec import RequiredNodesWire, required_nodes
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import NodeTerm
from tgp.core.model.storage import Claim, StorageClass, Volume

SELECTED_NODE = "volume.kubernetes.io/selected-node"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"  # wins over the field, as everywhere in Kubernetes
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
BIND_COMPLETED = b'"pv.kubernetes.io/bind-completed"'
_TELLING = (b"selected-node", b"storage-class")


class _ClaimSpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    storage_class_name: str | None = None
    volume_name: str = ""


class _ClaimStatusWire(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class ClaimWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: _ClaimSpecWire = _ClaimSpecWire()
    status: _ClaimStatusWire = _ClaimStatusWire()


class ClaimReader:
    wire = ClaimWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: ClaimWire, known: Mapping[ObjectKey, Claim]) -> Claim:
        share = self._plates.names.share
        written = bytes(wire.metadata.annotations)
        annotations = _annotations(written) if any(each in written for each in _TELLING) else {}
        storage_class = annotations.get(OLD_CLASS, wire.spec.storage_class_name)
        return Claim(
            **self._plates.fields(wire.metadata, known),
            phase=share(wire.status.phase),
            storage_class=None if storage_class is None else share(storage_class),
            volume=wire.spec.volume_name,
            bound=bool(wire.spec.volume_name) and BIND_COMPLETED in written,
            selected_node=share(annotations.get(SELECTED_NODE, "")),
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Claim]) -> Claim:
        return Claim(**self._plates.bare(found, known))


class _VolumeSpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: msgspec.Raw = ABSENT


class PersistentVolumeWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: _VolumeSpecWire = _VolumeSpecWire()


class VolumeReader:
    wire = PersistentVolumeWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self._node_terms: InternPool[bytes, tuple[NodeTerm, ...] | None] = InternPool(_volume_nodes)
        self.pools = (*self._plates.pools(), self._node_terms)

    def read(self, wire: PersistentVolumeWire, known: Mapping[ObjectKey, Volume]) -> Volume:
        terms = given(wire.spec.node_affinity, self._node_terms, None)
        return Volume(**self._plates.fields(wire.metadata, known), node_terms=terms)

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Volume]) -> Volume:
        return Volume(**self._plates.bare(found, known))


class _TopologyWire(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    values: tuple[str, ...] | None = None


class _TopologyTermWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_label_expressions: tuple[_TopologyWire, ...] | None = None


class StorageClassWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: MetaWire
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[_TopologyTermWire, ...] | None = None


class StorageClassReader:
    wire = StorageClassWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: StorageClassWire, known: Mapping[ObjectKey, StorageClass]) -> StorageClass:
        annotations = _annotations(bytes(wire.metadata.annotations))
        return StorageClass(
            **self._plates.fields(wire.metadata, known),
            binding_mode=wire.volume_binding_mode,
            provisioner=wire.provisioner,
            is_default=any(annotations.get(name) == "true" for name in DEFAULT_CLASS),
            topologies=tuple(_topology(term) for term in wire.allowed_topologies or ()),
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, StorageClass]) -> StorageClass:
        return StorageClass(**self._plates.bare(found, known))


def _annotations(document: bytes) -> Mapping[str, str]:
    return (_ANNOTATIONS.decode(document) or {}) if document else {}


def _volume_nodes(document: bytes) -> tuple[NodeTerm, ...] | None:
    return required_nodes(_VOLUME_NODES.decode(document).required)


def _topology(term: _TopologyTermWire) -> tuple[LabelRequirement, ...]:
    return tuple(LabelRequirement(each.key, "In", each.values or ()) for each in term.match_label_expressions or ())


class _VolumeNodesWire(msgspec.Struct, frozen=True, gc=False):
    required: RequiredNodesWire | None = None


_ANNOTATIONS: msgspec.json.Decoder[dict[str, str] | None] = msgspec.json.Decoder(dict[str, str] | None)
_VOLUME_NODES: msgspec.json.Decoder[_VolumeNodesWire] = msgspec.json.Decoder(_VolumeNodesWire)
