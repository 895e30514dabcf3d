"""Mutants of the protocol: each patch applies to the shipped code, is tried by a history, and stands on the page."""

import pytest

from tests.sim.mutants.histories import HISTORIES
from tests.sim.mutants.kills import KILLS
from tests.sim.mutants.mutant import ROOT, DoesNotApply, about, apply, make, names

ENOUGH = 20


def test_every_patch_is_tried_and_every_trial_has_a_patch():
    assert names() == sorted(KILLS)
    assert len(KILLS) >= ENOUGH
    assert {kill.history for kill in KILLS.values()} <= set(HISTORIES)


def test_the_page_about_safety_lists_every_mutant():
    rows = (ROOT / "docs" / "safety.md").read_text().partition("| mutant | what is broken |")[2].partition("\n\n")[0]

    listed = [line.split(" | ")[:3] for line in rows.splitlines() if line.startswith("| ")]
    assert listed == [[f"| {name}", about(name), kill.history] for name, kill in sorted(KILLS.items())]


@pytest.mark.parametrize("name", sorted(KILLS))
def test_its_patch_applies_to_the_shipped_code(name, tmp_path):
    """Of every mutant, also where only some are tried; and what comes of it is Python."""
    changed = make(name, tmp_path)

    files = sorted(changed.rglob("*.py"))
    assert files
    for file in files:
        compile(file.read_text(), str(file), "exec")


def test_a_patch_that_no_longer_applies_says_so(tmp_path):
    """A mutant that is never made would count as not killed."""
    (tmp_path / "code.py").write_text("a = 1\n")
    with pytest.raises(DoesNotApply, match=r"old\.patch: code\.py has not"):
        apply("words\n--- a/code.py\n+++ b/code.py\n@@ -1 +1 @@\n-a = 2\n+a = 3\n", tmp_path, tmp_path / "into", "old")
