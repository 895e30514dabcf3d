"""Machines as Vast lists them: which state, whose, and when a list proves nothing."""

from datetime import UTC, datetime

import pytest

from tests.contracts.clouds.vast.answers import NOW, TOKEN, a_machine, refused, reply
from tgp.adapters.clouds.vast import wire
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.http import Reply

STOPPED = {"cur_state": "stopped", "intended_status": "stopped", "next_state": "stopped"}


def test_a_machine_is_read_with_all_that_is_told():
    assert wire.machine(a_machine()) == Instance(
        "312",
        TOKEN,
        InstanceState.RUNNING,
        said="running, contract running",
        place="Oregon, US",
        hourly_microusd=660_000,
        created_at=datetime.fromtimestamp(1_790_000_000.25, UTC),
        public_ip="192.0.2.45",
        private_ip="10.0.0.5",
        progress="success, running nvidia/cuda",
    )


@pytest.mark.parametrize(
    ("end", "ends"),
    [(1_790_000_045.5, 1_790_000_040), (None, None), ("soon", None), (True, None), (1e300, None)],
)
def test_the_end_of_a_contract_is_read_to_the_minute_as_in_offers(end, ends):
    told = wire.machine(a_machine(end_date=end)).ends_at
    assert told == (datetime.fromtimestamp(ends, UTC) if ends is not None else None)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"actual_status": None}, InstanceState.STARTING),
        ({"actual_status": "created"}, InstanceState.STARTING),
        ({"actual_status": "loading"}, InstanceState.STARTING),
        ({"actual_status": "rebooting"}, InstanceState.STARTING),
        ({"actual_status": "running"}, InstanceState.RUNNING),
        ({"actual_status": "stopped"}, InstanceState.STOPPED),
        ({"actual_status": "frozen"}, InstanceState.STOPPED),
        ({"actual_status": "exited"}, InstanceState.BROKEN),
        ({"actual_status": "unknown"}, InstanceState.BROKEN),
        ({"actual_status": "offline"}, InstanceState.BROKEN),
        ({"actual_status": "meditating"}, InstanceState.UNKNOWN),
        ({"actual_status": 7}, InstanceState.UNKNOWN),
        ({"actual_status": "running", **STOPPED}, InstanceState.STOPPED),
        ({"actual_status": "exited", "cur_state": "unloaded"}, InstanceState.ENDING),
        ({"actual_status": "created", "status_msg": "Error: OCI runtime create failed"}, InstanceState.BROKEN),
    ],
)
def test_four_fields_make_one_state(changes, state):
    assert wire.machine(a_machine(**changes)).state is state


@pytest.mark.parametrize(
    ("changes", "interrupted"),
    [
        ({**STOPPED, "is_bid": True}, True),
        ({**STOPPED, "is_bid": False}, False),  # an empty account, not an outbid
        ({**STOPPED, "is_bid": True, "intended_status": "running"}, False),
    ],
)
def test_a_bid_that_stands_still_unasked_was_outbid(changes, interrupted):
    machine = wire.machine(a_machine(actual_status="stopped", **changes))

    assert machine.interrupted is interrupted
    assert machine.state is InstanceState.STOPPED


@pytest.mark.parametrize("price", [None, -1, "text", float("1e30"), True])
def test_a_bill_that_makes_no_sense_is_not_told(price):
    assert wire.machine(a_machine(dph_total=price)).hourly_microusd is None


def a_list(*rows: object, **more: object) -> Reply:
    return reply({"success": True, "instances": list(rows), "total_instances": len(rows), "next_token": None, **more})


def test_a_list_goes_on_as_long_as_it_says():
    page = wire.read_page(a_list(a_machine(), next_token="more"), NOW)

    assert (page.next_token, len(page.machines), page.total) == ("more", 1, 1)
    assert wire.list_page("more").parameter("after_token") == "more"
    assert wire.list_page("").parameter("after_token") == ""


def test_a_strangers_machine_that_cannot_be_read_is_left_out():
    page = wire.read_page(a_list(a_machine(id="../1", label="stranger"), a_machine()), NOW)

    assert [machine.id for machine in page.machines] == ["312"]
    assert page.strange == 1


