"""Looks are asked again when nothing happened over there: a few times, later each time, never before we may."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.clouds.around.scripted import ANSWERS, ASKING, Luck, ScriptedCloud, patient
from tgp.adapters.clouds.middleware.guarded_cloud import SAFE_VERBS, SPREAD, RetryPolicy
from tgp.core.model.cloud_errors import CannotTell, CloudBusy
from tgp.sim.loop import run

S = timedelta(seconds=1)


def busy(seconds: float | None = None) -> CloudBusy:
    return CloudBusy("slow down", None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize("verb", SAFE_VERBS)
def test_a_look_is_asked_again_until_it_is_answered(verb):
    async def scenario():
        cloud = ScriptedCloud(busy(), busy())

        assert await ASKING[verb](patient(cloud, Luck(0.0))) is ANSWERS[verb]
        assert cloud.times == [0.0, 0.5, 1.5]  # half a second of the first step, half of the doubled one

    run(scenario())


def test_after_the_last_try_the_providers_own_words_are_handed_on():
    async def scenario():
        errors = [busy(), busy(), busy(7), busy()]
        cloud = ScriptedCloud(*errors)

        with pytest.raises(CloudBusy) as caught:
            await patient(cloud, Luck()).offers()

        assert caught.value is errors[2]
        assert len(cloud.calls) == RetryPolicy().tries == 3

    run(scenario())


def test_a_pause_that_the_provider_asks_for_is_kept_and_spread():
    """All clients got the same time: they do not all retry at it."""

    async def scenario():
        early, late = (ScriptedCloud(busy(10)) for _ in range(2))
        await asyncio.gather(patient(early, Luck(0.0)).offers(), patient(late, Luck(0.999)).offers())

        assert early.times == [0.0, 10.0]
        assert late.times[1] == pytest.approx(10 * (1 + SPREAD), rel=0.01)

    run(scenario())


def test_a_provider_that_asks_for_a_long_pause_is_left_alone():
    """The caller is told at once, with the length, and comes back by itself."""

    async def scenario():
        cloud = ScriptedCloud(busy(3600))

        with pytest.raises(CloudBusy) as caught:
            await patient(cloud, Luck()).offers()

        assert caught.value.retry_after == timedelta(hours=1)
        assert cloud.times == [0.0]
        assert asyncio.get_running_loop().time() == 0

    run(scenario())


def test_a_busy_answer_followed_by_a_useless_one_ends_the_asking():
    async def scenario():
        cloud = ScriptedCloud(busy(), CannotTell("HTML"))

        with pytest.raises(CannotTell):
            await patient(cloud, Luck()).owned("tgp-")

        assert len(cloud.calls) == 2

    run(scenario())


def test_a_caller_cancelled_during_a_pause_is_not_retried():
    async def scenario():
        cloud = ScriptedCloud(busy(10))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await patient(cloud, Luck()).offers()
        await asyncio.sleep(60)

        assert len(cloud.calls) == 1

    run(scenario())


@given(
    tries=st.integers(1, 8),
    failures=st.integers(1, 12),
    asked_for=st.none() | st.integers(0, 100_000),
    luck=st.floats(0, 1, exclude_max=True),
)
def test_pauses_have_bounds_and_are_never_shorter_than_asked_for(tries, failures, asked_for, luck):
    patience = RetryPolicy(tries, first=S, longest=15 * S)
    wanted = None if asked_for is None else timedelta(milliseconds=asked_for)

    pause = patience.pause(failures, wanted, luck)

    if failures >= tries or (wanted is not None and wanted > patience.longest):
        assert pause is None
    else:
        assert pause is not None
        assert max(wanted or S / 2, S / 2) <= pause <= patience.longest * (1 + SPREAD)
