"""The simulator refuses what Lambda's document refuses, and keeps its limits where they are switched on."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tgp.ports.http import Call, Reply, json_call
from tgp.sim.clouds.lambdalabs import LambdaSimulator

GOOD = {"region_name": "us-west-1", "instance_type_name": "gpu_1x_a10", "ssh_key_names": ["tgp"]}


class Watch:
    def __init__(self) -> None:
        self.present = datetime(2026, 1, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.present

    def boottime(self) -> float:
        return self.present.timestamp()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def simulator(watch: Watch) -> LambdaSimulator:
    return LambdaSimulator(watch, 1)


async def ask(simulator: LambdaSimulator, method: str, path: str, body: Any = None) -> Reply:
    headers = (("Authorization", f"Bearer {simulator.key}"),)
    if body is None:
        return await simulator.handle(Call(method, f"/api/v1/{path}", headers=headers))
    return await simulator.handle(json_call(method, f"/api/v1/{path}", body, headers=headers))


def code(reply: Reply) -> str:
    return msgspec.json.decode(reply.content)["error"]["code"]


@pytest.mark.parametrize(
    "change",
    [
        {"sparkle": 1},
        {"quantity": 2},
        {"ssh_key_names": []},
        {"ssh_key_names": ["tgp", "other"]},
        {"ssh_key_names": "tgp"},
        {"region_name": "mars-1"},
        {"name": "x" * 65},
        {"hostname": "Not_Good"},
        {"image": {"id": "1", "family": "2"}},
        {"user_data": 7},
        {"user_data": "x" * 1_000_001},
        {"tags": [{"key": "Upper", "value": "x"}]},
        {"tags": [{"key": "k", "value": "x"}]},
        {"tags": [{"key": "key", "value": "x" * 129}]},
        {"tags": [{"key": "key"}]},
    ],
)
async def test_a_field_that_the_document_forbids_is_refused(simulator: LambdaSimulator, change: dict):
    reply = await ask(simulator, "POST", "instance-operations/launch", GOOD | change)

    assert (reply.status, code(reply)) == (400, "global/invalid-parameters")
    assert simulator.fleet.machines == {}


@pytest.mark.parametrize("field", sorted(GOOD))
async def test_a_field_that_is_required_is_required(simulator: LambdaSimulator, field: str):
    body = {name: value for name, value in GOOD.items() if name != field}

    assert (await ask(simulator, "POST", "instance-operations/launch", body)).status == 400


async def test_a_launch_outside_the_base_path_is_nothing(simulator: LambdaSimulator):
    headers = (("Authorization", f"Bearer {simulator.key}"),)
    reply = await simulator.handle(json_call("POST", "/instance-operations/launch", GOOD, headers=headers))

    assert reply.status == 404
    assert simulator.fleet.machines == {}


async def test_the_key_may_come_as_the_user_of_basic(simulator: LambdaSimulator):
    word = base64.b64encode(f"{simulator.key}:".encode()).decode()
    for header, status in ((f"Basic {word}", 200), ("Basic !", 401), ("Basic", 401), ("", 401)):
        reply = await simulator.handle(Call("GET", "/api/v1/instances", headers=(("Authorization", header),)))
        assert reply.status == status


async def test_limits_hold_where_they_are_switched_on(simulator: LambdaSimulator, watch: Watch):
    """One call a second, one launch in twelve seconds."""
    simulator.limits.on = True
    assert (await ask(simulator, "GET", "instances")).status == 200
    assert (await ask(simulator, "GET", "instances")).status == 429
    watch.present += timedelta(seconds=1)
    assert (await ask(simulator, "GET", "instances")).status == 200
    assert (await ask(simulator, "POST", "instance-operations/launch", GOOD)).status == 200
    watch.present += timedelta(seconds=11)
    late = await ask(simulator, "POST", "instance-operations/launch", GOOD)
    assert (late.status, late.header("Retry-After")) == (429, "1")
    watch.present += timedelta(seconds=1)
    assert (await ask(simulator, "POST", "instance-operations/launch", GOOD)).status == 200


async def test_one_unknown_id_ends_nothing(simulator: LambdaSimulator):
    made = msgspec.json.decode((await ask(simulator, "POST", "instance-operations/launch", GOOD)).content)
    ids = made["data"]["instance_ids"]

    reply = await ask(simulator, "POST", "instance-operations/terminate", {"instance_ids": [*ids, "ab" * 16]})

    assert (reply.status, code(reply)) == (404, "global/object-does-not-exist")
    (machine,) = simulator.fleet.machines.values()
    assert machine.alive


async def test_a_type_costs_the_same_wherever_it_stands(simulator: LambdaSimulator, watch: Watch):
    watch.present += timedelta(hours=6)
    listed = msgspec.json.decode((await ask(simulator, "GET", "instance-types")).content)["data"]

    prices = {stand.product.sku: set() for stand in simulator.fleet.stands.values()}
    for stand in simulator.fleet.stands.values():
        prices[stand.product.sku].add(-(-stand.hourly_microusd // 10_000))
    assert {name: {listed[name]["instance_type"]["price_cents_per_hour"]} for name in prices} == prices
