"""What each answer to an order means. A refusal that is not on the list, or that names a pod, proves nothing."""

from datetime import timedelta

import pytest

from tests.contracts.clouds.runpod.answers import an_order, problem, reply
from tgp.adapters.clouds.runpod import wire
from tgp.adapters.clouds.runpod.errors import ERRORS
from tgp.adapters.clouds.runpod.paging import PodPages
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
from tgp.ports.cloud import Container
from tgp.ports.http import Reply

NO_MORE = "There are no longer any instances available with the requested specifications. Please refresh and try again."

MEANINGS = [
    (problem(400, NO_MORE), SoldOut),
    (problem(400, "There are no longer any instances available with enough disk space."), SoldOut),
    (problem(400, "exactly one of gpu or cpu must be set"), OrderRefused),
    (problem(400, "insufficient balance for one hour"), AccountExhausted),
    (problem(401, "missing bearer token"), KeyRefused),
    (problem(402, "add funds"), AccountExhausted),
    (problem(403, "access denied"), SoldOut),
    (problem(403, "this API key is read-only"), KeyRefused),
    (problem(404, "template not found"), OrderRefused),
    (problem(409, "conflict"), OutcomeUnknown),
    (problem(418, "teapot"), OutcomeUnknown),
    (problem(422, "Request validation failed."), OrderRefused),
    (problem(429, "rate limit exceeded for the minute window"), CloudBusy),
    (Reply(429, b"slow down\n"), CloudBusy),
    (problem(500, NO_MORE), OutcomeUnknown),
    (problem(503, "try later"), OutcomeUnknown),
    (Reply(400, b"<html>Bad Request</html>"), OutcomeUnknown),
    (Reply(401, b"<html>login</html>"), OutcomeUnknown),
    (reply(400, {"message": NO_MORE}), OutcomeUnknown),  # REST v1's envelope: not this API
    (reply(400, {"title": "Bad Request", "status": 502, "detail": NO_MORE}), OutcomeUnknown),  # of another answer
    (Reply(301, b""), OutcomeUnknown),
    (reply(200, {"pods": []}), OutcomeUnknown),
    (Reply(201, b""), OutcomeUnknown),
    (Reply(200, b"<html>Just a moment...</html>"), OutcomeUnknown),
]


@pytest.mark.parametrize(("answer", "meaning"), MEANINGS, ids=lambda each: getattr(each, "__name__", ""))
def test_an_answer_to_an_order_means_one_thing(answer: Reply, meaning: type[CloudError]):
    with pytest.raises(CloudError) as caught:
        wire.read_launch(answer, an_order())

    assert type(caught.value) is meaning


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 422, 429, 500, 504])
@pytest.mark.parametrize(
    "more",
    [{"id": "7h9k2m4n6p"}, {"podId": "7h9k2m4n6p"}, {"pod": {"id": "7h9k2m4n6p"}}, {"instance": "/v2/pods/7h9k2m4n6p"}],
    ids=["id", "podId", "pod", "instance"],
)
def test_an_error_that_names_a_pod_is_a_pod(status: int, more: dict):
    """Whatever the status says: that pod is billed."""
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(problem(status, NO_MORE, **more), an_order())

    assert caught.value.instance_id == "7h9k2m4n6p"


def test_variables_of_the_container_are_not_repeated_in_an_error():
    """A provider that quotes the body it did not like quotes people's secrets."""
    order = an_order(container=Container("ubuntu", env=(("HF_TOKEN", "hf_very_secret"),)))

    with pytest.raises(OrderRefused) as caught:
        wire.read_launch(problem(422, "env.HF_TOKEN: hf_very_secret is not a string"), order)

    assert "hf_very_secret" not in str(caught.value)
    assert "HF_TOKEN" in str(caught.value)


def test_a_shortened_message_does_not_keep_half_a_secret():
    order = an_order(container=Container("ubuntu", env=(("HF_TOKEN", "hf_very_secret"),)))

    with pytest.raises(OrderRefused) as caught:
        wire.read_launch(problem(422, "x" * 190 + " hf_very_secret"), order)

    assert "hf_" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((("Retry-After", "12"), ("RateLimit", '"hour";r=0;t=900')), 12),
        ((("RateLimit", '"minute";r=0;t=31'),), 31),
        ((("RateLimit", '"minute";r=4;t=31, "hour";r=0;t=900, "day";r=7;t=80000'),), 900),
        ((("RateLimit", '"minute";r=12;t=31'),), None),
        ((("RateLimit", '"minute";r=0;t=nonsense'),), None),
        ((), None),
    ],
)
def test_how_long_to_wait_is_read_from_either_header(headers, seconds):
    busy = ERRORS.after_look(Reply(429, b"", headers), None, "GET /pods")

    assert isinstance(busy, CloudBusy)
    assert busy.retry_after == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (problem(401, "invalid bearer token"), KeyRefused),
        (problem(403, "access denied"), KeyRefused),
        (Reply(403, b"<html>blocked</html>"), CannotTell),
        (problem(404, "not found"), CannotTell),
        (problem(410, "retired"), CannotTell),
        (problem(429, "slow"), CloudBusy),
        (problem(500, "oops"), CloudBusy),
        (reply(200, {}), CannotTell),
        (reply(200, {"pods": None}), CannotTell),
        (reply(200, {"pods": {}}), CannotTell),
        (reply(200, {"pods": []}), CannotTell),  # as it was before September 2026
        (reply(200, []), CannotTell),
        (Reply(200, b""), CannotTell),
        (Reply(200, b'{"pods": [{"id": "7h9'), CannotTell),
        (Reply(204, b""), CannotTell),
    ],
)
def test_a_list_that_is_none_is_never_an_empty_one(answer: Reply, meaning: type[CloudError]):
    with pytest.raises(CloudError) as caught:
        PodPages().take(answer)

    assert type(caught.value) is meaning


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (Reply(204, b""), None),
        (problem(404, "resource not found"), None),
        (Reply(404, b"<html>nginx</html>"), OutcomeUnknown),
        (Reply(200, b""), OutcomeUnknown),
        (problem(401, "invalid"), KeyRefused),
        (problem(409, "pod is a member of a cluster"), CloudBusy),
        (problem(429, "slow"), CloudBusy),
        (problem(500, "oops"), OutcomeUnknown),
    ],
)
def test_only_204_and_its_own_404_end_a_pod(answer: Reply, meaning: type[CloudError] | None):
    failure = wire.read_terminate(answer, "7h9k2m4n6p")

    assert (type(failure) if failure else None) is meaning


@pytest.mark.parametrize("pod", ["../account", "a/b", "", "x" * 200, "a?b", "a b"])
def test_an_id_that_is_none_never_reaches_a_path(pod: str):
    for call in (wire.get_pod, wire.terminate):
        with pytest.raises(CannotTell):
            call(pod)
