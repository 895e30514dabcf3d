"""docs/media/day.txt can be made again, and shows pools that grow in the morning and shrink at night."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from tgp.interfaces.terminal.snapshot import PlanSummary
from tools.day import HEADS, RECORDING, ROW_EVERY, SCREENS, WIDTH, Look, OneEach, recorded

ROW = re.compile(r"\d\d:\d\d +\d+ +\d+ +(\d+) +\S+ +\S+( +\d\d:\d\d ordered \d+.*)?")
PAGE = RECORDING.parents[1] / "pools.md"


def rows_of(lines: list[str]) -> list[re.Match[str]]:
    return [found for line in lines if (found := ROW.fullmatch(line))]


def test_a_new_recording_has_the_same_form():
    lines = recorded(hours=0.5)

    assert lines[4].split() == " ".join(HEADS).split()
    assert len(rows_of(lines)) == 30 // ROW_EVERY
    assert any(line.startswith("Machines of pools cost $") for line in lines)


def a_look(pods, booted=timedelta(0)):
    plan = PlanSummary(datetime(2026, 1, 5, tzinfo=UTC), "", 0, 0, alone_of=pods)
    return Look(SimpleNamespace(plan=plan), 0, 0, 0, {"r": booted})  # type: ignore[arg-type]


def test_a_machine_for_each_pod_boots_and_idles_as_a_real_one():
    """Two looks with the pod: 10 minutes of running, 4 of booting, 10 of idling, at $6 an hour."""
    alone = OneEach()
    for pods in ({"a": 6_000_000}, {"a": 6_000_000}, {}):
        alone.look(a_look(pods, timedelta(minutes=4)))
    assert alone.boots == timedelta(minutes=4)
    assert alone.microusd == 2_400_000


def test_the_checked_in_recording_shows_a_whole_day():
    lines = RECORDING.read_text(encoding="utf-8").splitlines()
    machines = [int(row[1]) for row in rows_of(lines)]

    assert lines[4].split() == " ".join(HEADS).split()
    assert len(machines) == 24 * 60 // ROW_EVERY
    assert max(machines) > 10 * max(min(machines), 1), "many in the morning, few at night"
    assert sum(line.startswith("## ") for line in lines) == len(SCREENS)
    assert sum(line.startswith("Pools  plan ") for line in lines) == len(SCREENS)
    assert max(map(len, lines)) <= max(WIDTH, 140)


def test_the_excerpt_on_the_page_is_from_it():
    lines = RECORDING.read_text(encoding="utf-8").splitlines()
    shown = rows_of(PAGE.read_text(encoding="utf-8").splitlines())

    assert shown
    assert {row[0] for row in shown} <= set(lines)
