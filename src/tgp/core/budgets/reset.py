"""A fresh start that a person asked for: an annotation of the budget, acted on once."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from tgp.api.values import rfc3339

RESET = "tgp.io/reset"  # "<time> <who>"


class ResetAsked(msgspec.Struct, frozen=True):
    at: datetime
    who: str

    def __str__(self) -> str:
        return f"{rfc3339(self.at)} {self.who}"


def reset_asked(
    annotations: Mapping[str, str], done: datetime | None, now: datetime, began: int = 0
) -> ResetAsked | None:
    """None: nothing is asked that was not done. `done`: what the status says.

    What is dated in the future is not asked yet: it would be newer than every reset until then. `began`: since when the
    account counts. One that a deleted budget left may be younger than what is asked for.
    """
    written, _, who = annotations.get(RESET, "").partition(" ")
    try:
        at = datetime.fromisoformat(written).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    before = at.timestamp() <= began if done is None or done > now else at <= done
    return None if before or at > now else ResetAsked(at, who.strip() or "an unknown user")
