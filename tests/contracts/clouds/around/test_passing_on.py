"""Whatever is hung around a provider, it still is that provider: every verb arrives once, as it was asked."""

import asyncio
from random import Random

import pytest

from tests.contracts.clouds.around.scripted import (
    ANSWERS,
    ASKING,
    ORDER,
    Counted,
    Luck,
    ScriptedCloud,
    guarded,
    paced_cloud,
    patient,
)
from tests.sim.clouds.faulty import FaultyCloud
from tgp.adapters.clouds.error_answers import STRANGE
from tgp.adapters.clouds.middleware.account_throttle import AccountThrottles
from tgp.adapters.clouds.middleware.guarded_cloud import SAFE_VERBS, VERBS, GuardedCloud
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.cloud import Cloud
from tgp.sim.loop import run

COATS = {
    "paced": lambda cloud: paced_cloud(cloud, AccountThrottles(), "acme/key"),
    "patient": lambda cloud: patient(cloud, Luck()),
    "metered": lambda cloud: guarded(cloud, AccountThrottles(), metrics=Counted()),
    "faulty": lambda cloud: FaultyCloud(cloud, Random(1)),
    "guarded": lambda cloud: guarded(cloud, AccountThrottles(), "acme/key"),
}
ARGUMENTS = {
    "launch": (ORDER,),
    "find": (ORDER.token,),
    "status": ("i-1",),
    "terminate": ("i-1",),
    "owned": ("tgp-",),
}
ERRORS = (
    SoldOut("none left"),
    OrderRefused("no such plan"),
    KeyRefused("who are you"),
    AccountExhausted("no balance"),
    OutcomeUnknown("no answer", instance_id="i-9"),
    CannotTell("half a list"),
)


@pytest.mark.parametrize(
    ("words", "endpoint", "said"),
    [
        (f"Acme answered 404 to offers: {STRANGE}", "", f"Acme answered 404 to offers: {STRANGE}"),
        (
            f"Acme answered 404 to offers: {STRANGE}",
            "https://me:secret@gateway.example:8443/v2",
            f"Acme answered 404 to offers: {STRANGE}; asked at gateway.example:8443, as settings.endpoint says",
        ),
        ("Acme answered 401 to offers: bad key", "https://gateway.example/v2", "Acme answered 401 to offers: bad key"),
    ],
)
def test_an_answer_in_no_known_format_names_the_endpoint_that_the_class_set(words, endpoint, said):
    cloud = guarded(ScriptedCloud(CannotTell(words)), AccountThrottles(), endpoint=endpoint)
    with pytest.raises(CannotTell) as raised:
        run(cloud.offers())
    assert str(raised.value) == said


def test_the_verbs_are_the_ports():
    """A verb that the port gains must be passed on too."""
    ports = {name for name in vars(Cloud) if not name.startswith("_")} - {"facts"}

    assert set(VERBS) == ports == set(ASKING)
    assert set(SAFE_VERBS) == ports - {"launch", "terminate"}
    assert all(name in vars(GuardedCloud) for name in (*VERBS, "facts"))


@pytest.mark.parametrize("coat", COATS)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_arrives_once_with_what_was_asked_and_its_answer_comes_back(coat, verb):
    async def scenario():
        cloud = ScriptedCloud()
        worn = COATS[coat](cloud)

        assert worn.facts is cloud.facts
        assert await ASKING[verb](worn) is ANSWERS[verb]
        assert [(name, arguments) for name, arguments, _ in cloud.calls] == [(verb, ARGUMENTS.get(verb, ()))]

    run(scenario())


@pytest.mark.parametrize("coat", COATS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_that_is_an_error_comes_back_as_it_is_and_is_not_asked_for_again(coat, error, verb):
    async def scenario():
        cloud = ScriptedCloud(error)

        with pytest.raises(CloudError) as caught:
            await ASKING[verb](COATS[coat](cloud))

        assert caught.value is error
        assert len(cloud.calls) == 1

    run(scenario())


@pytest.mark.parametrize("coat", COATS)
@pytest.mark.parametrize("verb", ["launch", "terminate"])
def test_what_changes_something_leaves_once_however_busy_the_provider_is(coat, verb):
    """Whether an order is sent again is decided by the launch protocol, which recorded it."""

    async def scenario():
        busy = CloudBusy("slow down")
        cloud = ScriptedCloud(busy, busy, busy)

        with pytest.raises(CloudBusy):
            await ASKING[verb](COATS[coat](cloud))
        await asyncio.sleep(3600)

        assert cloud.verbs == [verb]

    run(scenario())
