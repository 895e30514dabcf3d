"""Refusals as the API server words them: a `Status` body, its code, and the headers that go with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tgp.ports.http import Pairs, Reply
from tgp.sim.apiserver.json_value import Json

JSON_HEADERS: Pairs = (("Content-Type", "application/json"),)


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong, and where."""

    reason: str
    message: str
    field: str = ""

    def as_json(self) -> Json:
        body: Json = {"reason": self.reason, "message": self.message}
        if self.field:
            body["field"] = self.field
        return body


@dataclass(slots=True)
class Failure(Exception):
    """A request that ends with a `Status` of `status: Failure`."""

    code: int
    reason: str
    message: str
    details: Json | None = None
    headers: Pairs = ()
    metadata: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def as_status(self) -> Json:
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def as_reply(self) -> Reply:
        return Reply(self.code, msgspec.json.encode(self.as_status()), JSON_HEADERS + self.headers)


def _details(group: str, plural: str, name: str) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if plural:
        details["kind"] = plural
    return details


def qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> Failure:
    message = f'{qualified(group, plural)} "{name}" not found'
    return Failure(404, "NotFound", message, _details(group, plural, name))


def already_exists(group: str, plural: str, name: str, *, going: bool = False) -> Failure:
    """`going`: it is on its way out, so that trying again later may help."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    if going:
        message = f"object is being deleted: {message}"
    return Failure(409, "AlreadyExists", message, _details(group, plural, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> Failure:
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return Failure(409, "Conflict", message, _details(group, plural, name))


def apply_conflict(message: str, causes: Sequence[Cause]) -> Failure:
    return Failure(409, "Conflict", message, {"causes": [cause.as_json() for cause in causes]})


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Failure:
    """422: each cause's message is what follows `field: ` in the summary, in the order found."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    summary = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    message = f'{qualified(group, kind)} "{name}" is invalid: {summary}' if lines else f'{kind} "{name}" is invalid'
    details = _details(group, kind, name)
    details["causes"] = [cause.as_json() for cause in causes]
    return Failure(422, "Invalid", message, details)


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> Failure:
    if name:
        message = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    else:
        message = f"{qualified(group, plural)} is forbidden: {why}"
    details = _details(group, plural, name)
    if causes:
        details["causes"] = [cause.as_json() for cause in causes]
    return Failure(403, "Forbidden", message, details)


def unauthorized() -> Failure:
    return Failure(401, "Unauthorized", "Unauthorized")


def internal(message: str) -> Failure:
    causes = {"causes": [{"message": message}]}
    return Failure(500, "InternalError", f"Internal error occurred: {message}", causes)


def plain_500(message: str) -> Failure:
    """An error the real server never gave a reason to."""
    return Failure(500, "", message)


def expired(message: str) -> Failure:
    return Failure(410, "Expired", message)


def no_such_path() -> Failure:
    """What a built-in group answers for a resource it does not have."""
    return Failure(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Failure:
    """What a path answers to a verb it does not serve."""
    return Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(accepted: Sequence[str]) -> Failure:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return Failure(415, "UnsupportedMediaType", message)


def unsupported_patch_type() -> Failure:
    """The same for a patch of a built-in kind, whose router refuses it first."""
    return Failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
