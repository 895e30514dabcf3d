"""The pretend Vast refuses what the real one refuses, and bills as it does."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.vast.answers import NOW
from tgp.ports.http import Reply, json_call
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.vast import VastSimulator

GOOD = {"client_id": "me", "image": "ubuntu:24.04", "disk": 32, "label": "one", "runtype": "ssh", "env": {}}


class Watch:
    def __init__(self) -> None:
        self.at = NOW

    def now(self):
        return self.at

    def boottime(self) -> float:
        return self.at.timestamp()


class VastCustomer:
    """A customer with a key, and time in his hands."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.vast = VastSimulator(self.watch, 7)
        self.ask = next(stand.product.sku for stand in self.vast.fleet.selling() if stand.stock)

    async def send(self, method: str, path: str, body: Any = None, key: str = "", query: tuple = ()) -> Reply:
        headers = (("Authorization", f"Bearer {key or self.vast.key}"),)
        return await self.vast.handle(
            json_call(method, path, {} if body is None else body, headers=headers, query=query)
        )

    async def rent(self, **changes: Any) -> Reply:
        return await self.send("PUT", f"/api/v0/asks/{self.ask}/", {**GOOD, **changes})

    def skip(self, seconds: float) -> None:
        self.watch.at += timedelta(seconds=seconds)


@pytest.fixture
def customer() -> VastCustomer:
    return VastCustomer()


def said(reply: Reply) -> Any:
    return msgspec.json.decode(reply.content)


@pytest.mark.parametrize(
    "changes",
    [
        {"image": None},
        {"image": 7},
        {"disk": 4},
        {"disk": "32"},
        {"disk": 10**9},
        {"label": "x" * 257},
        {"runtype": "telepathy"},
        {"env": ["A=1"]},
        {"env": {"A": 1}},
        {"env": {"A": "x" * 300}},
        {"onstart": "x" * 4097},
        {"args": "sleep"},
        {"cancel_unavail": "yes"},
        {"target_state": "flying"},
        {"unheard_of": 1},
        {"client_id": "you"},
        {"price": 0.0001},
        {"price": 200},
        {"price": "0.2"},
    ],
)
async def test_an_order_that_makes_no_sense_is_refused_and_nothing_is_made(customer, changes):
    reply = await customer.rent(**changes)

    assert reply.status == 400
    assert said(reply)["success"] is False
    assert said(reply)["error"] in ("invalid_args", "invalid_price")
    assert customer.vast.fleet.machines == {}


async def test_a_virtual_machine_needs_a_host_that_runs_them_and_a_key_in_the_account(customer):
    stands = [stand for stand in customer.vast.fleet.selling() if stand.stock]
    vm = {"image": "docker.io/vastai/kvm:x", "vm": True}
    customer.ask = next(stand.product.sku for stand in stands if not stand.product.detail["vms_enabled"])
    assert said(await customer.rent(**vm))["error"] == "invalid_args"

    customer.ask = next(stand.product.sku for stand in stands if stand.product.detail["vms_enabled"])
    customer.vast.ssh_keys = False
    assert said(await customer.rent(**vm))["error"] == "no_ssh_key_for_vm"

    customer.vast.ssh_keys = True
    assert said(await customer.rent(**vm))["success"] is True


async def test_a_low_bid_that_may_wait_is_an_error_with_a_stopped_machine_that_costs(customer):
    """The trap: `cancel_unavail` is false for bids unless it is asked for."""
    reply = await customer.rent(price=0.001)
    machine = customer.vast.fleet.machines[str(said(reply)["new_contract"])]

    assert (reply.status, machine.phase) == (400, Phase.STOPPED)
    assert machine.charged_microusd == machine.idle_rate_microusd > 0


async def test_a_low_bid_that_may_not_wait_makes_nothing(customer):
    reply = await customer.rent(price=0.001, cancel_unavail=True)

    assert (reply.status, said(reply)["error"]) == (410, "no_such_ask")
    assert customer.vast.fleet.machines == {}


async def test_the_disk_costs_from_the_beginning_and_the_gpus_from_when_it_runs(customer):
    await customer.rent(disk=100)
    (machine,) = customer.vast.fleet.machines.values()
    disk = machine.product.detail["storage_cost"] * 100 / 720 * 1_000_000

    assert machine.charged_microusd == pytest.approx(disk, abs=1)
    customer.skip(machine.product.boot_seconds * 1.5)
    customer.vast.fleet.advance()
    assert machine.charged_microusd == machine.rate_microusd > machine.product.hourly_microusd * 0.9


async def test_an_ask_is_sold_once(customer):
    first, second = await customer.rent(), await customer.rent()

    assert (first.status, second.status) == (200, 410)


