"""Presence: what is shown is there; what is not shown needs complete lists, of the right account, far enough apart."""

from datetime import timedelta

import pytest

from tests.core.controllers.tills import a_machine, a_token
from tgp.controllers.rosters import FORGOTTEN_AFTER, Roster, Rosters
from tgp.core.model.presence import Absent, Found, Trouble, Unknown
from tgp.core.model.token import read_token

TOKEN = a_token(1)


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Seconds()


@pytest.fixture
def rosters(clock):
    return Rosters(clock)


def a_roster(began, *machines, account="acme", **rest):
    return Roster(account, began, tuple(machines), **rest)


def presence(rosters, account="acme", **rest):
    return rosters.presence(TOKEN, "till", (account,), **rest)


def test_before_the_first_look_nobody_knows(rosters):
    assert Unknown(Trouble.NOT_ASKED_YET, "this provider has not been asked yet") == presence(rosters)


def test_a_listed_machine_is_found(rosters):
    rosters.put("till", a_roster(101.0, a_machine(1)))

    assert Found(a_machine(1)) == presence(rosters)


def test_a_list_begun_before_anybody_asked_proves_no_absence(rosters):
    """The order may have left after the list was made."""
    rosters.put("till", a_roster(99.0))

    assert Absent(0, timedelta(0)) == presence(rosters)


def test_absences_are_counted_in_lists_begun_after_the_question(rosters, clock):
    presence(rosters)
    for moment in (101.0, 130.0, 170.0):
        clock.now = moment
        rosters.put("till", a_roster(moment))

    assert Absent(3, timedelta(seconds=69)) == presence(rosters)


def test_one_appearance_starts_the_count_again(rosters):
    presence(rosters)
    rosters.put("till", a_roster(101.0))
    rosters.put("till", a_roster(140.0, a_machine(1)))
    rosters.put("till", a_roster(170.0))

    assert Absent(1, timedelta(0)) == presence(rosters)


def test_an_error_is_unknown_and_takes_nothing_back(rosters):
    presence(rosters)
    rosters.put("till", a_roster(101.0))
    rosters.fail("till", Trouble.UNREACHABLE, "silence")

    assert Unknown(Trouble.UNREACHABLE, "silence") == presence(rosters)
    rosters.put("till", a_roster(200.0))
    assert Absent(2, timedelta(seconds=99)) == presence(rosters)


def test_under_another_account_nothing_is_absent(rosters):
    """A key for another account makes everything unknown, never gone."""
    presence(rosters)
    rosters.put("till", a_roster(101.0))
    rosters.put("till", a_roster(201.0, account="other"))

    assert presence(rosters).trouble is Trouble.ACCOUNT_CHANGED
    rosters.put("till", a_roster(301.0))
    assert Absent(1, timedelta(0)) == presence(rosters)


def test_a_machine_that_another_key_shows_is_there(rosters):
    """Where a fingerprint of the key is all there is of an identity, a key may be changed while machines run."""
    presence(rosters)
    rosters.put("till", a_roster(101.0, a_machine(1), account="key:new"))
    assert Found(a_machine(1)) == presence(rosters)

    rosters.put("till", a_roster(201.0, account="key:new"))
    rosters.put("till", a_roster(301.0, account="key:new"))
    assert Absent(2, timedelta(seconds=100)) == presence(rosters)


def test_of_two_machines_the_recorded_one_was_found(rosters):
    older, recorded = a_machine(1, id="i-a"), a_machine(1, id="i-b")
    rosters.put("till", a_roster(101.0, older, recorded))

    assert Found(older, (recorded,)) == presence(rosters)
    assert Found(recorded, (older,)) == presence(rosters, instance_id="i-b")


def test_a_doubt_is_about_one_token_and_counts_nothing(rosters):
    presence(rosters)
    rosters.presence(a_token(2), "till", ("acme",))
    rosters.put("till", a_roster(101.0, doubts={TOKEN: "it was renamed"}))

    assert Unknown(Trouble.UNREACHABLE, "it was renamed") == presence(rosters)
    assert Absent(1, timedelta(0)) == rosters.presence(a_token(2), "till", ("acme",))


