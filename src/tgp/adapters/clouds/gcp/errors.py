"""What Google's errors mean for us: of an answer's envelope, and of an operation that failed.

An error is `{"error": {"code", "message", "status", "errors": [{"reason", "message"}]}}`; a failed operation has
`{"error": {"errors": [{"code", "message"}]}}`. Only the entries of the tables here are known to mean that nothing was
made; everything else leaves the outcome open.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said, first_fitting
from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.parse import object_in
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    SoldOut,
)
from tgp.ports.http import Reply

WHO = FACTS.title
ERRORS_READ = 16  # of one answer
NO_STATUS = 0  # of an operation: only its code counts
QUOTA_OF_ALL = "GPUS_ALL_REGIONS"  # the project's quota for GPUs anywhere: no other zone helps

_BILLING = Row(AccountExhausted, (403,), ("billingNotEnabled",))
_BUSY = (
    Row(CloudBusy, (400,), ("resourceNotReady",)),
    Row(CloudBusy, (403,), ("rateLimitExceeded", "userRateLimitExceeded")),
)
# Any other reason: forbidden, insufficientPermissions, accessNotConfigured (the Compute API is switched off in this
# project), required ("Required 'compute.instances.create' permission for …").
_KEY = Row(KeyRefused, (403,))
ERRORS = ErrorTable(
    WHO,
    orders=(
        Row(OrderRefused, (400,), ("invalid", "badRequest", "required", "parseError")),
        Row(AccountExhausted, (403, 429), ("quotaExceeded",)),
        *_BUSY,
        _BILLING,
        _KEY,
        # an image, a network, a machine type; of a machine's own address see `is_gone`
        Row(OrderRefused, (404,), ("notFound",)),
        Row(OrderRefused, (412,), ("conditionNotMet",)),  # a rule of the organisation
    ),
    # of a read it is the quota of API calls: no machine was ordered
    looks=(Row(CloudBusy, (403, 429), ("quotaExceeded",)), *_BUSY, _BILLING, _KEY),
)
OPERATIONS = (
    Row(
        SoldOut,
        codes=(
            "ZONE_RESOURCE_POOL_EXHAUSTED",
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "insufficientCapacity",
            "UNSUPPORTED_OPERATION",  # seen when a spot machine was preempted while being created
        ),
    ),
    Row(AccountExhausted, codes=("QUOTA_EXCEEDED", "quotaExceeded")),
    Row(CloudBusy, codes=("RESOURCE_NOT_READY", "RESOURCE_OPERATION_RATE_EXCEEDED", "RATE_LIMIT_EXCEEDED")),
    Row(
        OrderRefused,
        codes=("INVALID_FIELD_VALUE", "INVALID_USAGE", "INVALID_PARAMETER", "RESOURCE_NOT_FOUND", "CONDITION_NOT_MET"),
    ),
    Row(KeyRefused, codes=("PERMISSIONS_ERROR",)),
)
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


def refusal_of(reply: Reply) -> GcpRefusal:
    error = object_in(reply).get("error")
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


def said_in(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: not in Google's envelope, or without a reason. 401 is handled by the caller."""
    found = refusal_of(reply)
    return Said(found.words(*confidences), found.reason) if found.reason else None


def error_of_operation(operation: Mapping[str, Any], what: str, *confidences: Confidence) -> CloudError | None:
    """The error of a known failed operation; None: unknown, or one of several errors is."""
    found = failures_of(operation)
    rows = [first_fitting(OPERATIONS, NO_STATUS, Said("", each.reason)) for each in found]
    if not found or rows[0] is None or None in rows:
        return None
    text = f"{WHO} failed {what}: {found[0].words(*confidences)}"
    if any(QUOTA_OF_ALL in each.message for each in found):
        text += f" ({QUOTA_OF_ALL}: the quota of the whole project)"
    return rows[0].error(text)


def look_failed(reply: Reply, what: str) -> CloudError:
    """For a failed read: it proves nothing."""
    return ERRORS.after_look(reply, said_in(reply), what)


def is_gone(reply: Reply, name: str) -> bool:
    """True: the 404 is about this very machine. A project or zone that is not found proves nothing."""
    found = refusal_of(reply)
    return reply.status == 404 and found.reason == "notFound" and f"/instances/{name}'" in found.message


def _word(value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_]{1,64}", value) else ""


def _sentence(value: Any) -> str:
    return value[:4096] if isinstance(value, str) else ""
