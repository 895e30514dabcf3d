"""A provider's limits are kept by all users of one account, and no call waits for ever."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.clouds.around.scripted import (
    ASKING,
    ORDER,
    Counted,
    ScriptedCloud,
    guarded,
    paced_cloud,
    some_facts,
)
from tgp.adapters.clouds.middleware import account_throttle
from tgp.adapters.clouds.middleware.account_throttle import (
    LONGEST_HOLD,
    LONGEST_LAUNCH_WAIT,
    AccountThrottles,
    RateLimiter,
)
from tgp.adapters.clouds.middleware.guarded_cloud import SAFE_VERBS
from tgp.core.model.cloud_errors import CloudBusy, CloudError, OrderQueued, OutcomeUnknown, SoldOut
from tgp.core.model.provider_facts import Rate
from tgp.sim.loop import run

SOURCE = "acme/tgp-operator-secret/ACME_API_KEY"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def a_rate(calls: int, per: float, burst: int = 1) -> Rate:
    return Rate(calls, seconds(per), burst)


async def refusals(*asking) -> list[CloudBusy]:
    """Ask all at once; who was told to come back?"""
    answers = await asyncio.gather(*asking, return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert all(isinstance(answer, CloudBusy) for answer in failed), failed
    return failed


def test_calls_are_evenly_spaced_after_the_burst():
    async def scenario():
        cloud = ScriptedCloud(facts=some_facts(offers=a_rate(60, 60, burst=3)))
        paced = paced_cloud(cloud, AccountThrottles(), SOURCE)
        await asyncio.gather(*(paced.offers() for _ in range(6)))

        assert cloud.times == [0, 0, 0, 1, 2, 3]

    run(scenario())


def test_two_users_of_one_account_share_its_limits_and_two_accounts_do_not():
    async def scenario():
        facts, turnstiles = some_facts(status=a_rate(1, 2)), AccountThrottles()
        one, other, stranger = (ScriptedCloud(facts=facts) for _ in range(3))
        await asyncio.gather(
            paced_cloud(one, turnstiles, SOURCE).status("i-1"),
            paced_cloud(other, turnstiles, SOURCE).status("i-2"),
            paced_cloud(stranger, turnstiles, "acme/another").status("i-3"),
        )

        assert [one.times, other.times, stranger.times] == [[0], [2], [0]]

    run(scenario())


def test_the_limit_of_all_together_counts_every_verb():
    async def scenario():
        cloud = ScriptedCloud(facts=some_facts(together=a_rate(1, 1)))
        paced = paced_cloud(cloud, AccountThrottles(), SOURCE)
        await asyncio.gather(*(ASKING[verb](paced) for verb in ("launch", *SAFE_VERBS, "terminate")))

        assert sorted(cloud.times) == [0, 1, 2, 3, 4, 5, 6, 7]

    run(scenario())


def test_a_slow_verb_stops_no_other():
    """A list is not kept waiting by a second launch."""

    async def scenario():
        cloud = ScriptedCloud(facts=some_facts(launch=a_rate(1, 4), together=a_rate(1, 1)))
        paced = paced_cloud(cloud, AccountThrottles(), SOURCE)
        await asyncio.gather(paced.launch(ORDER), paced.launch(ORDER), paced.owned("tgp-"), paced.owned("tgp-"))

        assert [(verb, moment) for verb, _, moment in cloud.calls] == [
            ("launch", 0),
            ("owned", 1),
            ("owned", 2),
            ("launch", 4),
        ]

    run(scenario())


def test_a_call_that_would_wait_too_long_is_refused_at_once_and_sends_nothing():
    async def scenario():
        meter = Counted()
        cloud = ScriptedCloud(facts=some_facts(offers=a_rate(1, 20)))
        paced = paced_cloud(cloud, AccountThrottles(seconds(30)), SOURCE, meter)
        waiting = [asyncio.ensure_future(paced.offers()) for _ in range(2)]
        await asyncio.sleep(1)
        with pytest.raises(CloudBusy, match="Acme: too many calls wait for offers") as caught:
            await paced.offers()

        assert caught.value.retry_after == seconds(39)
        assert asyncio.get_running_loop().time() == 1
        await asyncio.gather(*waiting)
        assert cloud.times == [0, 20]
        assert meter.waits == [("offers", 0, True), ("offers", 20, False)]
        await asyncio.sleep(20)
        await paced.offers()  # a refusal has used up no slot
        assert cloud.times == [0, 20, 40]

    run(scenario())


def test_as_many_launches_at_once_as_allowed_in_the_order_they_came():
    async def scenario():
        cloud = ScriptedCloud(takes=2.0)
        turnstiles = AccountThrottles(launches_at_once=2)
        buyers = [paced_cloud(cloud, turnstiles, SOURCE) for _ in range(4)]
        await asyncio.gather(*(buyer.launch(ORDER) for buyer in buyers), buyers[0].offers())

        assert [moment for verb, _, moment in cloud.calls if verb == "launch"] == [0, 0, 2, 2]
        assert cloud.at_once == 3  # two launches and a read

    run(scenario())


@pytest.mark.parametrize("error", [SoldOut("none"), OutcomeUnknown("silence"), AssertionError("ours")])
def test_a_launch_that_fails_makes_room_for_the_next(error):
    async def scenario():
        cloud = ScriptedCloud(error, takes=3.0)
        paced = paced_cloud(cloud, AccountThrottles(launches_at_once=1), SOURCE)
        first, second = await asyncio.gather(paced.launch(ORDER), paced.launch(ORDER), return_exceptions=True)

        assert first is error
        assert second.id == "i-1"

    run(scenario())


def test_a_launch_that_is_cancelled_while_waiting_buys_nothing_and_blocks_no_other_call():
    async def scenario():
        cloud = ScriptedCloud(takes=3.0)
        paced = paced_cloud(cloud, AccountThrottles(launches_at_once=1), SOURCE)
        first, second, third = (asyncio.ensure_future(paced.launch(ORDER)) for _ in range(3))
        await asyncio.sleep(1)
        second.cancel()
        await asyncio.gather(first, third)

        assert second.cancelled()
        assert cloud.times == [0, 3]

    run(scenario())


def test_a_launch_does_not_wait_for_ever_for_one_whose_provider_is_silent():
    async def scenario():
        cloud = ScriptedCloud(takes=500.0)
        paced = paced_cloud(cloud, AccountThrottles(launches_at_once=1), SOURCE)
        first = asyncio.ensure_future(paced.launch(ORDER))
        await asyncio.sleep(1)
        with pytest.raises(OrderQueued, match="Acme: other orders are sent first") as caught:
            await paced.launch(ORDER)

        assert caught.value.retry_after is not None
        assert asyncio.get_running_loop().time() == 1 + LONGEST_LAUNCH_WAIT.total_seconds()
        await first
        assert len(cloud.calls) == 1

    run(scenario())


def test_launches_beyond_the_rate_are_told_different_times_in_the_order_they_came():
    """Lambda takes one order in twelve seconds: a hundred orders hold no worker, and come back one by one."""

    async def scenario():
        cloud = ScriptedCloud(facts=some_facts(launch=a_rate(1, 12)))
        paced = paced_cloud(cloud, AccountThrottles(), SOURCE)
        refused = await refusals(*(paced.launch(ORDER) for _ in range(100)))

        assert asyncio.get_running_loop().time() == 0
        assert [error.retry_after for error in refused] == [seconds(12 * each) for each in range(1, 100)]

        async def comes_back(error):
            assert isinstance(error, OrderQueued)
            await asyncio.sleep(error.retry_after.total_seconds())
            await paced.launch(ORDER)

        await asyncio.gather(*(comes_back(error) for error in refused))
        assert cloud.times == [12 * each for each in range(100)]

    run(scenario())


def test_slow_launches_are_estimated_by_the_last_ones():
    async def scenario():
        cloud = ScriptedCloud(takes=20.0)
        paced = paced_cloud(cloud, AccountThrottles(launches_at_once=2), SOURCE)
        for _ in range(20):
            await paced.launch(ORDER)
        began = asyncio.get_running_loop().time()
        running = [asyncio.ensure_future(paced.launch(ORDER)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await refusals(*(paced.launch(ORDER) for _ in range(3)))

        assert asyncio.get_running_loop().time() == began  # refused at once
        assert [round(error.retry_after.total_seconds()) for error in refused] == [20, 30, 40]
        await asyncio.gather(*running)

    run(scenario())


def test_when_one_is_told_to_slow_down_all_are():
    """One 429 is enough: the next call waits until the time the provider named, and other verbs do not."""

    async def scenario():
        cloud = ScriptedCloud(CloudBusy("slow down", seconds(20)))
        turnstiles = AccountThrottles()
        with pytest.raises(CloudBusy):
            await paced_cloud(cloud, turnstiles, SOURCE).offers()
        await asyncio.sleep(5)
        await asyncio.gather(
            paced_cloud(cloud, turnstiles, SOURCE).offers(), paced_cloud(cloud, turnstiles, SOURCE).terminate("i-1")
        )

        assert cloud.calls[1:] == [("terminate", ("i-1",), 5), ("offers", (), 20)]

    run(scenario())


def test_a_pause_longer_than_the_line_is_told_without_asking_and_is_believed_for_a_minute_only():
    """A provider that says "tomorrow" to a terminate must not make us pay until then."""

    async def scenario():
        cloud = ScriptedCloud(CloudBusy("tomorrow", timedelta(days=1)))
        paced = paced_cloud(cloud, AccountThrottles(seconds(30)), SOURCE)
        for _ in range(2):
            with pytest.raises(CloudBusy):
                await paced.terminate("i-1")
        assert len(cloud.calls) == 1

        await asyncio.sleep(LONGEST_HOLD.total_seconds())
        await paced.terminate("i-1")
        assert cloud.times == [0, 60]

    run(scenario())


def test_a_retry_waits_like_a_first_try():
    async def scenario():
        cloud = ScriptedCloud(CloudBusy("later"), facts=some_facts(offers=a_rate(1, 10)))
        await guarded(cloud, AccountThrottles(), SOURCE).offers()

        assert cloud.times == [0, 10]

    run(scenario())


def test_idle_sources_are_forgotten(monkeypatch):
    """And those that do are kept: forgetting them would forgive their calls."""
    monkeypatch.setattr(account_throttle, "MOST_SOURCES", 3)

    async def scenario():
        turnstiles = AccountThrottles()
        cloud = ScriptedCloud(facts=some_facts(offers=a_rate(1, 10)))
        for number in range(3):
            await paced_cloud(cloud, turnstiles, f"old-{number}").offers()
        await asyncio.sleep(9)
        await paced_cloud(cloud, turnstiles, "young").offers()
        assert len(turnstiles) == 4

        await asyncio.sleep(5)
        await paced_cloud(cloud, turnstiles, "new").offers()
        assert len(turnstiles) == 2
        await asyncio.gather(
            paced_cloud(cloud, turnstiles, "young").offers(), paced_cloud(cloud, turnstiles, "old-0").offers()
        )
        assert cloud.times[-2:] == [14, 19]

    run(scenario())


@given(
    calls=st.integers(1, 8),
    per=st.integers(1, 100),
    burst=st.integers(1, 10),
    gaps=st.lists(st.floats(0, 60), min_size=1, max_size=60),
)
@settings(max_examples=300)
def test_no_window_ever_holds_more_calls_than_the_rate_allows(calls, per, burst, gaps):
    """However they come: at most `calls` in any `per`, in the order they came, and no call waits without need."""
    pace, now, booked = RateLimiter(a_rate(calls, per, burst)), 0.0, []
    for gap in gaps:
        now += gap
        moment = pace.book(now)
        assert moment >= now
        booked.append((now, moment))

    moments = [moment for _, moment in booked]
    assert moments == sorted(moments)
    for number in range(calls, len(moments)):
        assert moments[number] - moments[number - calls] >= per * (1 - 1e-9)
    for number, (asked, moment) in enumerate(booked):
        if moment > asked:  # an earlier call is the reason, less than a period ago
            assert moment - moments[number - 1] <= per * (1 + 1e-9)


@given(seed=st.integers(0, 1 << 16), count=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_in_any_order_of_arrival_every_call_is_answered_or_refused_within_the_bound(seed, count):
    async def one(paced, verb, after):
        await asyncio.sleep(after)
        started = asyncio.get_running_loop().time()
        with suppress(CloudError):
            await ASKING[verb](paced)
        return asyncio.get_running_loop().time() - started

    async def scenario():
        facts = some_facts(launch=a_rate(1, 12), offers=a_rate(2, 10, 2), together=a_rate(1, 1))
        cloud = ScriptedCloud(facts=facts, takes=0.25)
        turnstiles = AccountThrottles(seconds(30))
        verbs = ("launch", "offers", "owned", "terminate")
        lengths = await asyncio.gather(
            *(one(paced_cloud(cloud, turnstiles, SOURCE), verbs[n * seed % 4], (n * seed) % 7) for n in range(count))
        )
        assert max(lengths) <= 30.25
        assert all(later - earlier >= 1 for earlier, later in zip(cloud.times, cloud.times[1:], strict=False))

    run(scenario(), seed=seed)
