"""RunPod's list of pods: `{"pods": […], "pagination": {"nextCursor", "hasNextPage"}}`, newest first, page after page.

Until September 2026 it was one answer without `pagination`. Such an answer proves nothing today: it could be a first
page whose second was left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tgp.adapters.clouds.parse import mapping_of, rows_of
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.runpod.errors import ERRORS, said_in
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.http import Call, Reply

PODS = "/v2/pods"
PER_PAGE = 100  # of 1000: an order has at most 100 KiB, so that a page never exceeds the size limit
MOST_PAGES = 100  # 10,000 pods in one account, if all pages are full
LONGEST_CURSOR = 2048


@dataclass(slots=True)
class PodPages:
    """Collects the list. Send `call()` and pass each answer to `take` until it returns False."""

    rows: list[Any] = field(default_factory=list)
    _cursors: list[str] = field(default_factory=list)  # all used cursors

    def call(self) -> Call:
        cursor = (("cursor", self._cursors[-1]),) if self._cursors else ()
        return Call("GET", PODS, query=(("limit", str(PER_PAGE)), *cursor))

    def take(self, reply: Reply, *confidences: Confidence) -> bool:
        """True: there is another page. Raises if the list cannot be read to its end."""
        if reply.status != 200:
            raise ERRORS.after_look(reply, said_in(reply, *confidences), f"GET {PODS}")
        body = mapping_of(reply, FACTS.title)
        rows = rows_of(body, "pods", FACTS.title)
        if len(rows) > PER_PAGE:
            raise CannotTell(f"RunPod put {len(rows)} pods on a page of {PER_PAGE}")
        self.rows += rows
        cursor = _next(body, self._cursors)
        if not cursor:
            return False
        if cursor in self._cursors:
            raise CannotTell(
                f"RunPod returned the same page cursor twice: page {len(self._cursors) + 1} of its list of pods"
            )
        if len(self._cursors) + 1 >= MOST_PAGES:
            raise CannotTell(f"RunPod lists pods on more than {MOST_PAGES} pages")
        self._cursors.append(cursor)
        return True


def _next(body: dict[str, Any], used: Sequence[str]) -> str:
    """The cursor of the next page; empty: the last page, by both fields."""
    told, page = body.get("pagination"), len(used) + 1
    if not isinstance(told, dict) or not isinstance(told.get("hasNextPage"), bool):
        raise CannotTell("RunPod's list of pods has no `pagination`, so it may be incomplete")
    cursor = told.get("nextCursor") or ""
    if not isinstance(cursor, str) or len(cursor) > LONGEST_CURSOR:
        raise CannotTell("RunPod sent an invalid cursor for the next page of its list of pods")
    if cursor and not told["hasNextPage"]:
        again = "one that was used already" if cursor in used else "a new one"
        raise CannotTell(
            f"RunPod's list of pods is inconsistent on page {page}: `hasNextPage` is false, and there is a "
            f"`nextCursor` ({again}), so it may be incomplete"
        )
    if told["hasNextPage"] and not cursor:
        raise CannotTell(
            f"RunPod's list of pods is inconsistent on page {page}: `hasNextPage` is true, and there is no `nextCursor`"
        )
    return cursor
