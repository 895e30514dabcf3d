"""Third-party receivers: nulls beside what they say, a 2xx that is about another order, odd headers."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.webhook.bench import (
    NOW,
    OTHER_TOKEN,
    SIGNING_SECRET,
    TOKEN,
    Bench,
    HandClock,
    an_order,
    instance,
    said,
)
from tgp.adapters.clouds.webhook.power import NotAStatus, Power, read_status
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, SoldOut
from tgp.core.model.instance import InstanceState
from tgp.core.model.secret import Secret
from tgp.core.model.signature import NotSigned, keys_of
from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.clouds.webhook import simulator


@pytest.mark.parametrize(
    ("body", "power"),
    [
        ({"state": "on", "PowerState": None, "on": None}, Power.ON),
        ({"state": None, "PowerState": "Off"}, Power.OFF),
        ({"PowerState": "PoweringOn", "token": None, "extra": {"x": 1}}, Power.STARTING),
        ({"state": "hibernating"}, Power.UNKNOWN),
    ],
)
def test_null_says_nothing_and_contradicts_nothing(body: dict[str, Any], power: Power):
    assert read_status(Reply(200, msgspec.json.encode(body))).power is power


@pytest.mark.parametrize("body", [{"state": None}, {"state": None, "on": None}, {"state": 1}, {"state": []}, {}])
def test_a_status_that_says_nothing_is_none(body: dict[str, Any]):
    with pytest.raises(NotAStatus):
        read_status(Reply(200, msgspec.json.encode(body)))


@pytest.mark.parametrize("headers", [(), (("CONTENT-TYPE", "text/html"),), (("content-type", "application/x-any"),)])
def test_a_status_is_read_whatever_it_is_called(headers: Pairs):
    assert read_status(Reply(200, b'{"state": "ON"}\n', headers)).power is Power.ON
    assert read_status(Reply(200, b" on \r\n", headers)).power is Power.ON


@pytest.mark.parametrize("state", ["on", "starting"])
@pytest.mark.parametrize("status", [200, 202])
async def test_a_success_that_is_about_another_order_is_no_machine_of_ours(status: int, state: str):
    """It says for whom the machine is on, and it is not for us: what was asked for did not happen."""
    bench = Bench({"on": said(status, state=state, token=OTHER_TOKEN)})

    with pytest.raises(SoldOut, match="another order"):
        await bench.cloud().launch(an_order())
    assert bench.paths == ["POST /box-1/on"]


@pytest.mark.parametrize("token", ["", None, TOKEN])
async def test_a_success_that_is_ours_or_without_a_token_is_ours(token: str | None):
    bench = Bench({"on": said(200, state="on", token=token)})

    assert (await bench.cloud().launch(an_order())).id == instance()


async def test_a_receiver_that_does_not_remember_for_whom_is_taken_at_its_word():
    bench = Bench({"on": said(202, state="off"), "status": said(state="off", token="")})
    cloud = bench.cloud()
    made = await cloud.launch(an_order())

    seen = await cloud.status(made.id)
    assert seen is not None
    assert seen.state is InstanceState.STARTING


async def test_a_date_says_when_to_come_again():
    dates = (("retry-after", "Sun, 15 Nov 2026 12:00:40 GMT"), ("DATE", "Sun, 15 Nov 2026 12:00:00 GMT"))
    bench = Bench({"on": Reply(429, b"", dates)})

    with pytest.raises(CloudBusy) as caught:
        await bench.cloud().launch(an_order())
    assert caught.value.retry_after is not None
    assert caught.value.retry_after.total_seconds() == 40


async def test_an_end_is_accepted_without_a_body():
    bench = Bench({"off": Reply(204), "status": said(state="on", token=TOKEN)})

    assert await bench.cloud().terminate(instance()) is None


@pytest.mark.parametrize("odd", ["\udcfc", "ü", "x\udcff"])
def test_headers_that_are_no_ascii_are_not_signed(odd: str):
    """A server hands on bytes that are no UTF-8 as lone surrogates."""
    keys = keys_of(Secret(SIGNING_SECRET))
    stamp = str(int(NOW.timestamp()))

    for message_id, signature in ((odd, "v1,x"), ("x", odd), ("x", f"v1,{odd}")):
        with pytest.raises(NotSigned):
            keys.verify(message_id, stamp, signature, b"", NOW)
    with pytest.raises(NotSigned):
        keys.verify("x", odd, "v1,x", b"", NOW)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"type": "\xff"}', b"[" * 100_000, b'{"a":' * 50_000])
async def test_the_pretend_receiver_refuses_a_body_that_is_no_json(body: bytes):
    room = simulator(HandClock(), 1)
    reply = await room.handle(Call("POST", "/cellar-1/on", headers=(("webhook-id", "x"),), body=body))

    assert reply.status == 400
    assert reply.text("error")


async def test_a_list_of_statuses_is_no_status():
    bench = Bench({"status": Reply(200, b'[{"state": "off"}]')})

    with pytest.raises(CannotTell):
        await bench.cloud().status(instance())
