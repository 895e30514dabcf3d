"""Vast's errors. The same problem comes with several statuses, so the body decides.

The envelope is `{"success": false, "error": <code>, "msg": <text>}`, any part of which may be missing; some endpoints
answer plain text. A wrong key is documented as 401 and, of the search, as 404.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.parse import object_in
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.adapters.clouds.vast.facts import TITLE
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    QuotaExhausted,
    SoldOut,
)
from tgp.ports.http import Reply

BUSY_PAUSE = timedelta(seconds=12)  # the documented penalty of a create that came too soon; there is no Retry-After
FAILURE_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(days=1)  # the daily search quota is reset at midnight UTC
LONGEST_WORDS = 1024  # bytes of plain text that are read
SEARCH_QUOTA = "search_quota_exceeded"
BAD_KEY = ("auth_error", "invalid user key", "session expired")
NO_MONEY = ("insufficient credit", "insufficient_credit", "insufficient balance", "spend_rate_limit")


def _pause(reply: Reply) -> timedelta:
    return reply.retry_after or BUSY_PAUSE


_SET_A_KEY = "the API key is refused: set a valid one"
_KEY = (
    Row(KeyRefused, (401,), advice=_SET_A_KEY),
    Row(KeyRefused, texts=BAD_KEY, advice=_SET_A_KEY),
)
_PERMISSION = Row(
    KeyRefused,
    (403,),
    advice="the API key needs the permissions instance_read, instance_write, misc and user_read",
)
ERRORS = ErrorTable(
    TITLE,
    orders=(
        *_KEY,
        Row(SoldOut, (404, 410), texts=("no_such_ask",), advice="the offer no longer exists"),
        Row(AccountExhausted, (400, 402, 403), texts=NO_MONEY, advice="no credit is left: add credit"),
        Row(SoldOut, (400,), ("invalid_price",), advice="our bid is no longer accepted"),
        Row(OrderRefused, (400, 403), ("invalid_args", "no_ssh_key_for_vm")),
        _PERMISSION,
    ),
    looks=(*_KEY, _PERMISSION, Row(CannotTell, (410,), advice="this API was removed: update tgp")),
    ends=(*_KEY, _PERMISSION),
    pause=_pause,
    trouble_pause=FAILURE_PAUSE,
)


def told_in(reply: Reply, *confidences: Confidence) -> Said:
    """What any answer says. `confidences`: secrets that we sent, in case it quotes them."""
    body = object_in(reply)
    told = (body.get("error"), body.get("msg"), body.get("detail")) if body else (_plain_text(reply),)
    parts = [part for part in told if isinstance(part, str)]
    code = body.get("error")
    words = quoted(": ".join(parts), *confidences) or "no reason"
    return Said(words, code if isinstance(code, str) else "", " ".join(parts).lower())


def said_in(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: not in Vast's envelope. A refused key is believed in plain text, too, and so is 410."""
    told = told_in(reply, *confidences)
    return told if object_in(reply) or reply.status in (401, 410) or says_bad_key(told) else None


def said_of_order(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: the answer may not be Vast's own refusal. Of an order plain text proves nothing but a 401."""
    own = 400 <= reply.status < 500 and reply.status != 429 and (bool(object_in(reply)) or reply.status == 401)
    return told_in(reply, *confidences) if own else None


def says_bad_key(told: Said) -> bool:
    return any(part in told.text for part in BAD_KEY)


def succeeded(body: dict[str, Any]) -> bool:
    """Of an answer with status 200: many endpoints omit `success`; if present, it must be true."""
    return body.get("success", True) is True and not body.get("error")


def _plain_text(reply: Reply) -> str:
    """The plain text that some endpoints answer; empty: an HTML page, which is not from Vast, or JSON."""
    words = reply.content[:LONGEST_WORDS].decode(errors="replace").strip()
    return "" if words[:1] in ("<", "{", "[") or "html" in reply.header("Content-Type").lower() else words


def look_failed(reply: Reply, doing: str, now: datetime, *confidences: Confidence) -> CloudError:
    """An error answer to a read. It proves nothing about what exists."""
    return or_quota(ERRORS.after_look(reply, said_in(reply, *confidences), doing), reply, now)


def or_quota(error: CloudError, reply: Reply, now: datetime) -> CloudError:
    """The error, or until when the daily search quota is used up."""
    if not isinstance(error, CloudBusy) or reply.status != 429 or object_in(reply).get("error") != SEARCH_QUOTA:
        return error
    left = _until_reset(reply, now)
    return QuotaExhausted(f"{TITLE}: the daily search quota is used up until {now + left:%H:%M} UTC", left)


def _until_reset(reply: Reply, now: datetime) -> timedelta:
    """From the header with the time; else midnight UTC."""
    told = reply.header("X-RateLimit-Reset").strip()
    if told.isascii() and told.isdigit() and len(told) <= 12:
        left = timedelta(seconds=int(told) - now.timestamp())
    else:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        left = midnight - now
    return min(max(left, BUSY_PAUSE), LONGEST_PAUSE)
