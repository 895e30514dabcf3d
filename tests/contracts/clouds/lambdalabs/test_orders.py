"""What is sent to Lambda, and what its answers to an order mean."""

from dataclasses import replace

import msgspec
import pytest

from tests.contracts.clouds.lambdalabs.answers import ID, NOW, TOKEN, a_machine, an_order, refused, reply
from tgp.adapters.clouds.error_answers import Row
from tgp.adapters.clouds.lambdalabs import wire
from tgp.adapters.clouds.lambdalabs.errors import ERRORS
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


def body_of(order, ssh_key_name="mine"):
    return msgspec.json.decode(wire.launch(order, ssh_key_name, NOW).body)


def test_the_token_stands_in_the_name_and_in_a_tag_and_the_moment_in_another():
    """Lambda lists no creation time: without the tag it would be unknown how old an orphan is."""
    sent = body_of(an_order())

    assert sent == {
        "region_name": "us-west-1",
        "instance_type_name": "gpu_1x_a10",
        "ssh_key_names": ["mine"],
        "name": TOKEN,
        "tags": [
            {"key": "tgp-token", "value": TOKEN},
            {"key": "tgp-created", "value": "2026-11-15T12:30:05+00:00"},
        ],
        "user_data": "#cloud-config\n",
    }


@pytest.mark.parametrize("missing", [None, ""])
def test_without_an_ssh_key_nothing_is_sent_and_the_setting_is_named(missing):
    with pytest.raises(OrderRefused, match="sshKeyName"):
        wire.launch(an_order(), missing, NOW)


def test_tags_of_a_class_are_bent_to_what_lambda_takes_and_never_win():
    tags = (("Team/Name", "ml" * 100), ("9lives", "x"), ("a", "y"), ("TGP-Token", "tgp-evil"), ("k" * 63, "z"))
    sent = {tag["key"]: tag["value"] for tag in body_of(an_order(tags=tags))["tags"]}

    assert sent["team-name"] == "ml" * 64
    assert (sent["x-9lives"], sent["x-a"], sent["k" * 55]) == ("x", "y", "z")
    assert sent["tgp-token"] == TOKEN


@pytest.mark.parametrize(
    ("image", "sent"),
    [
        ("lambda-stack-24-04", {"family": "lambda-stack-24-04"}),
        ("2d6f5ac1-6a44-4b0e-9a43-1f5f6f2f9a11", {"id": "2d6f5ac1-6a44-4b0e-9a43-1f5f6f2f9a11"}),
    ],
)
def test_an_image_is_named_by_its_id_or_by_its_family(image: str, sent: dict):
    assert body_of(an_order(image=image))["image"] == sent


@pytest.mark.parametrize("user_data", [b"\xff\xfe", b"x" * 1_000_001], ids=["no text", "too long"])
def test_user_data_that_lambda_does_not_take_is_not_sent(user_data: bytes):
    with pytest.raises(OrderRefused, match="user data"):
        wire.launch(an_order(user_data=user_data), "mine", NOW)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "instance-operations/launch/insufficient-capacity", SoldOut),
        (400, "instance-operations/launch/file-system-in-wrong-region", OrderRefused),
        (400, "global/quota-exceeded", AccountExhausted),
        (400, "global/invalid-parameters", OrderRefused),
        (400, "global/object-does-not-exist", OrderRefused),
        (404, "global/object-does-not-exist", OrderRefused),
        (401, "global/invalid-api-key", KeyRefused),
        (403, "global/account-inactive", AccountExhausted),
        (403, "global/invalid-address", AccountExhausted),
        (429, "anything", CloudBusy),
        (500, "global/internal-error", OutcomeUnknown),
        (400, "global/internal-error", OutcomeUnknown),
        (400, "provider/internal-unavailable", OutcomeUnknown),
        (503, "instance-operations/launch/insufficient-capacity", OutcomeUnknown),
        (403, "global/something-new", OutcomeUnknown),
        (401, "", OutcomeUnknown),
    ],
)
def test_the_code_decides_and_only_with_its_own_status(status: int, code: str, error: type):
    with pytest.raises(error) as caught:
        wire.read_launch(refused(status, code), an_order(), NOW)

    assert type(caught.value) is error
    assert "Lambda" in str(caught.value)


@pytest.mark.parametrize("row", ERRORS.orders, ids=lambda row: row.codes[0])
def test_no_refusal_is_definite_where_the_answer_names_a_machine(row: Row):
    """Wherever in the answer it stands; an id in plain words is not enough to act on it."""
    status, code = min(row.statuses), row.codes[0]
    for place in ({"data": {"instance_ids": [ID]}}, {"instance_id": ID}):
        with pytest.raises(OutcomeUnknown) as caught:
            wire.read_launch(reply(status, {"error": {"code": code, "message": "no"}} | place), an_order(), NOW)
        assert caught.value.instance_id == ID
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(refused(status, code, f"instance {ID} has failed"), an_order(), NOW)
    assert caught.value.instance_id == ""


def test_our_own_words_in_a_refusal_are_no_machine():
    """The token has 32 hex digits of its own, and so may an image."""
    order = an_order(image="ab" * 16)
    with pytest.raises(OrderRefused):
        wire.read_launch(refused(400, "global/invalid-parameters", f"{TOKEN} and {'ab' * 16}"), order, NOW)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"data": null}',
        b'{"data": {"instance_ids": []}}',
        b'{"data": {"instance_ids": ["a/b"]}}',
        b'{"data": {"instance_ids": [null, {}]}}',
    ],
)
def test_a_success_that_names_no_machine_is_unknown(content: bytes):
    with pytest.raises(OutcomeUnknown):
        wire.read_launch(Reply(200, content), an_order(), NOW)


def test_neither_key_nor_user_data_come_back_in_an_error():
    order = an_order(user_data=b"machine:\n  token: join-secret-0815\n")
    answer = refused(400, "global/invalid-parameters", "user_data 'join-secret-0815' of key secret_abc.1234 is bad")

    with pytest.raises(OrderRefused) as caught:
        wire.read_launch(answer, order, NOW, Secret("secret_abc.1234"), order.user_data)

    assert "join-secret" not in str(caught.value)
    assert "secret_abc" not in str(caught.value)
    assert "is bad" in str(caught.value)


def ending(*ids: str) -> Reply:
    return reply(200, {"data": {"terminated_instances": [a_machine(id=each, status="terminating") for each in ids]}})


def test_an_end_is_taken_on_only_where_lambda_names_the_machine():
    assert wire.read_terminate(ending(ID), ID) is None
    assert wire.read_terminate(refused(404, "global/object-does-not-exist"), ID) is None
    for answer in (ending(), ending("ab" * 16), Reply(200), Reply(200, b"<html>"), refused(404, ""), Reply(500)):
        with pytest.raises(OutcomeUnknown):
            wire.read_terminate(answer, ID)


def test_one_end_is_one_id():
    assert msgspec.json.decode(wire.terminate(ID).body) == {"instance_ids": [ID]}


def test_a_token_that_would_be_cut_is_not_sent():
    with pytest.raises(OrderRefused, match="64"):
        wire.launch(replace(an_order(), token="tgp-" + "a" * 61), "mine", NOW)
