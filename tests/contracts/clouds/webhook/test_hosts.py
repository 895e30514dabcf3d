"""Hostile addresses meet the adapter: nothing is dialled."""

from ipaddress import ip_address

import pytest

from tests.contracts.clouds.webhook.bench import TOKEN, Bench, a_machine, an_order, instance, said
from tests.contracts.http.rude import Line as RudeLine
from tests.contracts.http.rude import rude_server
from tests.core.classes.hostile_urls import API_SERVER, HOSTILE, NAMES
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.webhook import build
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client import HttpClient
from tgp.api.nodeclass import ProviderSettings
from tgp.core.classes.power_hosts import HostRules
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, OrderRefused, OutcomeUnknown
from tgp.sim.resolver import TableResolver

METADATA = ip_address("169.254.169.254")


def hostile_bench() -> Bench:
    table = {**NAMES, "power-api": (ip_address("10.0.0.7"),)}
    return Bench(resolver=TableResolver(table), hosts=HostRules(api_server=API_SERVER))


@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE)
async def test_nothing_is_dialled_for_a_hostile_url(url: str):
    """Whatever the verb: as the switch for on, for off, and as the status."""
    bench = hostile_bench()
    cloud = bench.cloud(
        a_machine("up", scale_up_endpoint=url, status_endpoint=None),
        a_machine("down", scale_down_endpoint=url, status_endpoint=None),
        a_machine("ask", status_endpoint=url),
    )

    with pytest.raises(OrderRefused, match="scaleUpEndpoint"):
        await cloud.launch(an_order("up"))
    with pytest.raises(CloudBusy, match="scaleDownEndpoint"):
        await cloud.terminate(instance("down"))
    with pytest.raises(CannotTell, match="statusEndpoint"):
        await cloud.status(instance("ask"))
    with pytest.raises(CannotTell):
        await cloud.find(TOKEN)
    listing = await cloud.offers()
    report = await cloud.check()

    assert bench.calls == []
    assert [base for base, _ in bench.dialled if base != "http://power-api"] == []
    assert {right.name: right.held for right in report.rights}["switch up"] is False
    assert len(listing.offers) + sum(listing.dropped.values()) == 3


async def test_a_name_that_moves_after_it_was_judged_changes_nothing():
    """DNS rebinding: the connection is to the judged address, and every call is judged again."""
    bench = Bench({"on": said(202), "off": said(202)})
    cloud = bench.cloud()
    await cloud.launch(an_order())
    bench.resolver.point("power-api", METADATA)

    with pytest.raises(OrderRefused, match="link-local"):
        await cloud.launch(an_order())
    assert bench.dialled == [("http://power-api", "10.0.0.7")]


async def test_a_resolver_that_answers_differently_each_time_is_asked_once_per_call():
    class Rebinding(TableResolver):
        asked = 0

        async def resolve(self, host):
            assert host == "power-api"
            self.asked += 1
            return (ip_address("10.0.0.7") if self.asked % 2 else METADATA,)

    resolver = Rebinding()
    bench = Bench({"on": said(202)}, resolver=resolver)
    await bench.cloud().launch(an_order())

    assert resolver.asked == 1
    assert bench.dialled == [("http://power-api", "10.0.0.7")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int):
    bench = Bench({name: said(status, (("Location", "http://169.254.169.254/"),)) for name in ("on", "off", "status")})
    cloud = bench.cloud()

    with pytest.raises(OutcomeUnknown, match="not followed"):
        await cloud.launch(an_order())
    with pytest.raises(OutcomeUnknown, match="not followed"):
        await bench.cloud(a_machine(status_endpoint=None)).terminate(instance())
    with pytest.raises(CannotTell, match="not followed"):
        await cloud.status(instance())
    assert {base for base, _ in bench.dialled} == {"http://power-api"}


async def test_allowed_hosts_narrow_what_a_class_may_name():
    bench = Bench({"on": said(202)}, hosts=HostRules(allowed=("other-api",)))

    with pytest.raises(OrderRefused, match=r"power\.allowedHosts"):
        await bench.cloud().launch(an_order())
    assert bench.dialled == []


async def test_the_next_address_is_tried_only_where_nothing_left():
    bench = Bench({"on": said(202)}, dead=("fd00::7",))
    bench.resolver.point("power-api", ip_address("fd00::7"), ip_address("10.0.0.7"))
    await bench.cloud().launch(an_order())

    assert bench.paths == ["POST /box-1/on"]
    assert [address for _, address in bench.dialled] == ["fd00::7", "10.0.0.7"]


async def test_a_name_without_an_address_is_busy_and_may_come_back():
    bench = Bench()
    bench.resolver.point("power-api")

    with pytest.raises(CloudBusy, match="has no address"):
        await bench.cloud().launch(an_order())


# -- real sockets ------------------------------------------------------------------------------------------------------


async def drops(line: RudeLine) -> None:
    await line.request()


async def sends_elsewhere(line: RudeLine) -> None:
    await line.request()
    await line.say(b"HTTP/1.1 307 No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET"])
@pytest.mark.parametrize("manners", [drops, sends_elsewhere], ids=["drops", "redirects"])
async def test_on_a_real_socket_a_switching_call_is_sent_once(method: str, manners):
    """Read, then dropped or redirected: one request seen, and the outcome is unknown. An unresolvable name is used:
    only the judged address can have been called."""
    clients: list[HttpClient] = []

    def dial(base_url: str, *, address: str = "") -> HttpClient:
        clients.append(HttpClient(base_url, SystemClock(), address=address))
        return clients[-1]

    async with rude_server(manners) as rude:
        url = rude.url.replace("localhost", "power.invalid") + "/box-1/on"
        machine = a_machine(scale_up_endpoint=url, status_endpoint=None, method=method)
        context = AdapterContext(
            dial=dial,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            resolver=TableResolver({"power.invalid": (ip_address("127.0.0.1"),)}),
            settings=ProviderSettings(machines=(machine,)),
            hosts=HostRules(for_pretence=True),
        )
        with pytest.raises(OutcomeUnknown):
            await build(context).launch(an_order())
        for client in clients:
            await client.close()

    assert rude.requests == [f"{method} /box-1/on HTTP/1.1"]


async def test_without_pretence_the_same_server_sees_nothing():
    async with rude_server(drops) as rude:
        bench = Bench()
        cloud = bench.cloud(a_machine(scale_up_endpoint=f"{rude.url}/on"))
        with pytest.raises(CloudError):
            await cloud.launch(an_order())

    assert (rude.connections, bench.dialled) == (0, [])
