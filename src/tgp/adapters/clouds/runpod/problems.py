"""Maps RunPod's refusals. They are `application/problem+json`: a title, a status, a detail.

A refusal is definite only where it is on the list below, is a problem document, and names no pod. Everything else that
follows an order is an unknown outcome: RunPod has answered 500 and started the pod.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tgp.adapters.clouds import error_answers
from tgp.adapters.clouds.parse import ID, first_id, whatever_came
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
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


@dataclass(frozen=True, slots=True)
class RunpodProblem:
    title: str
    detail: str
    complaints: tuple[str, ...] = ()  # of a validation: where, and what

    def words(self, *confidences: Confidence) -> str:
        """For messages. It may quote what it refuses: our secrets are removed."""
        said = self.detail or self.title
        return quoted(f"{said} ({'; '.join(self.complaints)})" if self.complaints else said, *confidences)

    def tells(self, *parts: str) -> bool:
        text = f"{self.title} {self.detail}".casefold()
        return any(part in text for part in parts)


def problem_of(reply: Reply) -> RunpodProblem | None:
    """None: not a problem document of this answer, so RunPod itself may not have written it."""
    body = whatever_came(reply)
    if not isinstance(body, dict):
        return None
    title, detail, status = body.get("title"), body.get("detail"), body.get("status", reply.status)
    if status != reply.status or not (isinstance(title, str) or isinstance(detail, str)):
        return None
    return RunpodProblem(
        title if isinstance(title, str) else "", detail if isinstance(detail, str) else "", _complaints(body)
    )


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


def after_launch(reply: Reply, what: str, *confidences: Confidence) -> CloudError:
    """The error for an error answer to an order."""
    if pod := named_pod(reply):
        return OutcomeUnknown(f"RunPod answered an order for {what} with {reply.status} and a pod: {pod}", pod)
    if reply.status == 429:
        return busy(reply)
    problem = problem_of(reply)
    if problem is None:
        return OutcomeUnknown(f"RunPod answered an order for {what} with {reply.status} and an unreadable body")
    words = problem.words(*confidences)
    match reply.status:
        case 400 if problem.tells(*NO_CAPACITY):
            return SoldOut(f"RunPod has no {what} left: {words}")
        case 400 if problem.tells(*NO_BALANCE):
            return AccountExhausted(f"RunPod requires a higher account balance: {words}")
        case 402:
            return AccountExhausted(f"RunPod requires a higher account balance: {words}")
        case 401:
            return KeyRefused(f"RunPod refused the API key: {words}")
        case 403 if problem.tells(*WEAK_KEY):
            return KeyRefused(f"RunPod's API key may not create pods: {words}")
        case 403:  # the vendor's own advice: try the next candidate
            return SoldOut(f"RunPod does not offer {what} to this account, or the API key may not buy it: {words}")
        case 400 if not problem.tells(*BROKEN_RULE):
            return SoldOut(f"RunPod did not place {what}: {words}")
        case 400 | 404 | 405 | 413 | 422:
            return OrderRefused(f"RunPod refused an order for {what}: {words}")
        case status:
            return OutcomeUnknown(f"RunPod answered an order for {what} with {status}: {words}")


def after_terminate(reply: Reply, pod: str, *confidences: Confidence) -> CloudError:
    if reply.status == 429:
        return busy(reply)
    return error_answers.after_end(reply, FACTS.title, f"pod {pod}", _words(reply, *confidences), (400, 409, 422))


def after_look(reply: Reply, what: str, *confidences: Confidence) -> CloudError:
    if reply.status == 429:
        return busy(reply)
    return error_answers.after_look(reply, FACTS.title, what, _words(reply, *confidences))


def _words(reply: Reply, *confidences: Confidence) -> str | None:
    problem = problem_of(reply)
    return problem.words(*confidences) if problem else None


def busy(reply: Reply) -> CloudBusy:
    return CloudBusy("RunPod limits the rate of calls", reply.retry_after or _window(reply))


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
