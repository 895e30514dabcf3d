"""What failed is left alone for a while, longer each time, and forgotten in the end."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import NOW, PATIENT, an_offer, offers_of
from tgp.controllers.pools.memory import PoolMemory
from tgp.core.model.cooldowns import FORGOTTEN_AFTER, LONGEST_COOLDOWN, Cooldowns
from tgp.core.model.offer import BootMode
from tgp.core.requests import cooldown
from tgp.core.requests.cooldown import FIRST_COOLDOWN, account_failed, failed, forgotten, succeeded

OFFER = an_offer(host="h1")
SOURCE = "acme/keys/A"
SECOND = timedelta(seconds=1)


def test_a_failed_offer_cools_down_for_five_minutes_and_no_longer():
    cooldowns = failed(Cooldowns(), OFFER, "sold out", NOW)

    assert cooldowns.against(OFFER, SOURCE, NOW).why == "sold out"
    assert cooldowns.against(OFFER, SOURCE, NOW + FIRST_COOLDOWN - SECOND) is not None
    assert cooldowns.against(OFFER, SOURCE, NOW + FIRST_COOLDOWN) is None


@pytest.mark.parametrize(
    ("times", "minutes"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 240), (99, 240)]
)
def test_each_failure_doubles_the_bench_up_to_four_hours(times, minutes):
    cooldowns = Cooldowns()
    for _ in range(times):
        cooldowns = failed(cooldowns, OFFER, "x", NOW)

    assert cooldowns.against(OFFER, SOURCE, NOW).until == NOW + timedelta(minutes=minutes)


def test_its_host_cools_down_with_it_whatever_it_is_called_next():
    cooldowns = failed(Cooldowns(), OFFER, "x", NOW)

    assert cooldowns.against(an_offer("renamed", host="h1"), SOURCE, NOW)
    assert not cooldowns.against(an_offer("b", host="h2"), SOURCE, NOW)
    assert not cooldowns.against(an_offer("b", host="h1", provider="zeta"), SOURCE, NOW)


def test_offers_without_a_host_do_not_share_one():
    cooldowns = failed(Cooldowns(), an_offer(host=""), "x", NOW)

    assert not cooldowns.hosts
    assert not cooldowns.against(an_offer("b", host=""), SOURCE, NOW)


def test_two_machines_that_never_join_bench_their_provider():
    """One may be a broken machine; two are a provider that cannot boot Talos."""
    once = failed(Cooldowns(), an_offer("a"), "NeverJoined", NOW, never_joined=True)
    twice = failed(once, an_offer("b"), "NeverJoined", NOW, never_joined=True)

    assert not once.against(an_offer("c"), SOURCE, NOW)
    assert twice.against(an_offer("c"), SOURCE, NOW).until == NOW + FIRST_COOLDOWN
    assert not twice.against(an_offer("c", provider="zeta"), SOURCE, NOW)


def test_other_failures_do_not_count_against_the_provider():
    cooldowns = Cooldowns()
    for number in range(10):
        cooldowns = failed(cooldowns, an_offer(f"{number}"), "sold out", NOW)

    assert not cooldowns.against(an_offer("c"), SOURCE, NOW)


def test_a_refused_key_benches_what_is_sold_under_it_and_nothing_else():
    """Two teams with a key each at one provider: one team's empty account must not stop the other."""
    cooldowns = account_failed(Cooldowns(), OFFER, SOURCE, "no credit left", NOW)

    assert cooldowns.against(an_offer("b"), SOURCE, NOW).why == "no credit left"
    assert not cooldowns.against(an_offer("b"), "acme/keys/B", NOW)
    assert not cooldowns.against(OFFER, "acme/others/A", NOW)


def test_one_key_is_one_account_whatever_else_its_classes_set():
    cooldowns = account_failed(Cooldowns(), OFFER, f"{SOURCE}#12345678", "no credit left", NOW)

    assert cooldowns.against(an_offer("b"), f"{SOURCE}#87654321", NOW)
    assert cooldowns.against(an_offer("b"), SOURCE, NOW)


