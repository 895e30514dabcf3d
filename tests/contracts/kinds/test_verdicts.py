"""Our rules and the API server's say the same about every manifest, and name the same fields."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.amounts import amount
from tests.contracts.kinds.manifests import Maker, Manifest, asked_of
from tests.contracts.kinds.real_api_server import Answer, RealApiServer, side_by_side
from tgp.api.field_error import FieldError, Reason
from tgp.api.kinds import BUDGET, KINDS, REQUEST, Kind
from tgp.api.validation import default, prune, unknown_fields, validate

MANIFESTS = amount(800, 10000, "TGP_MANIFESTS")
SEED = os.environ.get("TGP_SEED", "1")
STORED = 24  # requests that updates are tried on
UPDATED = (REQUEST, BUDGET)  # kinds with rules that compare with what was
SHARES = {"GPUNodeClass": 0.34, "GPUNodePool": 0.2, "GPURequest": 0.26, "GPUWorkloadBudget": 0.1}  # each budget kind
ACCEPTED_AT_LEAST = 0.25  # of all manifests: a suite that only refuses proves half


@dataclass
class Row:
    """One rule, or one kind of schema constraint, and how often it was met each way."""

    name: str
    accepted: int = 0
    refused: int = 0


@dataclass
class Trial:
    manifest: Manifest
    old: dict[str, Any] | None
    answer: Answer


@dataclass
class Tally:
    same_words: bool  # older releases word a refusal a little differently
    rows: dict[str, Row] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)

    def row(self, name: str) -> Row:
        return self.rows.setdefault(name, Row(name))


def planned(kind: Kind, count: int) -> Iterator[Manifest]:
    """Each rule once broken and once kept, then whole and broken manifests in turns."""
    maker = Maker(kind, SEED)
    aimed = [rule for rule in maker.rules.values() if "oldSelf" not in rule.cel]
    for rule in aimed:
        yield Manifest(kind, maker.aimed_at(rule), f"aimed at {rule.cel}")
        yield Manifest(kind, maker.keeping(rule), f"keeping {rule.cel}")
    for number in range(max(0, count - 2 * len(aimed))):
        yield Manifest(kind, maker.whole(), "whole") if number % 5 < 2 else maker.broken()


def tries(real_server: RealApiServer, kind: Kind, count: int) -> Iterator[Trial]:
    manifests = list(planned(kind, count))
    answers = side_by_side(lambda manifest: real_server.try_create(kind, manifest.object), manifests)
    for manifest, answer in zip(manifests, answers, strict=True):
        yield Trial(manifest, None, answer)


def updates(real_server: RealApiServer, kind: Kind, count: int) -> Iterator[Trial]:
    """Changes to stored objects: the rules that compare with what was."""
    maker = Maker(kind, f"{SEED}/updates")
    stored = [real_server.create(kind, maker.whole(density=0.6)) for _ in range(STORED)]
    about_changes = [rule for rule in maker.rules.values() if "oldSelf" in rule.cel]
    plan = [(stored[0], maker.breaking(rule, stored[0])) for rule in about_changes]
    for number in range(count - len(plan)):
        old = stored[number % STORED]
        plan.append((old, maker.changed(old)))
    answers = side_by_side(lambda pair: real_server.try_update(kind, pair[1].object), plan)
    for (old, manifest), answer in zip(plan, answers, strict=True):
        yield Trial(manifest, old, answer)
    for each in stored:
        real_server.delete(kind, each)


def judge(trial: Trial, tally: Tally, schema: dict[str, Any]) -> None:
    made = trial.manifest.object
    unknown = unknown_fields(schema, made)
    problems = validate(schema, default(schema, prune(schema, made)), trial.old)
    ours = not unknown and not problems
    tally.verdicts["accepted" if trial.answer.accepted else "refused"] += 1
    difference = compare(trial.answer, unknown, problems, same_words=tally.same_words)
    if difference:
        tally.disagreements.append(f"{trial.manifest.how}\n  {difference}\n  {made['spec']}")
        return
    if ours:
        for cel in asked_of(schema, made, trial.old):
            tally.row(cel).accepted += 1
    for problem in problems if not unknown else ():
        tally.row(problem.rule or f"schema: {problem.reason.value}").refused += 1
    if unknown:
        tally.row("schema: unknown field").refused += 1


def compare(answer: Answer, unknown: list[str], problems: list[FieldError], *, same_words: bool) -> str:
    """Empty, or how the API server's verdict differs from ours. Words are compared with those of the newest release."""
    if answer.status not in (200, 201, 400, 422):
        return f"the server answered {answer.status}: {answer.message}"
    if answer.accepted:
        said = [*(f"unknown field {path}" for path in unknown), *map(str, problems)]
        return f"the server accepts, we refuse: {said}" if said else ""
    if answer.status == 400:
        theirs = sorted(part.split('"')[1] for part in answer.message.split("unknown field ")[1:])
        return "" if theirs == unknown else f"unknown to the server {theirs}, to us {unknown}"
    if unknown:
        return f"the server did not mind the unknown fields {unknown}"
    if not any(path.startswith(("spec", "metadata")) for path, _, _ in answer.causes):
        return f"the refusal names no field: {answer.message}"
    theirs = {(path, reason, message if same_words else "") for path, reason, message in answer.causes}
    ours = {(problem.path or "<nil>", problem.reason.value, problem.body if same_words else "") for problem in problems}
    if not same_words:
        missed = [blame for blame in sorted(ours) if not any(_means(their, blame) for their in theirs)]
        return f"the server does not blame {missed}: {answer.message}" if missed else ""
    blames = f"the server blames {sorted(theirs - ours)}, we {sorted(ours - theirs)}: {answer.message}"
    return "" if theirs == ours else blames


