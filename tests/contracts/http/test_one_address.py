"""`address=`: the connection goes where the caller said, and TLS still verifies the name."""

import pytest

from tests.contracts.http.certificates import Certificates
from tests.contracts.http.rude import OK, Line, rude_server
from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import HttpClient
from tgp.adapters.http.tls import client_context
from tgp.ports.http import Call, NeverLeft

CLOCK = SystemClock()
NAME = "power.invalid"  # RFC 6761: no resolver ever knows it


async def polite(line: Line) -> None:
    head = await line.request()
    line.requests.append(next(one for one in head.split("\r\n") if one.lower().startswith("host:")))
    await line.say(OK)


def url_of(rude_url: str, host: str) -> str:
    return rude_url.replace("localhost", host)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_name_is_not_asked_for(method: str):
    """A kept and a fresh connection alike: the resolver has no part in it, and the server still sees the name."""
    async with rude_server(polite) as rude:
        client = HttpClient(url_of(rude.url, NAME), CLOCK, address="127.0.0.1")
        reply = await client.send(Call(method, "/start"))
        await client.close()

    assert reply.ok
    assert rude.requests[1].lower().startswith(f"host: {NAME}:")


async def test_without_it_the_name_would_have_been_asked_for():
    async with rude_server(polite) as rude:
        client = HttpClient(url_of(rude.url, NAME), CLOCK)
        with pytest.raises(NeverLeft):
            await client.send(Call("POST", "/start"))
        await client.close()

    assert rude.connections == 0


async def test_another_address_of_the_same_name_is_not_tried():
    """`localhost` is where the server is; the address says otherwise, and the address wins."""
    async with rude_server(polite) as rude:
        client = HttpClient(rude.url, CLOCK, address="127.0.0.2")
        with pytest.raises(NeverLeft):
            await client.send(Call("POST", "/start"))
        await client.close()

    assert rude.connections == 0


@pytest.mark.parametrize(("issued_to", "trusted"), [(NAME, True), ("other.invalid", False), ("127.0.0.1", False)])
async def test_the_certificate_must_be_the_names(issued_to: str, trusted: bool):
    authority = Certificates()
    async with rude_server(polite, authority.server_context(issued_to)) as rude:
        client = HttpClient(url_of(rude.url, NAME), CLOCK, tls=client_context(authority.authority), address="127.0.0.1")
        if trusted:
            assert (await client.send(Call("POST", "/start"))).ok
        else:
            with pytest.raises(NeverLeft, match="certificate"):
                await client.send(Call("POST", "/start"))
        await client.close()


def test_an_address_in_the_url_must_be_the_same():
    with pytest.raises(ValueError, match="the pinned address is"):
        HttpClient("http://127.0.0.1:8080", CLOCK, address="127.0.0.2")
    HttpClient("http://[::1]:8080", CLOCK, address="0:0:0:0:0:0:0:1")


def test_a_proxy_cannot_be_told_which_address():
    with pytest.raises(ValueError, match="proxy"):
        HttpClient("http://power.invalid", CLOCK, address="10.0.0.9", proxy="http://proxy:3128")


def test_what_is_no_address_is_refused():
    with pytest.raises(ValueError, match="does not appear"):
        HttpClient("http://power.invalid", CLOCK, address="power.invalid")
