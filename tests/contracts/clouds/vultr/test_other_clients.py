"""The simulator under clients that write differently: govultr's nulls, curl's mistakes, a browser's methods."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tgp.ports.http import Call, Pairs, Reply, json_call
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.vultr import TALOS_ID, VultrSimulator

GOOD = {"region": "ewr", "plan": "vcg-a16-6c-64g-16vram", "os_id": TALOS_ID}

UNREADABLE = (b"", b"{", b"\xff\xfe", b'{"label": "\xff"}', b"[" * 100_000, b'{"a":' * 50_000, b"null", b"1e999")


class Watch:
    def now(self) -> datetime:
        return datetime(2026, 1, 5, tzinfo=UTC)

    def boottime(self) -> float:
        return self.now().timestamp()


@pytest.fixture
def simulator() -> VultrSimulator:
    return VultrSimulator(Watch(), 1)


async def ask(simulator: VultrSimulator, method: str, path: str, body: Any = None, query: Pairs = ()) -> Reply:
    headers = (("authorization", f"bearer {simulator.key}"),)
    if body is None:
        return await simulator.handle(Call(method, f"/v2/{path}", query=query, headers=headers))
    return await simulator.handle(json_call(method, f"/v2/{path}", body, headers=headers))


async def made(simulator: VultrSimulator) -> str:
    reply = await ask(simulator, "POST", "instances", GOOD)
    return msgspec.json.decode(reply.content)["instance"]["id"]


def envelope(reply: Reply) -> tuple[int, int]:
    body = msgspec.json.decode(reply.content)
    assert set(body) == {"error", "status"}
    return reply.status, body["status"]


async def test_govultr_orders_without_tags_say_null(simulator: VultrSimulator):
    """`tags` has no omitempty there."""
    reply = await ask(simulator, "POST", "instances", GOOD | {"tags": None})

    assert reply.status == 202
    assert msgspec.json.decode(reply.content)["instance"]["tags"] == []


@pytest.mark.parametrize(
    "more", [{"app_variables": {"a": "b"}}, {"enable_vpc2": False}, {"attach_vpc2": []}, {"user_data": None}]
)
async def test_every_documented_field_is_taken(simulator: VultrSimulator, more: dict):
    assert (await ask(simulator, "POST", "instances", GOOD | more)).status == 202


async def test_libcloud_sends_the_system_as_a_text(simulator: VultrSimulator):
    reply = await ask(simulator, "POST", "instances", GOOD | {"os_id": str(TALOS_ID)})

    assert reply.status == 202
    assert msgspec.json.decode(reply.content)["instance"]["os_id"] == TALOS_ID


@pytest.mark.parametrize("path", ["bare-metals", "blocks", "firewalls", "private-networks", "ssh-keys", "vpcs"])
async def test_what_clients_list_beside_machines_is_an_empty_list(simulator: VultrSimulator, path: str):
    """libcloud looks for bare metal whenever it lists machines."""
    body = msgspec.json.decode((await ask(simulator, "GET", path)).content)

    assert body.pop("meta")["total"] == 0
    assert list(body.values()) == [[]]


async def test_several_machines_are_switched_at_once(simulator: VultrSimulator):
    """libcloud stops even one so."""
    machine = await made(simulator)

    assert (await ask(simulator, "POST", "instances/halt", {"instance_ids": [machine]})).status == 204
    assert simulator.fleet.machines[machine].phase is Phase.STOPPED
    for unknown in ([machine, "absent"], ["absent"]):
        assert envelope(await ask(simulator, "POST", "instances/start", {"instance_ids": unknown})) == (404, 404)
    assert simulator.fleet.machines[machine].phase is Phase.STOPPED
    for odd in ({}, [], {"instance_ids": "x"}, {"instance_ids": [7]}):
        assert envelope(await ask(simulator, "POST", "instances/start", odd)) == (400, 400)


async def test_govultr_updates_name_what_they_do_not_change_as_null(simulator: VultrSimulator):
    machine = await made(simulator)
    body = {"label": "renamed", "tags": None, "ddos_protection": None}
    reply = await ask(simulator, "PATCH", f"instances/{machine}", body)

    assert reply.status == 202
    assert msgspec.json.decode(reply.content)["instance"]["label"] == "renamed"


@pytest.mark.parametrize(
    "body", [{"tags": [{}]}, {"tags": "x"}, {"label": 7}, {"sparkle": 1}, [], "x", {"tags": [None]}]
)
async def test_an_update_that_makes_no_sense_is_refused_in_the_envelope(simulator: VultrSimulator, body: Any):
    machine = await made(simulator)

    assert envelope(await ask(simulator, "PATCH", f"instances/{machine}", body)) == (400, 400)


@pytest.mark.parametrize("user_data", ["grüße", "=", "a", "\N{SNOWMAN}"])
async def test_user_data_that_is_no_base64_is_refused_as_vultr_does(simulator: VultrSimulator, user_data: str):
    reply = await ask(simulator, "POST", "instances", GOOD | {"user_data": user_data})

    assert envelope(reply) == (400, 400)
    assert reply.text("error") == "Invalid user_data"


@pytest.mark.parametrize(
    "query", [("cursor", "ü"), ("cursor", "bmV4dF9fwrI="), ("per_page", "²"), ("per_page", "9" * 5000)]
)
async def test_odd_pages_are_refused_and_break_nothing(simulator: VultrSimulator, query: tuple[str, str]):
    assert envelope(await ask(simulator, "GET", "instances", query=(query,))) == (400, 400)


@pytest.mark.parametrize("body", UNREADABLE)
async def test_a_body_that_is_no_json_is_refused_in_the_envelope(simulator: VultrSimulator, body: bytes):
    headers = (("Authorization", f"Bearer {simulator.key}"),)

    assert envelope(await simulator.handle(Call("POST", "/v2/instances", headers=headers, body=body))) == (400, 400)


async def test_unknown_parameters_are_ignored(simulator: VultrSimulator):
    query = (("show_pending_charges", "true"), ("colour", "red"), ("per_page", "500"))

    assert (await ask(simulator, "GET", "instances", query=query)).status == 200


@pytest.mark.parametrize(("kind", "plans"), [("vdm", ["vcg-a16-6c-64g-16vram"]), ("vc2", [])])
async def test_availability_is_of_the_type_that_was_asked_for(simulator: VultrSimulator, kind: str, plans: list[str]):
    """Of dedicated machines only to a key."""
    query = (("type", kind),)
    reply = await ask(simulator, "GET", "regions/ewr/availability", query=query)
    public = await simulator.handle(Call("GET", "/v2/regions/ewr/availability", query=query))

    assert msgspec.json.decode(reply.content) == {"available_plans": plans}
    assert msgspec.json.decode(public.content) == {"available_plans": []}


async def test_an_instance_has_every_field_that_govultr_reads(simulator: VultrSimulator):
    machine = await made(simulator)
    row = msgspec.json.decode((await ask(simulator, "GET", f"instances/{machine}")).content)["instance"]

    assert {"vpc_only", "v6_network_size", "user_scheme", "features", "snapshot_id", "image_id"} <= set(row)


@pytest.mark.parametrize(
    ("method", "path"),
    [("OPTIONS", "instances"), ("PUT", "instances"), ("DELETE", "instances"), ("GET", "nothing"), ("POST", "plans")],
)
async def test_what_is_not_there_is_said_in_the_envelope(simulator: VultrSimulator, method: str, path: str):
    assert envelope(await ask(simulator, method, path)) == (404, 404)


async def test_an_image_is_imported_by_its_address_and_can_be_booted(simulator: VultrSimulator):
    """The way a Talos image with NVIDIA extensions comes to Vultr."""
    url = {"url": "https://factory.example/image/vultr-amd64.raw", "description": "Talos"}
    simulator.importing = timedelta()
    reply = await ask(simulator, "POST", "snapshots/create-from-url", url)
    snapshot = msgspec.json.decode(reply.content)["snapshot"]

    assert (reply.status, snapshot["description"]) == (202, "Talos")
    assert (await ask(simulator, "GET", f"snapshots/{snapshot['id']}")).status == 200
    order = {"region": "ewr", "plan": GOOD["plan"], "snapshot_id": snapshot["id"]}
    assert (await ask(simulator, "POST", "instances", order)).status == 202
    assert (await ask(simulator, "DELETE", f"snapshots/{snapshot['id']}")).status == 204
    assert envelope(await ask(simulator, "GET", f"snapshots/{snapshot['id']}")) == (404, 404)
    assert envelope(await ask(simulator, "POST", "snapshots/create-from-url", {"url": 7})) == (400, 400)
