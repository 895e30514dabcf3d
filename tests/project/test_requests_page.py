"""docs/requests.md says what the code says: phases, conditions, reasons and outcomes, each explained, and no other."""

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from tgp.api.request import IMMUTABLE, PHASES, GPURequestSpec
from tgp.core.classes.default_class import IMPLICIT_LIMITS
from tgp.core.model.presence import AccountProblem
from tgp.core.requests.lifecycle import FAILURES_MAX, LOSSES_MAX, NO_MACHINE
from tgp.core.requests.moments import WARNED_AT
from tgp.core.requests.status import OWNED
from tgp.core.requests.steps import TerminationReason
from tgp.core.requests.termination_reasons import NODE_LOST_AFTER

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tgp"
PAGE = (ROOT / "docs" / "requests.md").read_text(encoding="utf-8")
WHERE_REASONS_ARE_GIVEN = (
    "core/requests/lifecycle.py",
    "core/requests/purchase.py",
    "core/requests/purchase_stops.py",
    "core/classes/default_class.py",
    "controllers/requests/purchase_gatherer.py",
    "controllers/requests/reconciler.py",
    "controllers/requests/reserve.py",
    "controllers/requests/launch.py",
    "controllers/requests/terminate.py",
)
# Reasons that a waiting request never shows: the first two are internal, the third is of a terminating machine.
PASSING = {"Gone", "Undecided", "Returning"}


def calls(*names: str) -> Iterator[tuple[str, list[str]]]:
    """(function, texts among its arguments) for every call of these names where decisions are made."""
    for file in WHERE_REASONS_ARE_GIVEN:
        for node in ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield node.func.id, [each.value for each in node.args if isinstance(each, ast.Constant)]


def considered() -> set[str]:
    """The reasons for which single offers are rejected: texts that begin with `Reason: `."""
    tree = ast.parse((SOURCE / "core/requests/purchase.py").read_text(encoding="utf-8"))
    texts = [part.values[0].value for part in ast.walk(tree) if isinstance(part, ast.JoinedStr) and _begins(part)]
    return {found[1] for text in texts if (found := re.match(r"([A-Z]\w+): ", text))}


def _begins(text: ast.JoinedStr) -> bool:
    return isinstance(text.values[0], ast.Constant)


def waits() -> set[str]:
    reasons = {texts[0] for _, texts in calls("Wait", "NoPurchase", "Why") if texts and texts[0]}
    return (reasons | considered() | {"Ordering"}) - PASSING


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"there is no section {title}"
    return found[1]


def explained(title: str) -> set[str]:
    """Every word in the first column of the section's tables."""
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section(title), re.MULTILINE)
    words = [word for cell in cells for word in re.findall(r"`(\w+)`", cell)]
    assert len(words) == len(set(words)), "explained twice"
    return set(words)


def chart() -> set[tuple[str, str]]:
    """(phase, phase) for every arrow; a world that follows it is in tests/sim/lifecycle."""
    return set(re.findall(r"^ +(\S+) --> ([^\s:]+)", section("Phases"), re.MULTILINE))


def test_every_phase_is_explained_and_drawn():
    drawn = {phase for edge in chart() for phase in edge} - {"[*]"}

    assert explained("Phases") == set(PHASES)
    assert drawn == set(PHASES)


def test_every_condition_is_explained():
    assert explained("Conditions") == OWNED


def test_every_reason_to_wait_is_explained():
    assert explained("Why it waits") == waits()


def test_every_end_is_explained():
    finished = {texts[1] for name, texts in calls("Complete") if name == "Complete" and len(texts) > 1}

    assert explained("How it ends") == {end.value for end in TerminationReason} | finished


def test_every_outcome_of_an_attempt_is_explained():
    closed = {texts[0] for _, texts in calls("CloseAttempt") if texts}

    assert explained("Attempts") == {"Launched"} | NO_MACHINE | closed


def test_every_reason_not_to_know_is_explained():
    assert explained("When the provider cannot be asked") == {each.value for each in AccountProblem} - {"NotAskedYet"}


def test_what_can_be_changed_is_told():
    fields = {re.sub(r"_(\w)", lambda found: found[1].upper(), name) for name in GPURequestSpec.__struct_fields__}
    (sentence,) = re.findall(r"^Only (.*) can be changed later", section("Write one"), re.MULTILINE)

    assert set(re.findall(r"`(\w+)`", sentence)) == fields - set(IMMUTABLE)


def test_its_numbers_are_the_ones_that_decide():
    assert (5, 16, timedelta(minutes=10), 0.8) == (FAILURES_MAX, LOSSES_MAX, NODE_LOST_AFTER, WARNED_AT)
    for said in ("five launches", "sixteen machines", "not ready for ten minutes", "80 % of its life"):
        assert said in PAGE


def test_what_the_implicit_class_may_spend_is_told():
    assert f"at most {IMPLICIT_LIMITS.max_nodes} machines and ${IMPLICIT_LIMITS.max_hourly_cost} an hour" in PAGE


def test_sections_follow_a_life():
    titles = ["Write one", "Watch it", "Phases", "Conditions", "Why it waits", "Attempts", "How it ends"]

    assert all(PAGE.index(f"## {one}") < PAGE.index(f"## {other}") for one, other in pairwise(titles))
