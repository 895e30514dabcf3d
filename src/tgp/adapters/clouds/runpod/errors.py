"""RunPod's errors. They are `application/problem+json`: a title, a status, a detail.

A refusal is definite only where it is in the table, is a problem document, and names no pod. Everything else that
follows an order is an unknown outcome: RunPod has answered 500 and started the pod.
"""

import re
from datetime import timedelta
from typing import Any

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.parse import ID, first_id, object_in, whatever_came
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.core.model.cloud_errors import AccountExhausted, KeyRefused, OrderRefused, SoldOut
from tgp.ports.http import Reply

# 400 is an invalid order or no capacity, and only the text says which. Parts of observed texts, lower case.
NO_CAPACITY = (
    "no longer any instances available",
    "no instances currently available",
    "no instances available",
    "no available instances",
    "no capacity",
    "not enough capacity",
    "insufficient capacity",
    "out of stock",
    "could not be placed",
    "enough disk space",
    "does not have the resources",
)
NO_BALANCE = ("insufficient balance", "insufficient funds", "balance is too low", "spend limit", "spending limit")
# of a 403: otherwise the account has no access to the GPU pool
WEAK_KEY = ("api key", "permission", "scope", "read-only", "read only")
BROKEN_RULE = (  # of a 400 that is not about capacity: otherwise the vendor advises the next candidate
    "must ",
    "required",
    "invalid",
    "not valid",
    "not supported",
    "unsupported",
    "does not exist",
    "exceeds",
    "mutually exclusive",
)
ID_KEYS = ("id", "podId", "pod_id")
ID_DEPTH, ID_ROWS = 3, 100  # nesting depth and list rows that are searched for an id
WRAPPERS = ("pod", "data")  # in which a success could hold its pod
MOST_COMPLAINTS = 3  # of a validation that are shown
POD_PATH = re.compile(r"/pods/([^/?#]+)")
WINDOW = re.compile(r";r=0(?:;[^,]*?)?;t=(\d{1,5})\b")  # of the RateLimit header: nothing remains for t seconds
LONGEST_WINDOW = timedelta(days=1)


def said_in(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: not a problem document of this answer, so RunPod itself may not have written it."""
    body = object_in(reply)
    title, detail = (told if isinstance(told := body.get(name), str) else None for name in ("title", "detail"))
    if body.get("status", reply.status) != reply.status or (title is None and detail is None):
        return None
    said, complaints = detail or title or "", "; ".join(_complaints(body))
    words = quoted(f"{said} ({complaints})" if complaints else said, *confidences)
    return Said(words, text=f"{title or ''} {detail or ''}".casefold())


def _complaints(body: dict[str, Any]) -> tuple[str, ...]:
    """Each is a text that begins with the path: `$.disk: expected integer >= 1`."""
    rows = body.get("errors")
    told = [row for row in rows[:ID_ROWS] if isinstance(row, str)] if isinstance(rows, list) else []
    return tuple(told[:MOST_COMPLAINTS])


def says_gone(reply: Reply) -> bool:
    """True: RunPod itself says that there is no such pod, in a problem document, not a gateway's `Not Found`."""
    if reply.status != 404:
        return False
    body = whatever_came(reply)
    whole = isinstance(body, dict) and isinstance(body.get("title"), str) and isinstance(body.get("detail"), str)
    return whole and body.get("status") == 404


def named_pod(reply: Reply) -> str:
    """An id in the answer that could be a pod's; empty: none."""
    return _search(whatever_came(reply), ID_DEPTH)


def made_pod(reply: Reply) -> tuple[str, dict[str, Any]]:
    """Of a success: the pod's own id and its fields. Empty: no pod id, perhaps only a template's."""
    body = whatever_came(reply)
    rows = (body, *map(body.get, WRAPPERS)) if isinstance(body, dict) else ()
    return next(((pod, row) for row in rows if isinstance(row, dict) and (pod := first_id(row, *ID_KEYS))), ("", {}))


def _pause(reply: Reply) -> timedelta | None:
    return reply.retry_after or _window(reply)


def _window(reply: Reply) -> timedelta | None:
    """From `RateLimit: "minute";r=0;t=12`: until the last exhausted window has passed. None: unknown."""
    waits = [timedelta(seconds=int(found)) for found in WINDOW.findall(reply.header("RateLimit")[:1024])]
    return min(max(waits), LONGEST_WINDOW) if waits else None


def _search(value: Any, depth: int) -> str:
    if depth == 0:
        return ""
    if isinstance(value, list):
        return next((inner for each in value[:ID_ROWS] if (inner := _search(each, depth - 1))), "")
    if not isinstance(value, dict):
        return ""
    if found := first_id(value, *ID_KEYS):
        return found
    instance = value.get("instance")  # RFC 9457: a URI of what the problem is about
    if isinstance(instance, str) and (path := POD_PATH.search(instance)) and ID.match(path[1]):
        return path[1]
    return next((inner for each in value.values() if (inner := _search(each, depth - 1))), "")


_LOW_BALANCE = "the account's balance is too low"
_KEY = Row(KeyRefused, (401, 403))
ERRORS = ErrorTable(
    FACTS.title,
    orders=(
        Row(SoldOut, (400,), texts=NO_CAPACITY, advice="sold out"),
        Row(AccountExhausted, (400,), texts=NO_BALANCE, advice=_LOW_BALANCE),
        Row(AccountExhausted, (402,), advice=_LOW_BALANCE),
        Row(KeyRefused, (401,)),
        Row(KeyRefused, (403,), texts=WEAK_KEY, advice="the API key may not create pods"),
        # the vendor's own advice of the next two: try the next candidate
        Row(SoldOut, (403,), advice="not offered to this account, or the API key may not buy it"),
        Row(SoldOut, (400,), without=BROKEN_RULE, advice="not placed"),
        Row(OrderRefused, (400, 404, 405, 413, 422)),
    ),
    looks=(_KEY,),
    ends=(_KEY, Row(OrderRefused, (400, 409, 422))),
    pause=_pause,
)
