"""The page about machines you own names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ("tests/sim/test_seed_faults.py", "tests/sim/test_power_faults.py", "tests/core/power/test_node_groups.py")


def test_every_test_of_the_table_exists():
    table = (ROOT / "docs" / "webhook.md").read_text().partition("| what it did | test |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(test_\w+)`", table))
    there = {name for file in FILES for name in re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.MULTILINE)}

    assert len(named) >= 12
    assert named <= there
