"""Counts which promises were kept by which mesh, for the table at the end of a run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.contracts.mesh.stage import KINDS

NODE = re.compile(r"mesh/test_promises\.py::test_(?P<promise>\w+)\[(?P<kind>[^\]]+)\]")
NAMES = sorted(
    (kind.name for kind in KINDS), key=len, reverse=True
)  # the longest first: some begin as others are called
PAGES = (
    "the token is on the last of many pages",
    "a second page that fails is unknown",
    "a page that lies about being the last is unknown",
)
NO_PAGES = "GET devices and GET node answer everything at once: a list that comes to have pages is unknown, see above"


@dataclass
class Tally:
    kept: dict[str, dict[str, bool]] = field(default_factory=dict)  # promise → mesh → kept each time

    def note(self, node: str, *, kept: bool) -> None:
        found = NODE.search(node)
        kind = next((name for name in NAMES if found and name in found["kind"]), None) if found else None
        if found and kind:
            so_far = self.kept.setdefault(found["promise"].replace("_", " "), {})
            so_far[kind] = so_far.get(kind, True) and kept


TALLY = Tally()


def table(tally: Tally) -> Iterator[str]:
    """One line per promise, one column per mesh."""
    names = [kind.name for kind in KINDS]
    yield "mesh \N{MULTIPLICATION SIGN} promise, executed:"
    yield "  " + "".join(f"{name:>{len(name) + 2}}" for name in names)
    for promise, kept in tally.kept.items():
        marks = [{True: "kept", False: "BROKEN", None: "n/a"}[kept.get(name)] for name in names]
        yield (
            "  " + "".join(f"{mark:>{len(name) + 2}}" for mark, name in zip(marks, names, strict=True)) + f"  {promise}"
        )
    for case in PAGES:
        yield "  " + "".join(f"{'n/a':>{len(name) + 2}}" for name in names) + f"  {case}"
    yield f"  n/a: {NO_PAGES}"
