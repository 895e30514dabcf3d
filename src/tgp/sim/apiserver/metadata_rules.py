"""Object metadata: filled in by the server, checked for every kind alike."""

from tgp.ports.entropy import Entropy
from tgp.sim.apiserver.json_value import Json, metadata
from tgp.sim.apiserver.names import NAME_RULES, is_dns_label, is_label_value, is_path_segment, is_qualified_name
from tgp.sim.apiserver.problems import invalid_value, required, shown
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause, bad_request

GENERATED_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words, no confusion of 0/o and 1/l
GENERATED_LENGTH = 5
MAX_GENERATED_PREFIX = 63 - GENERATED_LENGTH
MAX_ANNOTATION_BYTES = 256 << 10
STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def generated_name(prefix: str, entropy: Entropy) -> str:
    drawn = entropy.token(GENERATED_LENGTH)
    return prefix[:MAX_GENERATED_PREFIX] + "".join(GENERATED_ALPHABET[byte % len(GENERATED_ALPHABET)] for byte in drawn)


def new_uid(entropy: Entropy) -> str:
    raw = bytearray(entropy.token(16))
    raw[6] = raw[6] & 0x0F | 0x40  # version 4
    raw[8] = raw[8] & 0x3F | 0x80  # variant 1
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def wipe_system_fields(obj: Json) -> None:
    """What a creator sends in these fields is not a refusal; it is not read."""
    meta = metadata(obj)
    for name in ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(name, None)


def tidy(obj: Json) -> None:
    """Typed metadata knows no empty maps, lists or nulls."""
    meta = metadata(obj)
    for name in [name for name, value in meta.items() if value is None or value in ({}, [], "")]:
        del meta[name]


def settle_namespace(served: Served, obj: Json, namespace: str) -> None:
    meta = metadata(obj)
    if not served.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace") not in {None, "", namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = namespace


def metadata_problems(served: Served, obj: Json) -> list[Cause]:
    meta = obj["metadata"]
    rule = NAME_RULES[served.traits.names]
    found: list[Cause] = []
    prefix = meta.get("generateName", "")
    if prefix:
        masked = prefix[:-1] + "a" if prefix.endswith("-") and served.traits.names != "segment" else prefix
        found += [invalid_value("metadata.generateName", prefix, why) for why in rule(masked)]
    name = meta.get("name", "")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        reasons = rule(name) or is_path_segment(name)
        found += [invalid_value("metadata.name", name, why) for why in reasons]
    if served.namespaced:
        namespace = meta.get("namespace", "")
        found += [invalid_value("metadata.namespace", namespace, why) for why in is_dns_label(namespace)]
    return found + mutable_problems(served, obj)


def mutable_problems(served: Served, obj: Json) -> list[Cause]:
    """Labels, annotations, owners and finalizers: checked on every write."""
    meta = obj["metadata"]
    found: list[Cause] = []
    for key, value in (meta.get("labels") or {}).items():
        found += [invalid_value("metadata.labels", key, why) for why in is_qualified_name(key)]
        found += [invalid_value("metadata.labels", value, why) for why in is_label_value(value)]
    annotations = meta.get("annotations") or {}
    for key in annotations:
        found += [invalid_value("metadata.annotations", key, why) for why in is_qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        text = f"Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"
        found.append(Cause("FieldValueTooLong", text, "metadata.annotations"))
    found += _owner_problems(meta.get("ownerReferences") or [])
    return found + _finalizer_problems(meta.get("finalizers") or [], custom=served.custom)


def _owner_problems(owners: list[Json]) -> list[Cause]:
    found: list[Cause] = []
    controller = ""
    path = "metadata.ownerReferences"
    for owner in owners:
        if not owner.get("apiVersion"):
            found.append(invalid_value(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
        found += [
            invalid_value(f"{path}.{name}", owner.get(name, ""), "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        ]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            found.append(invalid_value(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller") is True:
            named = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {named}"
                )
                found.append(invalid_value(path, [_as_struct(each) for each in owners], why))
            else:
                controller = named
    return found


OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def _as_struct(owner: Json) -> Json:
    """In the order of the Go struct, as it is printed."""
    return {name: owner[name] for name in OWNER_FIELDS if name in owner}


def _finalizer_problems(finalizers: list[str], *, custom: bool) -> list[Cause]:
    path = "metadata.finalizers"
    found: list[Cause] = []
    for index, name in enumerate(finalizers):
        found += [invalid_value(path, name, why) for why in is_qualified_name(name)]
        if not custom and "/" not in name and name not in STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid_value(f"{path}[{index}]", name, why))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(Cause("FieldValueInvalid", f"Invalid value: {shown(finalizers)}: {why}", path))
    return found
