"""Every call is counted once, under its outcome, with the time it took."""

import asyncio

import pytest

from tests.contracts.clouds.around.scripted import ASKING, Counted, ScriptedCloud, guarded
from tgp.adapters.clouds.middleware.account_throttle import AccountThrottles
from tgp.adapters.clouds.middleware.guarded_cloud import VERBS
from tgp.core.model.cloud_errors import CloudBusy, OutcomeUnknown, SoldOut
from tgp.sim.loop import run


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_is_counted_with_its_seconds(verb):
    async def scenario():
        meter = Counted()
        await ASKING[verb](guarded(ScriptedCloud(takes=2.5), AccountThrottles(), metrics=meter))

        assert meter.calls == [("acme", verb, "ok", 2.5)]

    run(scenario())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (SoldOut("none"), "SoldOut"),
        (CloudBusy("later"), "CloudBusy"),
        (OutcomeUnknown("silence"), "OutcomeUnknown"),
        (AssertionError("a bug of ours"), "Unforeseen"),
        (asyncio.CancelledError(), "Cancelled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_that_fails_is_counted_under_the_name_of_its_error_and_fails(error, outcome):
    async def scenario():
        meter = Counted()
        with pytest.raises(type(error)) as caught:
            await guarded(ScriptedCloud(error, takes=1.0), AccountThrottles(), metrics=meter).launch(None)

        assert caught.value is error
        assert meter.calls == [("acme", "launch", outcome, 1.0)]

    run(scenario())


def test_every_try_is_counted_and_pauses_are_not_measured():
    async def scenario():
        meter = Counted()
        cloud = ScriptedCloud(CloudBusy("later"), takes=1.0)
        await guarded(cloud, AccountThrottles(), "s", metrics=meter).offers()

        assert meter.calls == [("acme", "offers", "CloudBusy", 1.0), ("acme", "offers", "ok", 1.0)]
        assert asyncio.get_running_loop().time() > 2

    run(scenario())
