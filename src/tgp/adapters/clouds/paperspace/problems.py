"""What Paperspace's refusals mean. They are `{code, message}` with a code that belongs to the status.

A refusal is definite only where it is on the list below, has its code, and names no machine. Everything else that
follows an order is an unknown outcome: a conflict too, for it may be the machine of this very order.
"""

from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds.discreet import Confidence, quoted
from tgp.adapters.clouds.reading import Odd, identifier
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.http import Reply, Unreadable

CODES = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_SUPPORTED",
    408: "TIMEOUT",
    409: "CONFLICT",
    412: "PRECONDITION_FAILED",
    413: "PAYLOAD_TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
    500: "INTERNAL_SERVER_ERROR",
}
# The bodies of a machine's refusals are not published; these parts of texts, lower case, were seen or mean the same.
NO_CAPACITY = ("out of capacity", "no capacity", "insufficient capacity", "not enough capacity", "out of stock")
NO_MONEY = ("quota", "limit reached", "limit exceeded", "billing", "payment", "account standing", "credit")
ID_KEYS = {  # objects of an answer, and under which names an id of a machine may stand in them; "" is the answer itself
    "data": ("id", "machineId"),
    "machine": ("id", "machineId"),
    "details": ("machineId", "id"),
    "event": ("machineId",),  # its own id is not a machine's
    "": ("machineId", "id"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    code: str
    message: str

    def words(self, *confidences: Confidence) -> str:
        """For people. It may quote what it refuses: nothing that was told in confidence is repeated."""
        return quoted(self.message, *confidences) or self.code

    def tells(self, *parts: str) -> bool:
        text = self.message.casefold()
        return any(part in text for part in parts)


def problem_of(reply: Reply) -> Problem | None:
    """None: it is not in Paperspace's envelope, or its code belongs to another status."""
    body, code = body_of(reply), CODES.get(reply.status)
    if code is None or not isinstance(body, dict) or body.get("code") != code:
        return None
    message = body.get("message")
    return Problem(code, message) if isinstance(message, str) else None


def named_machine(reply: Reply) -> str:
    """An id in the answer that could be a machine's, however the answer is meant; empty: none."""
    body = body_of(reply)
    if not isinstance(body, dict):
        return ""
    for name, keys in ID_KEYS.items():
        place = body.get(name) if name else body
        if isinstance(place, dict) and (found := _id_in(place, keys)):
            return found
    return ""


def after_launch(reply: Reply, what: str, *confidences: Confidence) -> CloudError:
    """What to raise for an answer to an order that is no success."""
    if machine := named_machine(reply):
        return OutcomeUnknown(f"Paperspace answered an order for {what} with {reply.status} and {machine}", machine)
    if reply.status == 429:
        return busy(reply)
    problem = problem_of(reply)
    if problem is None:
        return OutcomeUnknown(f"Paperspace answered an order for {what} with {reply.status}, not in its own words")
    words = problem.words(*confidences)
    match reply.status:
        case 400 | 403 | 412 if problem.tells(*NO_CAPACITY):
            return SoldOut(f"Paperspace has no {what} left: {words}")
        case 400 | 403 | 412 if problem.tells(*NO_MONEY):
            return AccountExhausted(f"Paperspace wants the account in order first: {words}")
        case 401 | 403:
            return KeyRefused(f"Paperspace does not accept the key for an order: {words}")
        case 400 | 404 | 405 | 412 | 413:
            return OrderRefused(f"Paperspace refused an order for {what}: {words}")
        case status:
            return OutcomeUnknown(f"Paperspace answered an order for {what} with {status}: {words}")


def after_terminate(reply: Reply, machine: str, *confidences: Confidence) -> CloudError:
    problem = problem_of(reply)
    words = problem.words(*confidences) if problem else "not in its own words"
    match reply.status:
        case 429:
            return busy(reply)
        case 401 | 403 if problem:
            return KeyRefused(f"Paperspace's key may not end machine {machine}: {words}")
        case 400 | 405 if problem:
            return OrderRefused(f"Paperspace does not end machine {machine}: {words}")
        case status:
            return OutcomeUnknown(f"Paperspace answered the end of machine {machine} with {status}: {words}")


def after_look(reply: Reply, what: str, *confidences: Confidence) -> CloudError:
    problem = problem_of(reply)
    words = problem.words(*confidences) if problem else "not in its own words"
    match reply.status:
        case 429:
            return busy(reply)
        case 401 | 403 if problem:
            return KeyRefused(f"Paperspace does not accept the key for {what}: {words}")
        case status if status >= 500 or status == 408:
            return CloudBusy(f"Paperspace answered {status} to {what}")
        case status:
            return CannotTell(f"Paperspace answered {status} to {what}: {words}")


def busy(reply: Reply) -> CloudBusy:
    return CloudBusy("Paperspace asks us to slow down", reply.retry_after)


def body_of(reply: Reply) -> Any:
    """The decoded body; None where it is no JSON."""
    try:
        return reply.json()
    except Unreadable:
        return None


def _id_in(value: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        try:
            return identifier(value.get(key))
        except Odd:
            continue
    return ""
