"""The pretend RunPod before clients that are not ours: curl, generated ones, and people who try things."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.providers.runpod import PROVIDER
from tests.contracts.clouds.runpod.test_simulator import CARD, GOOD, ask, post
from tests.contracts.clouds.stage import Stage, play
from tgp.ports.http import Call, Reply, json_call

EVERYWHERE = (("include", "AVAILABILITY"), ("product", "POD"))


def on_stage(script: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
    """Play the test on a stage of its own, in virtual time."""

    def test() -> None:
        play(PROVIDER, script)

    test.__name__, test.__doc__ = script.__name__, script.__doc__
    return test


def said(reply: Reply) -> Any:
    return msgspec.json.decode(reply.content)


async def get(stage: Stage, path: str, *query: tuple[str, str]) -> Reply:
    return await ask(stage, Call("GET", path, query=query))


async def a_pod(stage: Stage, **changes: Any) -> str:
    stage.stock_up()
    pod: str = said(await post(stage, {**GOOD, **changes}))["id"]
    await stage.settle()
    return pod


# -- words and headers -------------------------------------------------------------------------------------------------


@on_stage
async def test_every_answer_to_a_known_key_tells_the_limits(stage: Stage):
    pod = await a_pod(stage)
    answers = [
        await get(stage, "/v2/pods"),
        await get(stage, f"/v2/pods/{pod}"),
        await get(stage, "/v2/pods/unknown"),
        await get(stage, "/v2/catalog/gpus", ("count", "2")),
        await post(stage, {}),
        await ask(stage, Call("PUT", "/v2/pods")),
    ]

    assert [answer.status for answer in answers] == [200, 200, 404, 400, 422, 405]
    assert all(answer.header("RateLimit") and answer.header("RateLimit-Policy") for answer in answers)


@on_stage
async def test_what_is_left_of_the_minute_is_told_as_it_is(stage: Stage):
    stage.simulator.calls_a_minute = 3
    left = [(await get(stage, "/v2/pods")).header("RateLimit").split(";")[1] for _ in range(3)]

    assert left == ["r=2", "r=1", "r=0"]
    assert (await get(stage, "/v2/pods")).status == 429


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v2/pods", "GET, POST"),
        ("HEAD", "/v2/pods", "GET, POST"),
        ("OPTIONS", "/v2/catalog/gpus", "GET"),
        ("POST", "/v2/pods/{pod}", "GET, PATCH, DELETE"),
        ("GET", "/v2/pods/{pod}/action", "POST"),
    ],
)
def test_another_method_is_405_and_names_those_that_are_taken(method: str, path: str, allowed: str):
    async def script(stage: Stage) -> None:
        reply = await ask(stage, Call(method, path.replace("{pod}", await a_pod(stage))))

        assert (reply.status, reply.header("Allow")) == (405, allowed)
        assert len(stage.machines()) == 1

    play(PROVIDER, script)


@pytest.mark.parametrize("path", ["/v2/catalog/toasters", "/v2/pods/x/y", "/v2", "/", "/v1/pods", "/v2/catalog"])
def test_an_unknown_path_is_404(path: str):
    async def script(stage: Stage) -> None:
        assert (await get(stage, path)).status == 404

    play(PROVIDER, script)


@on_stage
async def test_slashes_at_the_end_and_unknown_parameters_make_no_difference(stage: Stage):
    assert (await get(stage, "/v2/pods/", ("includeClusterPods", "true"), ("colour", "green"))).status == 200


@pytest.mark.parametrize("count", ["²", "9" * 5000, "1.0", "-1", "", "٣"])
def test_a_count_that_is_none_is_422(count: str):
    async def script(stage: Stage) -> None:
        assert (await get(stage, "/v2/catalog/gpus", *EVERYWHERE, ("count", count))).status == 422

    play(PROVIDER, script)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"", b"{"], ids=["deep", "no UTF-8", "nothing", "half"])
def test_a_body_that_is_no_json_is_400(body: bytes):
    async def script(stage: Stage) -> None:
        pod = await a_pod(stage)
        for method, path in (("POST", "/v2/pods"), ("POST", f"/v2/pods/{pod}/action"), ("PATCH", f"/v2/pods/{pod}")):
            assert (await ask(stage, Call(method, path, body=body))).status == 400
        assert len(stage.machines()) == 1

    play(PROVIDER, script)


# -- the catalogue -----------------------------------------------------------------------------------------------------


@on_stage
async def test_one_card_is_shown_by_its_id(stage: Stage):
    whole = said(await get(stage, "/v2/catalog/gpus", *EVERYWHERE))["gpus"]
    one = await get(stage, "/v2/catalog/gpus/NVIDIA%20GeForce%20RTX%204090", *EVERYWHERE)

    assert said(one) == next(card for card in whole if card["id"] == CARD)
    assert (await get(stage, "/v2/catalog/gpus/Quantum%20Abacus")).status == 404


@on_stage
async def test_countries_narrow_the_catalogue(stage: Stage):
    """A centre elsewhere is left out; a card that stands nowhere there is left out as well."""
    stage.stock_up()
    cards = said(await get(stage, "/v2/catalog/gpus", *EVERYWHERE, ("countryCodes", "RO,SE")))["gpus"]

    assert 0 < len(cards) < len(said(await get(stage, "/v2/catalog/gpus"))["gpus"])
    assert {centre["id"] for card in cards for centre in card["dataCenters"]} == {"EU-RO-1", "EU-SE-1"}


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("cudaVersions", "12", 422),
        ("cudaVersions", "12.8,new", 422),
        ("cudaVersions", "12.8", 200),
        ("minCudaVersion", "12", 200),
        ("minCudaVersion", "12.x", 422),
        ("include", "AVAILABILITY,PRICES", 422),
    ],
)
def test_filters_are_held_to_their_patterns(name: str, value: str, status: int):
    async def script(stage: Stage) -> None:
        query = dict(EVERYWHERE) | {name: value}
        assert (await get(stage, "/v2/catalog/gpus", *query.items())).status == status

    play(PROVIDER, script)


@on_stage
async def test_a_cuda_version_that_no_host_has_is_not_available(stage: Stage):
    stage.stock_up()
    cards = said(await get(stage, "/v2/catalog/gpus", *EVERYWHERE, ("minCudaVersion", "13.0")))["gpus"]

    assert {card["availability"] for card in cards} == {"NONE"}
    assert not any("dataCenters" in card for card in cards)


@on_stage
async def test_centres_tell_what_stands_in_them_when_asked(stage: Stage):
    """As the vendor's own sample reads them before it orders."""
    stage.stock_up()
    query = (("regions", "EUROPE"), ("include", "GPU_AVAILABILITY"))
    centres = said(await get(stage, "/v2/catalog/datacenters", *query))["dataCenters"]
    plain = said(await get(stage, "/v2/catalog/datacenters"))["dataCenters"]

    assert {centre["region"] for centre in centres} == {"EUROPE"}
    assert any(gpu["availability"] in ("LOW", "MEDIUM", "HIGH") for each in centres for gpu in each["gpuAvailability"])
    assert not any("gpuAvailability" in centre for centre in plain)
    assert len(plain) > len(centres)


