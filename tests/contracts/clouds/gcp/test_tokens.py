"""Access tokens: kept while they are good, fetched once for all who wait, and never the reason for a second order."""

import asyncio

import pytest

from tests.contracts.clouds.gcp.gcp_stage import a_reply, played
from tests.contracts.clouds.stage import Stage
from tgp.adapters.clouds.gcp.tokens import read_token
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, KeyRefused
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.gcp import GcpSimulator


def fetches(stage: Stage) -> int:
    return sum(call.path == "/token" for _, call in stage.calls)


def test_a_token_is_kept_until_five_minutes_before_its_end():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        for _ in range(3):
            await stage.cloud.find(stage.token())
        assert fetches(stage) == 1
        await asyncio.sleep(3600 - 300 - 30)
        await stage.cloud.find(stage.token())
        assert fetches(stage) == 1
        await asyncio.sleep(60)
        await stage.cloud.find(stage.token())
        assert fetches(stage) == 2

    played(script)


def test_all_who_ask_at_once_share_one_fetch():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        await asyncio.gather(*(stage.cloud.find(stage.token()) for _ in range(8)))

        assert fetches(stage) == 1
        assert stage.count(CloudVerb.LIST) == 8

    played(script)


def test_one_who_gives_up_does_not_take_the_token_from_the_others():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        first, second = (asyncio.create_task(stage.cloud.find(stage.token())) for _ in range(2))
        await asyncio.sleep(0.001)
        first.cancel()

        assert await second == ()
        assert fetches(stage) == 1

    played(script)


def test_a_failed_fetch_fails_all_who_waited_and_the_next_one_asks_again():
    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        simulator.faults.aim(CloudFault.ERROR, CloudVerb.OTHER)
        ended = await asyncio.gather(*(stage.cloud.find(stage.token()) for _ in range(3)), return_exceptions=True)

        assert [type(each) for each in ended] == [CloudBusy] * 3
        assert fetches(stage) == 1
        assert await stage.cloud.find(stage.token()) == ()

    played(script)


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.HTML, CloudFault.EMPTY_BODY, CloudFault.GARBAGE, CloudFault.ERROR, CloudFault.HANG_UP]
)
def test_without_a_token_nothing_is_ordered_and_that_is_certain(cloud_fault: CloudFault):
    """A failed fetch is no unknown outcome: the order never left."""

    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        order = await stage.order()
        simulator.faults.aim(cloud_fault, CloudVerb.OTHER)
        await stage.raises(CloudBusy, stage.cloud_of(stage.key).launch(order))

        assert stage.paying_calls == []

    played(script)


def test_a_look_whose_kept_token_is_no_longer_taken_is_repeated_with_another():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        await stage.cloud.find(stage.token())
        stage.instead(CloudVerb.LIST, 401, b"{}")

        assert await stage.cloud.find(stage.token()) == ()
        assert fetches(stage) == 2

    played(script)


def test_an_order_whose_kept_token_is_no_longer_taken_is_not_sent_again_by_itself():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        order = await stage.order()
        stage.instead(CloudVerb.LAUNCH, 401, b"{}")
        await stage.raises(CloudBusy, stage.cloud.launch(order))
        assert len(stage.paying_calls) == 1

        assert (await stage.cloud.launch(order)).state is InstanceState.STARTING
        assert fetches(stage) == 2

    played(script)


def test_a_fresh_token_that_is_not_taken_is_the_keys_fault():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        stage.instead(CloudVerb.LIST, 401, b"{}", times=2)

        await stage.raises(KeyRefused, stage.cloud.find(stage.token()))

    played(script)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (a_reply({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400), KeyRefused),
        (a_reply({"error": "invalid_client"}, 401), KeyRefused),
        (a_reply({"error": "something_new"}, 400), CannotTell),
        (a_reply({}, 503), CloudBusy),
        (a_reply({}, 429), CloudBusy),
        (a_reply({"access_token": "t", "token_type": "Bearer"}), CannotTell),
        (a_reply({"access_token": "t", "token_type": "Bearer", "expires_in": -1}), CannotTell),
        (a_reply({"access_token": "t", "token_type": "Bearer", "expires_in": True}), CannotTell),
        (a_reply({"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer", "expires_in": 10}), CannotTell),
        (a_reply({"access_token": "", "token_type": "Bearer", "expires_in": 10}), CannotTell),
        (a_reply({"access_token": "t", "token_type": "mac", "expires_in": 10}), CannotTell),
        (a_reply([1]), CannotTell),
        (Reply(200, b"<html>"), CannotTell),
    ],
)
def test_what_is_no_token_is_not_taken_for_one(reply: Reply, kind: type[CloudError]):
    with pytest.raises(kind):
        read_token(reply)


@pytest.mark.parametrize(
    "words",
    [
        {"error": "invalid_grant", "error_description": "eyJhbGciOiJSUzI1NiJ9.secret"},
        {"error": "eyJhbGciOiJSUzI1NiJ9.secret"},
        {"error": {"message": "eyJhbGciOiJSUzI1NiJ9.secret"}},
    ],
)
def test_a_refusal_repeats_nothing_of_the_statement(words: dict[str, object]):
    with pytest.raises((KeyRefused, CannotTell)) as refused:
        read_token(a_reply(words, 400))

    assert "eyJ" not in str(refused.value)
