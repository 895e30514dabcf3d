"""Rows of volumes, claims on them, and who provides them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tgp.sim.apiserver.tables.column import Printer, columns
from tgp.sim.apiserver.tables.text import at, born, name

_UNSET = "<unset>"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(given: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (given or ()))


def _phase(obj: Mapping[str, Any]) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(at(obj, "status", "phase") or "")


def _claim(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    volume = spec.get("volumeName") or ""
    return [
        name(obj),
        _phase(obj),
        volume,
        str(at(status, "capacity", "storage") or "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or _UNSET,
        born(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _volume(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name(obj),
        str(at(spec, "capacity", "storage") or "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or _UNSET,
        at(obj, "status", "reason") or "",
        born(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _storage_class(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return [
        f"{name(obj)} (default)" if default else name(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        born(obj, now),
    ]


def _attachment(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    volume = at(spec, "source", "persistentVolumeName") or ""
    attached = bool(at(obj, "status", "attached"))
    return [name(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, born(obj, now)]


def _node_drivers(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), len(at(obj, "spec", "drivers") or ()), born(obj, now)]


STORAGE = {
    ("", "PersistentVolumeClaim"): Printer(
        columns("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age", "VolumeMode"), _claim
    ),
    ("", "PersistentVolume"): Printer(
        columns(
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age",
            "VolumeMode",
        ),
        _volume,
    ),
    ("storage.k8s.io", "StorageClass"): Printer(
        columns("Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"), _storage_class
    ),
    ("storage.k8s.io", "VolumeAttachment"): Printer(columns("Name|Attacher|PV|Node|Attached:b|Age"), _attachment),
    ("storage.k8s.io", "CSINode"): Printer(columns("Name|Drivers:i|Age"), _node_drivers),
}
