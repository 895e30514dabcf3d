"""The simulator refuses what Vultr's documents refuse, pages as they say, and keeps its limit where it is on."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tgp.ports.http import Call, Pairs, Reply, json_call
from tgp.sim.clouds.vultr import SNAPSHOT_ID, TALOS_ID, VultrSimulator

GOOD = {"region": "ewr", "plan": "vcg-a16-6c-64g-16vram", "os_id": TALOS_ID}


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
def simulator(watch: Watch) -> VultrSimulator:
    return VultrSimulator(watch, 1)


async def ask(simulator: VultrSimulator, method: str, path: str, body: Any = None, query: Pairs = ()) -> Reply:
    headers = (("Authorization", f"Bearer {simulator.key}"),)
    if body is None:
        return await simulator.handle(Call(method, f"/v2/{path}", query=query, headers=headers))
    return await simulator.handle(json_call(method, f"/v2/{path}", body, headers=headers))


@pytest.mark.parametrize(
    "change",
    [
        {"sparkle": 1},
        {"region": ""},
        {"region": "mars"},
        {"plan": "vcg-nothing"},
        {"plan": "vcg-a100-24c-240g-160vram"},
        {"os_id": "Talos"},
        {"os_id": "²"},
        {"os_id": 1},
        {"os_id": 0},
        {"snapshot_id": SNAPSHOT_ID},
        {"user_data": "not base64!"},
        {"tags": "one"},
        {"backups": True},
        {"activation_email": "no"},
        {"label": 7},
    ],
)
async def test_what_the_documents_forbid_is_refused_in_the_envelope(simulator: VultrSimulator, change: dict):
    reply = await ask(simulator, "POST", "instances", GOOD | change)

    said = msgspec.json.decode(reply.content)
    assert (reply.status, said["status"], set(said)) == (400, 400, {"error", "status"})
    assert simulator.fleet.machines == {}


async def test_a_snapshot_of_another_account_is_unknown(simulator: VultrSimulator):
    body = {"region": "ewr", "plan": GOOD["plan"], "snapshot_id": SNAPSHOT_ID}
    simulator.snapshots.clear()
    assert (await ask(simulator, "POST", "instances", body)).status == 400
    simulator.snapshots["account-1"] = [SNAPSHOT_ID]
    assert (await ask(simulator, "POST", "instances", body)).status == 202


async def test_only_the_catalogue_is_public(simulator: VultrSimulator):
    for path in ("plans", "regions", "os", "plans-metal"):
        assert (await simulator.handle(Call("GET", f"/v2/{path}"))).status == 200
    for path in ("instances", "account", "snapshots"):
        assert (await simulator.handle(Call("GET", f"/v2/{path}"))).status == 401


@pytest.mark.parametrize(
    "query",
    [(("per_page", "0"),), (("per_page", "501"),), (("per_page", "x"),), (("cursor", "?"),), (("cursor", "bmV4dA=="),)],
)
async def test_impossible_pages_are_refused(simulator: VultrSimulator, query: Pairs):
    assert (await ask(simulator, "GET", "instances", query=query)).status == 400


async def test_pages_hold_everything_once(simulator: VultrSimulator):
    seen: list[str] = []
    cursor = ""
    for _ in range(20):
        reply = await ask(simulator, "GET", "plans", query=(("per_page", "4"), ("type", "vcg"), ("cursor", cursor)))
        body = msgspec.json.decode(reply.content)
        seen += [plan["id"] for plan in body["plans"]]
        cursor = body["meta"]["links"]["next"]
        if not cursor:
            break

    assert len(seen) == len(set(seen)) == body["meta"]["total"]


async def test_the_limit_holds_where_it_is_switched_on(simulator: VultrSimulator, watch: Watch):
    simulator.limits.on = True
    statuses = [(await ask(simulator, "GET", "os")).status for _ in range(31)]
    assert statuses == [200] * 30 + [429]
    watch.present += timedelta(seconds=1)
    assert (await ask(simulator, "GET", "os")).status == 200


async def test_a_halted_machine_costs_as_much(simulator: VultrSimulator, watch: Watch):
    made = msgspec.json.decode((await ask(simulator, "POST", "instances", GOOD)).content)["instance"]
    machine = simulator.fleet.machines[made["id"]]
    watch.present += timedelta(minutes=10)
    await ask(simulator, "POST", f"instances/{machine.id}/halt", {})

    assert machine.charged_microusd == machine.idle_rate_microusd > 0
