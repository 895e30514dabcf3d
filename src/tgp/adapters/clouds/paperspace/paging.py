"""Lists come in pages: `{items, hasMore, nextPage}`. A list is all its pages, or an error."""

from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds.paperspace.errors import ERRORS, said_in
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.adapters.clouds.parse import mapping_of, rows_of
from tgp.adapters.clouds.redact import Confidence
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.http import Call, Pairs, Reply

PAGE_ROWS = 120  # the most per page
MOST_PAGES = 100
LONGEST_CURSOR = 1_024


@dataclass(frozen=True, slots=True)
class PaperspacePage:
    rows: tuple[Any, ...]
    after: str  # the cursor of the next page; empty: this was the last


def call(path: str, query: Pairs = (), after: str = "") -> Call:
    cursor = (("after", after),) if after else ()
    return Call("GET", path, query=(*query, ("limit", str(PAGE_ROWS)), *cursor))


def read(reply: Reply, path: str, *confidences: Confidence) -> PaperspacePage:
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), f"GET {path}")
    body = mapping_of(reply, FACTS.title)
    rows, more, cursor = rows_of(body, "items", FACTS.title), body.get("hasMore"), body.get("nextPage")
    if not isinstance(more, bool):
        raise CannotTell(f"Paperspace does not say whether GET {path} has more pages")
    if not more and cursor:
        raise CannotTell(f"Paperspace says that GET {path} has no more pages, but sent a cursor for the next")
    if not more:
        return PaperspacePage(tuple(rows), "")
    if not isinstance(cursor, str) or not 0 < len(cursor) <= LONGEST_CURSOR or not rows:
        raise CannotTell(f"Paperspace says that GET {path} has more pages, but sent no cursor")
    return PaperspacePage(tuple(rows), cursor)
