"""The page of conditions and reasons, which is made from the code: nothing of the code is missing in it."""

import re

import pytest

from tests.project.test_requests_page import waits
from tgp.api.kinds import KINDS
from tgp.api.request import PHASES
from tgp.core.budgets.status import OWNED as OF_BUDGETS
from tgp.core.classes.checks import OWNED as OF_CLASSES
from tgp.core.disruption.machine_state import HALTED
from tgp.core.disruption.moves import CONDITION
from tgp.core.pools.nodepool import OWNED as OF_POOLS
from tgp.core.requests.status import OWNED as OF_REQUESTS
from tgp.core.requests.steps import TerminationReason
from tools import reasons

OWNED = {
    reasons.CLASS: OF_CLASSES,
    reasons.REQUEST: OF_REQUESTS | {CONDITION},
    reasons.POOL: OF_POOLS | {HALTED},
    reasons.BUDGET: OF_BUDGETS,
}


@pytest.fixture(scope="module")
def given() -> list[reasons.Given]:
    return reasons.given()


@pytest.mark.parametrize("kind", OWNED)
def test_every_condition_of_a_kind_is_there_and_has_a_meaning(given, kind):
    found = {each.topic for each in given if each.chapter == kind}

    assert found == OWNED[kind]
    assert [each for each in sorted(found) if not reasons.meaning(kind, each)] == []


def test_reasons_that_other_pages_are_held_to_are_there(given):
    """By another way through the code."""
    of_requests = {each.reason for each in given if each.chapter == reasons.REQUEST}

    assert (waits() | {each.value for each in TerminationReason}) - of_requests == set()


def test_every_reason_says_something(given):
    """A message that is computed has a remark; a remark that no reason needs is removed."""
    page = reasons.page_of(given)

    assert re.findall(rf"^\| `(\w+)` \|.*\| {reasons.GAP}* \|$", page, re.MULTILINE) == []
    assert [reason for reason, remark in reasons.REMARKS.items() if f" {remark} |" not in page] == []


def test_a_reason_is_a_word_that_an_alert_can_match(given):
    assert [each for each in given if not re.fullmatch(r"[A-Z][A-Za-z]+", each.reason)] == []


def test_the_page_of_concepts_names_what_exists(given):
    """Every phase, condition, reason and kind in its tables."""
    page = (reasons.DOCS / "concepts.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][a-z]+[A-Za-z]*)`", page)) | set(re.findall(r"`(GPU\w+)`", page))
    known = {each.reason for each in given} | {each.topic for each in given} | set(PHASES)

    assert named - known - {kind.resource.kind for kind in KINDS} == set()
    assert len(named) > 30


SOURCES = {
    "a text": ('ConditionUpdate("Ready", True, "Fine", f"all {count} are well")', {("Fine", "all … are well")}),
    "one of two": ('ConditionUpdate("Ready", x, "A" if x else "B", "said")', {("A", "said"), ("B", "said")}),
    "a helper": (
        'def no(reason, why):\n    return Gap(reason, f"no: {why}")\nno("Missing", "key")',
        {("Missing", "no: …")},
    ),
    "a variable": ('def f():\n    said = "gone"\n    return Gap("Away", said)', {("Away", "gone")}),
}


@pytest.mark.parametrize(("source", "wanted"), SOURCES.values(), ids=SOURCES)
def test_what_code_gives_is_read(source, wanted, tmp_path, monkeypatch):
    put(source, tmp_path, monkeypatch)
    monkeypatch.setattr(reasons, "ENUMERATED", ())

    assert {(each.reason, each.message) for each in reasons.given()} == wanted


def test_a_reason_that_cannot_be_read_ends_the_build_with_its_place(tmp_path, monkeypatch):
    put('Gap(made_up(), "said")', tmp_path, monkeypatch)

    with pytest.raises(reasons.NotUnderstood, match=r"core/classes/some.py:1: made_up\(\)"):
        reasons.given()


def put(source: str, folder, monkeypatch) -> None:
    """A tree with one file."""
    (folder / "core" / "classes").mkdir(parents=True)
    (folder / "core" / "classes" / "some.py").write_text(source)
    monkeypatch.setattr(reasons, "SOURCE", folder)
