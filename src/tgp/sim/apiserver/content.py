"""Request bodies: JSON or YAML in, one mapping out."""

import io

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tgp.ports.http import Call
from tgp.sim.apiserver.base64_values import check_base64
from tgp.sim.apiserver.core import Ask
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.options import WriteOptions
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Failure, bad_request, unsupported_media_type
from tgp.sim.apiserver.undecodable import Undecodable
from tgp.sim.apiserver.unknown_fields import check_types, repeated_fields, report, unknown_fields

MAX_BODY_BYTES = 3 << 20  # the real server's limit for a request body
READ_TYPES = frozenset({"application/json", "application/yaml"})
ACCEPTED_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")  # as the real one says
SHOWN_BYTES = 30  # of a body that could not be read


def media_type(call: Call) -> str:
    return call.header("Content-Type").partition(";")[0].strip().lower()


def decode_text(body: bytes, *, yaml: bool, kind: str = "") -> Json:
    """One mapping; anything else is a 400 that says what it is. `kind`: what it should have been."""
    if len(body) > MAX_BODY_BYTES:
        raise Failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
    try:
        value = _load_yaml(body) if yaml else msgspec.json.decode(body)
    except (msgspec.DecodeError, YAMLError, UnicodeDecodeError) as error:
        raise _unreadable(kind, _in_go_words(error, body), body) from None
    if not isinstance(value, dict):
        raise _unreadable(kind, "json: cannot unmarshal into Go value of type struct", body)
    return value


def _in_go_words(error: Exception, body: bytes) -> str:
    if "truncated" in str(error):
        return "unexpected end of JSON input"
    return f"invalid character {body.lstrip()[:1].decode(errors='replace')!r} looking for beginning of value: {error}"


def _unreadable(kind: str, why: str, body: bytes) -> Failure:
    text = f"couldn't get version/kind; json parse error: {why}"
    if not kind:
        return bad_request(text)
    shown = body[:SHOWN_BYTES].decode(errors="replace")
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {text} ({shown})")


def _load_yaml(body: bytes) -> object:
    if body.lstrip()[:1] == b"{":
        return msgspec.json.decode(body)
    return YAML(typ="safe", pure=True).load(io.BytesIO(body))


def read_body(call: Call, served: Served, options: WriteOptions, ask: Ask) -> Json:
    """The object a create or update carries, checked for being of the right kind and version."""
    media = media_type(call)
    if media and media not in READ_TYPES:
        raise unsupported_media_type(ACCEPTED_TYPES)
    obj = decode_text(call.body, yaml=media == "application/yaml", kind=served.kind)
    try:
        _tell_strictly(call.body, served, obj, options, ask)
        check_type(served, obj)
    except Undecodable as error:
        raise cannot_be(served, obj, error) from None
    return obj


def _tell_strictly(body: bytes, served: Served, obj: Json, options: WriteOptions, ask: Ask) -> None:
    """Unknown and repeated fields, before anything else is judged: a warning comes even with a refusal."""
    if options.validation == "Ignore":
        return
    version = obj.get("apiVersion") or served.api_version
    if served.custom and version != served.api_version:
        found = [name for name in obj if name not in {"apiVersion", "kind", "metadata"}]  # an unknown version
    else:
        found = unknown_fields(served, obj)
    report([*(f'duplicate field "{path}"' for path in repeated_fields(body)), *_unknown(found)], options, ask)


def _unknown(paths: list[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths]


def cannot_be(served: Served, obj: Json, error: Undecodable) -> Failure:
    kind = obj.get("kind") or served.kind
    return bad_request(f'{kind} in version "{served.version}" cannot be handled as a {served.kind}: {error.why}')


def check_type(served: Served, obj: Json) -> None:
    """Right apiVersion and kind, values of the right types; a built-in kind may leave the first two out."""
    version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if not isinstance(version, str) or not isinstance(kind, str):
        raise bad_request("couldn't get version/kind; json parse error: json: cannot unmarshal into Go struct field")
    if served.custom and not kind:
        raise bad_request("Object 'Kind' is missing in the body of the request")
    if (version or served.custom) and version != served.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({served.api_version})"
        )
    if kind and kind != served.kind:
        raise Undecodable(_why_not(kind, obj))
    check_types(served, obj)


def _why_not(kind: str, obj: Json) -> str:
    """The reader tries the kind the body names first, and may stumble there already."""
    if kind == "Secret":
        check_base64(obj.get("data"))
    return f"converting (v1.{kind}) to the kind of this path: unknown conversion"
