"""Never left, or left without an answer: told apart at the moment the bytes are written."""

import asyncio
import socket
import ssl
from datetime import timedelta

import pytest

from tests.contracts.http.certificates import Certificates
from tests.contracts.http.rude import OK, HandClock, Line, Rude, client_of, rude_server
from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import ConnectionPool, HttpClient
from tgp.adapters.http.tls import client_context
from tgp.ports.http import Call, NeverLeft, NoAnswer

CLOCK = SystemClock()
BODIES = pytest.mark.parametrize("body", [b"", b"{}", b"x" * 2_000_000], ids=["empty", "small", "large"])


async def answers(line: Line) -> None:
    while True:
        await line.request()
        await line.say(OK)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@BODIES
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_handshake_that_takes_too_long_sends_nothing(method: str, body: bytes, certificates: Certificates):
    """The deadline passes while the connection is being made: it is made, and nothing is written to it."""
    clock, tls = HandClock(), certificates.server_context()

    def takes_a_minute(*_: object) -> None:
        """Called by the server in the middle of the handshake."""
        clock.seconds += 60

    async def listens(line: Line) -> None:
        line.requests.append((await line.reader.read(100)).decode("latin-1"))

    tls.sni_callback = takes_a_minute
    context = client_context(certificates.authority)
    async with rude_server(listens, tls) as rude, client_of(rude, clock, tls=context) as http:
        with pytest.raises(NeverLeft, match="deadline"):
            await http.send(Call(method, "/buy", body=body, not_after=clock.seconds + 5))
        await asyncio.sleep(0.05)

    assert rude.connections == 1
    assert "".join(rude.requests) == ""


@BODIES
async def test_waiting_for_a_free_connection_counts_too(body: bytes):
    clock, release = HandClock(), asyncio.Event()

    async def answers_late(line: Line) -> None:
        while True:
            await line.request()
            await release.wait()
            await line.say(OK)

    pool = ConnectionPool(connections=1, fresh_for_changes=False)
    async with rude_server(answers_late) as rude, client_of(rude, clock, pool=pool) as http:
        first = asyncio.create_task(http.send(Call("GET", "/first")))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(http.send(Call("POST", "/second", body=body, not_after=clock.seconds + 5)))
        await asyncio.sleep(0.05)
        clock.seconds += 60
        release.set()

        assert (await first).ok
        with pytest.raises(NeverLeft, match="deadline"):
            await second

    assert rude.requests == ["GET /first HTTP/1.1"]


async def test_a_refused_body_leaves_no_half_request_behind():
    """The task that writes the body finds the gate shut: not even the headers were written before."""
    clock = HandClock()

    class PassesOnce(HandClock):
        """The check with the connection in hand passes; the one before the bytes does not."""

        looks = 0

        def boottime(self) -> float:
            self.looks += 1
            return 0.0 if self.looks <= 2 else 1e9

    seen: list[bytes] = []

    async def listens(line: Line) -> None:
        seen.append(await line.reader.read(100))

    clock = PassesOnce()
    async with rude_server(listens) as rude, client_of(rude, clock) as http:
        with pytest.raises(NeverLeft, match="deadline"):
            await http.send(Call("POST", "/buy", body=b"{}", not_after=10.0))
        await asyncio.sleep(0.05)

    assert clock.looks == 3
    assert b"".join(seen) == b""


async def test_a_refused_connection_never_left():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        http = HttpClient(f"http://127.0.0.1:{taken.getsockname()[1]}", CLOCK)
        with pytest.raises(NeverLeft, match="Connection refused"):
            await http.send(Call("POST", "/buy", body=b"{}"))
        await http.close()


async def test_an_unknown_host_never_left(monkeypatch: pytest.MonkeyPatch):
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    http = HttpClient("http://nowhere.example", CLOCK)
    with pytest.raises(NeverLeft, match="no address"):
        await http.send(Call("POST", "/buy", body=b"{}"))
    await http.close()


async def test_a_connection_not_made_in_time_never_left(certificates: Certificates):
    async def says_nothing(line: Line) -> None:
        await line.reader.read(-1)

    pool = ConnectionPool(connect_within=timedelta(milliseconds=100))
    async with rude_server(says_nothing) as rude:
        rude.url = rude.url.replace("http:", "https:")
        async with client_of(rude, CLOCK, pool=pool, tls=client_context(certificates.authority)) as http:
            with pytest.raises(NeverLeft, match="in time"):
                await http.send(Call("POST", "/buy", body=b"{}"))


async def test_the_whole_timeout_counts_while_connecting(certificates: Certificates):
    async def says_nothing(line: Line) -> None:
        await line.reader.read(-1)

    async with rude_server(says_nothing) as rude:
        rude.url = rude.url.replace("http:", "https:")
        async with client_of(rude, CLOCK, tls=client_context(certificates.authority)) as http:
            with pytest.raises(NeverLeft, match="timeout passed"):
                await http.send(Call("POST", "/buy", body=b"{}", timeout=timedelta(milliseconds=100)))


