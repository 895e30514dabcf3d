"""PATCH: which of the four forms it is, and what it makes of the stored object."""

from collections.abc import Callable

import msgspec

from tgp.api import validation
from tgp.ports.http import Call
from tgp.sim.apiserver.content import check_type, decode_text, media_type
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.field_manager import own_after_update
from tgp.sim.apiserver.json_value import Json, copied, metadata
from tgp.sim.apiserver.patch.apply import Application, remember_last_applied
from tgp.sim.apiserver.patch.json_patch import PatchFailed, json_patched
from tgp.sim.apiserver.patch.merge import merge_patched
from tgp.sim.apiserver.patch.renewal import STORAGE as LEASES
from tgp.sim.apiserver.patch.renewal import renewal
from tgp.sim.apiserver.patch.strategic import strategic_patched
from tgp.sim.apiserver.patch.typed import schema_of
from tgp.sim.apiserver.problems import invalid_value, shown
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import (
    Cause,
    Failure,
    bad_request,
    conflict,
    invalid,
    not_found,
    plain_500,
    unsupported_media_type,
    unsupported_patch_type,
)
from tgp.sim.apiserver.undecodable import Undecodable
from tgp.sim.apiserver.unknown_fields import check_declared, check_types, report_unknown_in_patch
from tgp.sim.apiserver.verbs.create import CreateOutcome, decoded
from tgp.sim.apiserver.verbs.update import change, narrow

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Patch = Callable[[Json], Json]  # the object as the request's version shows it → patched, not yet checked


def patch_kind(served: Served, call: Call) -> str:
    """Which of the forms a PATCH has; one that this kind does not take is refused (415)."""
    kind, accepted = media_type(call), _accepted(served)
    if kind not in accepted:
        raise unsupported_media_type(accepted) if served.custom else unsupported_patch_type()
    return kind


def patch(write: Write, kind: str, body: bytes) -> CreateOutcome:
    """PATCH as it came."""
    if kind == APPLY_PATCH:
        return apply(write, decode_text(body, yaml=True))
    if kind == MERGE_PATCH and write.served.storage == LEASES and (done := renewal(write, _read_patch(body))):
        return done
    return patch_with(write, reader(write.served, kind, body))


def _accepted(served: Served) -> tuple[str, ...]:
    if served.custom:
        return JSON_PATCH, MERGE_PATCH, APPLY_PATCH
    return JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH


def reader(served: Served, kind: str, body: bytes) -> Patch:
    """A patch body as a function; what cannot even be read is refused here (400)."""
    if kind == JSON_PATCH:
        try:
            operations = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        if not isinstance(operations, list):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
            )
        return lambda shown: _json_patch(shown, operations)
    sent = _read_patch(body)
    if kind == MERGE_PATCH:
        return lambda shown: dict(merge_patched(shown, sent))
    schema = schema_of(served)
    return lambda shown: dict(strategic_patched(schema, shown, sent))


