"""The pretend RunPod refuses what the published schema refuses, and counts single GPUs."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.providers.runpod import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CloudBusy, SoldOut
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Call, Reply, json_call

CARD = "NVIDIA GeForce RTX 4090"
GOOD = {"name": "mine", "image": "ubuntu", "disk": 20, "gpu": {"id": CARD, "count": 1}}


async def ask(stage: Stage, call: Call) -> Reply:
    return await stage.simulator.handle(replace(call, headers=(("Authorization", f"Bearer {stage.key}"),)))


async def post(stage: Stage, body: Any) -> Reply:
    return await ask(stage, json_call("POST", "/v2/pods", body))


BAD_BODIES = [
    ({**GOOD, "spot": True}, 422, "$.spot"),
    ({**GOOD, "imageName": "ubuntu"}, 422, "$.imageName"),
    ({"image": "ubuntu", "gpu": {"id": CARD}}, 422, "$.name"),
    ({"name": "", "image": "ubuntu", "gpu": {"id": CARD}}, 422, "$.name"),
    ({"name": "x", "gpu": {"id": CARD}}, 422, "$.image"),
    ({**GOOD, "gpu": {"id": CARD, "type": "x"}}, 422, "$.gpu.type"),
    ({**GOOD, "gpu": {"count": 1}}, 422, "$.gpu.id"),
    ({**GOOD, "gpu": {"id": CARD, "count": "1"}}, 422, "$.gpu.count"),
    ({**GOOD, "gpu": {"id": CARD, "count": 0}}, 422, "$.gpu.count"),
    ({**GOOD, "gpu": [CARD]}, 422, "$.gpu"),
    ({**GOOD, "disk": 0}, 422, "$.disk"),
    ({**GOOD, "env": {"A": 1}}, 422, "$.env"),
    ({**GOOD, "cloud": "ALL"}, 422, "$.cloud"),
    ({**GOOD, "dataCenterIds": "EU-RO-1"}, 422, "$.dataCenterIds"),
    ({**GOOD, "ports": [22]}, 422, "$.ports"),
    ({**GOOD, "startSsh": "yes"}, 422, "$.startSsh"),
    ({**GOOD, "mounts": {"persistent": {"size": 5, "path": "/w"}}}, 422, "$.mounts.persistent.size"),
    ({**GOOD, "mounts": {"network": [{"path": "/w"}]}}, 422, "$.mounts.network.volumeId"),
    ([], 422, "$"),
    ({"name": "x", "image": "ubuntu"}, 400, ""),
    ({**GOOD, "cpu": {"id": "cpu5c", "vcpuCount": 2}}, 400, ""),
    ({**GOOD, "gpu": {"id": CARD, "minCudaVersion": "12.1", "allowedCudaVersions": ["12.8"]}}, 400, ""),
    ({**GOOD, "gpu": {"id": "RTX 4090"}}, 400, ""),
    ({**GOOD, "gpu": {"id": CARD, "count": 9}}, 400, ""),
    ({**GOOD, "dataCenterIds": ["XX-YY-9"]}, 400, ""),
    ({"name": "x", "templateId": "30zmvf89kd", "gpu": {"id": CARD, "count": 1}}, 404, ""),
    ({"name": "x", "image": "ubuntu", "gpu": {"id": CARD, "count": 1}}, 400, ""),  # no disk
    ({**GOOD, "gpu": {"id": CARD}}, 400, ""),  # no count
    ({**GOOD, "entrypoint": "sh"}, 422, "$.entrypoint"),
    ({**GOOD, "cmd": [1]}, 422, "$.cmd"),
    ({**GOOD, "cmd": ["sleep", "1"], "args": "sleep 2"}, 400, ""),
    ({**GOOD, "gpu": {"id": CARD, "count": 1, "minVcpuCountPerGpu": 0}}, 422, "$.gpu.minVcpuCountPerGpu"),
    ({**GOOD, "gpu": {"id": CARD, "count": 1, "minRamPerGpu": "64"}}, 422, "$.gpu.minRamPerGpu"),
    ({**GOOD, "gpu": {"id": CARD, "count": 1, "minVcpuCountPerGpu": 65}}, 400, ""),  # no host has so many
    ({**GOOD, "gpu": {"id": CARD, "count": 1, "minRamPerGpu": 4096}}, 400, ""),
    ({**GOOD, "gpu": {"id": CARD, "count": 1, "minCudaVersion": "12.11"}}, 400, ""),  # above 12.8
    ({**GOOD, "env": {"A": "x" * 102_400}}, 413, ""),
]


@pytest.mark.parametrize(
    ("body", "status", "where"), BAD_BODIES, ids=[f"{s}-{w or n}" for n, (_, s, w) in enumerate(BAD_BODIES)]
)
def test_a_body_the_schema_refuses_makes_no_pod(body: Any, status: int, where: str):
    async def script(stage: Stage) -> None:
        stage.stock_up()
        reply = await post(stage, body)

        told = msgspec.json.decode(reply.content)
        assert (reply.status, told["status"]) == (status, status)
        assert reply.header("Content-Type") == "application/problem+json"
        if where:
            assert where in [each.partition(": ")[0] for each in told["errors"]]
        assert stage.machines() == []

    play(PROVIDER, script)


def test_a_good_body_makes_a_pod_with_every_field_the_schema_requires():
    async def script(stage: Stage) -> None:
        stage.stock_up()
        reply = await post(stage, GOOD)

        required = "id name status actions image args disk mounts ports env registry cloud dataCenterId cudaVersion ssh"
        required += " template cost locked runtime createdAt startedAt globalNetworking"
        pod = msgspec.json.decode(reply.content)
        assert reply.status == 201
        assert [name for name in required.split() if name not in pod] == []
        assert pod["status"] == "PROVISIONING"
        assert reply.header("RateLimit-Policy")

    play(PROVIDER, script)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ((), 200),
        ((("include", "AVAILABILITY"),), 400),
        ((("product", "POD"),), 400),
        ((("count", "2"),), 400),
        ((("include", "STOCK"), ("product", "POD")), 422),
        ((("include", "AVAILABILITY"), ("product", "TOASTER")), 422),
        ((("include", "AVAILABILITY"), ("product", "POD"), ("cloud", "ALL")), 422),
        ((("include", "AVAILABILITY"), ("product", "POD"), ("count", "0")), 422),
        ((("include", "AVAILABILITY"), ("product", "POD"), ("countryCodes", "usa")), 422),
        ((("include", "AVAILABILITY"), ("product", "POD"), ("count", "2"), ("cloud", "COMMUNITY")), 200),
    ],
)
def test_the_catalogue_wants_its_query_right(query: Any, status: int):
    async def script(stage: Stage) -> None:
        assert (await ask(stage, Call("GET", "/v2/catalog/gpus", query=query))).status == status

    play(PROVIDER, script)


def test_a_pod_of_four_takes_four_gpus_costs_four_times_and_gives_four_back():
    async def script(stage: Stage) -> None:
        offers = [each for each in (await stage.cloud.offers()).offers if each.gpu_count == 4 and each.stock < 3]
        offer = min(offers, key=lambda each: each.key)
        product = f"SECURE {offer.sku.rsplit(':', 2)[0]}@{offer.place}"
        before = stage.fleet.stands[product].stock
        order = replace(await stage.order(), offer=offer)
        made = await stage.cloud.launch(order)

        assert stage.fleet.stands[product].stock == before - 4
        assert made.hourly_microusd == offer.hourly_microusd == stage.machine().charged_microusd
        await stage.settle()
        await stage.cloud.terminate(made.id)
        await stage.wait_for_endings()
        assert stage.machines() == []
        assert stage.fleet.stands[product].stock == before

    play(PROVIDER, script)


def test_both_clouds_are_listed_where_the_class_says_all():
    everything = replace(PROVIDER, settings=lambda url: ProviderSettings(endpoint=url, cloud="ALL"))

    async def script(stage: Stage) -> None:
        clouds = {offer.sku.rpartition(":")[2] for offer in (await stage.cloud.offers()).offers}

        assert sorted(clouds) == ["COMMUNITY", "SECURE"]

    play(everything, script)


def test_a_community_pod_can_be_bought():
    community = replace(PROVIDER, settings=lambda url: ProviderSettings(endpoint=url, cloud="COMMUNITY"))

    async def script(stage: Stage) -> None:
        made = await stage.launched()

        assert (made.place, made.sku.rpartition(":")[2]) == ("anywhere", "COMMUNITY")

    play(community, script)


def test_too_many_calls_are_rate_limited_once_it_is_switched_on():
    async def script(stage: Stage) -> None:
        stage.simulator.calls_a_minute = 3
        for _ in range(3):
            await stage.cloud.owned(stage.prefix)

        error = await stage.raises(CloudBusy, stage.cloud.owned(stage.prefix))
        assert error.retry_after is not None
        await asyncio.sleep(61)
        assert await stage.cloud.owned(stage.prefix) == ()

    play(PROVIDER, script)


def test_a_stopped_pod_is_listed_and_starts_again():
    async def script(stage: Stage) -> None:
        made = await stage.running()
        stop = json_call("POST", f"/v2/pods/{made.id}/action", {"action": "stop"})
        assert (await ask(stage, stop)).status == 200
        assert (await ask(stage, stop)).status == 409
        (stopped,) = await stage.cloud.owned(stage.prefix)
        assert (stopped.state, stopped.hourly_microusd) == (InstanceState.STOPPED, None)

    play(PROVIDER, script)


def test_the_last_gpu_is_sold_once():
    async def script(stage: Stage) -> None:
        order = await stage.order()
        for stand in stage.fleet.stands.values():
            stand.stock = 1
        await stage.cloud.launch(order)

        await stage.raises(SoldOut, stage.cloud.launch(replace(order, token=stage.token(2))))

    play(PROVIDER, script)