async def test_a_sold_ask_is_not_found_again(customer):
    before = said(await customer.send("POST", "/api/v0/bundles/", {"id": {"eq": int(customer.ask)}}))["offers"]
    await customer.rent()
    after = said(await customer.send("POST", "/api/v0/bundles/", {"id": {"eq": int(customer.ask)}}))["offers"]

    assert (len(before), after) == (1, [])


@pytest.mark.parametrize(
    "body",
    [
        {"colour": {"eq": "green"}},
        {"num_gpus": 1},
        {"num_gpus": {"about": 1}},
        {"num_gpus": {"eq": "many"}},
        {"gpu_name": {"in": "RTX 4090"}},
        {"order": "id"},
        {"order": [["id"]]},
        {"order": [["id", "up"]]},
        {"order": [["colour", "asc"]]},
        {"type": "gift"},
        {"limit": "lots"},
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(customer, body):
    assert (await customer.send("POST", "/api/v0/bundles/", body)).status == 400


async def test_a_wrong_key_is_401_everywhere_and_404_in_the_search(customer):
    listing = await customer.send("GET", "/api/v1/instances/", key="unknown")
    search = await customer.send("POST", "/api/v0/bundles/", {}, key="unknown")

    assert (listing.status, search.status) == (401, 404)
    assert said(listing)["error"] == said(search)["error"] == "auth_error"


async def test_the_old_list_is_retired(customer):
    reply = await customer.send("GET", "/api/v0/instances/")

    assert (reply.status, said(reply)["error"]) == (410, "deprecated_endpoint")


@pytest.mark.parametrize(
    "query",
    [
        (("select_filters", '{"dph_total": {"gt": 1}}'),),
        (("select_filters", "label"),),
        (("select_filters", "[]"),),
        (("order_by", '[{"col": "colour"}]'),),
        (("after_token", "what?"),),
        (("limit", "many"),),
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(customer, query):
    await customer.rent()
    customer.skip(10)

    assert (await customer.send("GET", "/api/v1/instances/", query=query)).status == 400


async def test_pages_show_every_machine_once(customer):
    tenant = next(iter(customer.vast.fleet.accounts))
    customer.vast.fleet.add_foreign(tenant, 30)
    customer.skip(10)
    seen, token = [], ""
    for _ in range(10):
        page = said(await customer.send("GET", "/api/v1/instances/", query=(("limit", "7"), ("after_token", token))))
        seen += [row["id"] for row in page["instances"]]
        token = page["next_token"]
        if not token:
            break

    assert page["total_instances"] == 30
    assert sorted(seen) == sorted(int(number) for number in customer.vast.fleet.machines)
    assert len(seen) == len(set(seen))


async def test_a_limit_of_nothing_is_five(customer):
    tenant = next(iter(customer.vast.fleet.accounts))
    customer.vast.fleet.add_foreign(tenant, 30)
    customer.skip(10)

    assert said(await customer.send("GET", "/api/v1/instances/", query=(("limit", "0"),)))["instances_found"] == 5
    assert said(await customer.send("GET", "/api/v1/instances/", query=(("limit", "99"),)))["instances_found"] == 25


async def test_calls_that_come_too_soon_are_refused_once_that_is_on(customer):
    customer.vast.pace.on = True
    first = await customer.send("GET", "/api/v1/instances/")
    second = await customer.send("GET", "/api/v1/instances/")
    customer.skip(1)
    third = await customer.send("GET", "/api/v1/instances/")

    assert (first.status, second.status, third.status) == (200, 429, 200)


async def test_a_minute_has_ten_searches(customer):
    customer.vast.pace.on = True
    statuses = [(await customer.send("POST", "/api/v0/bundles/", {"limit": 1})).status for _ in range(11)]
    customer.skip(61)

    assert statuses == [200] * 10 + [429]
    assert (await customer.send("POST", "/api/v0/bundles/", {"limit": 1})).status == 200


async def test_equal_seeds_make_equal_markets():
    one, other = VastCustomer(), VastCustomer()

    assert await one.send("POST", "/api/v0/bundles/", {}) == await other.send("POST", "/api/v0/bundles/", {})


async def test_a_market_has_something_of_everything(customer):
    rows = said(await customer.send("POST", "/api/v0/bundles/", {"limit": 1000}))["offers"]

    assert len({row["gpu_name"] for row in rows}) >= 8
    assert len({row["geolocation"] for row in rows}) >= 8
    assert {row["verification"] for row in rows} == {"verified", "unverified"}
    assert {row["hosting_type"] for row in rows} == {0, 1}
    assert {row["vms_enabled"] for row in rows} == {True, False}
    assert any(stand.stock == 0 for stand in customer.vast.fleet.selling())
