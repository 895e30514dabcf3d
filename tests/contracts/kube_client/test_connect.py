"""From a configuration to a connection: certificates, proxies, and what is said when they do not work."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.contracts.http.certificates import Certificates
from tgp.adapters.clock import SystemClock
from tgp.adapters.compute import Threads
from tgp.adapters.exec import SystemExec
from tgp.adapters.http.serve import Listening, listen
from tgp.adapters.kube.config import choose, parse
from tgp.adapters.kube.config_connect import http_for
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.credentials_http import AuthenticatedHttp
from tgp.ports.http import Call, NeverLeft, Reply

FILE = "/somewhere/config"


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


async def echo(call: Call) -> Reply:
    return Reply(200, json.dumps(dict(call.headers)).encode())


@pytest.fixture
async def server(certificates: Certificates) -> AsyncIterator[Listening]:
    listening = await listen(echo, tls=certificates.server_context())
    yield listening
    await listening.stop()


def data(content: bytes) -> str:
    return base64.b64encode(content).decode()


def http_to(server: str, user: dict[str, Any], **cluster: Any) -> AuthenticatedHttp:
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    target = choose(parse(json.dumps(document).encode(), FILE))
    return http_for(target, SystemClock(), Threads(), SystemExec(), headers=(("User-Agent", "tgp/test"),))


async def headers_seen(http: AuthenticatedHttp) -> dict[str, str]:
    try:
        return (await http.send(Call("GET", "/api"))).json()
    finally:
        await http.close()


async def test_a_token_goes_over_a_verified_connection(server: Listening, certificates: Certificates):
    http = http_to(server.url, {"token": "abc"}, **{"certificate-authority-data": data(certificates.authority)})
    seen = await headers_seen(http)

    assert (seen["Authorization"], seen["User-Agent"]) == ("Bearer abc", "tgp/test")


async def test_an_unknown_authority_is_said_before_anything_is_sent(server: Listening):
    other = Certificates()
    http = http_to(server.url, {"token": "abc"}, **{"certificate-authority-data": data(other.authority)})

    with pytest.raises(NeverLeft, match="certificate is not trusted"):
        await headers_seen(http)


@pytest.mark.parametrize("content", [b"not a certificate", b"\xff", b"", b"\n"])
def test_an_authority_that_is_none_is_named(content: bytes, tmp_path: Path):
    path = tmp_path / "ca.crt"
    path.write_bytes(content)

    with pytest.raises(
        ConfigInvalid, match=r"clusters\[0\]\.cluster\.certificate-authority: (contains no valid|is empty)"
    ):
        http_to("https://h", {}, **{"certificate-authority": str(path)})


def test_an_authority_file_that_is_missing_is_named():
    with pytest.raises(ConfigInvalid, match=r"cluster\.certificate-authority: /somewhere/ca: No such file"):
        http_to("https://h", {}, **{"certificate-authority": "ca"})


async def test_a_key_that_does_not_fit_is_named(server: Listening, certificates: Certificates):
    (certificate, _), (_, key) = certificates.client("a"), certificates.client("b")
    user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}

    with pytest.raises(NeverLeft, match=r"users\[0\]\.user: certificate and key cannot be used: KEY_VALUES_MISMATCH"):
        await headers_seen(http_to(server.url, user, **{"insecure-skip-tls-verify": True}))


async def test_an_encrypted_key_does_not_wait_for_a_password(server: Listening, certificates: Certificates):
    certificate, key = certificates.client("a")
    locked = load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"pw"),
    )
    user = {"client-certificate-data": data(certificate), "client-key-data": data(locked)}

    with pytest.raises(NeverLeft, match=r"users\[0\]\.user: certificate and key cannot be used"):
        await headers_seen(http_to(server.url, user, **{"insecure-skip-tls-verify": True}))


class Proxy:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses = False


@asynccontextmanager
async def a_proxy() -> AsyncIterator[tuple[str, Proxy]]:
    """The CONNECT half of a proxy: a tunnel to wherever the client asks."""
    proxy = Proxy()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        proxy.asked.append(head)
        if proxy.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, port = head.split()[1].rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    yield f"http://ann:s3cr3t@127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy
    server.close()
    await asyncio.sleep(0.02)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
    except ConnectionError:
        pass  # the other end left
    finally:
        writer.close()


async def test_a_proxy_is_used_and_sees_no_token(server: Listening, certificates: Certificates):
    async with a_proxy() as (url, proxy):
        cluster = {"certificate-authority-data": data(certificates.authority), "proxy-url": url}
        seen = await headers_seen(http_to(server.url, {"token": "abc"}, **cluster))

    assert seen["Authorization"] == "Bearer abc"
    (asked,) = proxy.asked
    assert asked.startswith(f"CONNECT 127.0.0.1:{server.port} ")
    assert "Proxy-Authorization: Basic YW5uOnMzY3IzdA==" in asked
    assert "abc" not in asked


async def test_a_proxy_that_says_no_never_let_it_leave(server: Listening, certificates: Certificates):
    async with a_proxy() as (url, proxy):
        proxy.refuses = True
        cluster = {"certificate-authority-data": data(certificates.authority), "proxy-url": url}
        http = http_to(server.url, {"token": "abc"}, **cluster)
        with pytest.raises(NeverLeft, match="the proxy answered 407") as caught:
            await http.send(Call("POST", "/buy", body=b"{}"))
        await http.close()

    assert "s3cr3t" not in str(caught.value)
