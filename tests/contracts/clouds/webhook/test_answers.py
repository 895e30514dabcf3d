"""What an answer means: a switch obeys its status, a machine's word is read or refused."""

import pytest

from tests.contracts.clouds.webhook.bench import (
    OTHER_TOKEN,
    SILENCE,
    TOKEN,
    Bench,
    a_machine,
    an_order,
    instance,
    said,
)
from tgp.adapters.clouds.webhook.power import NotAStatus, Power, Reading, read_status
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.instance import InstanceState
from tgp.ports.http import NeverLeft, Reply, TooLarge

YES = {
    "202": said(202),
    "200 and nothing": Reply(200),
    "204": Reply(204),
    "200 and a word that a small receiver calls HTML": Reply(200, b"OK", (("Content-Type", "text/html"),)),
    "201 and another shape": Reply(201, b"[[1], null]"),
}


@pytest.mark.parametrize("reply", YES.values(), ids=YES)
async def test_2xx_is_yes(reply: Reply):
    bench = Bench({"on": reply, "off": reply})
    cloud = bench.cloud(a_machine(status_endpoint=None))
    made = await cloud.launch(an_order())
    await cloud.terminate(made.id)

    assert (made.id, made.token, made.state) == (instance(), TOKEN, InstanceState.STARTING)
    assert bench.paths == ["POST /box-1/on", "POST /box-1/off"]


ON = {
    400: OrderRefused,
    401: KeyRefused,
    402: AccountExhausted,
    403: KeyRefused,
    404: OrderRefused,
    405: OrderRefused,
    408: OutcomeUnknown,
    410: OrderRefused,
    415: OrderRefused,
    418: OutcomeUnknown,
    422: OrderRefused,
    423: CloudBusy,
    425: OutcomeUnknown,
    429: CloudBusy,
    499: OutcomeUnknown,
    500: OutcomeUnknown,
    501: OrderRefused,
    502: OutcomeUnknown,
    503: OutcomeUnknown,
    504: OutcomeUnknown,
    302: OutcomeUnknown,
    100: OutcomeUnknown,
    999: OutcomeUnknown,
}


@pytest.mark.parametrize("status", ON)
async def test_each_status_of_a_switch(status: int):
    """For on, only what is known to mean no is a no. For off, a wrong address leaves the machine on: asked again."""
    bench = Bench({"on": said(status), "off": said(status)})
    cloud = bench.cloud(a_machine(status_endpoint=None))
    off = CloudBusy if ON[status] in (OrderRefused, AccountExhausted) else ON[status]

    with pytest.raises(ON[status], match=f"box-1, scaleUpEndpoint, answered {status}"):
        await cloud.launch(an_order())
    with pytest.raises(off, match=f"box-1, scaleDownEndpoint, answered {status}"):
        await cloud.terminate(instance())
    assert len(bench.calls) == 2


async def test_retry_after_is_passed_on():
    with pytest.raises(CloudBusy) as error:
        await Bench({"on": said(429, (("Retry-After", "42"),))}).cloud().launch(an_order())
    assert error.value.retry_after is not None
    assert error.value.retry_after.total_seconds() == 42


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><html>", b"\n <HTML><body>wait", b"<?xml version='1.0'?>"])
async def test_a_page_is_no_yes(page: bytes):
    bench = Bench({"on": Reply(200, page), "off": Reply(200, page)})
    cloud = bench.cloud(a_machine(status_endpoint=None))

    with pytest.raises(OutcomeUnknown):
        await cloud.launch(an_order())
    with pytest.raises(OutcomeUnknown):
        await cloud.terminate(instance())


@pytest.mark.parametrize("silence", [SILENCE, TooLarge("too much")])
async def test_silence_is_unknown_and_nothing_is_sent_again(silence: Exception):
    bench = Bench({"on": silence, "off": silence})
    cloud = bench.cloud(a_machine(status_endpoint=None))

    with pytest.raises(OutcomeUnknown):
        await cloud.launch(an_order())
    with pytest.raises(OutcomeUnknown):
        await cloud.terminate(instance())
    assert bench.paths == ["POST /box-1/on", "POST /box-1/off"]


async def test_what_never_left_is_busy():
    with pytest.raises(CloudBusy):
        await Bench({"on": NeverLeft("no route")}).cloud().launch(an_order())


@pytest.mark.parametrize("status", [400, 404, 500, 503])
@pytest.mark.parametrize("body", [{"state": "starting"}, {"state": "on", "token": TOKEN}, {"on": True}])
async def test_an_error_that_says_the_machine_is_on_names_it(status: int, body: dict):
    with pytest.raises(OutcomeUnknown) as error:
        await Bench({"on": said(status, **body)}).cloud().launch(an_order())
    assert error.value.instance_id == instance()


async def test_an_error_about_another_machine_does_not():
    with pytest.raises(OrderRefused):
        await Bench({"on": said(400, state="on", token=OTHER_TOKEN)}).cloud().launch(an_order())


CONFLICTS = {
    "it is on for this order: the first answer was lost": ({"state": "on", "token": TOKEN}, None),
    "it is starting, and does not tell for whom": ({"state": "starting"}, None),
    "it is on for another order": ({"state": "on", "token": OTHER_TOKEN}, SoldOut),
    "it is on without an order of ours": ({"state": "on", "token": ""}, SoldOut),
    "it is off": ({"state": "off", "token": ""}, OutcomeUnknown),
    "it is stopping": ({"state": "stopping"}, OutcomeUnknown),
    "its state is unknown": ({"state": "fault"}, OutcomeUnknown),
    "its answer has another shape": ({"power": 1}, OutcomeUnknown),
}