def _read_patch(body: bytes) -> Json:
    try:
        sent = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: unexpected end of JSON input ({error})") from None
    if not isinstance(sent, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return sent


def _json_patch(shown: Json, operations: object) -> Json:
    try:
        result = json_patched(shown, operations)
    except PatchFailed as error:
        raise Failure(422, "Invalid", "the server rejected our request due to an error in our request", {}) from error
    if not isinstance(result, dict):
        raise bad_request("the patched document is no JSON object")
    return result


def patch_with(write: Write, patched: Patch) -> CreateOutcome:
    """Patch the stored object with a function of what it is now."""
    served = write.served
    existing = write.existing()
    if existing is None:
        raise not_found(served.group, served.plural, write.name)
    sent = patched(served.shown(existing.obj))
    manifest, claims = _claims_apart(sent, existing.obj)

    def make(live: Json | None) -> Json:
        assert live is not None, "looked up a moment ago, and nothing runs in between"
        obj = decoded(served, manifest)
        if claims is not None:
            metadata(obj)["managedFields"] = claims
        obj = narrow(write, live, obj)
        own_after_update(write, live, obj)
        return obj

    try:
        report_unknown_in_patch(served, manifest, write.options, write.ask)
        check_type(served, manifest)
        _check_same_object(manifest, write.namespace, write.name)
        return change(write, make)
    except Undecodable as error:
        raise invalid("", "", "", [invalid_value("patch", shown(sent), error.why)]) from None


def _claims_apart(sent: Json, stored: Json) -> tuple[Json, list[Json] | None]:
    """What a patch made, without the managedFields it left as they are stored; and those.

    They are half of many an object, and known to be in order: nothing in them needs to be read again.
    """
    meta = sent.get("metadata")
    claims = stored["metadata"].get("managedFields")
    if claims is None or not isinstance(meta, dict) or meta.get("managedFields") is not claims:
        return sent, None
    return {**sent, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}, claims


def _check_same_object(sent: Json, namespace: str, name: str) -> None:
    meta = metadata(sent)
    if meta.get("name") != name:
        raise bad_request(
            f"the name of the object ({meta.get('name', '')}) does not match the name on the URL ({name})"
        )
    if namespace and meta.get("namespace") not in {None, "", namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def apply(write: Write, config: Json) -> CreateOutcome:
    """Server-side apply; creates the object if it is not there (but not through a subresource)."""
    served, options = write.served, write.options
    _check_config(served, config, write.namespace, write.name)

    def make(live: Json | None) -> Json:
        now_shown = served.shown(live) if live is not None else None
        application = Application(
            served, options.manager, write.subresource, write.core.now_text(), force=options.force
        )
        result = application.onto(now_shown, copied(config))
        _check_status_stays(write, result)
        remember_last_applied(result, config, options.manager)
        claims = metadata(result).get("managedFields")
        obj = decoded(served, result)
        if served.custom:
            _keep_nulls(result, obj)
        if claims is not None:
            metadata(obj)["managedFields"] = claims
        return narrow(write, live, obj)

    uid = metadata(config).get("uid") or ""
    if uid and write.existing() is None and not write.subresource:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(served.group, served.plural, write.name, why)
    return change(write, make, may_create=True)


def _check_status_stays(write: Write, result: Json) -> None:
    """A manager that gives up all its status fields leaves a null there, and a null is no status."""
    served = write.served
    if write.subresource != "status" or not served.custom or result.get("status", {}) is not None:
        return
    causes = [
        Cause("FieldValueTypeInvalid", 'Invalid value: "null":  in body must be of type object: "null"', "status")
    ]
    if served.schema is not None and any(True for _ in validation.rules_in(served.schema)):
        causes.append(Cause("FieldValueInvalid", f"Invalid value: null: {validation.UNCHECKED}", "<nil>"))
    raise invalid(served.group, served.kind, write.name, causes)


def _check_config(served: Served, config: Json, namespace: str, name: str) -> None:
    """A configuration says what it is; its name and namespace follow from the path where it leaves them out."""
    if not config.get("apiVersion") or not config.get("kind"):
        group, _, version = str(config.get("apiVersion", "")).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind', '')}")
    try:
        check_types(served, config)
    except Undecodable as error:
        raise plain_500(error.why) from None
    meta = metadata(config)
    if meta.get("name") not in {None, "", name}:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if served.namespaced and meta.get("namespace") not in {None, "", namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["name"] = name
    check_declared(served, config)
    try:
        check_type(served, config)
    except Undecodable as error:
        raise plain_500(error.why) from None
    if served.namespaced:
        meta["namespace"] = namespace


def _keep_nulls(merged: Json, obj: Json) -> None:
    """What an apply leaves null is judged as null: only what comes over the wire is rid of nulls first."""
    for key, value in merged.items():
        if value is None and key != "metadata" and key not in obj:
            obj[key] = None
        elif isinstance(value, dict) and isinstance(obj.get(key), dict) and key != "metadata":
            _keep_nulls(value, obj[key])
