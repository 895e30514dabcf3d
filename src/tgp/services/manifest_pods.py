"""The pods that a manifest would make, as if they were stored and waited: for a plan before anything is applied."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tgp.adapters.kube.records.pod import PodReader
from tgp.api.field_error import FieldError, Invalid, Reason
from tgp.api.quantity import NotAQuantity
from tgp.core.model.pod import UNSCHEDULABLE, Pod

COPIES = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})  # they have `replicas`
MOST_PODS = 20_000  # of a manifest
_WAITS = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": UNSCHEDULABLE}]}


@dataclass(frozen=True, slots=True)
class ManifestPods:
    pods: tuple[Pod, ...] = ()
    skipped: tuple[str, ...] = ()  # objects that make no pods here, as "Service web"
    ignored: tuple[str, ...] = ()  # parts of objects that a plan does not look at


@dataclass(frozen=True, slots=True)
class _Template:
    """A pod template, and how many pods are made of it."""

    name: str
    namespace: str
    content: Any
    at: str  # its place in the object: "Job train: spec.template"
    copies: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)


def pods_in(documents: Iterable[Any], namespace: str) -> ManifestPods:
    """`namespace` is for objects that name none. Raises Invalid, which names the field."""
    objects = [each for document in documents for each in _objects(document)]
    made_here = {_name(each) for each in objects if each.get("kind") == "PersistentVolumeClaim"}
    found: list[Pod] = []
    skipped, ignored = [], []
    for each in objects:
        templates = tuple(_templates(each, namespace))
        if not templates and each.get("kind") not in _KINDS:
            skipped.append(f"{each.get('kind', 'an object without a kind')} {_name(each)}".strip())
        if (each.get("spec") or {}).get("volumeClaimTemplates"):
            ignored.append(f"{each['kind']} {_name(each)}: volumes of volumeClaimTemplates")
        for template in templates:
            found += _made(template, made_here, len(found))
    return ManifestPods(tuple(found), tuple(skipped), tuple(ignored))


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise _wrong("", "must be an object with apiVersion and kind")
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        for item in items:
            yield from _objects(item)
        return
    if not isinstance(document.get("kind"), str):
        raise _wrong("kind", "is required: Pod, Job, Deployment, …", Reason.REQUIRED)
    yield document


def _templates(document: Mapping[str, Any], default: str) -> Iterator[_Template]:
    kind, name = document["kind"], _name(document)
    title = f"{kind} {name}".strip()
    meta = document.get("metadata") or {}
    namespace = str(meta.get("namespace") or default)
    if kind == "Pod":
        yield _Template(name, namespace, document, title)
    elif kind == "Job":
        yield _of_job(document, name, namespace, f"{title}: spec")
    elif kind == "CronJob":
        at = f"{title}: spec.jobTemplate"
        template = _object(_object(document.get("spec"), f"{title}: spec").get("jobTemplate"), at)
        yield _of_job(template, name, namespace, f"{at}.spec")
    elif kind in COPIES:
        spec = _object(document.get("spec"), f"{title}: spec")
        copies = _whole(spec, "replicas", 1, f"{title}: spec")
        yield _Template(name, namespace, spec.get("template"), f"{title}: spec.template", copies)
    elif kind == "JobSet":
        spec = _object(document.get("spec"), f"{title}: spec")
        for place, written in enumerate(spec.get("replicatedJobs") or ()):
            at = f"{title}: spec.replicatedJobs[{place}]"
            job = _object(written, at)
            copies = _whole(job, "replicas", 1, at)
            inner = _of_job(_object(job.get("template"), f"{at}.template"), "", namespace, f"{at}.template.spec")
            named = f"{name}-{job.get('name', place)}"
            yield _Template(named, namespace, inner.content, inner.at, inner.copies * copies, inner.labels)


def _of_job(document: Mapping[str, Any], name: str, namespace: str, at: str) -> _Template:
    """As many pods as run at the same time."""
    spec = _object(document.get("spec"), at)
    parallelism = _whole(spec, "parallelism", 1, at)
    completions = _whole(spec, "completions", parallelism, at)
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name} if name else {}
    return _Template(name, namespace, spec.get("template"), f"{at}.template", min(parallelism, completions), labels)


def _made(template: _Template, made_here: set[str], before: int) -> Iterator[Pod]:
    content = _object(template.content, template.at)
    spec = _object(content.get("spec"), f"{template.at}.spec")
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        raise _wrong(f"{template.at}.spec.containers", "at least one container is required", Reason.REQUIRED)
    if before + template.copies > MOST_PODS:
        raise _wrong(template.at, f"the manifest makes more than {MOST_PODS} pods", Reason.TOO_MANY)
    volumes = [each for each in spec.get("volumes") or () if not _made_with_the_pod(each, made_here)]
    meta = content.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **template.labels}
    reader = PodReader()
    for number in range(template.copies):
        name = template.name if content.get("kind") == "Pod" else f"{template.name}-{number}"
        document = {
            "metadata": {
                "name": name,
                "namespace": template.namespace,
                "uid": f"manifest-{before + number}",
                "resourceVersion": "0",
                "labels": labels,
                "annotations": meta.get("annotations") or {},
            },
            "spec": {**{key: value for key, value in spec.items() if key != "nodeName"}, "volumes": volumes},
            "status": _WAITS,
        }
        yield _read(document, reader, template.at)


def _read(document: Mapping[str, Any], reader: PodReader, at: str) -> Pod:
    try:
        wire = msgspec.json.decode(msgspec.json.encode(document), type=reader.wire)
        return reader.read(wire, {})
    except (msgspec.ValidationError, NotAQuantity, ValueError, TypeError) as error:
        words, _, path = str(error).rpartition(" - at `$")
        place = f"{at}{path.rstrip('`')}" if words else f"{at}.spec"
        raise _wrong(place, words or str(error)) from error


def _made_with_the_pod(volume: Any, made_here: set[str]) -> bool:
    """Its claim does not exist yet, and will be bound wherever the pod goes."""
    if not isinstance(volume, dict):
        return False
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    return "ephemeral" in volume or claim in made_here


def _name(document: Mapping[str, Any]) -> str:
    meta = document.get("metadata") or {}
    return str(meta.get("name") or meta.get("generateName") or "").rstrip("-") or "unnamed"


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if value is None:
        raise _wrong(at, "", Reason.REQUIRED)
    if not isinstance(value, dict):
        raise _wrong(at, "must be an object")
    return value


def _whole(spec: Mapping[str, Any], name: str, default: int, at: str) -> int:
    value = spec.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(f"{at}.{name}", "must be a whole number, 0 or more", value=msgspec.json.encode(value).decode())
    return value


def _wrong(path: str, detail: str, reason: Reason = Reason.INVALID, value: str = "") -> Invalid:
    return Invalid([FieldError(path, reason, detail, value)])


_KINDS = frozenset({"Pod", "Job", "CronJob", "JobSet", "PersistentVolumeClaim", *COPIES})