def test_a_box_that_refuses_its_key_benches_itself_and_no_other_box():
    """Each has a key of its own, and all of them are sold without one."""
    box, other = (an_offer(name, provider="webhook", boot=BootMode.POWER) for name in ("box", "other"))
    cooldowns = account_failed(Cooldowns(), box, "webhook#12345678", "401", NOW)

    assert cooldowns.against(box, "webhook#12345678", NOW)
    assert not cooldowns.against(other, "webhook#12345678", NOW)


@pytest.mark.parametrize(("times", "minutes"), [(1, 5), (2, 10), (99, 240)])
def test_a_key_that_is_refused_again_and_again_cools_down_for_longer(times, minutes):
    cooldowns = Cooldowns()
    for _ in range(times):
        cooldowns = account_failed(cooldowns, OFFER, SOURCE, "x", NOW)

    assert cooldowns.against(OFFER, SOURCE, NOW).until == NOW + timedelta(minutes=minutes)
    assert forgotten(cooldowns, NOW + FORGOTTEN_AFTER) == Cooldowns()


def test_a_success_wipes_the_slate():
    cooldowns = failed(failed(Cooldowns(), OFFER, "x", NOW, never_joined=True), OFFER, "x", NOW, never_joined=True)
    cooldowns = account_failed(cooldowns, OFFER, SOURCE, "x", NOW)

    assert succeeded(cooldowns, OFFER, SOURCE) == Cooldowns()


def test_what_is_a_day_old_is_forgotten():
    cooldowns = Cooldowns()
    for _ in range(6):
        cooldowns = failed(cooldowns, OFFER, "x", NOW)

    assert forgotten(cooldowns, NOW + FORGOTTEN_AFTER - SECOND) == cooldowns
    assert forgotten(cooldowns, NOW + FORGOTTEN_AFTER) == Cooldowns({}, {}, {})
    again = failed(cooldowns, OFFER, "x", NOW + FORGOTTEN_AFTER)
    assert again.offers[OFFER.key].failures == 1


def test_a_clock_set_back_benches_nothing_for_a_day():
    cooldowns = failed(Cooldowns(), OFFER, "x", NOW)

    assert cooldowns.against(OFFER, SOURCE, NOW - timedelta(days=1)) is None


def test_marks_are_bounded_and_the_newest_stay(monkeypatch):
    monkeypatch.setattr(cooldown, "MOST_COOLDOWNS", 3)
    cooldowns = Cooldowns()
    for number in range(5):
        cooldowns = failed(cooldowns, an_offer(f"{number}"), "x" * 10_000, NOW + number * SECOND)

    assert [key.split("/")[1] for key in cooldowns.offers] == ["2", "3", "4"]
    assert all(len(mark.why) == cooldown.LONGEST_WHY for mark in cooldowns.offers.values())


@PATIENT
@given(st.lists(st.tuples(offers_of("acme"), st.booleans(), st.integers(0, 100_000)), max_size=30))
def test_no_cooldown_is_longer_than_four_hours(failures):
    cooldowns, now = Cooldowns(), NOW
    for offer, never_joined, pause in failures:
        now += timedelta(seconds=pause)
        cooldowns = failed(cooldowns, offer, "x", now, never_joined=never_joined)
        mark = cooldowns.against(offer, SOURCE, now)

        assert FIRST_COOLDOWN <= mark.until - now <= LONGEST_COOLDOWN
        assert cooldowns.against(offer, SOURCE, now + LONGEST_COOLDOWN) is None


def test_of_two_cooldowns_of_one_offer_the_one_that_ends_later_counts():
    old = failed(Cooldowns(), OFFER, "sold out", NOW - timedelta(hours=2))
    fresh = failed(Cooldowns(), OFFER, "refused", NOW)

    assert old.with_later(fresh).against(OFFER, SOURCE, NOW).why == "refused"
    assert fresh.with_later(old).against(OFFER, SOURCE, NOW).why == "refused"
    assert old.against(OFFER, SOURCE, NOW) is None


def test_an_offer_that_failed_a_launch_earlier_is_left_out_when_a_request_for_it_is_withdrawn():
    """The market remembers a cooldown for a day after it has ended."""
    memory = PoolMemory()
    market = failed(Cooldowns(), OFFER, "sold out", NOW - timedelta(hours=2))
    memory.leave_out(OFFER, "its price has risen", NOW)

    assert memory.cooldowns(market).against(OFFER, SOURCE, NOW).why == "its price has risen"
