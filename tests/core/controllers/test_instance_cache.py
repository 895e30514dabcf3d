"""Presence: what is shown is there; what is not shown needs complete lists, of the right account, far enough apart."""

from datetime import timedelta

import pytest

from tests.core.controllers.account_access import a_machine, a_token
from tgp.controllers.instances.cache import FORGOTTEN_AFTER, InstanceCache, InstanceSnapshot
from tgp.core.model.presence import Absent, AccountProblem, Found, Unknown
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
def instance_cache(clock):
    return InstanceCache(clock)


def a_snapshot(began, *machines, account="acme", **rest):
    return InstanceSnapshot(account, began, tuple(machines), **rest)


def presence(instance_cache, account="acme", token=TOKEN, **rest):
    instance_cache.watch(token, "vultr/keys", (account,))
    return instance_cache.presence(token, "vultr/keys", (account,), **rest)


def test_before_the_first_look_the_state_is_unknown(instance_cache):
    assert Unknown(AccountProblem.NOT_ASKED_YET, "Provider has not been asked yet") == presence(instance_cache)


def test_a_listed_machine_is_found(instance_cache):
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1)))

    assert Found(a_machine(1)) == presence(instance_cache)


def test_a_list_begun_before_the_question_proves_no_absence(instance_cache):
    """The order may have left after the list was made."""
    instance_cache.put("vultr/keys", a_snapshot(99.0))

    assert Absent(0, timedelta(0)) == presence(instance_cache)


def test_absences_are_counted_in_lists_begun_after_the_question(instance_cache, clock):
    presence(instance_cache)
    for moment in (101.0, 130.0, 170.0):
        clock.now = moment
        instance_cache.put("vultr/keys", a_snapshot(moment))

    assert Absent(3, timedelta(seconds=69)) == presence(instance_cache)


def test_one_appearance_starts_the_count_again(instance_cache):
    presence(instance_cache)
    instance_cache.put("vultr/keys", a_snapshot(101.0))
    instance_cache.put("vultr/keys", a_snapshot(140.0, a_machine(1)))
    instance_cache.put("vultr/keys", a_snapshot(170.0))

    assert Absent(1, timedelta(0)) == presence(instance_cache)


def test_an_error_is_unknown_and_takes_nothing_back(instance_cache):
    presence(instance_cache)
    instance_cache.put("vultr/keys", a_snapshot(101.0))
    instance_cache.fail("vultr/keys", AccountProblem.UNREACHABLE, "silence")

    assert Unknown(AccountProblem.UNREACHABLE, "silence") == presence(instance_cache)
    instance_cache.put("vultr/keys", a_snapshot(200.0))
    assert Absent(2, timedelta(seconds=99)) == presence(instance_cache)


def test_under_another_account_nothing_is_absent(instance_cache):
    """A key for another account makes everything unknown, never gone."""
    presence(instance_cache)
    instance_cache.put("vultr/keys", a_snapshot(101.0))
    instance_cache.put("vultr/keys", a_snapshot(201.0, account="other"))

    assert presence(instance_cache).trouble is AccountProblem.ACCOUNT_CHANGED
    instance_cache.put("vultr/keys", a_snapshot(301.0))
    assert Absent(1, timedelta(0)) == presence(instance_cache)


def test_a_machine_that_another_key_shows_is_there(instance_cache):
    """Where a fingerprint of the key is all there is of an identity, a key may be changed while machines run."""
    presence(instance_cache)
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1), account="key:new"))
    assert Found(a_machine(1)) == presence(instance_cache)

    instance_cache.put("vultr/keys", a_snapshot(201.0, account="key:new"))
    instance_cache.put("vultr/keys", a_snapshot(301.0, account="key:new"))
    assert Absent(2, timedelta(seconds=100)) == presence(instance_cache)


def test_of_two_machines_the_recorded_one_was_found(instance_cache):
    older, recorded = a_machine(1, id="i-a"), a_machine(1, id="i-b")
    instance_cache.put("vultr/keys", a_snapshot(101.0, older, recorded))

    assert Found(older, (recorded,)) == presence(instance_cache)
    assert Found(recorded, (older,)) == presence(instance_cache, instance_id="i-b")


def test_a_doubt_is_about_one_token_and_counts_nothing(instance_cache):
    presence(instance_cache)
    presence(instance_cache, token=a_token(2))
    instance_cache.put("vultr/keys", a_snapshot(101.0, doubts={TOKEN: "it was renamed"}))

    assert Unknown(AccountProblem.UNREACHABLE, "it was renamed") == presence(instance_cache)
    assert Absent(1, timedelta(0)) == presence(instance_cache, token=a_token(2))


