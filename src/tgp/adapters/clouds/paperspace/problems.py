"""Maps Paperspace's refusals. They are `{code, message}` with a code that belongs to the status.

A refusal is definite only where it is on the list below, has its code, and names no machine. Everything else that
follows an order is an unknown outcome: a conflict too, as it may be about the machine of this very order.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds import error_answers
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.adapters.clouds.parse import first_id, whatever_came
from tgp.adapters.clouds.redact import Confidence, quoted
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
# The bodies of a machine's refusals are not published; these parts of texts, lower case, were observed or are similar.
NO_CAPACITY = ("out of capacity", "no capacity", "insufficient capacity", "not enough capacity", "out of stock")
NO_MONEY = ("quota", "limit reached", "limit exceeded", "billing", "payment", "account standing", "credit")
MACHINE_PLACES = ("data", "machine", "machines", "details")  # a plain `id` there is a machine's; an event's is not
DEEPEST = 8  # levels of an answer that are searched for ids
MACHINE_IN_WORDS = re.compile(r"(?<![a-z0-9])ps(?=[a-z]*[0-9])[a-z0-9]{6,14}(?![a-z0-9])")  # such as ps3kd81ma


@dataclass(frozen=True, slots=True)
class PaperspaceProblem:
    code: str
    message: str

    def words(self, *confidences: Confidence) -> str:
        """For messages. It may quote what it refuses: our secrets are removed."""
        return quoted(self.message, *confidences) or self.code

    def tells(self, *parts: str) -> bool:
        text = self.message.casefold()
        return any(part in text for part in parts)


def problem_of(reply: Reply) -> PaperspaceProblem | None:
    """None: not in Paperspace's envelope, or its code belongs to another status."""
    body, code = whatever_came(reply), CODES.get(reply.status)
    if code is None or not isinstance(body, dict) or body.get("code") != code:
        return None
    message = body.get("message")
    return PaperspaceProblem(code, message) if isinstance(message, str) else None


def named_machine(reply: Reply) -> str:
    """An id anywhere in the answer that could be a machine's; empty: none."""
    return _named_in(whatever_came(reply), DEEPEST, describes=True)


def speaks_of_a_machine(reply: Reply, *ours: str) -> bool:
    """True: the text of an answer has what could be a machine's id and is not part of our order."""
    if named_machine(reply):
        return False  # more than a text
    text = reply.content.decode(errors="replace").casefold()
    return any(found not in ours for found in MACHINE_IN_WORDS.findall(text))


def after_launch(reply: Reply, what: str, *confidences: Confidence) -> CloudError:
    """The error for an error answer to an order."""
    if machine := named_machine(reply):
        return OutcomeUnknown(f"Paperspace answered an order for {what} with {reply.status} and {machine}", machine)
    if reply.status == 429:
        return busy(reply)
    problem = problem_of(reply)
    if problem is None:
        return OutcomeUnknown(f"Paperspace answered an order for {what} with {reply.status}, not in its error format")
    words = problem.words(*confidences)
    match reply.status:
        case 400 | 403 | 412 if problem.tells(*NO_CAPACITY):
            return SoldOut(f"Paperspace has no {what} left: {words}")
        case 400 | 403 | 412 if problem.tells(*NO_MONEY):
            return AccountExhausted(f"Paperspace requires changes to the account first: {words}")
        case 401 | 403:
            return KeyRefused(f"Paperspace refused the API key for an order: {words}")
        case 400 | 404 | 405 | 412 | 413:
            return OrderRefused(f"Paperspace refused an order for {what}: {words}")
        case status:
            return OutcomeUnknown(f"Paperspace answered an order for {what} with {status}: {words}")


def after_terminate(reply: Reply, machine: str, *confidences: Confidence) -> CloudError:
    if reply.status == 429:
        return busy(reply)
    return error_answers.after_end(reply, FACTS.title, f"machine {machine}", _words(reply, *confidences), (400, 405))


def after_look(reply: Reply, what: str, *confidences: Confidence) -> CloudError:
    if reply.status == 429:
        return busy(reply)
    return error_answers.after_look(reply, FACTS.title, what, _words(reply, *confidences), busy=(408,))


def _words(reply: Reply, *confidences: Confidence) -> str | None:
    problem = problem_of(reply)
    return problem.words(*confidences) if problem else None


def busy(reply: Reply) -> CloudBusy:
    return CloudBusy("Paperspace limits the rate of calls", reply.retry_after)


def _named_in(value: Any, deepest: int, *, describes: bool) -> str:
    """`describes`: the value is where machines are described, so that its plain `id` counts."""
    if deepest == 0 or not isinstance(value, dict | list):
        return ""
    if isinstance(value, list):
        return _first(_named_in(each, deepest - 1, describes=describes) for each in value)
    inside = [(name in MACHINE_PLACES, each) for name, each in value.items()]
    return (
        _first(_named_in(each, deepest - 1, describes=True) for place, each in inside if place)
        or first_id(value, *(("machineId", "id") if describes else ("machineId",)))
        or _first(_named_in(each, deepest - 1, describes=False) for place, each in inside if not place)
    )


def _first(found: Iterable[str]) -> str:
    return next((each for each in found if each), "")
