"""Maps Vultr's errors. They have no codes, only `{"error": "text", "status": n}`: a listed status and this
very envelope make a definite refusal, and the text says which. An answer without the envelope proves nothing.
"""

from datetime import timedelta

from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.adapters.clouds.vultr.facts import FACTS
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

TITLE = FACTS.title
TROUBLE_PAUSE = timedelta(seconds=10)
BAD_REQUEST, STRANGER, FORBIDDEN, MISSING, BUSY = 400, 401, 403, 404, 429
# documented: the request is malformed, or refers to something that does not exist
MALFORMED = frozenset({BAD_REQUEST, MISSING})

# Texts of refusals; none is documented, so any other text counts as an invalid order.
EMPTY = ("not available", "unavailable", "out of stock", "sold out", "no capacity", "insufficient capacity")
SPENT = (
    "insufficient funds",
    "insufficient credit",
    "insufficient balance",
    "payment",
    "limit",
    "quota",
    "maximum number",
)


def said_in(reply: Reply) -> str | None:
    """The text of an error in Vultr's envelope; None: another format."""
    try:
        body = reply.json()
    except UnreadableReply:
        return None
    if not isinstance(body, dict) or body.get("status") != reply.status:
        return None
    text = body.get("error")
    return text if isinstance(text, str) else None


def refusal(reply: Reply, verb: str, *confidences: Confidence) -> CloudError | None:
    """The definite refusal of a change; None: the outcome is unknown."""
    if reply.status == BUSY:
        return _slow_down(reply, verb)
    text = said_in(reply)
    if text is None:
        return None
    words = quoted(text, *confidences)
    if reply.status in (STRANGER, FORBIDDEN):
        return _key_refused(reply, verb, words)
    if reply.status not in MALFORMED:
        return None
    lower = text.lower()
    if any(word in lower for word in SPENT):
        return AccountExhausted(f"{TITLE} refused {verb} because the account's limit is reached: {words}")
    if any(word in lower for word in EMPTY):
        return SoldOut(f"{TITLE} refused {verb} because the plan is sold out: {words}")
    return OrderRefused(f"{TITLE} refused {verb}: {words}")


def look_failed(reply: Reply, verb: str, *confidences: Confidence) -> CloudError:
    """The error of a failed read. Never means "absent"."""
    text = said_in(reply)
    if text is not None and reply.status in (STRANGER, FORBIDDEN):
        return _key_refused(reply, verb, quoted(text, *confidences))
    if reply.status == BUSY:
        return _slow_down(reply, verb)
    if reply.status >= 500:
        return CloudBusy(f"{TITLE} failed ({verb}): {reply.status}", TROUBLE_PAUSE)
    return CannotTell(f"{TITLE} answered {reply.status} to {verb}")


def _key_refused(reply: Reply, verb: str, words: str) -> KeyRefused:
    advice = (
        "the API key is invalid, or this address is not in the key's access control list at Vultr"
        if reply.status == STRANGER
        else "the user of the API key does not have the permission"
    )
    return KeyRefused(f"{TITLE} refused {verb}: {advice} ({words})")


def _slow_down(reply: Reply, verb: str) -> CloudBusy:
    return CloudBusy(f"{TITLE} limits the rate of calls ({verb})", reply.retry_after)
