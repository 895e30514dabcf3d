"""A client made from Vultr's OpenAPI document works with our simulator: search, launch, list, status, destroy."""

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.clients.client_run import WarmProgram, warm
from tests.clients.vultr.client_run import BROKEN, JUDGE, NAME, REFUSED, REQUIREMENT, ClientRun, open_shop
from tests.contracts.clouds.providers.vultr import PROVIDER
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.vultr import SNAPSHOT_ID
from tools.clients import client_environment

TAGS = ("account", "instances", "os", "plans", "region", "snapshot")  # of the document, that the judge asks for


@pytest.fixture(scope="module")
def program() -> Iterator[WarmProgram]:
    tags = (f"vultr_python_client.apis.tags.{name}_api" for name in TAGS)
    with warm(client_environment(NAME, REQUIREMENT), JUDGE, "vultr_python_client", *tags) as warmed:
        yield warmed


@pytest.fixture
async def client_run(program: WarmProgram, tmp_path: Path) -> AsyncIterator[ClientRun]:
    async with open_shop(program, tmp_path) as opened:
        yield opened


async def test_the_suite_names_the_client_that_judged():
    assert PROVIDER.judge == REQUIREMENT.replace("==", " ")


async def test_a_search_reads_plans_in_pages_regions_systems_and_the_account(client_run: ClientRun):
    found = await client_run.play("search")

    assert len(found["plans"]) == found["total"] == len({plan["id"] for plan in found["plans"]}) > 3
    assert "vcg-l40s-16c-180g-48vram" in found["here"]["vcg"]
    assert found["here"]["vdm"] == [], "this client sends no key there, and nothing is told without one"
    assert "vcg-a16-6c-64g-16vram" in {plan["id"] for plan in found["dedicated"]}
    assert {region["id"] for region in found["regions"]} >= {"ewr", "fra"}
    assert "Talos Linux x64" in [system["name"] for system in found["systems"]]
    assert "provisioning" in found["account"]["acls"]


async def test_a_machine_lives_from_launch_to_destroy(client_run: ClientRun):
    """Launch, list, look, halt, destroy, and it is gone."""
    made = await client_run.play("launch")
    machine = client_run.simulator.fleet.machines[made["id"]]
    assert (made["status"], made["label"], made["tags"]) == ("pending", "judged", ["one", "two"])
    assert ip_address(made["main_ip"]).is_unspecified
    assert machine.user_data == b"machine:\n  type: worker\n"

    listed = await client_run.play("listed")
    assert ([row["id"] for row in listed["instances"]], listed["meta"]["total"]) == ([made["id"]], 1)

    client_run.watch.skip(machine.product.boot_seconds * 1.5)
    seen = await client_run.play("status", made["id"])
    assert (seen["status"], seen["power_status"], seen["main_ip"]) == ("active", "running", machine.public_ip)
    told = await client_run.play("userdata", made["id"])
    assert base64.b64decode(told["data"]) == machine.user_data

    assert await client_run.play("halt", made["id"]) == 204
    assert (await client_run.play("status", made["id"]))["power_status"] == "stopped"
    assert await client_run.play("destroy", made["id"]) == 204
    assert machine.phase is Phase.ENDING
    client_run.watch.skip(60)
    assert (await client_run.play("listed"))["instances"] == []
    assert (await client_run.play("destroy", made["id"], ends=REFUSED))["refused"] == 404


async def test_an_image_lives_from_its_import_to_its_end(client_run: ClientRun):
    made = await client_run.play("fetch", "https://factory.example/image/vultr-amd64.raw")
    assert (made["status"], made["description"]) == ("pending", "judged")
    client_run.watch.skip(600)
    listed = await client_run.play("images")
    assert {row["id"]: row["status"] for row in listed["snapshots"]} == {
        SNAPSHOT_ID: "complete",
        made["id"]: "complete",
    }
    assert listed["meta"]["total"] == 2

    assert await client_run.play("forget", made["id"]) == 204
    assert (await client_run.play("forget", made["id"], ends=REFUSED))["refused"] == 404
    packed = await client_run.play("fetch", "https://factory.example/image/vultr-amd64.raw.xz", ends=REFUSED)
    assert packed["refused"] == 400


async def test_refusals_reach_the_customer(client_run: ClientRun):
    stranger = await client_run.play("status", "none", key="wrong", ends=REFUSED)
    imageless = await client_run.play("bare", ends=REFUSED)

    assert stranger == {"refused": 401, "said": {"error": "Invalid API token.", "status": 401}}
    assert imageless["refused"] == imageless["said"]["status"] == 400


@pytest.mark.parametrize(
    ("script", "before", "after"),
    [
        ("launch", b'"ram":65536', b'"ram":"65536"'),
        ("launch", b'"tags":["one","two"]', b'"tags":"one"'),
        ("launch", b'"instance"', b'"server"'),
        ("listed", b'"status":"pending"', b'"status":7'),
        ("listed", b'"total":1', b'"total":"1"'),
    ],
)
async def test_the_client_notices_an_answer_of_another_shape(
    client_run: ClientRun, script: str, before: bytes, after: bytes
):
    """Otherwise it would be no judge."""
    if script == "listed":
        await client_run.play("launch")
    client_run.spoil = swapping(before, after)

    assert "broken" in await client_run.play(script, ends=BROKEN)


def swapping(before: bytes, after: bytes):
    def spoil(_call: Call, reply: Reply) -> Reply:
        assert before in reply.content
        return replace(reply, content=reply.content.replace(before, after))

    return spoil
