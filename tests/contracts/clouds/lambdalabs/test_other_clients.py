"""The simulator as other clients meet it: curl, an old SDK, a hostile one. It answers, and never breaks."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.lambdalabs.answers import ID
from tests.contracts.clouds.lambdalabs.test_simulator import GOOD, Watch, ask, code
from tests.contracts.clouds.providers.lambdalabs import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.core.model.cloud_errors import CannotTell, OutcomeUnknown
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.lambdalabs import LambdaSimulator

LAUNCH = "instance-operations/launch"


@pytest.fixture
def simulator() -> LambdaSimulator:
    return LambdaSimulator(Watch(), 1)


async def send(simulator: LambdaSimulator, method: str, path: str, body: bytes = b"", **rest: Any) -> Reply:
    headers = (("authorization", f"bearer {simulator.key}"),)  # lower case, and no content type
    return await simulator.handle(Call(method, f"/api/v1/{path}", headers=headers, body=body, **rest))


def data(reply: Reply) -> Any:
    return msgspec.json.decode(reply.content)["data"]


@pytest.mark.parametrize("path", ["nothing", "instances/a/b", "instance-operations/dance", "", "images/x/y"])
async def test_a_path_that_is_no_endpoint_is_not_an_object_that_does_not_exist(simulator: LambdaSimulator, path: str):
    """That code means that a machine is gone. A mistyped base path must never read so."""
    reply = await send(simulator, "GET", path)

    assert reply.status == 404
    assert b"object-does-not-exist" not in reply.content


def test_a_wrong_base_path_shows_no_machine_absent():
    async def script(stage: Stage) -> None:
        made = await stage.launched()
        stage.url = stage.url.removesuffix("/api/v1")
        astray = stage.cloud_of(stage.key)
        await stage.raises(CannotTell, astray.status(made.id))
        await stage.raises(OutcomeUnknown, astray.terminate(made.id))
        await stage.raises(CannotTell, astray.owned(stage.prefix))

        assert len(stage.machines()) == 1

    play(PROVIDER, script)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", f"instances/{ID}", "GET, POST"),
        ("PUT", "instances", "GET"),
        ("GET", LAUNCH, "POST"),
        ("HEAD", "instances", "GET"),
        ("OPTIONS", "instance-types", "GET"),
        ("PATCH", "ssh-keys", "GET, POST"),
    ],
)
async def test_another_method_is_told_which_are_allowed(
    simulator: LambdaSimulator, method: str, path: str, allowed: str
):
    reply = await send(simulator, method, path)

    assert (reply.status, reply.header("Allow")) == (405, allowed)


@pytest.mark.parametrize("path", ["instances/", "instance-types/", "ssh-keys/", "images/"])
async def test_a_slash_at_the_end_changes_nothing(simulator: LambdaSimulator, path: str):
    bare = await send(simulator, "GET", path.rstrip("/"))
    slashed = await send(simulator, "GET", path)

    assert (slashed.status, slashed.content) == (200, bare.content)


async def test_unknown_queries_are_ignored_and_a_cluster_has_none_of_our_machines(simulator: LambdaSimulator):
    await ask(simulator, "POST", LAUNCH, GOOD)

    assert len(data(await send(simulator, "GET", "instances", query=(("sparkle", "1"),)))) == 1
    assert data(await send(simulator, "GET", "instances", query=(("cluster_id", "ab" * 16),))) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b'{"name": "\xff"}', b"[" * 100_000, b'"\\ud800"', b"null", b"[]", b"7"],
    ids=["nothing", "half", "no utf-8", "no utf-8 inside", "deep", "half a pair", "null", "list", "number"],
)
@pytest.mark.parametrize("path", [LAUNCH, "instance-operations/terminate", "instance-operations/restart", "ssh-keys"])
async def test_a_body_that_is_none_is_refused_in_lambdas_words(simulator: LambdaSimulator, path: str, body: bytes):
    reply = await send(simulator, "POST", path, body)

    assert (reply.status, code(reply)) == (400, "global/invalid-parameters")
    assert simulator.fleet.machines == {}


@pytest.mark.parametrize(
    "change",
    [
        {"image": {"family": "windows-95"}},
        {"image": {"id": "ab" * 16}},
        {"file_system_names": ["mine"]},
        {"file_system_mounts": [{"file_system_id": "ab" * 16, "mount_point": "/data/x"}]},
        {"firewall_rulesets": [{"id": "ab" * 16}]},
        {"instance_type_name": "gpu_9x_abacus"},
        {"ssh_key_names": ["unknown"]},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_launch_that_names_what_is_not_there_makes_nothing(simulator: LambdaSimulator, change: dict[str, Any]):
    reply = await ask(simulator, "POST", LAUNCH, GOOD | change)

    assert (reply.status, code(reply)) == (404, "global/object-does-not-exist")
    assert b'"suggestion"' in reply.content  # required by the document for this one
    assert simulator.fleet.machines == {}


async def test_every_image_that_is_listed_for_a_region_can_be_started_there(simulator: LambdaSimulator):
    (image,) = [
        each
        for each in data(await send(simulator, "GET", "images"))
        if (each["region"]["name"], each["architecture"]) == ("us-west-1", "x86_64")
    ]
    for chosen in ({"id": image["id"]}, {"family": image["family"]}):
        assert (await ask(simulator, "POST", LAUNCH, GOOD | {"image": chosen})).status == 200
    elsewhere = GOOD | {"region_name": "us-east-1", "image": {"id": image["id"]}}
    assert (await ask(simulator, "POST", LAUNCH, elsewhere)).status == 404


async def test_a_key_that_lambda_made_comes_with_its_private_half_once(simulator: LambdaSimulator):
    made = data(await ask(simulator, "POST", "ssh-keys", {"name": "made"}))
    told = data(await ask(simulator, "POST", "ssh-keys", {"name": "told", "public_key": "ssh-ed25519 AAAA x"}))

    assert "PRIVATE KEY" in made["private_key"]
    assert set(told) == {"id", "name", "public_key"}
    listed = {each["name"]: each for each in data(await send(simulator, "GET", "ssh-keys"))}
    assert set(listed["made"]) == {"id", "name", "public_key"}
    assert data(await send(simulator, "DELETE", f"ssh-keys/{made['id']}")) == {}


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "x" * 65}, {"name": 7}, {"name": "tgp"}, {"name": "x", "public_key": 7}],
)
async def test_a_key_that_the_document_forbids_is_refused(simulator: LambdaSimulator, body: dict[str, Any]):
    reply = await ask(simulator, "POST", "ssh-keys", body)

    assert (reply.status, code(reply)) == (400, "global/invalid-parameters")


async def test_a_key_that_is_not_there_is_refused_as_documented(simulator: LambdaSimulator):
    """There is no 404 for it in the document."""
    reply = await send(simulator, "DELETE", "ssh-keys/none")

    assert (reply.status, code(reply)) == (400, "global/invalid-parameters")


async def test_a_name_is_optional_in_a_change_and_has_its_limit(simulator: LambdaSimulator):
    (number,) = data(await ask(simulator, "POST", LAUNCH, GOOD | {"name": "before"}))["instance_ids"]

    assert (await ask(simulator, "POST", f"instances/{number}", {"name": "x" * 65})).status == 400
    assert data(await ask(simulator, "POST", f"instances/{number}", {}))["name"] == "before"
    assert "name" not in data(await ask(simulator, "POST", f"instances/{number}", {"name": ""}))


async def test_what_is_open_by_default_can_be_read(simulator: LambdaSimulator):
    rules = data(await send(simulator, "GET", "firewall-rules"))

    assert [(rule["protocol"], rule.get("port_range")) for rule in rules] == [("tcp", [22, 22]), ("icmp", None)]