@pytest.mark.parametrize(
    "row",
    [
        None,
        "row",
        {},
        a_machine(id=None),
        a_machine(id="../../users"),
        a_machine(id=-3),
        a_machine(id=0, label=None),
        a_machine(label=["tgp"]),
        a_machine(label=7),
    ],
)
def test_a_machine_that_cannot_be_read_and_may_be_ours_makes_the_list_worthless(row):
    with pytest.raises(CannotTell):
        wire.read_page(a_list(row), NOW)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply({"success": True}), CannotTell),
        (reply({"instances": None}), CannotTell),
        (reply({"instances": {}}), CannotTell),
        (reply({"success": False, "instances": []}), CannotTell),
        (a_list(next_token=7), CannotTell),
        (a_list(next_token="x" * 5000), CannotTell),
        (refused(410, "deprecated_endpoint"), CannotTell),
        (refused(404, "not_found"), CannotTell),
        (refused(404, "auth_error", "Invalid user key"), KeyRefused),
        (refused(500, "server_error"), CloudBusy),
        (Reply(200, b"<html>"), CannotTell),
        (Reply(200, b""), CannotTell),
        (Reply(403, b"<html>"), CannotTell),
    ],
)
def test_a_list_that_is_none_is_never_empty(answer, error):
    with pytest.raises(error):
        wire.read_page(answer, NOW)


def test_a_machine_is_gone_only_where_vast_says_null():
    assert wire.read_status(reply({"instances": None}), "312", NOW) is None


@pytest.mark.parametrize(
    "answer",
    [
        reply({}),
        reply({"instances": {}}),
        reply({"instances": []}),
        reply({"success": False, "instances": None}),
        reply({"instances": a_machine(id=313)}),
        refused(404, "not_found"),
        Reply(200, b""),
    ],
)
def test_nothing_else_proves_that_a_machine_is_gone(answer):
    with pytest.raises(CannotTell):
        wire.read_status(answer, "312", NOW)


@pytest.mark.parametrize(
    "answer",
    [
        reply({"success": True}),
        refused(404, "no_such_instance", "Instance 312 not found."),
        refused(404, "not_found"),
        reply({"success": False, "error": "no_such_instance"}),
    ],
)
def test_an_end_that_was_taken_or_came_before_is_a_success(answer):
    wire.read_terminate(answer, "312", NOW)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(404, "auth_error", "Invalid user key"), KeyRefused),
        (refused(403, "permission"), KeyRefused),
        (Reply(429, b"too frequent"), CloudBusy),
        (Reply(404, b"<html>"), OutcomeUnknown),
        (refused(410, "deprecated_endpoint"), OutcomeUnknown),
        (refused(500, "server_error"), OutcomeUnknown),
        (reply({"success": False, "error": "busy"}), OutcomeUnknown),
        (Reply(200, b""), OutcomeUnknown),
    ],
)
def test_an_end_that_is_in_doubt_is_said_to_be(answer, error):
    with pytest.raises(error):
        wire.read_terminate(answer, "312", NOW)


@pytest.mark.parametrize("number", ["", "../users", "1/2", "a", "0", "1 2", "-1"])
def test_an_id_that_is_none_is_not_asked_for(number):
    with pytest.raises(CannotTell):
        wire.terminate(number)


@pytest.mark.parametrize(
    ("body", "balance"),
    [
        ({"credit": 12.5}, 12_500_000),
        ({"credit": -1}, -1_000_000),
        ({}, None),
        ({"credit": "12"}, None),
        ({"credit": 1e300}, None),
    ],
)
def test_an_account_tells_its_credit_or_nothing(body, balance):
    purse = wire.read_account(reply({"id": 48211, "username": "renter", **body}), NOW)

    assert (purse.account.id, purse.account.name, purse.balance_microusd) == ("48211", "renter", balance)


@pytest.mark.parametrize("body", [{}, {"id": None}, {"id": "x/y"}, [], {"success": False, "id": 7}])
def test_an_account_without_a_number_is_refused(body):
    with pytest.raises(CannotTell):
        wire.read_account(reply(body), NOW)
