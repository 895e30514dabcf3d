"""What the API server asks of any object's metadata, besides what a kind's own rules ask."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tgp.api.cel import DNS_SUBDOMAIN_PATTERN
from tgp.api.field_error import FieldError, Reason
from tgp.api.pattern import matches

ANNOTATION_BYTES = 256 * 1024  # all of them together, keys and values
_SUBDOMAIN_MAX = 253
_PART_MAX = 63
_PART = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_MESSAGE = "must be lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
_KEY_MESSAGE = "must be a name of letters, digits, '-', '_' and '.', or a domain, a slash and such a name"
_VALUE_MESSAGE = "must be empty, or at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"
_OWNER_FIELDS = ("kind", "name", "uid")


def metadata_problems(metadata: Any) -> Iterator[FieldError]:
    """Of a manifest that a user wrote. Wrong types are left to the decoder."""
    said = metadata if isinstance(metadata, Mapping) else {}
    yield from _names(said)
    yield from _labels(said.get("labels"))
    yield from _annotations(said.get("annotations"))
    finalizers = said.get("finalizers")
    for finalizer in finalizers if isinstance(finalizers, list) else ():
        if isinstance(finalizer, str) and not _qualified(finalizer):
            yield FieldError("metadata.finalizers", Reason.INVALID, _KEY_MESSAGE, _shown(finalizer))
    owners = said.get("ownerReferences")
    yield from _owners([owner for owner in owners if isinstance(owner, Mapping)] if isinstance(owners, list) else [])


def _names(said: Mapping[str, Any]) -> Iterator[FieldError]:
    name, prefix = said.get("name"), said.get("generateName")
    if not name and not prefix:
        yield FieldError("metadata.name", Reason.REQUIRED, "name or generateName is required")
    elif name and isinstance(name, str) and not _subdomain(name):
        yield FieldError("metadata.name", Reason.INVALID, _NAME_MESSAGE, _shown(name))
    # A hyphen may stand at its end: something follows.
    if isinstance(prefix, str) and prefix and not _subdomain(re.sub("-$", "a", prefix)):
        yield FieldError("metadata.generateName", Reason.INVALID, _NAME_MESSAGE, _shown(prefix))


def _labels(labels: Any) -> Iterator[FieldError]:
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        if not _qualified(key):
            yield FieldError("metadata.labels", Reason.INVALID, _KEY_MESSAGE, _shown(key))
        if isinstance(value, str) and value and not _part(value):
            yield FieldError("metadata.labels", Reason.INVALID, _VALUE_MESSAGE, _shown(value))


def _annotations(annotations: Any) -> Iterator[FieldError]:
    if not isinstance(annotations, Mapping):
        return
    for key in annotations:
        if not _qualified(key.lower()):
            yield FieldError("metadata.annotations", Reason.INVALID, _KEY_MESSAGE, _shown(key))
    texts = (text for pair in annotations.items() for text in pair if isinstance(text, str))
    if sum(len(text.encode()) for text in texts) > ANNOTATION_BYTES:
        yield FieldError("metadata.annotations", Reason.TOO_LONG, f"may not be more than {ANNOTATION_BYTES} bytes")


def _owners(owners: list[Mapping[str, Any]]) -> Iterator[FieldError]:
    path = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not isinstance(version, str) or not version or version.count("/") > 1 or version.endswith("/"):
            yield FieldError(
                f"{path}.apiVersion", Reason.INVALID, "must be a version, or a group, a slash and a version"
            )
        for name in _OWNER_FIELDS:
            if not owner.get(name):
                yield FieldError(f"{path}.{name}", Reason.INVALID, "must not be empty", '""')
    apart = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]  # the server drops repetitions
    if sum(owner.get("controller") is True for owner in apart) > 1:
        yield FieldError(path, Reason.INVALID, "only one reference can be the controller")


def _subdomain(text: str) -> bool:
    return len(text) <= _SUBDOMAIN_MAX and matches(text, DNS_SUBDOMAIN_PATTERN)


def _part(text: str) -> bool:
    return len(text) <= _PART_MAX and _PART.fullmatch(text) is not None


def _qualified(key: str) -> bool:
    domain, slash, name = key.rpartition("/")
    return _part(name) and (not slash or _subdomain(domain))


def _shown(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
