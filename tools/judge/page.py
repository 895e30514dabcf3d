"""docs/talos-judge.md: every config of the tables, and what Talos and we say of it, release by release."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from tgp.core.joining.talos.check import check
from tgp.core.joining.talos.document_view import NodeExpectations
from tgp.core.model.machine_config import Severity
from tgp.core.model.talos import TalosVersion, read_version
from tools.judge.bench import Judge, Question
from tools.judge.broken import BROKEN, Broken
from tools.judge.paper import expected, good, written
from tools.judge.valid import ADDITIONS

PAGE = Path(__file__).parents[2] / "docs" / "talos-judge.md"
_HEAD = """# What Talos says, and what we say

Written by `python -m tools.judge page`, and held against the judges by a test. A judge is Talos's own reader and
validator (its Go module `pkg/machinery`) of one release, asked strictly, in the mode that clouds boot in, with what a
running node checks besides. Our own check (`src/tgp/core/joining/talos/check.py`) runs before anything is paid for: it
refuses all that Talos refuses here, and what no other check would notice.

Releases asked: {releases}. Of 1.14 only an alpha is published as a module: later kinds
of documents are known by name alone, and what its final release warns of cannot be asked yet. `·` means that
it cannot be said in that release.

| sign | Talos | we |
|---|---|---|
| ✓ | accepts it | find nothing wrong |
| ✗ | refuses it | refuse it |
| **we** | accepts it | refuse it: it would not have become a working node |
"""


def page(judges: list[Judge]) -> str:
    columns = [_column(judge) for judge in judges]
    releases = [judge.version for judge in judges]
    lines = [_HEAD.format(releases=", ".join(releases))]
    lines += _table("Good", [each.name for each in ADDITIONS], releases, columns)
    lines += _table("Broken", [each.name for each in BROKEN], releases, columns)
    return "\n".join(lines) + "\n"


def sheet(case: Broken, version: TalosVersion) -> tuple[str, NodeExpectations]:
    """Its text, and what is expected of it."""
    expects = expected(version)
    if case.expects is not None:
        default = NodeExpectations()
        given = {one.name: getattr(case.expects, one.name) for one in fields(NodeExpectations)}
        expects = replace(expects, **{name: said for name, said in given.items() if said != getattr(default, name)})
    return written(case.change(good(version))), expects


def _column(judge: Judge) -> dict[str, str]:
    version = read_version(f"v{judge.version}")
    assert version is not None
    texts: dict[str, tuple[str, NodeExpectations]] = {}
    for addition in ADDITIONS:
        if addition.sayable(version):
            texts[addition.name] = (written(addition.change(good(version))), expected(version))
    for case in BROKEN:
        if case.since <= judge.minor <= case.until:
            texts[case.name] = sheet(case, version)
    verdicts = judge.verdicts(Question(name, text, runtime=True) for name, (text, _) in texts.items())
    signs = {}
    for verdict in verdicts:
        text, expects = texts[verdict.name]
        refused = any(one.severity is Severity.ERROR for one in check(text, version, expects=expects))
        signs[verdict.name] = _sign(verdict.accepted, refused)
    return signs


def _sign(accepted: bool, refused: bool) -> str:
    if accepted:
        return "**we**" if refused else "✓"
    return "✗" if refused else "**Talos alone**"


def _table(title: str, names: list[str], releases: list[str], columns: list[dict[str, str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| | {' | '.join(releases)} |"
    yield f"|---|{'---|' * len(releases)}"
    for name in names:
        yield f"| {name} | {' | '.join(column.get(name, '·') for column in columns)} |"
    yield ""
