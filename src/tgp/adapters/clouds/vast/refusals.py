"""Maps Vast's errors. The same problem comes with several statuses, so the body decides.

The envelope is `{"success": false, "error": <code>, "msg": <text>}`, any part of which may be missing; some endpoints
answer plain text. A wrong key is documented as 401 and, of the search, as 404.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.adapters.clouds.vast.facts import TITLE
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused, QuotaExhausted
from tgp.ports.http import Reply, UnreadableReply

BUSY_PAUSE = timedelta(seconds=12)  # the documented penalty of a create that came too soon; there is no Retry-After
FAILURE_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(days=1)  # the daily search quota is reset at midnight UTC
LONGEST_WORDS = 1024  # bytes of plain text that are read
SEARCH_QUOTA = "search_quota_exceeded"
BAD_KEY = ("auth_error", "invalid user key", "session expired")


@dataclass(frozen=True, slots=True)
class VastRefusal:
    """An error answer, as far as it is readable."""

    status: int
    body: dict[str, Any]  # empty: not a JSON object
    words: str  # code and text together, in lower case
    said: str  # for messages

    @property
    def code(self) -> str:
        code = self.body.get("error")
        return code if isinstance(code, str) else ""

    @property
    def bad_key(self) -> bool:
        """The key itself is refused: by its error text, or any 401."""
        return self.status == 401 or any(words in self.words for words in BAD_KEY)

    def names(self, *codes: str) -> bool:
        return any(code in self.words for code in codes)


def refusal_of(reply: Reply, *confidences: Confidence) -> VastRefusal:
    """`confidences`: secrets that we sent, in case the refusal quotes them."""
    body = object_of(reply)
    told = (body.get("error"), body.get("msg"), body.get("detail")) if body else (_plain_text(reply),)
    parts = [part for part in told if isinstance(part, str)]
    said = quoted(": ".join(parts), *confidences) or "no reason"
    return VastRefusal(reply.status, body, " ".join(parts).lower(), said)


def succeeded(body: dict[str, Any]) -> bool:
    """Of an answer with status 200: many endpoints omit `success`; if present, it must be true."""
    return body.get("success", True) is True and not body.get("error")


def _plain_text(reply: Reply) -> str:
    """The plain text that some endpoints answer; empty: an HTML page, which is not from Vast, or JSON."""
    words = reply.content[:LONGEST_WORDS].decode(errors="replace").strip()
    return "" if words[:1] in ("<", "{", "[") or "html" in reply.header("Content-Type").lower() else words


def answer_in(reply: Reply) -> Any:
    """The body as JSON; None: not JSON."""
    try:
        return reply.json()
    except UnreadableReply:
        return None


def object_of(reply: Reply) -> dict[str, Any]:
    """The body as a JSON object; empty: not one."""
    value = answer_in(reply)
    return value if isinstance(value, dict) else {}


def key_refused(refusal: VastRefusal, doing: str) -> KeyRefused:
    if refusal.bad_key:
        return KeyRefused(f"{TITLE} refused the API key ({doing}: {refusal.status}, {refusal.said}): set a valid one")
    return KeyRefused(
        f"{TITLE} refused this API key for {doing} ({refusal.said}): the key needs the permissions "
        "instance_read, instance_write, misc and user_read"
    )


def busy(reply: Reply, refusal: VastRefusal, doing: str, now: datetime) -> CloudBusy:
    """429, with the time to wait."""
    if refusal.code == SEARCH_QUOTA:
        left = _until_reset(reply, now)
        return QuotaExhausted(f"{TITLE}: the daily search quota is used up until {now + left:%H:%M} UTC", left)
    return CloudBusy(f"{TITLE} limits the rate of calls ({doing})", reply.retry_after or BUSY_PAUSE)


def give_up_looking(reply: Reply, doing: str, now: datetime, *confidences: Confidence) -> NoReturn:
    """An error answer to a read. It proves nothing about what exists."""
    refusal = refusal_of(reply, *confidences)
    if refusal.bad_key or (reply.status == 403 and refusal.body):
        raise key_refused(refusal, doing)
    if reply.status == 429:
        raise busy(reply, refusal, doing, now)
    if reply.status >= 500:
        raise CloudBusy(f"{TITLE} failed with {reply.status} ({doing})", reply.retry_after or FAILURE_PAUSE)
    if reply.status == 410:
        raise CannotTell(f"{TITLE} has removed this API ({doing}: {refusal.said}): update tgp")
    raise CannotTell(f"{TITLE} answered {reply.status} ({doing}: {refusal.said})")


def _until_reset(reply: Reply, now: datetime) -> timedelta:
    """From the header with the time; else midnight UTC."""
    told = reply.header("X-RateLimit-Reset").strip()
    if told.isascii() and told.isdigit() and len(told) <= 12:
        left = timedelta(seconds=int(told) - now.timestamp())
    else:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        left = midnight - now
    return min(max(left, BUSY_PAUSE), LONGEST_PAUSE)
