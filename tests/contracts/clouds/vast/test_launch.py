"""One order: what it says, and what an answer to it means."""

import msgspec
import pytest

from tests.contracts.clouds.vast.answers import NOW, TOKEN, an_offer, an_order, refused, reply
from tgp.adapters.clouds.vast import wire_launch
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.cloud import Container
from tgp.ports.http import Reply


def body_of(order, price=None):
    return msgspec.json.decode(wire_launch.launch(order, price).body)


def test_an_order_on_demand_names_no_price():
    """The presence of `price` is what makes a machine interruptible."""
    call = wire_launch.launch(an_order(not_after=7.0), None)

    assert (call.method, call.path, call.not_after) == ("PUT", "/api/v0/asks/12345678/", 7.0)
    assert msgspec.json.decode(call.body) == {
        "client_id": "me",
        "label": TOKEN,
        "disk": 64,
        "cancel_unavail": True,
        "target_state": "running",
        "image": "docker.io/library/ubuntu:24.04",
        "env": {"MODE": "work"},
        "runtype": "args",
        "args": ["sleep", "infinity"],
    }


@pytest.mark.parametrize(
    ("entrypoint", "command", "onstart", "args"),
    [
        ((), (), None, []),
        ((), ("serve",), None, ["serve"]),
        (("/bin/sh",), ("-c", "true"), "/bin/sh", ["-c", "true"]),
        (("/bin/sh", "-c"), ("true",), "/bin/sh", ["-c", "true"]),
        (("/init",), (), "/init", []),
    ],
)
def test_an_entrypoint_is_onstart_and_what_it_is_given_are_args(entrypoint, command, onstart, args):
    body = body_of(an_order(container=Container("i", (), command, entrypoint)), None)

    assert (body["runtype"], body.get("onstart"), body["args"]) == ("args", onstart, args)


def test_a_bid_names_its_price_and_never_waits_stopped():
    body = body_of(an_order(), 123_456)

    assert body["price"] == 0.123456
    assert body["cancel_unavail"] is True


@pytest.mark.parametrize("price", [0, 999, -5, 128_000_001])
def test_a_bid_vast_would_not_take_is_not_sent(price):
    with pytest.raises(OrderRefused):
        wire_launch.launch(an_order(), price)


def test_a_virtual_machine_boots_vasts_own_image():
    body = body_of(an_order(offer=an_offer(sku="12345678:vm"), container=None, user_data=b"#!/bin/sh\n"))

    assert (body["vm"], body["runtype"], body["onstart"]) == (True, "ssh", "#!/bin/sh\n")
    assert body["image"].startswith("docker.io/vastai/kvm")


def test_user_data_of_a_container_is_its_start():
    body = body_of(an_order(container=Container("ubuntu"), user_data=b"echo hello"))

    assert (body["runtype"], body["onstart"]) == ("ssh", "echo hello")
    assert "args" not in body


@pytest.mark.parametrize(
    "changes",
    [
        {"container": None},
        {"user_data": b"echo", "container": Container("ubuntu", command=("sleep",))},
        {"user_data": b"x" * 4097, "container": Container("ubuntu")},
        {"user_data": b"\xff\xfe", "container": Container("ubuntu")},
        {"container": Container("ubuntu", command=("x" * 4097,))},
        {"container": Container("ubuntu", env=(("A", "x" * 256),))},
        {"container": Container("ubuntu", env=tuple((f"A{n}", "x" * 200) for n in range(200)))},
        {"offer": an_offer(sku="12345678:vm")},  # a container image in a virtual machine
        {"offer": an_offer(sku="../users")},
        {"offer": an_offer(sku="")},
    ],
)
def test_an_order_vast_cannot_take_never_leaves(changes):
    with pytest.raises(OrderRefused):
        wire_launch.launch(an_order(**changes), None)


def read(answer: Reply):
    return wire_launch.read_launch(answer, an_order(), NOW)


def test_a_success_is_a_machine():
    made = read(reply({"success": True, "new_contract": 4242}))

    assert (made.id, made.token, made.sku) == ("4242", TOKEN, "12345678")


@pytest.mark.parametrize(
    "answer",
    [
        refused(400, "invalid_price", new_contract=4242),
        refused(410, "no_such_ask", new_contract=4242),
        refused(404, "auth_error", "Invalid user key", new_contract=4242),
        refused(429, "too_frequent", new_contract="4242"),
        refused(500, "server_error", instance_id=4242),
        reply({"success": False, "new_contract": 4242}),
        reply({"new_contract": 4242}),
        reply({"success": True, "new_contract": 4242}, 202),
    ],
)
def test_an_error_that_names_a_machine_is_a_machine(answer):
    with pytest.raises(OutcomeUnknown) as unknown:
        read(answer)

    assert unknown.value.instance_id == "4242"


REFUSALS = [
    (refused(404, "invalid_args", "error 404/3603: no_such_ask Instance type 1 is not available", ask_id=1), SoldOut),
    (refused(410, "no_such_ask", "error 410/3907: no_such_ask"), SoldOut),
    (refused(400, "invalid_price", "bid too low"), SoldOut),
    (refused(400, "invalid_args", "env too long"), OrderRefused),
    (refused(400, "no_ssh_key_for_vm"), OrderRefused),
    (refused(403, "invalid_args", "Hosts can only rent their own machines."), OrderRefused),
    (refused(403, "permission", "instance_write"), KeyRefused),
    (refused(401, "auth_error", "Invalid user key"), KeyRefused),
    (refused(404, "auth_error", "Invalid user key"), KeyRefused),
    (Reply(401, b"Please log in"), KeyRefused),
    (refused(400, "insufficient_credit", "Insufficient credits"), AccountExhausted),
    (refused(403, "spend_rate_limit"), AccountExhausted),
    (Reply(429, b"API requests too frequent"), CloudBusy),
    (reply({"detail": "API requests too frequent"}, 429), CloudBusy),
]


@pytest.mark.parametrize(("answer", "error"), REFUSALS)
def test_a_definite_refusal_is_one_of_a_list(answer, error):
    with pytest.raises(error):
        read(answer)


@pytest.mark.parametrize(
    "answer",
    [
        Reply(200, b""),
        Reply(200, b"<html>"),
        Reply(403, b"<html>forbidden by a proxy</html>"),
        Reply(404, b"<html>no_such_ask</html>"),
        Reply(502, b"bad gateway"),
        reply({"success": True}),
        reply({"success": True, "new_contract": None}),
        reply({"success": True, "new_contract": 0}),
        reply({"success": True, "new_contract": "../7"}),
        reply({"success": True, "new_contract": True}),
        reply([{"contract": 7}]),
        refused(400, "the moon is in the wrong house"),
        refused(404, "not_found"),
        refused(409, "invalid_args"),
        refused(503, "no_such_ask"),
    ],
)
def test_anything_else_is_unknown(answer):
    with pytest.raises(OutcomeUnknown) as unknown:
        read(answer)

    assert unknown.value.instance_id == ""


def test_a_refusal_that_quotes_our_secrets_is_told_without_them():
    order = an_order(
        container=Container("ubuntu", env=(("TOKEN", "hunter2-hunter2"),)), user_data=b"join --secret abcdef0123456789"
    )
    answer = refused(400, "invalid_args", "bad env hunter2-hunter2 and bad onstart abcdef0123456789")

    with pytest.raises(OrderRefused) as refusal:
        wire_launch.read_launch(answer, order, NOW)

    assert "hunter2" not in str(refusal.value)
    assert "abcdef0123456789" not in str(refusal.value)
