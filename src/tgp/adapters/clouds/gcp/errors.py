"""What Google's errors mean for us: of an answer's envelope, and of an operation that failed.

An error is `{"error": {"code", "message", "status", "errors": [{"reason", "message"}]}}`; a failed operation has
`{"error": {"errors": [{"code", "message"}]}}`. Only the entries of the tables here are known to mean that nothing was
made; everything else leaves the outcome open.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    SoldOut,
)
from tgp.ports.http import Reply, UnreadableReply

WHO = FACTS.title
ERRORS_READ = 16  # of one answer
QUOTA_OF_ALL = "GPUS_ALL_REGIONS"  # the project's quota for GPUs anywhere: no other zone helps

BY_REASON: Mapping[tuple[int, str], type[CloudError]] = {
    (400, "invalid"): OrderRefused,
    (400, "badRequest"): OrderRefused,
    (400, "required"): OrderRefused,
    (400, "parseError"): OrderRefused,
    (400, "resourceNotReady"): CloudBusy,
    (403, "quotaExceeded"): AccountExhausted,
    (403, "rateLimitExceeded"): CloudBusy,
    (403, "userRateLimitExceeded"): CloudBusy,
    (403, "billingNotEnabled"): AccountExhausted,
    (403, "forbidden"): KeyRefused,
    (403, "insufficientPermissions"): KeyRefused,
    (403, "required"): KeyRefused,  # "Required 'compute.instances.create' permission for …"
    (403, "accessNotConfigured"): KeyRefused,  # the Compute API is switched off in this project
    (404, "notFound"): OrderRefused,  # an image, a network, a machine type; of a machine's own address see `is_gone`
    (412, "conditionNotMet"): OrderRefused,  # a rule of the organisation
    (429, "quotaExceeded"): AccountExhausted,
}
BY_OPERATION: Mapping[str, type[CloudError]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": SoldOut,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": SoldOut,
    "insufficientCapacity": SoldOut,
    "QUOTA_EXCEEDED": AccountExhausted,
    "quotaExceeded": AccountExhausted,
    "RESOURCE_NOT_READY": CloudBusy,
    "RESOURCE_OPERATION_RATE_EXCEEDED": CloudBusy,
    "RATE_LIMIT_EXCEEDED": CloudBusy,
    "INVALID_FIELD_VALUE": OrderRefused,
    "INVALID_USAGE": OrderRefused,
    "INVALID_PARAMETER": OrderRefused,
    "RESOURCE_NOT_FOUND": OrderRefused,
    "CONDITION_NOT_MET": OrderRefused,
    "UNSUPPORTED_OPERATION": SoldOut,  # seen when a spot machine was preempted while being created
    "PERMISSIONS_ERROR": KeyRefused,
}
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_HARMLESS = re.compile(r"[\w./:*-]{0,160}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class GcpRefusal:
    """An error in Google's format; empty if the answer has another format."""

    reason: str = ""  # of an answer: notFound; of an operation: QUOTA_EXCEEDED
    message: str = ""

    def words(self, *confidences: Confidence) -> str:
        """For messages. It may quote secrets from our request: only plain names are shown."""
        plain = _QUOTED.sub(lambda found: found[0] if _HARMLESS.match(found[0][1:-1]) else "'…'", self.message)
        return f"{self.reason}: {quoted(plain, *confidences)}" if plain else self.reason or "no reason given"


def whatever_came(reply: Reply) -> dict[str, Any]:
    """The body where it is a JSON object, else an empty one: for answers that a proxy may have written."""
    try:
        body = reply.json()
    except UnreadableReply:
        return {}
    return body if isinstance(body, dict) else {}


def refusal_of(reply: Reply) -> GcpRefusal:
    error = whatever_came(reply).get("error")
    if not isinstance(error, dict) or error.get("code") != reply.status:
        return GcpRefusal()
    rows = error.get("errors")
    first = next((row for row in rows[:ERRORS_READ] if isinstance(row, dict)), {}) if isinstance(rows, list) else {}
    return GcpRefusal(_word(first.get("reason") or error.get("status")), _sentence(error.get("message")))


def failures_of(operation: Mapping[str, Any]) -> tuple[GcpRefusal, ...]:
    """Why an operation failed; empty: it did not. Its error is there as soon as it has failed."""
    error = operation.get("error")
    if error is None:
        return ()
    rows = error.get("errors") if isinstance(error, dict) else None
    found = [row for row in rows[:ERRORS_READ] if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(GcpRefusal(_word(row.get("code")), _sentence(row.get("message"))) for row in found) or (GcpRefusal(),)


def error_for(reply: Reply, what: str, *confidences: Confidence) -> CloudError | None:
    """The error of a known answer; None: unknown. 401 is handled by the caller."""
    found = refusal_of(reply)
    kind = BY_REASON.get((reply.status, found.reason))
    if kind is None and reply.status == 429:
        kind = CloudBusy
    if kind is None and reply.status == 403 and found.reason:
        kind = KeyRefused
    return _made(kind, f"{WHO} refused {what}: {found.words(*confidences)}", reply) if kind is not None else None


def error_of_operation(operation: Mapping[str, Any], what: str, *confidences: Confidence) -> CloudError | None:
    """The error of a known failed operation; None: unknown, or one of several errors is."""
    found = failures_of(operation)
    kinds = [BY_OPERATION.get(each.reason) for each in found]
    if not found or any(kind is None for kind in kinds):
        return None
    text = f"{WHO} failed {what}: {found[0].words(*confidences)}"
    if any(QUOTA_OF_ALL in each.message for each in found):
        text += f" ({QUOTA_OF_ALL}: the quota of the whole project)"
    return _made(kinds[0], text, None)


def unreadable_look(reply: Reply, what: str) -> CloudError:
    """For a failed read: it proves nothing."""
    known = error_for(reply, what)
    if isinstance(known, AccountExhausted) and refusal_of(reply).reason == "quotaExceeded":
        return CloudBusy(str(known), reply.retry_after)  # the API rate quota: no machine was ordered
    if known is not None and not isinstance(known, OrderRefused):
        return known
    if reply.status >= 500:
        return CloudBusy(f"{WHO} answered {reply.status} for {what}", reply.retry_after)
    return CannotTell(f"{WHO} answered {reply.status} for {what}: {refusal_of(reply).words()}")


def is_gone(reply: Reply, name: str) -> bool:
    """True: the 404 is about this very machine. A project or zone that is not found proves nothing."""
    found = refusal_of(reply)
    return reply.status == 404 and found.reason == "notFound" and f"/instances/{name}'" in found.message


def _made(kind: type[CloudError] | None, text: str, reply: Reply | None) -> CloudError:
    assert kind is not None
    if kind is CloudBusy:
        return CloudBusy(text, reply.retry_after if reply is not None else None)
    return kind(text)


def _word(value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_]{1,64}", value) else ""


def _sentence(value: Any) -> str:
    return value[:4096] if isinstance(value, str) else ""
