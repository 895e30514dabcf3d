"""Errors injected around the port keep the port's word: each means what it says about what happened."""

from random import Random

import pytest

from tests.contracts.clouds.providers.simulated import PROVIDER
from tests.contracts.clouds.stage import Stage, play
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
from tgp.sim.clouds.faulty import ENDS, LAUNCHES, LOOKS, Err, FaultyCloud

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


def always(stage: Stage, err: Err) -> Cloud:
    return FaultyCloud(stage.cloud, Random(1), {err: 1.0})


@pytest.mark.parametrize("err", LAUNCHES)
def test_an_error_of_a_launch_tells_what_may_have_happened(err: Err) -> None:
    async def script(stage: Stage) -> None:
        error = await stage.raises(MEANS[err], always(stage, err).launch(await stage.order()))

        assert len(stage.machines()) == (err in IT_HAPPENED)
        if err is Err.UNKNOWN_WITH_ID:
            assert getattr(error, "instance_id", "") == stage.machine().id

    play(PROVIDER, script)


@pytest.mark.parametrize("err", ENDS)
def test_an_error_of_an_end_tells_what_may_have_happened(err: Err) -> None:
    async def script(stage: Stage) -> None:
        made = await stage.running()
        await stage.raises(MEANS[err], always(stage, err).terminate(made.id))
        await stage.wait_for_endings()

        assert len(stage.machines()) == (err not in IT_HAPPENED)

    play(PROVIDER, script)


@pytest.mark.parametrize("err", LOOKS)
def test_every_look_can_err(err: Err) -> None:
    async def script(stage: Stage) -> None:
        cloud = always(stage, err)
        looks = (cloud.offers, cloud.check, cloud.identity)
        for look in looks:
            await stage.raises(MEANS[err], look())
        for question in (cloud.find("t"), cloud.status("i-1"), cloud.owned("tgp-")):
            await stage.raises(MEANS[err], question)

    play(PROVIDER, script)


def test_without_chances_everything_passes() -> None:
    async def script(stage: Stage) -> None:
        cloud = FaultyCloud(stage.cloud, Random(1))
        made = await cloud.launch(await stage.order())
        await stage.settle()

        assert cloud.facts == stage.cloud.facts
        assert [machine.id for machine in await cloud.find(stage.token())] == [made.id]
        await cloud.terminate(made.id)
        assert cloud.seen == {}

    play(PROVIDER, script)


def test_equal_seeds_err_equally() -> None:
    async def script(stage: Stage) -> list[str]:
        cloud = FaultyCloud(stage.cloud, Random("weather"), {Err.BUSY: 0.3, Err.CANNOT_TELL: 0.2})
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
