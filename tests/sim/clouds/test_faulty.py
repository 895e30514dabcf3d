"""Errors injected around the port keep the port's word: each means what it says about what happened."""

from random import Random

import pytest

from tests.contracts.clouds.providers.simulated import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.sim.clouds.faulty import ENDS, LAUNCHES, LOOKS, Err, FaultyCloud
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.cloud import Cloud

MEANS = {
    Err.BUSY: CloudBusy,
    Err.CANNOT_TELL: CannotTell,
    Err.UNKNOWN_BEFORE: OutcomeUnknown,
    Err.UNKNOWN_AFTER: OutcomeUnknown,
    Err.UNKNOWN_WITH_ID: OutcomeUnknown,
    Err.SOLD_OUT: SoldOut,
    Err.EXHAUSTED: AccountExhausted,
    Err.KEY_REFUSED: KeyRefused,
}
IT_HAPPENED = (Err.UNKNOWN_AFTER, Err.UNKNOWN_WITH_ID)


def always(env: Stage, err: Err) -> Cloud:
    return FaultyCloud(env.cloud, Random(1), {err: 1.0})


@pytest.mark.parametrize("err", LAUNCHES)
def test_an_error_of_a_launch_tells_what_may_have_happened(err: Err) -> None:
    async def script(env: Stage) -> None:
        error = await env.raises(MEANS[err], always(env, err).launch(await env.order()))

        assert len(env.machines()) == (err in IT_HAPPENED)
        if err is Err.UNKNOWN_WITH_ID:
            assert getattr(error, "instance_id", "") == env.machine().id

    play(PROVIDER, script)


@pytest.mark.parametrize("err", ENDS)
def test_an_error_of_an_end_tells_what_may_have_happened(err: Err) -> None:
    async def script(env: Stage) -> None:
        made = await env.running()
        await env.raises(MEANS[err], always(env, err).terminate(made.id))
        await env.wait_for_endings()

        assert len(env.machines()) == (err not in IT_HAPPENED)

    play(PROVIDER, script)


@pytest.mark.parametrize("err", LOOKS)
def test_every_look_can_err(err: Err) -> None:
    async def script(env: Stage) -> None:
        cloud = always(env, err)
        looks = (cloud.offers, cloud.check, cloud.identity)
        for look in looks:
            await env.raises(MEANS[err], look())
        for question in (cloud.find("t"), cloud.status("i-1"), cloud.owned("tgp-")):
            await env.raises(MEANS[err], question)

    play(PROVIDER, script)


def test_without_chances_everything_passes() -> None:
    async def script(env: Stage) -> None:
        cloud = FaultyCloud(env.cloud, Random(1))
        made = await cloud.launch(await env.order())
        await env.settle()

        assert cloud.facts == env.cloud.facts
        assert [machine.id for machine in await cloud.find(env.token())] == [made.id]
        await cloud.terminate(made.id)
        assert cloud.seen == {}

    play(PROVIDER, script)


def test_equal_seeds_err_equally() -> None:
    async def script(env: Stage) -> list[str]:
        cloud = FaultyCloud(env.cloud, Random("weather"), {Err.BUSY: 0.3, Err.CANNOT_TELL: 0.2})
        told = []
        for _ in range(200):
            try:
                await cloud.check()
                told.append("fine")
            except CloudError as error:
                told.append(type(error).__name__)
        return told

    once = play(PROVIDER, script)

    assert once == play(PROVIDER, script)
    assert sorted(set(once)) == ["CannotTell", "CloudBusy", "fine"]
