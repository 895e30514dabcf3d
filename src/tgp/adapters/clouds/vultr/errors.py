"""What Vultr's errors mean. They have no codes, only `{"error": "text", "status": n}`: a status of the list and this
very envelope make a definite refusal, and words in the text tell which. Whatever lacks the envelope proves nothing.
"""

from datetime import timedelta

from tgp.adapters.clouds.discreet import Confidence, quoted
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
from tgp.ports.http import Reply, Unreadable

TITLE = FACTS.title
TROUBLE_PAUSE = timedelta(seconds=10)
BAD_REQUEST, STRANGER, FORBIDDEN, MISSING, BUSY = 400, 401, 403, 404, 429
MALFORMED = frozenset({BAD_REQUEST, MISSING})  # documented: the request was not understood, or names what is not there

# Words of refusals; none is documented, so what matches nothing is an order that is wrong.
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
    """The text of an error in Vultr's envelope; None: it is not in it."""
    try:
        body = reply.json()
    except Unreadable:
        return None
    if not isinstance(body, dict) or body.get("status") != reply.status:
        return None
    text = body.get("error")
    return text if isinstance(text, str) else None


def refusal(reply: Reply, verb: str, *confidences: Confidence) -> CloudError | None:
    """The definite refusal a change was met with; None: the answer proves nothing about what happened."""
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
        return AccountExhausted(f"{TITLE} refused {verb}, the account may not have more: {words}")
    if any(word in lower for word in EMPTY):
        return SoldOut(f"{TITLE} refused {verb}, none is left there: {words}")
    return OrderRefused(f"{TITLE} refused {verb}: {words}")


def look_failed(reply: Reply, verb: str, *confidences: Confidence) -> CloudError:
    """What a failed look means. That nothing is there is never among it."""
    text = said_in(reply)
    if text is not None and reply.status in (STRANGER, FORBIDDEN):
        return _key_refused(reply, verb, quoted(text, *confidences))
    if reply.status == BUSY:
        return _slow_down(reply, verb)
    if reply.status >= 500:
        return CloudBusy(f"{TITLE} has trouble of its own ({verb}): {reply.status}", TROUBLE_PAUSE)
    return CannotTell(f"{TITLE} answered {reply.status} to {verb}, which proves nothing")


def _key_refused(reply: Reply, verb: str, words: str) -> KeyRefused:
    advice = (
        "the key is not valid, or not from this address (Vultr lists the addresses a key may come from)"
        if reply.status == STRANGER
        else "the key's user lacks the right"
    )
    return KeyRefused(f"{TITLE} refused {verb}: {advice} ({words})")


def _slow_down(reply: Reply, verb: str) -> CloudBusy:
    return CloudBusy(f"{TITLE} asks us to slow down ({verb})", reply.retry_after)
