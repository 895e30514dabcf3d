"""What is sent to Vultr, and what its answers to an order mean."""

import base64

import msgspec
import pytest

from tests.contracts.clouds.providers.vultr import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.vultr.answers import ID, SNAPSHOT, TOKEN, an_order, refused, reply
from tgp.adapters.clouds.vultr import wire
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.secret import Secret
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.vultr import SNAPSHOT_ID, TALOS_ID


def test_the_token_is_the_label_and_a_tag_and_user_data_is_base64():
    sent = msgspec.json.decode(wire.launch(an_order(tags=(("team", "ml"),)), os_id=2284).body)

    assert sent == {
        "region": "lax",
        "plan": "vcg-a40-24c-120g-48vram",
        "label": TOKEN,
        "tags": ["team:ml", TOKEN],
        "activation_email": False,
        "backups": "disabled",
        "os_id": 2284,
        "user_data": base64.b64encode(b"machine: {}\n").decode(),
    }


def test_no_tag_of_a_class_looks_like_a_token():
    tags = (("tgp-evil", "x"), ("team", "ml"), ("team", "ml"), ("k", "v" * 300))

    assert wire.tags_of(an_order(tags=tags)) == ["team:ml", "k:" + "v" * 126, TOKEN]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], None),
        ([{"id": 1, "name": "Debian"}], None),
        ([{"id": 2284, "name": "Talos Linux x64"}, {"id": 1, "name": "Debian"}], 2284),
        ([{"id": 2284, "name": "Talos"}, {"id": 2300, "name": "TALOS 1.13"}], 2300),
        ([None, {"id": "7", "name": "Talos"}, {"id": True, "name": "Talos"}, {"id": 7}], None),
    ],
)
def test_talos_is_looked_up_by_its_name(rows: list, found: int | None):
    """Its number is Vultr's to change."""
    assert wire.talos_system(rows) == found


def test_an_order_boots_its_image_else_the_systems_talos():
    async def script(stage: Stage) -> None:
        await stage.cloud.launch(await stage.order(stage.token(1)))
        await stage.cloud.launch(await stage.order(stage.token(2), image=SNAPSHOT_ID))

        assert stage.machine(stage.token(1)).detail["os_id"] == TALOS_ID
        assert stage.machine(stage.token(2)).detail["snapshot_id"] == SNAPSHOT_ID

    play(PROVIDER, script)


def test_without_a_talos_image_nothing_is_sent_and_the_setting_is_named():
    async def script(stage: Stage) -> None:
        order = await stage.order()
        del stage.simulator.systems[TALOS_ID]

        error = await stage.raises(OrderRefused, stage.cloud.launch(order))

        assert "snapshotId" in str(error)
        assert stage.count(CloudVerb.LAUNCH) == 0

    play(PROVIDER, script)


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.HTML, CloudFault.EMPTY_BODY, CloudFault.GARBAGE, CloudFault.ERROR, CloudFault.HANG_UP]
)
def test_an_image_that_cannot_be_looked_up_is_busy_and_nothing_is_sent(cloud_fault: CloudFault):
    """Before the order left, nothing is unknown about it."""

    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.aim(cloud_fault, CloudVerb.OTHER)

        await stage.raises(CloudBusy, stage.cloud.launch(order))
        assert stage.count(CloudVerb.LAUNCH) == 0

    play(PROVIDER, script)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(400, "Plan is not available in the selected region."), SoldOut),
        (refused(400, "You have reached the maximum monthly fee limit for this account."), AccountExhausted),
        (refused(400, "Invalid plan chosen."), OrderRefused),
        (refused(400, "Bad request."), OrderRefused),
        (refused(404, "Invalid snapshot."), OrderRefused),
        (refused(401, "Invalid API token."), KeyRefused),
        (refused(403, "Forbidden."), KeyRefused),
        (refused(429, "Rate limit reached"), CloudBusy),
        (Reply(429, b"slow down"), CloudBusy),
        (reply(400, {"error": "Invalid plan chosen."}), OutcomeUnknown),  # without its status: not Vultr's envelope
        (reply(400, {"error": "Invalid plan chosen.", "status": 500}), OutcomeUnknown),
        (reply(400, {"error": {"text": "no"}, "status": 400}), OutcomeUnknown),
        (refused(409), OutcomeUnknown),
        (refused(422), OutcomeUnknown),
        (refused(500, "Internal server error."), OutcomeUnknown),
        (Reply(401, b"<html>"), OutcomeUnknown),
        (Reply(202), OutcomeUnknown),
        (reply(202, {"instance": {}}), OutcomeUnknown),
        (reply(202, {"instance": {"id": "a/b"}}), OutcomeUnknown),
    ],
)
def test_only_a_listed_status_in_the_envelope_is_definite(answer: Reply, error: type):
    with pytest.raises(error) as caught:
        wire.read_launch(answer, an_order(), "")

    assert type(caught.value) is error
    assert "Vultr" in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_no_refusal_is_definite_where_the_answer_names_a_machine(status: int):
    for place in ({"instance": {"id": ID}}, {"instance_id": ID}, {"detail": {"instance": {"id": ID}}}):
        with pytest.raises(OutcomeUnknown) as caught:
            wire.read_launch(reply(status, {"error": "no", "status": status} | place), an_order(), "")
        assert caught.value.instance_id == ID
    for answer in (refused(status, f"{ID} failed"), reply(status, {"error": "no", "status": status, "id": ID})):
        with pytest.raises(OutcomeUnknown) as caught:
            wire.read_launch(answer, an_order(), "")
        assert caught.value.instance_id == ""


def test_our_own_snapshot_in_a_refusal_is_no_machine():
    with pytest.raises(OrderRefused):
        wire.read_launch(refused(400, f"Invalid snapshot {SNAPSHOT} for {TOKEN}"), an_order(), SNAPSHOT)


def test_neither_key_nor_user_data_come_back_in_an_error():
    order = an_order(user_data=b"token: join-secret-0815\n")
    answer = refused(400, 'Invalid user_data "join-secret-0815", token=KEYKEYKEY42 is wrong')

    with pytest.raises(OrderRefused) as caught:
        wire.read_launch(answer, order, "", Secret("KEYKEYKEY42"), order.user_data)

    assert "join-secret" not in str(caught.value)
    assert "KEYKEYKEY42" not in str(caught.value)
    assert "is wrong" in str(caught.value)


def test_an_end_is_taken_on_only_by_a_204_or_vultrs_own_404():
    assert wire.read_terminate(Reply(204)) is None
    assert wire.read_terminate(refused(404, "Invalid instance-id.")) is None
    for answer in (Reply(200), Reply(404), Reply(404, b"<html>"), refused(500), reply(202, {})):
        with pytest.raises(OutcomeUnknown):
            wire.read_terminate(answer)


def test_a_machine_too_young_to_be_destroyed_is_asked_for_again():
    """A refusal that would otherwise end our asking, and the machine would cost on."""
    with pytest.raises(CloudBusy, match="cannot be destroyed") as caught:
        wire.read_terminate(refused(400, "Servers cannot be destroyed within 5 minutes of being created"))

    assert caught.value.retry_after is not None


def test_user_data_that_is_too_long_is_not_sent():
    with pytest.raises(OrderRefused, match="user data"):
        wire.launch(an_order(user_data=b"x" * (PROVIDER.facts.user_data_bytes + 1)), os_id=1)