def test_a_gap_leaves_unknown_what_was_not_asked_for(rosters):
    presence(rosters)
    rosters.presence(a_token(2), "till", ("acme",))
    rosters.put("till", a_roster(101.0, gap="it does not tell", absent=frozenset({a_token(2)})))

    assert Unknown(Trouble.UNREACHABLE, "it does not tell") == presence(rosters)
    assert Absent(1, timedelta(0)) == rosters.presence(a_token(2), "till", ("acme",))
    assert not rosters.listed_since("till", 100.0)
    assert rosters.trouble("till") is None


def test_at_a_till_whose_list_lied_nothing_should_be_bought(rosters):
    rosters.put("till", a_roster(101.0, a_machine(1), gap="the list contradicts itself", lied=True))

    assert Unknown(Trouble.UNREACHABLE, "the list contradicts itself") == rosters.trouble("till")
    assert Found(a_machine(1)) == presence(rosters)


def test_settling_can_begin_again_without_forgetting_what_was_seen(rosters):
    rosters.watch(TOKEN, "till", ("acme",))
    rosters.put("till", a_roster(101.0, a_machine(1)))
    rosters.watch(TOKEN, "till", ("acme",), not_before=500.0)
    rosters.put("till", a_roster(400.0))

    assert Absent(0, timedelta(0)) == presence(rosters)
    assert rosters.seen_as(TOKEN) == "i-1-1"


def test_only_news_is_called_news(rosters):
    """A quiet hour stays quiet."""
    assert rosters.put("till", a_roster(101.0, a_machine(1)))
    assert not rosters.put("till", a_roster(161.0, a_machine(1)))
    assert rosters.fail("till", Trouble.UNREACHABLE, "silence")
    assert not rosters.fail("till", Trouble.UNREACHABLE, "silence")
    assert rosters.put("till", a_roster(221.0, a_machine(1)))
    assert rosters.put("till", a_roster(281.0))
    assert not rosters.put("till", a_roster(341.0))
    presence(rosters)
    assert rosters.put("till", a_roster(401.0))  # one more absence of a token that somebody waits for


def test_the_highest_attempt_ever_seen_is_remembered(rosters):
    rosters.put("till", a_roster(101.0, a_machine(1, 2), a_machine(1, 5)))
    rosters.put("till", a_roster(161.0))

    assert rosters.highest_attempt(a_token(1).split("-")[2]) == 5


def test_a_token_nobody_asks_for_is_forgotten(rosters, clock):
    presence(rosters)
    clock.now += FORGOTTEN_AFTER + 1
    rosters.put("till", a_roster(clock.now))

    assert rosters.expected("till") == []


def test_news_of_one_machine_is_no_news_for_the_others(rosters):
    """Of a thousand machines at a provider one changes: one request needs a turn."""
    rosters.put("till", a_roster(101.0, a_machine(1), a_machine(2)))
    assert rosters.news("till") is None

    assert not rosters.put("till", a_roster(130.0, a_machine(1), a_machine(2)))
    assert rosters.put("till", a_roster(160.0, a_machine(1)))
    assert rosters.news("till") == {read_token(a_token(2)).uid}


def test_an_absence_that_counts_for_one_more_is_news_of_its_request(rosters):
    rosters.put("till", a_roster(100.0, a_machine(2)))
    presence(rosters)

    assert rosters.put("till", a_roster(130.0, a_machine(2)))
    assert rosters.news("till") == {read_token(TOKEN).uid}


def test_what_may_concern_every_machine_is_news_for_everybody(rosters):
    rosters.put("till", a_roster(101.0, a_machine(1)))
    rosters.put("till", a_roster(130.0, a_machine(1), gap="a page is missing"))
    assert rosters.news("till") is None

    rosters.fail("till", Trouble.UNREACHABLE, "no answer")
    assert rosters.news("till") is None
