"""docs/talos-judge.md: every config of the tables, and what Talos and tgp say about it, release by release."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from tgp.core.joining.talos.check import check
from tgp.core.joining.talos.document_view import NodeExpectations
from tgp.core.model.machine_config import ConfigFinding, Severity
from tgp.core.model.talos import TalosVersion, read_version
from tools.judge.bench import Judge, Question, Verdict
from tools.judge.broken import BROKEN, Broken
from tools.judge.paper import expected, good, written
from tools.judge.valid import ADDITIONS

PAGE = Path(__file__).parents[2] / "docs" / "talos-judge.md"
_HEAD = """# Machine configs: the verdict of Talos and of tgp

`python -m tools.judge page` writes this page, and a test compares it with the judges. A judge is the validator
of one Talos release (the Go module `pkg/machinery`). It runs in strict mode, for a cloud platform, with the checks that
a running node adds. tgp's own check (`src/tgp/core/joining/talos/check.py`) runs before a machine is bought. It refuses
everything that Talos refuses in these tables, and configs that Talos accepts but that never become a working node.

Releases: {releases}. Of 1.14 only an alpha is published as a module, so the page cannot show what the
final release adds.

| sign | Talos | tgp |
|---|---|---|
| ✓ | accepts | accepts |
| ✗ | refuses | refuses |
| **tgp** | accepts | refuses: the machine would not become a working node |
| · | not asked: this release cannot express it | |

A row that only names a field means an invalid value in that field.
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """One config of the tables: what tgp found in it, and what Talos said."""

    findings: tuple[ConfigFinding, ...]
    verdict: Verdict

    @property
    def errors(self) -> list[ConfigFinding]:
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]


def page(judges: list[Judge]) -> str:
    columns = [_column(judge) for judge in judges]
    releases = [judge.version for judge in judges]
    lines = [_HEAD.format(releases=", ".join(releases))]
    lines += _table("Valid configs", [each.name for each in ADDITIONS], releases, columns)
    lines += _table("Invalid configs", [each.name for each in BROKEN], releases, columns)
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
    return {name: _sign(one.verdict.accepted, bool(one.errors)) for name, one in judged(judge).items()}


@cache
def judged(judge: Judge) -> Mapping[str, Judged]:
    """Every config of the tables that its release can express, by name; asked once."""
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
    found = {name: check(text, version, expects=expects) for name, (text, expects) in texts.items()}
    return {verdict.name: Judged(found[verdict.name], verdict) for verdict in verdicts}


def _sign(accepted: bool, refused: bool) -> str:
    if accepted:
        return "**tgp**" if refused else "✓"
    return "✗" if refused else "**Talos alone**"


def _table(title: str, names: list[str], releases: list[str], columns: list[dict[str, str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| | {' | '.join(releases)} |"
    yield f"|---|{'---|' * len(releases)}"
    for name in names:
        yield f"| {name} | {' | '.join(column.get(name, '·') for column in columns)} |"
    yield ""