def _means(their: tuple[str, str, str], blame: tuple[str, str, str]) -> bool:
    """Is it the same blame, as far as 1.28 goes?

    That release goes on to the CEL rules after an unsupported value, says nothing about rules left out, and hangs the
    second fieldPath of one object below the first: spec.gpuType.offer for spec.offer.
    """
    return blame[0] == "<nil>" or (their[1] == blame[1] and their[0].endswith(blame[0].rpartition(".")[2]))


@pytest.fixture(scope="module")
def tally(real_server: RealApiServer) -> Tally:
    found = Tally(real_server.newest)
    for kind in KINDS:
        count = int(MANIFESTS * SHARES[kind.resource.kind])
        schema = Maker(kind, SEED).schema
        share = count // 3 if kind in UPDATED else 0
        for trial in tries(real_server, kind, count - share):
            judge(trial, found, schema)
        for trial in updates(real_server, kind, share) if share else ():
            judge(trial, found, schema)
    return found


def test_the_api_server_and_our_rules_agree_on_every_manifest(tally: Tally, capsys: pytest.CaptureFixture[str]):
    """Same verdict, and on a refusal the same fields for the same reasons, in the same words."""
    with capsys.disabled():
        show(tally)

    assert tally.disagreements[:5] == []
    assert sum(tally.verdicts.values()) >= MANIFESTS
    assert tally.verdicts["accepted"] >= ACCEPTED_AT_LEAST * MANIFESTS


def test_every_rule_is_met_both_ways(tally: Tally):
    """A rule that nothing breaks is not tested, and neither is one that nothing keeps."""
    known = {rule.cel for kind in KINDS for rule in Maker(kind, SEED).rules.values()}
    one_sided = [cel for cel in sorted(known) if not (tally.row(cel).accepted and tally.row(cel).refused)]

    assert one_sided == []


def test_every_kind_of_schema_constraint_is_met(tally: Tally):
    kinds = (
        Reason.REQUIRED,
        Reason.TYPE_INVALID,
        Reason.UNSUPPORTED,
        Reason.DUPLICATE,
        Reason.TOO_LONG,
        Reason.TOO_MANY,
    )

    assert [reason for reason in kinds if not tally.row(f"schema: {reason.value}").refused] == []
    assert tally.row("schema: unknown field").refused


def show(tally: Tally) -> None:
    print(f"\n{'accepted':>9} {'refused':>8}  rule")
    for row in sorted(tally.rows.values(), key=lambda row: row.name):
        print(f"{row.accepted:>9} {row.refused:>8}  {row.name[:100]}")
    total = sum(tally.verdicts.values())
    print(
        f"{total} manifests, {tally.verdicts['accepted']} accepted, {tally.verdicts['refused']} refused, "
        f"{len(tally.rows)} rules, {len(tally.disagreements)} disagreements"
    )
