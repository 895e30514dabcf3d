"""What leaves: bodies, ids, signatures, headers."""

import msgspec
import pytest

from tests.contracts.clouds.webhook.bench import (
    HEADERS,
    SIGNING,
    SIGNING_SECRET,
    TOKEN,
    Bench,
    a_machine,
    an_order,
    instance,
    said,
)
from tgp.adapters.clouds.webhook.headers import NotHeaders, headers_of
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.secret import Secret
from tgp.core.model.signature import NotSigned, keys_of
from tgp.ports.http import Call

YES = {"on": said(202), "off": said(202), "status": said(state="off")}
POWER = {
    ("power", "headers"): Secret("Authorization: Bearer hunter2\nX-Room: cellar\n"),
    ("power", "signing"): Secret(SIGNING_SECRET),
}


async def test_on_says_which_machine_for_which_order_and_when():
    bench = Bench(YES)
    await bench.cloud().launch(an_order(not_after=1_234.0))
    ((url, call),) = bench.calls

    assert (url, call.method, call.not_after) == ("http://power-api/box-1/on", "POST", 1_234.0)
    assert msgspec.json.decode(call.body) == {
        "type": "machine.power_on",
        "machine": "box-1",
        "token": TOKEN,
        "timestamp": "2026-11-15T12:00:00Z",
    }
    assert call.header("webhook-id") == TOKEN
    assert call.header("webhook-timestamp") == "1794744000"
    assert call.header("webhook-signature") == ""
    assert call.header("Content-Type") == "application/json"


async def test_the_same_order_has_the_same_id_and_each_end_its_own():
    """A receiver that remembers ids does the first once, and the second whenever it is asked."""
    bench = Bench(YES)
    cloud = bench.cloud(a_machine(status_endpoint=None))
    for _ in range(2):
        await cloud.launch(an_order())
        await cloud.terminate(instance())
        bench.clock.seconds += 1
    ids = [call.header("webhook-id") for _, call in bench.calls]

    assert ids[0] == ids[2] == TOKEN
    assert len({ids[0], ids[1], ids[3]}) == 3
    assert all(call.header("webhook-id").count(".") == 0 for _, call in bench.calls)


async def test_off_says_which_machine():
    bench = Bench(YES)
    await bench.cloud(a_machine(status_endpoint=None)).terminate(instance())
    ((_, call),) = bench.calls
    body = msgspec.json.decode(call.body)

    assert (body["type"], body["machine"], body["token"]) == ("machine.power_off", "box-1", TOKEN)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET"])
async def test_every_call_is_signed_and_believed_by_the_reference(method: str):
    bench = Bench(YES, secrets=POWER)
    cloud = bench.cloud(a_machine(method=method, headers_secret_ref=HEADERS, signing_secret_ref=SIGNING))
    await cloud.launch(an_order())
    await cloud.terminate(instance())
    await cloud.status(instance())

    assert len(bench.calls) >= 3
    for _, call in bench.calls:
        assert believed(call)
        assert (call.header("Authorization"), call.header("X-Room")) == ("Bearer hunter2", "cellar")
    assert [call.body for _, call in bench.calls if call.method == "GET" and call.body] == []


def believed(call: Call) -> bool:
    try:
        keys_of(Secret(SIGNING_SECRET)).verify(
            call.header("webhook-id"),
            call.header("webhook-timestamp"),
            call.header("webhook-signature"),
            call.body,
            Bench().clock.now(),
        )
    except NotSigned:
        return False
    return True


async def test_the_query_of_an_endpoint_is_sent():
    bench = Bench(YES)
    await bench.cloud(a_machine(scale_up_endpoint="http://power-api/relay/on?turn=on&ch=1")).launch(an_order())

    assert bench.calls[0][1].query == (("turn", "on"), ("ch", "1"))


async def test_a_secret_that_is_missing_is_named_and_nothing_leaves():
    for ref, field in ((HEADERS, "headers_secret_ref"), (SIGNING, "signing_secret_ref")):
        bench = Bench(YES)
        with pytest.raises(KeyRefused, match=f"Secret power has no value in key {ref.key}"):
            await bench.cloud(a_machine(**{field: ref})).launch(an_order())
        assert bench.calls == []


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 409, 418, 429, 500])
async def test_no_error_and_no_address_holds_a_secret(status: int):
    """Nor is anything of a body repeated: a receiver may quote what it was sent."""
    echo = said(status, echoed="hunter2", secret=SIGNING_SECRET)
    bench = Bench(dict.fromkeys(("on", "off", "status"), echo), secrets=POWER)
    cloud = bench.cloud(a_machine(headers_secret_ref=HEADERS, signing_secret_ref=SIGNING))
    texts = [repr(cloud), repr(vars(cloud))]
    for doing in (cloud.launch(an_order()), cloud.terminate(instance()), cloud.status(instance()), cloud.check()):
        try:
            texts.append(repr(await doing))
        except CloudError as error:
            texts.append(f"{error!r} {error.__cause__!r} {error.__context__!r}")
    texts += [f"{url} {call!r} {call.query}" for url, call in bench.calls]

    assert [text for text in texts if "hunter2" in text or "MfKQ9r8" in text] == []


REFUSED_HEADERS = (
    "Host: evil",
    "host: evil",
    "Content-Length: 5",
    "Content-Type: text/plain",
    "Transfer-Encoding: chunked",
    "Connection: upgrade",
    "Keep-Alive: timeout=5",
    "Upgrade: h2c",
    "TE: trailers",
    "Trailer: X",
    "Proxy-Authorization: Basic x",
    "Proxy-Connection: close",
    "Expect: 100-continue",
    "Accept-Encoding: gzip",
    "webhook-id: mine",
    "Webhook-Signature: v1,mine",
    "WEBHOOK-ANYTHING: x",
    "no colon",
    ": no name",
    " Authorization: folded",
    "Auth orization: x",
    "Author\xedzation: x",
    "X: caf\xe9",
    "X: a\x00b",
    "X: a\x1b[0m",
    "X-A: 1\nx-a: 2",
    "X: a\rHost: evil",
    "X: " + "a" * 9000,
    "\n".join(f"X-{n}: 1" for n in range(40)),
)


@pytest.mark.parametrize("text", REFUSED_HEADERS, ids=range(len(REFUSED_HEADERS)))
async def test_headers_that_are_not_theirs_to_set_are_refused(text: str):
    with pytest.raises(NotHeaders):
        headers_of(Secret(text))
    bench = Bench(YES, secrets={("power", "headers"): Secret(f"Authorization: hunter2\n{text}")})
    with pytest.raises(KeyRefused) as error:
        await bench.cloud(a_machine(headers_secret_ref=HEADERS)).launch(an_order())
    assert "hunter2" not in str(error.value)
    assert bench.calls == []


def test_headers_are_read_line_by_line():
    text = "Authorization: Basic dXNlcjpwYXNz\r\n\r\nX-Empty:\nX-Colons: a:b: c \n"

    assert headers_of(Secret(text)) == (
        ("Authorization", "Basic dXNlcjpwYXNz"),
        ("X-Empty", ""),
        ("X-Colons", "a:b: c"),
    )
