"""RunPod's own MCP server works with our simulator: search, launch, list, stop, terminate, and its refusals."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.runpod.client_run import NAME, REQUIREMENT, Broke, ClientRun, Customer, open_shop
from tests.contracts.clouds.providers.runpod import PROVIDER
from tgp.sim.clouds.machine import Phase
from tools.clients import npm_environment

CARD = "NVIDIA GeForce RTX 3090"


@pytest.fixture(scope="module")
def environment() -> tuple[Path, Path]:
    return npm_environment(NAME, REQUIREMENT)


@pytest.fixture
async def client_run(environment: tuple[Path, Path], tmp_path: Path) -> AsyncIterator[ClientRun]:
    async with open_shop(*environment, tmp_path) as opened:
        for stand in opened.simulator.fleet.selling():
            stand.stock = max(stand.stock, 8)
        yield opened


@pytest.fixture
async def customer(client_run: ClientRun) -> AsyncIterator[Customer]:
    async with client_run.customer() as opened:
        assert (await opened.greet()).startswith("4.0.0")
        yield opened


def a_pod(name: str = "judged", **changes: Any) -> dict[str, Any]:
    return {"name": name, "image": "ubuntu:24.04", "disk": 20, "gpu": {"id": CARD, "count": 1}, **changes}


async def test_the_suite_names_the_client_that_judged():
    assert PROVIDER.judge == " ".join(REQUIREMENT.rsplit("@", 1))


async def test_a_search_finds_cards_with_price_and_stock(customer: Customer):
    found = (await customer.tool("list-gpu-types", include=["AVAILABILITY"], product=["POD"], count=2)).value["gpus"]
    one = next(card for card in found if card["id"] == CARD)
    alone = (await customer.tool("get-gpu-type", id=CARD, include=["AVAILABILITY"], product=["POD"], count=2)).value
    newer = await customer.tool("list-gpu-types", include=["AVAILABILITY"], product=["POD"], minCudaVersion="13.0")

    assert len(found) > 10
    assert (one["memory"], one["availability"]) == (24, "HIGH")
    assert one["dataCenters"]
    assert alone == one
    assert {card["availability"] for card in newer.value["gpus"]} == {"NONE"}
    assert (await customer.tool("list-data-centers", include=["GPU_AVAILABILITY"])).value["dataCenters"]


async def test_a_pod_lives_from_launch_to_its_end(client_run: ClientRun, customer: Customer):
    gpu = {"id": CARD, "count": 2, "minVcpuCountPerGpu": 4, "minRamPerGpu": 16, "minCudaVersion": "12.8"}
    made = (await customer.tool("create-pod", body=a_pod(gpu=gpu, cmd=["sleep", "1"], env={"A": "b"}))).value
    machine = client_run.simulator.fleet.machines[made["id"]]
    assert (made["status"], made["gpu"]["count"], made["env"], made["cmd"]) == (
        "PROVISIONING",
        2,
        {"A": "b"},
        ["sleep", "1"],
    )
    assert made["gpu"]["vcpuCount"] >= 8
    assert made["gpu"]["memory"] >= 32

    client_run.watch.skip(machine.product.boot_seconds * 1.5)
    seen = (await customer.tool("get-pod", id=made["id"])).value
    assert (seen["status"], seen["runtime"]["ports"][0]["ip"]) == ("RUNNING", machine.public_ip)
    assert (await customer.tool("pod-action", id=made["id"], body={"action": "stop"})).value["status"] == "EXITED"
    assert not (await customer.tool("delete-pod", id=made["id"])).refused
    assert machine.phase is Phase.ENDING
    client_run.watch.skip(60)
    assert (await customer.tool("list-pods")).value["pods"] == []
    gone = await customer.tool("delete-pod", id=made["id"])
    assert gone.refused
    assert "404" in gone.text


async def test_a_list_is_newest_first_and_says_that_it_goes_on(client_run: ClientRun, customer: Customer):
    """This release reads the first page and hands its `pagination` on; it cannot be asked for another."""
    client_run.simulator.page_rows = 2
    made = []
    for number in range(3):
        made.append((await customer.tool("create-pod", body=a_pod(f"judged-{number}"))).value["id"])
        client_run.watch.skip(60)
    first = (await customer.tool("list-pods", includeClusterPods=True)).value

    assert [pod["id"] for pod in first["pods"]] == made[:0:-1]
    assert first["pagination"]["hasNextPage"] is True
    assert first["pagination"]["nextCursor"]
    await customer.tool("pod-action", id=made[2], body={"action": "terminate"})
    client_run.watch.skip(60)
    rest = (await customer.tool("list-pods")).value
    assert [pod["id"] for pod in rest["pods"]] == made[1::-1]
    assert rest["pagination"] == {"nextCursor": None, "hasNextPage": False}


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({"spot": True}, 422, "$.spot: "),
        ({"disk": 0}, 422, "$.disk: "),
        ({"entrypoint": "sh"}, 422, "$.entrypoint: "),
        ({"gpu": {"id": CARD, "count": 1, "minVcpuCountPerGpu": 512}}, 400, "no instances currently available"),
        ({"gpu": {"id": "NVIDIA RTX 9999", "count": 1}}, 400, "does not exist"),
    ],
)
async def test_refusals_reach_the_customer(
    client_run: ClientRun, customer: Customer, changes: dict[str, Any], status: int, told: str
):
    answer = await customer.tool("create-pod", body=a_pod(**changes))

    assert answer.refused
    assert f'"status": {status}' in answer.text
    assert told in answer.text
    assert client_run.simulator.fleet.machines == {}


async def test_a_stranger_sees_nothing(client_run: ClientRun):
    async with client_run.customer(key="rpa_wrong") as stranger:
        await stranger.greet()
        answer = await stranger.tool("list-pods")

    assert answer.refused
    assert "401" in answer.text


async def test_the_client_notices_a_simulator_that_answers_otherwise(client_run: ClientRun, customer: Customer):
    """What it accepts is worth something: it does not take a page of a proxy for a list."""
    client_run.spoil = lambda _call, reply: type(reply)(
        200, b"<html>Just a moment</html>", (("Content-Type", "text/html"),)
    )

    with pytest.raises(Broke, match="JSON"):
        await customer.tool("list-pods")
