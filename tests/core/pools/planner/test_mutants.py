"""The properties are worth something only if they notice when the planner is wrong: here they must, each mutant."""

import subprocess
from pathlib import Path

import pytest

from tests.amounts import amount
from tests.core.pools.planner.properties import BROKEN
from tests.sim.mutants.mutant import ROOT, apply, command

PATCHES = Path(__file__).parent / "mutants"
WORLDS = 300  # that are tried at most
BOUND_S = 120.0

# By mutant: the property that notices it, and how what it says begins.
KILLS = {
    "bound-too-high": ("bound", "bound "),
    "bounds-of-tiers-added-up": ("stages", "bound "),
    "ceiling-ignored": ("rules", "above the ceiling"),
    "class-limit-ignored": ("small_rules", "limit of the class"),
    "daemon-sets-ignored": ("small_rules", "no room"),
    "gang-in-part": ("rules", "gang team/g is served in part"),
    "greedy-alone": ("best", "costs "),
    "host-anti-affinity-ignored": ("small_rules", "team/"),
    "host-ports-ignored": ("rules", "team/"),
    "node-selector-ignored": ("small_rules", "team/"),
    "penalties-in-the-bound": ("stages", "bound "),
    "pool-left-out": ("reasons", "team/"),
    "pool-limit-ignored": ("small_rules", "limit of the pool"),
    "preference-costs-more": ("preferences", "cost "),
    "proof-of-the-search-unused": ("closed", "gap "),
    "reason-left-out": ("reasons", "offers left out"),
    "stock-for-each-pool": ("small_rules", "more than there are"),
    "stock-ignored": ("small_rules", "more than there are"),
}


def test_every_patch_is_tried() -> None:
    assert sorted(path.stem for path in PATCHES.glob("*.patch")) == sorted(KILLS)


@pytest.mark.parametrize("name", sorted(KILLS))
def test_its_patch_applies(name: str, tmp_path: Path) -> None:
    apply((PATCHES / f"{name}.patch").read_text(), ROOT / "src", tmp_path, name)


@pytest.mark.parametrize("name", sorted(KILLS)[:: len(KILLS) // amount(5, len(KILLS))])
def test_a_wrong_planner_is_noticed(name: str, tmp_path: Path) -> None:
    apply((PATCHES / f"{name}.patch").read_text(), ROOT / "src", tmp_path, name)
    noticed, said = KILLS[name]
    tried = subprocess.run(
        command(tmp_path, "tests.core.pools.planner.properties", noticed, str(WORLDS)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert tried.returncode == BROKEN, f"{name} survives {noticed}: {tried.stderr[-600:]}"
    assert tried.stdout.startswith(said), tried.stdout