async def test_tls_to_a_server_that_speaks_none_never_left(certificates: Certificates):
    async def plain(line: Line) -> None:
        await line.reader.read(10)
        await line.say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with rude_server(plain) as rude:
        rude.url = rude.url.replace("http:", "https:")
        async with client_of(rude, CLOCK, tls=client_context(certificates.authority)) as http:
            with pytest.raises(NeverLeft, match="TLS handshake"):
                await http.send(Call("POST", "/buy", body=b"{}"))


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_untrusted_certificate_never_left(method: str, certificates: Certificates):
    server = rude_server(answers, certificates.server_context())
    async with server as rude, client_of(rude, CLOCK, tls=client_context()) as http:
        with pytest.raises(NeverLeft, match="certificate is not trusted"):
            await http.send(Call(method, "/buy"))

    assert rude.requests == []


async def test_another_hosts_certificate_never_left(certificates: Certificates):
    server = rude_server(answers, certificates.server_context("elsewhere.example"))
    async with server as rude, client_of(rude, CLOCK, tls=client_context(certificates.authority)) as http:
        with pytest.raises(NeverLeft, match="certificate is not trusted"):
            await http.send(Call("POST", "/buy"))

    assert rude.requests == []


async def test_a_server_may_be_verified_under_another_name(certificates: Certificates):
    context = client_context(certificates.authority)
    server = rude_server(answers, certificates.server_context("elsewhere.example"))
    async with server as rude, client_of(rude, CLOCK, tls=context, server_name="elsewhere.example") as http:
        assert (await http.send(Call("POST", "/buy"))).ok


async def test_a_client_certificate_is_shown(certificates: Certificates):
    async def names_its_client(line: Line) -> None:
        await line.request()
        subject = dict(pair[0] for pair in line.writer.get_extra_info("peercert")["subject"])
        name = subject["commonName"].encode()
        await line.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))

    server = certificates.server_context()
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=certificates.authority.decode())
    certificate, key = certificates.client("operator")
    async with rude_server(names_its_client, server) as rude:
        context = client_context(certificates.authority, certificate=certificate, key=key)
        async with client_of(rude, CLOCK, tls=context) as http:
            assert (await http.send(Call("GET", "/"))).content == b"operator"


async def test_a_missing_client_certificate_is_never_a_success(certificates: Certificates):
    """In TLS 1.3 the client is done with its handshake before the server refuses it: unknown, not never left."""
    server = certificates.server_context()
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=certificates.authority.decode())
    context = client_context(certificates.authority)
    async with rude_server(answers, server) as rude, client_of(rude, CLOCK, tls=context) as http:
        with pytest.raises((NoAnswer, NeverLeft)):
            await http.send(Call("POST", "/buy", body=b"{}"))

    assert rude.requests == []


@pytest.mark.parametrize("bad", ["/a b", "a", "/a\r\nX: y", "/é", ""])
async def test_a_path_that_would_break_the_request_never_leaves(bad: str):
    http = HttpClient("http://127.0.0.1:1", CLOCK)
    with pytest.raises(NeverLeft, match="path"):
        await http.send(Call("GET", bad))


async def test_a_header_that_would_break_the_request_never_leaves():
    """A token file that was written with two lines, say. The value is not quoted."""
    http = HttpClient("http://127.0.0.1:1", CLOCK)
    with pytest.raises(NeverLeft, match="Authorization") as caught:
        await http.send(Call("GET", "/", headers=(("Authorization", "Bearer s3cr3t\nX: y"),)))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://h", "h:1", "https://", "https://u:p4ss@h", "https://h?key=p4ss", ""])
def test_a_base_url_with_a_secret_or_without_a_host_is_refused(url: str):
    with pytest.raises(ValueError) as caught:
        HttpClient(url, CLOCK)
    assert "p4ss" not in str(caught.value)


async def test_a_prefix_in_the_base_url_is_kept():
    async with rude_server(answers) as rude:
        rude.url += "/k8s/clusters/c-1/"
        async with client_of(rude, CLOCK) as http:
            await http.send(Call("GET", "/api/v1"))

    assert rude.requests == ["GET /k8s/clusters/c-1/api/v1 HTTP/1.1"]


async def test_cancelling_a_call_closes_its_connection():
    ended = asyncio.Event()

    async def waits_for_the_end(line: Line) -> None:
        await line.request()
        await line.reader.read(1)
        ended.set()

    async with rude_server(waits_for_the_end) as rude, client_of(rude, CLOCK) as http:
        call = asyncio.create_task(http.send(Call("POST", "/buy", body=b"{}")))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(5):
            await ended.wait()

    assert _count(rude, "POST") == 1


def _count(rude: Rude, method: str) -> int:
    return sum(request.startswith(method) for request in rude.requests)
