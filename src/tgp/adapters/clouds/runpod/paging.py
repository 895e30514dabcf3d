"""RunPod's list of pods: `{"pods": […], "pagination": {"nextCursor", "hasNextPage"}}`, newest first, page after page.

Until September 2026 it was one answer without `pagination`. Such an answer proves nothing today: it could be a first
page whose second was left out.
"""

from dataclasses import dataclass, field
from typing import Any

from tgp.adapters.clouds.discreet import Confidence
from tgp.adapters.clouds.reading import mapping_of, rows_of
from tgp.adapters.clouds.runpod import problems
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.http import Call, Reply

PODS = "/v2/pods"
PER_PAGE = 100  # of 1000: an order has at most 100 KiB, so that so many of its echoes are never too much to read
MOST_PAGES = 100  # 10,000 pods in one account, if pages are full; they may be shorter
LONGEST_CURSOR = 2048


@dataclass(slots=True)
class Pages:
    """Collects the list. Ask for `call()` and hand each answer to `take` until it says that there is no more."""

    rows: list[Any] = field(default_factory=list)
    _cursors: list[str] = field(default_factory=list)  # every one that was asked for

    def call(self) -> Call:
        cursor = (("cursor", self._cursors[-1]),) if self._cursors else ()
        return Call("GET", PODS, query=(("limit", str(PER_PAGE)), *cursor))

    def take(self, reply: Reply, *confidences: Confidence) -> bool:
        """True: there is another page. Raises where the list cannot be read to its end."""
        if reply.status != 200:
            raise problems.after_look(reply, f"GET {PODS}", *confidences)
        body = mapping_of(reply, FACTS.title)
        rows = rows_of(body, "pods", FACTS.title)
        if len(rows) > PER_PAGE:
            raise CannotTell(f"RunPod put {len(rows)} pods on a page of {PER_PAGE}")
        self.rows += rows
        cursor = _next(body)
        if not cursor:
            return False
        if cursor in self._cursors:
            raise CannotTell(f"RunPod lists pods in a circle: page {len(self._cursors) + 1} leads back")
        if len(self._cursors) + 1 >= MOST_PAGES:
            raise CannotTell(f"RunPod lists pods on more than {MOST_PAGES} pages")
        self._cursors.append(cursor)
        return True


def _next(body: dict[str, Any]) -> str:
    """The cursor of the next page; empty: this was the last, and it says so in both ways."""
    told = body.get("pagination")
    if not isinstance(told, dict) or not isinstance(told.get("hasNextPage"), bool):
        raise CannotTell("RunPod does not say whether its list of pods goes on: `pagination` is missing")
    cursor = told.get("nextCursor") or ""
    if not isinstance(cursor, str) or len(cursor) > LONGEST_CURSOR:
        raise CannotTell("RunPod names the next page of its list of pods in a way that cannot be read")
    if told["hasNextPage"] != bool(cursor):
        raise CannotTell("RunPod contradicts itself: `hasNextPage` and `nextCursor` of its list of pods do not agree")
    return cursor
