"""Maps answers of the API server to errors. No I/O.

Only answers that certainly stored nothing become errors that say so. For a changing call every other refusal (5xx, a
page of HTML, nothing at all) is `WriteUnknown`: "etcdserver: request timed out" may well have been stored.
"""

from datetime import timedelta
from typing import Any

import msgspec

from tgp.ports.cluster import (
    AlreadyExists,
    Blocked,
    ClusterBusy,
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    Unauthenticated,
    WriteUnknown,
)
from tgp.ports.http import Reply, UnreadableReply

MAX_MESSAGE = 1_024  # characters of a server's message that we pass on; CEL rules can answer with pages
MAX_CAUSES = 16  # how many of its causes we look at

# The server's own messages, where its status codes are ambiguous.
WEBHOOK_UNREACHABLE = "failed calling webhook"  # apiserver/pkg/admission/plugin/webhook/errors: nothing was stored
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"  # registry/core/pod/storage/eviction.go, a 500
TOO_LARGE = "ResourceVersionTooLarge"  # apimachinery/pkg/apis/meta/v1/types.go, the type of a cause
# Both are a 409: apiserver/pkg/registry/generic/registry/store.go says the first, pkg/storage/interfaces.go the second.
OTHER_UID = ("the UID in the precondition", "Precondition failed: UID in precondition")


class Status(msgspec.Struct, frozen=True):
    """The readable part of a refusal: a Status object, or a description of something else."""

    code: int
    reason: str
    message: str
    causes: tuple[tuple[str, str], ...]  # (type, field)
    retry_after: timedelta | None

    def has_cause(self, kind: str) -> bool:
        return any(cause == kind for cause, _ in self.causes)

    def blames(self, field: str) -> bool:
        return any(name == field for _, name in self.causes)


def read_status(reply: Reply) -> Status:
    """Never raises: proxies answer with anything."""
    try:
        body = reply.json()
    except UnreadableReply as error:
        said = "nothing" if not reply.content else str(error)
        return Status(reply.status, "", said, (), reply.retry_after)
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return Status(reply.status, "", "JSON that is not a Status object", (), reply.retry_after)
    return status_of(body, reply.status, reply.retry_after)


def status_of(body: dict[str, Any], code: int = 0, retry_after: timedelta | None = None) -> Status:
    """Read a Status object, also one that came inside a watch."""
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0:
        retry_after = timedelta(seconds=min(seconds, 86_400))
    stated = body.get("code")
    return Status(
        code or (stated if isinstance(stated, int) else 0),
        _text(body.get("reason")),
        _text(body.get("message"))[:MAX_MESSAGE],
        _causes(details.get("causes")),
        retry_after,
    )


def _causes(causes: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(causes, list):
        return ()
    # `reason` is the wire name of a cause's type.
    return tuple((_text(c.get("reason")), _text(c.get("field"))) for c in causes[:MAX_CAUSES] if isinstance(c, dict))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def error_for(reply: Reply, what: str, *, changes: bool) -> ClusterError:
    """The error that a refusal means; `what` says what was tried. Call it only for a reply that is not ok."""
    return error_of(read_status(reply), what, changes=changes)


def error_of(status: Status, what: str, *, changes: bool) -> ClusterError:
    text = f"{what}: {status.code} {status.reason}".rstrip() + (f": {status.message}" if status.message else "")
    match status.code:
        case 401:
            return Unauthenticated(text)
        case 403 if _is_about_our_role(status):
            return Forbidden(text)
        case 404:
            return NotFound(text)
        case 409 if status.reason == "AlreadyExists":
            return AlreadyExists(text)
        case 409:
            return Conflict(text)
        case 410:
            return Expired(text)
        case 504 if status.has_cause(TOO_LARGE):  # the server is behind our version: list again
            return Expired(text)
        case 422 if changes and status.blames("metadata.uid"):  # a patch meant for an object that was replaced
            return Conflict(text)
        case 429 if status.has_cause("DisruptionBudget"):
            return Blocked(text, status.retry_after)
        case 429:
            return ClusterBusy(text, status.retry_after)
        case 400 | 403 | 405 | 406 | 413 | 415 | 422:
            return Refused(text)
        case code if 300 <= code < 400:
            return ClusterBusy(f"{what}: {code}, a redirect, which is not followed: check the API server's address")
        case 500 if changes and SEVERAL_BUDGETS in status.message:
            return Refused(text)
        case 500 if changes and WEBHOOK_UNREACHABLE in status.message:
            return ClusterBusy(text, status.retry_after)
        case _ if changes:
            return WriteUnknown(text)
        case _:
            return ClusterBusy(text, status.retry_after)


def meant_another_object(error: Conflict) -> bool:
    """Another object has the name now: the one with the given uid is gone."""
    return any(words in str(error) for words in OTHER_UID)


def _is_about_our_role(status: Status) -> bool:
    """RBAC names the user in a 403; admission plugins, quotas and terminating namespaces answer 403 as well."""
    if not status.reason:  # a proxy's 403: not admission's
        return True
    return 'User "' in status.message and " cannot " in status.message
