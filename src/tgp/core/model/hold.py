"""The hold: while the operator's Namespace has this annotation nothing is launched; terminations continue."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.api.values import is_rfc3339, rfc3339

HOLD = "tgp.io/hold"
_SINCE = "; since "
NO_REASON = "no reason given"
LONGEST_REASON = 512  # characters


class Hold(msgspec.Struct, frozen=True):
    reason: str
    since: datetime | None = None  # None: the annotation was written by hand, without a time

    def __str__(self) -> str:
        return self.reason + (f"{_SINCE}{rfc3339(self.since)}" if self.since is not None else "")


def new_hold(reason: str, now: datetime) -> Hold:
    words = "".join(sign if sign.isprintable() else " " for sign in " ".join(reason.split()))
    return Hold(words[:LONGEST_REASON] or NO_REASON, now)


def hold_of(annotations: Mapping[str, str]) -> Hold | None:
    """Of the operator's Namespace. The annotation holds whatever its text is; None: it is not there."""
    text = annotations.get(HOLD)
    if text is None:
        return None
    reason, found, since = text.rpartition(_SINCE)
    if not found or not is_rfc3339(since):
        return Hold(text.strip() or NO_REASON)
    return Hold(reason.strip() or NO_REASON, datetime.fromisoformat(since.upper()))