@pytest.mark.parametrize(
    "query",
    [(("include", "STOCK"),), (("regions", "ATLANTIS"),), (("regions", ""),)],
    ids=["include", "regions", "none"],
)
def test_centres_want_their_query_right(query: Any):
    async def script(stage: Stage) -> None:
        assert (await get(stage, "/v2/catalog/datacenters", *query)).status == 422

    play(PROVIDER, script)


# -- pods --------------------------------------------------------------------------------------------------------------


@on_stage
async def test_a_transition_answers_with_the_pod_and_an_end_with_nothing(stage: Stage):
    pod = await a_pod(stage)
    path = f"/v2/pods/{pod}/action"
    stopped = await ask(stage, json_call("POST", path, {"action": "stop"}))
    twice = await ask(stage, json_call("POST", path, {"action": "stop"}))
    started = await ask(stage, json_call("POST", path, {"action": "start"}))
    ended = await ask(stage, json_call("POST", path, {"action": "terminate"}))

    assert (stopped.status, said(stopped)["status"], said(stopped)["actions"]) == (
        200,
        "EXITED",
        ["start", "terminate"],
    )
    assert twice.status == 409
    assert (started.status, said(started)["id"]) == (200, pod)
    assert (ended.status, ended.content) == (204, b"")


@on_stage
async def test_a_pod_that_is_starting_can_be_stopped(stage: Stage):
    stage.stock_up()
    pod = said(await post(stage, GOOD))

    assert pod["actions"] == ["stop", "terminate"]


@on_stage
async def test_a_pod_can_be_renamed_and_is_still_found_by_its_token(stage: Stage):
    made = await stage.launched()
    await stage.settle()
    reply = await ask(stage, json_call("PATCH", f"/v2/pods/{made.id}", {"name": "mine now"}))

    assert (reply.status, said(reply)["name"]) == (200, "mine now")
    assert [found.id for found in await stage.cloud.find(stage.token())] == [made.id]


@pytest.mark.parametrize(
    "body",
    [{"gpu": {"id": CARD}}, {"name": ""}, {"env": {"A": 1}}, {"locked": "yes"}, []],
    ids=["gpu", "name", "env", "locked", "no object"],
)
def test_a_change_the_schema_refuses_changes_nothing(body: Any):
    async def script(stage: Stage) -> None:
        pod = await a_pod(stage)
        before = said(await get(stage, f"/v2/pods/{pod}"))
        reply = await ask(stage, json_call("PATCH", f"/v2/pods/{pod}", body))

        assert reply.status == 422
        assert said(await get(stage, f"/v2/pods/{pod}")) == before

    play(PROVIDER, script)
