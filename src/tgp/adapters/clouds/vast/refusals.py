"""What Vast's errors mean. It answers the same trouble under several statuses, so the body decides.

The envelope is `{"success": false, "error": <code>, "msg": <text>}`, any part of which may be missing; some endpoints
answer plain text. A wrong key is documented as 401 and, of the search, as 404.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from tgp.adapters.clouds.discreet import Confidence, quoted
from tgp.adapters.clouds.vast.facts import TITLE
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused, QuotaExhausted
from tgp.ports.http import Reply, Unreadable

BUSY_PAUSE = timedelta(seconds=12)  # the documented penalty of a create that came too soon; there is no Retry-After
FAILURE_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(days=1)  # the daily search quota is given back at midnight UTC
LONGEST_WORDS = 1024  # bytes of plain text that are looked at
SEARCH_QUOTA = "search_quota_exceeded"
BAD_KEY = ("auth_error", "invalid user key", "session expired")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is no success, as far as it can be read."""

    status: int
    body: dict[str, Any]  # empty: it was no JSON object
    words: str  # code and text together, in small letters
    said: str  # for people

    @property
    def code(self) -> str:
        code = self.body.get("error")
        return code if isinstance(code, str) else ""

    @property
    def bad_key(self) -> bool:
        """The key itself is no good: its own words, or 401 in whatever words."""
        return self.status == 401 or any(words in self.words for words in BAD_KEY)

    def names(self, *codes: str) -> bool:
        return any(code in self.words for code in codes)


def refusal_of(reply: Reply, *confidences: Confidence) -> Refusal:
    """`confidences`: what we told it and nobody else may read, should the refusal quote it."""
    body = object_of(reply)
    told = (body.get("error"), body.get("msg"), body.get("detail")) if body else (_plain_text(reply),)
    parts = [part for part in told if isinstance(part, str)]
    said = quoted(": ".join(parts), *confidences) or "no reason"
    return Refusal(reply.status, body, " ".join(parts).lower(), said)


def succeeded(body: dict[str, Any]) -> bool:
    """Of an answer with status 200: many endpoints leave `success` out; told, it is a plain yes or none at all."""
    return body.get("success", True) is True and not body.get("error")


def _plain_text(reply: Reply) -> str:
    """What some endpoints answer instead of JSON; empty: a page, which is no word of Vast's, or JSON after all."""
    words = reply.content[:LONGEST_WORDS].decode(errors="replace").strip()
    return "" if words[:1] in ("<", "{", "[") or "html" in reply.header("Content-Type").lower() else words


def answer_in(reply: Reply) -> Any:
    """The body as JSON; None where it is none."""
    try:
        return reply.json()
    except Unreadable:
        return None


def object_of(reply: Reply) -> dict[str, Any]:
    """The body as a JSON object; empty where it is none."""
    value = answer_in(reply)
    return value if isinstance(value, dict) else {}


def key_refused(refusal: Refusal, doing: str) -> KeyRefused:
    if refusal.bad_key:
        return KeyRefused(f"{TITLE} refuses the key ({doing}: {refusal.status}, {refusal.said}): give it a valid one")
    return KeyRefused(
        f"{TITLE} does not let this key {doing} ({refusal.said}): it needs the rights "
        "instance_read, instance_write, misc and user_read"
    )


def busy(reply: Reply, refusal: Refusal, doing: str, now: datetime) -> CloudBusy:
    """429, with how long to leave it alone."""
    if refusal.code == SEARCH_QUOTA:
        left = _until_reset(reply, now)
        return QuotaExhausted(f"{TITLE}: the search quota of the day is used up until {now + left:%H:%M} UTC", left)
    return CloudBusy(f"{TITLE} asks us to slow down ({doing})", reply.retry_after or BUSY_PAUSE)


def give_up_looking(reply: Reply, doing: str, now: datetime, *confidences: Confidence) -> NoReturn:
    """An answer to a look that is no answer. It proves nothing about what is there."""
    refusal = refusal_of(reply, *confidences)
    if refusal.bad_key or (reply.status == 403 and refusal.body):
        raise key_refused(refusal, doing)
    if reply.status == 429:
        raise busy(reply, refusal, doing, now)
    if reply.status >= 500:
        raise CloudBusy(f"{TITLE} failed with {reply.status} ({doing})", reply.retry_after or FAILURE_PAUSE)
    if reply.status == 410:
        raise CannotTell(f"{TITLE} has retired what we asked ({doing}: {refusal.said}): a newer tgp may know better")
    raise CannotTell(f"{TITLE} answered {reply.status} ({doing}: {refusal.said})")


def _until_reset(reply: Reply, now: datetime) -> timedelta:
    """By the header that tells the moment; else by the rule, midnight UTC."""
    told = reply.header("X-RateLimit-Reset").strip()
    if told.isascii() and told.isdigit() and len(told) <= 12:
        left = timedelta(seconds=int(told) - now.timestamp())
    else:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        left = midnight - now
    return min(max(left, BUSY_PAUSE), LONGEST_PAUSE)
