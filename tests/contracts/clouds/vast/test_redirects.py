"""A GET that the same host redirects is sent once more; nothing else ever is. On real sockets."""

from dataclasses import dataclass, replace

import pytest

from tests.contracts.clouds.providers.vast import PROVIDER
from tests.contracts.clouds.sockets import Served, served
from tests.contracts.clouds.stage import an_order, cheapest
from tgp.adapters.clouds.sender import redirected
from tgp.core.model.cloud_errors import CannotTell, CloudError
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.cloud_faults import CloudVerb

BASE = "https://api.test/v2"
SLASH, PLAIN = "/api/v0/users/current/", "/api/v0/users/current"
TOKEN = "tgp-c0ffee0123-0000000000000000000000000000005e-1"


@dataclass
class Moved:
    """Redirects one path to another place, for as often as it is asked."""

    one: Served
    path: str
    to: str
    status: int = 301

    def __post_init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self._handle = self.one.simulator.handle
        self.one.simulator.handle = self.handle

    async def handle(self, call: Call) -> Reply:
        self.asked.append((call.method, call.path))
        if call.path == self.path:
            return Reply(self.status, b"", (("Location", self.to),))
        return await self._handle(call)


async def test_the_account_is_asked_for_with_a_slash_and_a_redirect_to_the_same_host_is_followed():
    async with served(PROVIDER) as one:
        moved = Moved(one, SLASH, PLAIN)

        assert (await one.cloud.identity()).id
        assert moved.asked == [("GET", SLASH), ("GET", PLAIN)]


@pytest.mark.parametrize("to", ["http://127.0.0.1:9/api/v0/users/current", "//elsewhere.test/x", "", "http://[x"])
async def test_a_redirect_to_another_server_is_not_followed(to: str):
    async with served(PROVIDER) as one:
        moved = Moved(one, SLASH, to)

        with pytest.raises(CannotTell):
            await one.cloud.identity()
        assert moved.asked == [("GET", SLASH)]


async def test_a_redirect_is_followed_once():
    async with served(PROVIDER) as one:
        moved = Moved(one, SLASH, SLASH)

        with pytest.raises(CannotTell):
            await one.cloud.identity()
        assert len(moved.asked) == 2


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_an_order_that_is_redirected_is_not_sent_again(status: int):
    async with served(PROVIDER) as one:
        order = an_order(PROVIDER, cheapest(await one.cloud.offers()), TOKEN)
        ask = order.offer.sku.partition(":")[0]
        moved = Moved(one, f"/api/v0/asks/{ask}/", f"/api/v0/asks/{ask}", status)

        with pytest.raises(CloudError):
            await one.cloud.launch(replace(order, user_data=b""))
        assert [method for method, _ in moved.asked] == ["PUT"]
        assert one.requests.count(CloudVerb.LAUNCH) == 1


@pytest.mark.parametrize(
    ("to", "path", "query"),
    [
        ("/v2/users/me", "/users/me", ()),
        ("me?full=1&empty=", "/users/me", (("full", "1"), ("empty", ""))),
        ("https://api.test/v2/users/me", "/users/me", ()),
        ("https://api.test/v1/users/me", None, ()),
        ("http://api.test/v2/users/me", None, ()),
        ("https://api.test:444/v2/users/me", None, ()),
        ("https://api.test.evil/v2/users/me", None, ()),
        ("https://user@api.test/v2/users/me", None, ()),
        ("ftp:me", None, ()),
    ],
)
def test_where_a_redirect_leads(to: str, path: str | None, query: tuple):
    again = redirected(Call("GET", "/users/current", query=(("a", "b"),)), Reply(302, b"", (("Location", to),)), BASE)

    assert (again and (again.path, again.query)) == (None if path is None else (path, query))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_call_that_changes_things_leads_nowhere(method: str):
    assert redirected(Call(method, "/users"), Reply(307, b"", (("Location", "/v2/users/"),)), BASE) is None
