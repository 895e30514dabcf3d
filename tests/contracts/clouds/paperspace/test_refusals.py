"""What each answer to an order means. A refusal that is not on the list, or that names a machine, proves nothing."""

import pytest

from tests.contracts.clouds.paperspace.answers import a_machine, an_order, refusal, reply
from tgp.adapters.clouds.paperspace import paging, wire
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
from tgp.ports.http import Reply

NO_MORE = "We are currently out of capacity for the selected VM type. Try again in a few minutes."

MEANINGS = [
    (refusal(400, "BAD_REQUEST", "Input validation failed", issues=[{"message": "name: Required"}]), OrderRefused),
    (refusal(400, "BAD_REQUEST", NO_MORE), SoldOut),
    (refusal(412, "PRECONDITION_FAILED", NO_MORE), SoldOut),
    (refusal(412, "PRECONDITION_FAILED", "the network is not ready"), OrderRefused),
    (refusal(403, "FORBIDDEN", "Your team has reached its machine quota"), AccountExhausted),
    (refusal(400, "BAD_REQUEST", "Add a payment method first"), AccountExhausted),
    (refusal(401, "UNAUTHORIZED", "Invalid API key"), KeyRefused),
    (refusal(403, "FORBIDDEN", "You do not have access"), KeyRefused),
    (refusal(404, "NOT_FOUND", "Template not found"), OrderRefused),
    (refusal(405, "METHOD_NOT_SUPPORTED", "no"), OrderRefused),
    (refusal(413, "PAYLOAD_TOO_LARGE", "too large"), OrderRefused),
    (refusal(408, "TIMEOUT", "timeout"), OutcomeUnknown),
    (refusal(409, "CONFLICT", "a machine of that name exists"), OutcomeUnknown),
    (refusal(429, "TOO_MANY_REQUESTS", "slow"), CloudBusy),
    (Reply(429, b"slow\n"), CloudBusy),
    (refusal(500, "INTERNAL_SERVER_ERROR", NO_MORE), OutcomeUnknown),
    (refusal(400, "INTERNAL_SERVER_ERROR", "the code of another status"), OutcomeUnknown),
    (reply(400, {"error": "another envelope"}), OutcomeUnknown),
    (Reply(400, b"<html>Bad Request</html>"), OutcomeUnknown),
    (Reply(403, b"<html>blocked</html>"), OutcomeUnknown),
    (Reply(502, b"<html>Bad Gateway</html>"), OutcomeUnknown),
    (Reply(200, b""), OutcomeUnknown),
    (reply(200, {"data": None, "event": None}), OutcomeUnknown),
    (reply(200, {"data": None, "event": {"id": "e77"}}), OutcomeUnknown),  # the event's id is not a machine's
]


@pytest.mark.parametrize(("answer", "meaning"), MEANINGS, ids=lambda each: getattr(each, "__name__", ""))
def test_an_answer_to_an_order_means_one_thing(answer: Reply, meaning: type[CloudError]):
    with pytest.raises(CloudError) as caught:
        wire.read_launch(answer, an_order())

    assert type(caught.value) is meaning


@pytest.mark.parametrize("status", [400, 401, 403, 409, 412, 429, 500, 504])
@pytest.mark.parametrize(
    "more",
    [
        {"data": {"id": "ps3kd81ma"}},
        {"id": "ps3kd81ma"},
        {"machineId": "ps3kd81ma"},
        {"details": {"machineId": "ps3kd81ma"}},
        {"event": {"id": "e77", "machineId": "ps3kd81ma"}},
    ],
    ids=["data", "id", "machineId", "details", "event"],
)
def test_an_error_that_names_a_machine_is_a_machine(status: int, more: dict):
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(refusal(status, "BAD_REQUEST", NO_MORE, **more), an_order())

    assert caught.value.instance_id == "ps3kd81ma"


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (refusal(401, "UNAUTHORIZED", "Invalid API key"), KeyRefused),
        (Reply(401, b"<html>login</html>"), CannotTell),
        (reply(410, {"message": "Gone"}), CannotTell),
        (refusal(404, "NOT_FOUND", "no such endpoint"), CannotTell),
        (refusal(429, "TOO_MANY_REQUESTS", "slow"), CloudBusy),
        (refusal(500, "INTERNAL_SERVER_ERROR", "oops"), CloudBusy),
        (refusal(408, "TIMEOUT", "timeout"), CloudBusy),
        (reply(200, []), CannotTell),
        (reply(200, {"items": None, "hasMore": False, "nextPage": None}), CannotTell),
        (reply(200, {"items": []}), CannotTell),
        (reply(200, {"items": [], "hasMore": "no", "nextPage": None}), CannotTell),
        (reply(200, {"items": [a_machine()], "hasMore": True, "nextPage": None}), CannotTell),
        (reply(200, {"items": [a_machine()], "hasMore": True, "nextPage": ""}), CannotTell),
        (reply(200, {"items": [], "hasMore": True, "nextPage": "p2"}), CannotTell),
        (reply(200, {"items": [], "hasMore": False, "nextPage": "p2"}), CannotTell),
        (reply(200, {"items": [a_machine()], "hasMore": False, "nextPage": 2}), CannotTell),
        (Reply(200, b""), CannotTell),
    ],
)
def test_a_page_that_is_none_is_never_an_empty_one(answer: Reply, meaning: type[CloudError]):
    with pytest.raises(CloudError) as caught:
        paging.read(answer, wire.MACHINES)

    assert type(caught.value) is meaning


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (reply(200, {"data": a_machine(), "event": {"id": "e1", "name": "deactivate"}}), None),
        (refusal(404, "NOT_FOUND", "Machine not found"), None),
        (Reply(404, b"<html>nginx</html>"), OutcomeUnknown),
        (Reply(200, b""), OutcomeUnknown),
        (Reply(204, b""), OutcomeUnknown),
        (Reply(200, b"<html>Just a moment...</html>"), OutcomeUnknown),
        (refusal(403, "FORBIDDEN", "no"), KeyRefused),
        (refusal(429, "TOO_MANY_REQUESTS", "slow"), CloudBusy),
        (refusal(500, "INTERNAL_SERVER_ERROR", "oops"), OutcomeUnknown),
    ],
)
def test_only_the_machine_itself_and_its_own_404_answer_its_end(answer: Reply, meaning: type[CloudError] | None):
    failure = wire.read_terminate(answer, "ps3kd81ma")

    assert (type(failure) if failure else None) is meaning


@pytest.mark.parametrize("machine", ["../teams", "a/b", "", "x" * 200, "a?b"])
def test_an_id_that_is_none_never_reaches_a_path(machine: str):
    for call in (wire.get_machine, wire.terminate, wire.stop):
        with pytest.raises(CannotTell):
            call(machine)