@pytest.mark.parametrize("where", ["in the answer", "by the status"])
@pytest.mark.parametrize("case", CONFLICTS.values(), ids=CONFLICTS)
async def test_already_on(case, where: str):
    body, error = case
    bench = Bench({"on": said(409, **body) if where == "in the answer" else said(409), "status": said(**body)})
    cloud = bench.cloud()

    if error is None:
        assert (await cloud.launch(an_order())).id == instance()
    else:
        with pytest.raises(error):
            await cloud.launch(an_order())
    assert bench.paths.count("POST /box-1/on") == 1


async def test_already_on_without_a_status_is_unknown():
    with pytest.raises(OutcomeUnknown):
        await Bench({"on": said(409)}).cloud(a_machine(status_endpoint=None)).launch(an_order())


@pytest.mark.parametrize(
    ("off", "status", "error"),
    [
        (said(409), said(state="off"), None),
        (said(409), said(state="stopping"), None),
        (said(409, state="off"), said(state="on"), None),
        (said(404, state="off"), said(state="on"), None),
        (said(409), said(state="on"), OutcomeUnknown),
        (said(409), None, OutcomeUnknown),
        (said(500, state="off"), said(state="on"), OutcomeUnknown),
    ],
)
async def test_already_off(off: Reply, status: Reply | None, error: type[Exception] | None):
    """None: there is no status endpoint."""
    bench = Bench({"off": off} if status is None else {"off": off, "status": status})
    cloud = bench.cloud(a_machine(status_endpoint=None)) if status is None else bench.cloud()

    if error is None:
        await cloud.terminate(instance())
    else:
        with pytest.raises(error):
            await cloud.terminate(instance())


# -- the machine's word ------------------------------------------------------------------------------------------------

WORDS = {
    b'{"state": "on"}': Reading(Power.ON, "on"),
    b'{"state": "OFF", "token": ""}': Reading(Power.OFF, "OFF", ""),
    b'{"state": "starting", "token": "t"}': Reading(Power.STARTING, "starting", "t"),
    b'{"state": "stopping", "token": null}': Reading(Power.STOPPING, "stopping", ""),
    b'{"state": " On ", "more": [1]}': Reading(Power.ON, "On"),
    b'{"on": true}': Reading(Power.ON, "on"),
    b'{"on": false, "token": ""}': Reading(Power.OFF, "off", ""),
    b'{"state": true}': Reading(Power.ON, "on"),
    b'{"PowerState": "PoweringOff"}': Reading(Power.STOPPING, "PoweringOff"),
    b'{"PowerState": "On", "@odata.id": "/redfish/v1/Systems/1"}': Reading(Power.ON, "On"),
    b"on": Reading(Power.ON, "on"),
    b"OFF\n": Reading(Power.OFF, "OFF"),
    b'"on"': Reading(Power.ON, "on"),
    b"true": Reading(Power.ON, "on"),
    b"false": Reading(Power.OFF, "off"),
    b"rebooting": Reading(Power.UNKNOWN, "rebooting"),
    b'{"state": "fault"}': Reading(Power.UNKNOWN, "fault"),
    b'{"state": "on", "on": false}': Reading(Power.UNKNOWN, "on"),
    b'{"state": "a\\u001b[31mb"}': Reading(Power.UNKNOWN, "a [31mb"),
}
NO_STATUS = (
    b"",
    b"  ",
    b"{}",
    b"[]",
    b"null",
    b"1",
    b'{"status": "on"}',
    b'{"state": null}',
    b'{"state": 1}',
    b'{"state": ["on"]}',
    b'{"state": ""}',
    b'{"state": "' + b"x" * 100 + b'"}',
    b'{"state": "on", "token": 7}',
    b'{"state": "on", "token": "' + b"x" * 200 + b'"}',
    b"<html>on</html>",
    b"<on>",
    b"x" * 5000,
    b"\xff\xfe",
    b'{"state": "on"',
    b"[" * 60_000,
    b'{"a":' * 60_000,
)


@pytest.mark.parametrize("content", WORDS, ids=range(len(WORDS)))
def test_words_for_power(content: bytes):
    assert read_status(Reply(200, content)) == WORDS[content]


@pytest.mark.parametrize("content", NO_STATUS, ids=range(len(NO_STATUS)))
async def test_what_is_no_status_proves_nothing(content: bytes):
    with pytest.raises(NotAStatus):
        read_status(Reply(200, content))
    bench = Bench({"status": Reply(200, content)})
    with pytest.raises(CannotTell):
        await bench.cloud().status(instance())
    with pytest.raises(CannotTell):
        await bench.cloud().find(TOKEN)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, KeyRefused), (403, KeyRefused), (404, CannotTell), (410, CannotTell), (429, CloudBusy), (503, CloudBusy)],
)
async def test_a_failed_look_is_never_absence(status: int, error: type[Exception]):
    cloud = Bench({"status": said(status)}).cloud()

    with pytest.raises(error):
        await cloud.status(instance())
    with pytest.raises(error):
        await cloud.owned("tgp-")
