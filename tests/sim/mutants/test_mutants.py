"""The proof is worth something only if it notices when the protocol is broken: here it must, each part for itself."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.amounts import PROVING
from tests.sim.mutants.histories import HISTORIES, PROMISE_BROKEN
from tests.sim.mutants.kills import KILLS
from tests.sim.mutants.mutant import ROOT, about, make, try_on

SHARE = 12  # of all mutants, one in so many is tried by `make test`; `make prove` tries all


@pytest.fixture(autouse=True)
def seldom_bookmarks():
    """As often as in the processes that tests start: their worlds are compared with ours."""


def tried() -> list[str]:
    """By the promise they break, so that every kind of promise has its share."""
    every = sorted(KILLS, key=lambda name: (KILLS[name].promise, name))
    return every if PROVING else every[::SHARE]


@pytest.mark.parametrize("name", tried())
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


def test_what_is_patched_is_what_runs_and_the_rest_is_shipped(tmp_path):
    """Also where a package's own file is patched: what is inside it is found as before."""
    patched = tmp_path / "tgp" / "core" / "model"
    patched.mkdir(parents=True)
    (patched / "__init__.py").write_text("patched = 1\n")
    (patched / "costs.py").write_text("patched = 2\n")
    words = "import json.tool, tgp.core.model as m, tgp.core.model.costs as c, tgp.core.model.token as t"
    found = f"{words}; print(m.patched, c.patched, m.__file__, t.__file__)"
    (tmp_path / "look.py").write_text(found)
    prelude = "import sys, runpy; from pathlib import Path; from tests.sim.mutants.overlay import Overlay"
    install = f"sys.meta_path.insert(0, Overlay(Path({str(tmp_path)!r})))"
    code = f"{prelude}; {install}; runpy.run_path({str(tmp_path / 'look.py')!r})"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    one, two, package, beside = said.split()
    assert (one, two) == ("1", "2")
    assert package == str(patched / "__init__.py")
    assert Path(beside).is_relative_to(ROOT / "src")
