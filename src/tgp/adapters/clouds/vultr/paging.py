"""Vultr's lists: `{"<name>": […], "meta": {"total": n, "links": {"next": cursor}}}`, page after page.

A list is complete when the last page has no further cursor and as many *different* rows came as the last page counts:
a row on two pages must not hide a missing one.
"""

from dataclasses import dataclass, field
from typing import Any

from tgp.adapters.clouds.parse import mapping_of, rows_of
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.vultr.errors import ERRORS, said_in
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.http import Call, Pairs, Reply

PER_PAGE = 500  # the most per page
MOST_PAGES = 40
LONGEST_CURSOR = 512


@dataclass(slots=True)
class VultrPages:
    """Collects one list. Send `call()` and pass each answer to `take` until it returns False."""

    path: str
    name: str  # of the list in each page
    query: Pairs = ()
    rows: list[Any] = field(default_factory=list)
    _cursor: str = ""
    _taken: int = 0

    def call(self) -> Call:
        cursor = (("cursor", self._cursor),) if self._cursor else ()
        return Call("GET", self.path, query=(*self.query, ("per_page", str(PER_PAGE)), *cursor))

    def take(self, reply: Reply, verb: str, *confidences: Confidence) -> bool:
        """True: there is another page."""
        if reply.status != 200:
            raise ERRORS.after_look(reply, said_in(reply, *confidences), verb)
        body = mapping_of(reply, FACTS.title)
        self.rows += rows_of(body, self.name, FACTS.title)
        self._taken += 1
        total, cursor = _meta(body, self.name)
        if not cursor:
            self._check_complete(total)
            return False
        if cursor == self._cursor or self._taken >= MOST_PAGES:
            raise CannotTell(
                f"{FACTS.title}'s list of {self.name} repeats a cursor or has too many pages: {self._taken} were read"
            )
        self._cursor = cursor
        return True

    def _check_complete(self, total: int) -> None:
        listed = _different(self.rows)
        if listed < total:
            raise CannotTell(f"{FACTS.title} counts {total} {self.name} but listed {listed}: the list is incomplete")


def _different(rows: list[Any]) -> int:
    """The number of different rows by id; a row without an id counts as one."""
    ids = [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str | int)]
    return len(set(ids)) + len(rows) - len(ids)


def _meta(body: dict[str, Any], name: str) -> tuple[int, str]:
    """How many there are, and the cursor of the next page."""
    meta = body.get("meta")
    links = meta.get("links") if isinstance(meta, dict) else None
    total = meta.get("total") if isinstance(meta, dict) else None
    cursor = links.get("next") if isinstance(links, dict) else None
    if not isinstance(total, int) or isinstance(total, bool) or not isinstance(cursor, str):
        raise CannotTell(f"{FACTS.title} answered a list of {name} without `meta`, so it may be incomplete")
    if len(cursor) > LONGEST_CURSOR:
        raise CannotTell(f"{FACTS.title} sent a cursor of {len(cursor)} characters")
    return total, cursor
