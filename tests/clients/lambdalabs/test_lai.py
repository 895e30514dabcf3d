"""A client of Lambda by other hands works with our simulator as with Lambda: search, launch, list, look, terminate."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.clients.client_run import WarmProgram, warm
from tests.clients.lambdalabs.client_run import NAME, REQUIREMENT, ClientRun, open_shop
from tests.contracts.clouds.providers.lambdalabs import PROVIDER
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.machine import Phase
from tools.clients import client_environment


@pytest.fixture(scope="module")
def program() -> Iterator[WarmProgram]:
    place = client_environment(NAME, REQUIREMENT)
    package = "lambda_ai_cloud_api_client"
    with warm(place, place / "bin" / "lai", f"{package}.__main__", own=package) as warmed:
        yield warmed


@pytest.fixture
async def client_run(program: WarmProgram, tmp_path: Path) -> AsyncIterator[ClientRun]:
    async with open_shop(program, tmp_path) as opened:
        yield opened


async def test_the_suite_names_the_client_that_judged():
    assert PROVIDER.judge == REQUIREMENT.replace("==", " ")


async def test_the_endpoint_as_it_is_told_will_do(client_run: ClientRun):
    """With its path, which the client adds once more."""
    client_run.url += "/api/v1"

    said = await client_run.lai("types")

    assert said.code == 0, said.err
    assert "gpu_1x_a10 " in said.out


async def test_the_types_are_a_table_with_prices_and_regions(client_run: ClientRun):
    said = await client_run.lai("types")

    assert said.code == 0, said.err
    (row,) = [line for line in said.out.splitlines() if "gpu_1x_a10 " in line]
    assert "A10 (24 GB PCIe)" in row
    assert "0.75" in row
    assert "us-west-1" in row


async def test_the_cheapest_type_that_is_left_can_be_asked_for(client_run: ClientRun):
    """The client filters by itself, on every field of a type."""
    said = await client_run.lai(
        "types", "--available", "--min-gpus", "8", "--min-memory", "1000", "--cheapest", "--json"
    )

    (kind,) = said.value
    assert kind["instance_type"]["name"] == "gpu_8x_a100"
    assert kind["regions_with_capacity_available"]


async def test_a_machine_lives_from_launch_to_termination(client_run: ClientRun, tmp_path: Path):
    """Launch, list, look, terminate, and it is gone."""
    (tmp_path / "user-data").write_text("#cloud-config\nhostname: one\n")
    words = (
        "--tag",
        "team=ml",
        "--user-data-file",
        str(tmp_path / "user-data"),
        "--image-family",
        "lambda-stack-24-04",
    )
    number = await client_run.started("first-words", *words)
    machine = client_run.simulator.fleet.machines[number]
    assert (machine.tags, machine.user_data) == ({"team": "ml"}, b"#cloud-config\nhostname: one\n")

    (listed,) = (await client_run.lai("ls", "--json")).value
    assert (listed["id"], listed["status"], listed["actions"]["restart"]["available"]) == (number, "booting", False)
    assert "ip" not in listed

    client_run.watch.skip(machine.product.boot_seconds * 1.5)
    seen = (await client_run.lai("get", number)).value
    assert (seen["status"], seen["ip"], seen["name"]) == ("active", machine.public_ip, "first-words")
    assert seen["tags"] == [{"key": "team", "value": "ml"}]
    assert (await client_run.lai("get", "first-words")).value["id"] == number

    assert (await client_run.lai("stop", number)).code == 0
    assert machine.phase is Phase.ENDING
    assert (await client_run.lai("get", number)).value["status"] == "terminating"
    client_run.watch.skip(60)
    assert (await client_run.lai("ls", "--json")).value == []


async def test_every_state_of_a_machine_is_one_that_the_client_knows(client_run: ClientRun):
    """It reads states as an enumeration, and ends with a traceback at any other word."""
    number = await client_run.started("any")
    machine = client_run.simulator.fleet.machines[number]
    for phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPED, Phase.LOST, Phase.ENDING):
        machine.phase = phase
        said = await client_run.lai("get", number)
        assert said.code == 0, said.err


async def test_a_machine_can_be_renamed_and_restarted(client_run: ClientRun):
    number = await client_run.started("before")

    assert (await client_run.lai("rename", number, "after")).code == 0
    assert client_run.simulator.fleet.machines[number].name == "after"
    assert (await client_run.lai("restart", number)).code == 0


async def test_keys_and_images_are_listed(client_run: ClientRun):
    assert "tgp" in (await client_run.lai("keys")).out
    assert "lambda-stack-24-04" in (await client_run.lai("images")).out


async def test_a_refusal_reaches_the_customer(client_run: ClientRun):
    """The client reads each documented error by its own class."""
    unknown = await client_run.lai("start", "--instance-type", "gpu_1x_a10", "--ssh-key", "unknown")
    assert unknown.code != 0
    assert "global/object-does-not-exist" in unknown.err
    assert "Traceback" not in unknown.err
    stranger = await client_run.lai("ls", key="wrong")
    assert "global/invalid-api-key" in stranger.err
    assert "Traceback" not in stranger.err


@pytest.mark.parametrize(
    ("words", "path", "field"),
    [
        (("types",), "/api/v1/instance-types", "price_cents_per_hour"),
        (("types",), "/api/v1/instance-types", "regions_with_capacity_available"),
        (("ls",), "/api/v1/instances", "actions"),
        (("ls",), "/api/v1/instances", "cold_reboot"),
        (("ls",), "/api/v1/instances", "file_system_names"),
        (("ls",), "/api/v1/instances", "data"),
    ],
)
async def test_the_client_notices_an_answer_of_another_shape(client_run: ClientRun, words, path: str, field: str):
    """Otherwise it would be no judge."""
    await client_run.started("one")
    client_run.spoil = without(path, field)

    said = await client_run.lai(*words)

    assert said.code != 0


def without(path: str, field: str):
    def spoil(call: Call, reply: Reply) -> Reply:
        if call.path != path:
            return reply
        assert f'"{field}"'.encode() in reply.content
        return replace(reply, content=reply.content.replace(f'"{field}"'.encode(), b'"spoilt"'))

    return spoil


async def test_only_documented_fields_leave_the_client(client_run: ClientRun):
    """What the client sends is what the simulator checks: it refuses one field more."""
    await client_run.started("one")
    (launch,) = [call for call in client_run.calls if call.path.endswith("/launch")]
    body = msgspec.json.decode(launch.body) | {"sparkle": True}

    reply = await client_run.simulator.handle(replace(launch, body=msgspec.json.encode(body)))

    assert reply.status == 400
    assert b"sparkle" in reply.content
