"""Paperspace's errors. They are `{code, message}` with a code that belongs to the status.

A refusal is definite only where it is in the table, has its code, and names no machine. Everything else that follows an
order is an unknown outcome: a conflict too, as it may be about the machine of this very order.
"""

import re
from collections.abc import Iterable
from typing import Any

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.adapters.clouds.parse import first_id, object_in, whatever_came
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.core.model.cloud_errors import AccountExhausted, KeyRefused, OrderRefused, SoldOut
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


_KEY = Row(KeyRefused, (401, 403))
ERRORS = ErrorTable(
    FACTS.title,
    orders=(
        Row(SoldOut, (400, 403, 412), texts=NO_CAPACITY, advice="sold out"),
        Row(AccountExhausted, (400, 403, 412), texts=NO_MONEY, advice="the account must be changed first"),
        _KEY,
        Row(OrderRefused, (400, 404, 405, 412, 413)),
    ),
    looks=(_KEY,),
    ends=(_KEY, Row(OrderRefused, (400, 405))),
    busy=(408,),
)


def said_in(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: not in Paperspace's envelope, or its code belongs to another status."""
    body, code = object_in(reply), CODES.get(reply.status)
    message = body.get("message")
    if code is None or body.get("code") != code or not isinstance(message, str):
        return None
    return Said(quoted(message, *confidences) or code, code, message.casefold())


def named_machine(reply: Reply) -> str:
    """An id anywhere in the answer that could be a machine's; empty: none."""
    return _named_in(whatever_came(reply), DEEPEST, describes=True)


def speaks_of_a_machine(reply: Reply, *ours: str) -> bool:
    """True: the text of an answer has what could be a machine's id and is not part of our order."""
    if named_machine(reply):
        return False  # more than a text
    text = reply.content.decode(errors="replace").casefold()
    return any(found not in ours for found in MACHINE_IN_WORDS.findall(text))


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