def test_a_gap_leaves_unknown_what_was_not_asked_for(instance_cache):
    presence(instance_cache)
    presence(instance_cache, token=a_token(2))
    instance_cache.put("vultr/keys", a_snapshot(101.0, gap="it does not report", absent=frozenset({a_token(2)})))

    assert Unknown(AccountProblem.UNREACHABLE, "it does not report") == presence(instance_cache)
    assert Absent(1, timedelta(0)) == presence(instance_cache, token=a_token(2))
    assert not instance_cache.listed_since("vultr/keys", 100.0)
    assert instance_cache.trouble("vultr/keys") is None


def test_in_an_account_whose_list_is_wrong_nothing_should_be_bought(instance_cache):
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1), gap="List contradicts itself", lied=True))

    assert Unknown(AccountProblem.UNREACHABLE, "List contradicts itself") == instance_cache.trouble("vultr/keys")
    assert Found(a_machine(1)) == presence(instance_cache)


def test_settling_can_begin_again_without_forgetting_what_was_seen(instance_cache):
    instance_cache.watch(TOKEN, "vultr/keys", ("acme",))
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1)))
    instance_cache.watch(TOKEN, "vultr/keys", ("acme",), not_before=500.0)
    instance_cache.put("vultr/keys", a_snapshot(400.0))

    assert Absent(0, timedelta(0)) == presence(instance_cache)
    assert instance_cache.seen_as(TOKEN) == "i-1-1"


def test_only_news_is_called_news(instance_cache):
    """A quiet hour stays quiet."""
    assert instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1)))
    assert not instance_cache.put("vultr/keys", a_snapshot(161.0, a_machine(1)))
    assert instance_cache.fail("vultr/keys", AccountProblem.UNREACHABLE, "silence")
    assert not instance_cache.fail("vultr/keys", AccountProblem.UNREACHABLE, "silence")
    assert instance_cache.put("vultr/keys", a_snapshot(221.0, a_machine(1)))
    assert instance_cache.put("vultr/keys", a_snapshot(281.0))
    assert not instance_cache.put("vultr/keys", a_snapshot(341.0))
    presence(instance_cache)
    assert instance_cache.put("vultr/keys", a_snapshot(401.0))  # one more absence of a tracked token


def test_the_highest_attempt_ever_seen_is_remembered(instance_cache):
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1, 2), a_machine(1, 5)))
    instance_cache.put("vultr/keys", a_snapshot(161.0))

    assert instance_cache.highest_attempt(a_token(1).split("-")[2]) == 5


def test_a_token_without_questions_is_forgotten(instance_cache, clock):
    presence(instance_cache)
    clock.now += FORGOTTEN_AFTER + 1
    instance_cache.put("vultr/keys", a_snapshot(clock.now))

    assert instance_cache.expected("vultr/keys") == []


def test_news_of_one_machine_is_no_news_for_the_others(instance_cache):
    """Of a thousand machines at a provider one changes: one request needs a turn."""
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1), a_machine(2)))
    assert instance_cache.news("vultr/keys") is None

    assert not instance_cache.put("vultr/keys", a_snapshot(130.0, a_machine(1), a_machine(2)))
    assert instance_cache.put("vultr/keys", a_snapshot(160.0, a_machine(1)))
    assert instance_cache.news("vultr/keys") == {read_token(a_token(2)).uid}


def test_an_absence_that_counts_for_one_more_is_news_of_its_request(instance_cache):
    instance_cache.put("vultr/keys", a_snapshot(100.0, a_machine(2)))
    presence(instance_cache)

    assert instance_cache.put("vultr/keys", a_snapshot(130.0, a_machine(2)))
    assert instance_cache.news("vultr/keys") == {read_token(TOKEN).uid}


def test_what_may_concern_every_machine_concerns_all_requests(instance_cache):
    instance_cache.put("vultr/keys", a_snapshot(101.0, a_machine(1)))
    instance_cache.put("vultr/keys", a_snapshot(130.0, a_machine(1), gap="a page is missing"))
    assert instance_cache.news("vultr/keys") is None

    instance_cache.fail("vultr/keys", AccountProblem.UNREACHABLE, "no answer")
    assert instance_cache.news("vultr/keys") is None
