"""An id that a provider named is not lost, whichever client writes the request meanwhile."""

import msgspec
import pytest

from tests.core.requests.an_observation import a_machine, an_attempt, over
from tgp.core.requests.unwritten_ids import recalled, with_unwritten

NAMED = a_machine()
BARE = msgspec.to_builtins(an_attempt())
BEFORE = {"nodeClass": "rented", "nodeName": "train-1", "attempts": [BARE]}


def test_what_was_reported_stands_in_for_a_record_that_does_not_show_it():
    assert recalled((an_attempt(),), {NAMED.token: NAMED}) == (NAMED,)


@pytest.mark.parametrize(
    "attempts",
    [
        pytest.param((), id="none"),
        pytest.param((NAMED,), id="recorded"),
        pytest.param((over(),), id="over"),
        pytest.param((over(), an_attempt(2)), id="another one"),
    ],
)
def test_a_record_that_knows_better_is_left_as_it_is(attempts):
    assert recalled(attempts, {NAMED.token: NAMED}) is attempts


def test_what_was_reported_goes_beside_whatever_others_wrote():
    wanted = with_unwritten({"phase": "Odd", "attempts": [{**BARE, "extra": 1}]}, NAMED, before=BEFORE)

    assert wanted == {"phase": "Odd", "attempts": [{**BARE, "extra": 1, **msgspec.to_builtins(NAMED)}]}


def test_an_attempt_that_was_erased_is_put_back_with_its_names():
    wanted = with_unwritten({}, NAMED, before=BEFORE)

    assert wanted == {"nodeClass": "rented", "nodeName": "train-1", "attempts": [msgspec.to_builtins(NAMED)]}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([msgspec.to_builtins(NAMED)], id="recorded"),
        pytest.param([msgspec.to_builtins(over())], id="declared over"),
        pytest.param([msgspec.to_builtins(an_attempt(2))], id="followed by another"),
    ],
)
def test_nothing_is_added_where_nothing_is_missing(rows):
    assert with_unwritten({"attempts": rows}, NAMED, before=BEFORE) is None
