"""The proof is worth something only if it notices when the protocol is broken: here it must, each part for itself."""

import tempfile
from pathlib import Path

import pytest

from tests.sim.mutants.histories import HISTORIES, PROMISE_BROKEN
from tests.sim.mutants.kills import KILLS
from tests.sim.mutants.mutant import DoesNotApply, about, apply, make, names, try_on

ENOUGH = 20


def test_every_patch_is_tried_and_every_trial_has_a_patch():
    assert names() == sorted(KILLS)
    assert len(KILLS) >= ENOUGH
    assert {kill.history for kill in KILLS.values()} <= set(HISTORIES)


@pytest.mark.parametrize("name", sorted(KILLS))
def test_a_broken_protocol_is_noticed(name):
    """Its patch applies to the shipped code, and its history breaks the promise that it should."""
    kill = KILLS[name]
    with tempfile.TemporaryDirectory() as place:
        trial = try_on(make(name, Path(place)), kill.history, kill.seed)
    print(f"{name}, {kill.history}, {kill.seed}, {trial.seconds:.1f} s: {trial.said[:100]}")

    assert trial.code == PROMISE_BROKEN, f"{name} ({about(name)}) survives {kill.history}: {trial.said}"
    assert trial.said.startswith(kill.promise)


@pytest.mark.parametrize(("history", "seed"), sorted({(kill.history, kill.seed) for kill in KILLS.values()}), ids=str)
def test_the_shipped_protocol_survives_what_kills_the_mutants(history, seed):
    HISTORIES[history](seed)


def test_a_patch_that_no_longer_applies_says_so(tmp_path):
    """A mutant that is never made would count as killed by nobody."""
    (tmp_path / "code.py").write_text("a = 1\n")
    with pytest.raises(DoesNotApply, match=r"old\.patch: code\.py has not"):
        apply("words\n--- a/code.py\n+++ b/code.py\n@@ -1 +1 @@\n-a = 2\n+a = 3\n", tmp_path, "old")
