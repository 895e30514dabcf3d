"""The spend record: what can be read is counted once, in the months it belongs to; the rest is said."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.spend import (
    MOST_BYTES,
    SpendEntry,
    by_month,
    entries,
    has_room,
    line_of,
    own_page_name,
    page_name,
    read_line,
    unreadable,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
UID = "0b5f0a3e-2f5c-4c0e-9e35-3d1a6f0c2b11"


def an_entry(**said: Any) -> SpendEntry:
    fields: dict[str, Any] = {
        "uid": UID,
        "attempt": 1,
        "request": "team-a/train-7",
        "provider": "vast",
        "began": NOW,
        "ended": NOW + timedelta(hours=1),
        "microusd": 400_000,
    }
    return SpendEntry(**fields | said)


def a_page(**lines: str) -> dict[str, Any]:
    return {"metadata": {"name": "tgp-spend-2026-11"}, "data": lines}


def test_a_line_reads_back_as_it_was_written():
    entry = an_entry(pool="team-a/trainers", node_class="cheap", gpu="RTX4090", gpus=2, instance="i-1")

    assert read_line(entry.key, line_of(entry)) == entry
    assert (entry.month, entry.namespace) == ("2026-11", "team-a")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("no JSON", "lunch"),
        ("another shape", "[]"),
        ("under another's key", line_of(an_entry(attempt=2))),
        ("a negative cost", line_of(an_entry(microusd=-1))),
        ("an end before its beginning", line_of(an_entry(ended=NOW - timedelta(hours=1)))),
        ("no time zone", line_of(an_entry()).replace("Z", "")),
        ("a year far in the future", line_of(an_entry()).replace("2026-11-16T13", "9999-12-31T23")),
        ("half a character", '{"uid": "\ud800"}'),
    ],
)
def test_an_edited_line_is_reported_and_not_counted(said, line):
    page = a_page(**{an_entry().key: line})

    assert entries([page]) == ()
    assert unreadable([page]) == (an_entry().key,)


def test_spoilt_neighbours_do_not_hide_a_line():
    entry = an_entry()
    page = a_page(**{"note": "do not touch", entry.key: line_of(entry)})

    assert entries([page, {"metadata": {}}, {"data": None}]) == (entry,)
    assert unreadable([page]) == ("note",)


def test_a_machine_that_stands_twice_is_counted_once():
    """An answer was lost, the turn was taken again, and another page had become the open one."""
    entry = an_entry()

    assert entries([a_page(**{entry.key: line_of(entry)})] * 2) == (entry,)


def test_of_two_lines_about_one_machine_the_earlier_counts():
    """It was entered in the last second of a month; the turn that was taken again fell into the next."""
    first, again = an_entry(), an_entry(ended=NOW + timedelta(days=20), microusd=500_000)
    pages = [a_page(**{entry.key: line_of(entry)}) for entry in (again, first)]

    assert entries(pages) == entries(reversed(pages)) == (first,)


def test_a_field_of_a_newer_version_is_no_hindrance():
    line = line_of(an_entry()).replace('"attempt":1', '"attempt":1,"carbon":12')

    assert read_line(an_entry().key, line) == an_entry()


def test_a_machine_that_ran_over_the_end_of_a_month_is_divided_by_time():
    began = datetime(2026, 10, 31, 22, 0, tzinfo=UTC)
    entry = an_entry(began=began, ended=began + timedelta(hours=3), microusd=1_000_000)

    assert by_month(entry) == {"2026-10": 666_666, "2026-11": 333_334}


@given(
    began=st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis wants naive bounds beside the time zone
    length=st.timedeltas(timedelta(0), timedelta(days=900)),
    microusd=st.integers(0, 10**12),
)
def test_the_parts_of_a_life_add_up_to_the_whole(began, length, microusd):
    parts = by_month(an_entry(began=began, ended=began + length, microusd=microusd))

    assert sum(parts.values()) == microusd
    assert all(part >= 0 for part in parts.values())
    assert list(parts) == sorted(parts)


def test_pages_have_names_the_api_server_takes():
    assert (page_name("2026-11", 1), page_name("2026-11", 2)) == ("tgp-spend-2026-11", "tgp-spend-2026-11-2")
    assert len(own_page_name(an_entry(attempt=9999))) <= 253


def test_a_page_is_full_before_the_api_server_refuses_it():
    entry = an_entry()

    assert has_room({}, entry)
    assert not has_room({"foreign": "x" * MOST_BYTES}, entry)
