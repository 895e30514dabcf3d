"""Discovery, OpenAPI and table watches of the in-memory server, asked directly."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from tgp.api.resource import POD
from tgp.ports.http import Call, Pairs, Reply, Streaming, json_call
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.discovery import by_preference
from tgp.sim.apiserver.openapi import V2_PROTOBUF
from tgp.sim.apiserver.schemas import protobuf
from tgp.sim.apiserver.schemas.language import BadDescription, Library, references
from tgp.sim.entropy import SeededEntropy

DEFINITIONS = sorted((Path(__file__).parents[3] / "deploy" / "crds").glob("tgp.io_*.yaml"))
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList,application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PATIENCE = 10.0


class Wristwatch:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.time = datetime(2026, 6, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def boottime(self) -> float:
        return self.time.timestamp()


@pytest.fixture
def clock() -> Wristwatch:
    return Wristwatch()


@pytest.fixture
def server(clock: Wristwatch) -> ApiServer:
    return ApiServer(clock, SeededEntropy(7, "documents"))


async def _get(server: ApiServer, path: str, accept: str = "application/json", *more: tuple[str, str]) -> Reply:
    reply = await server.handle(Call("GET", path, headers=(("Accept", accept), *more)))
    assert isinstance(reply, Reply)
    return reply


async def _install(server: ApiServer) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for file in DEFINITIONS:
        made = await server.handle(json_call("POST", path, YAML(typ="safe").load(file)))
        assert isinstance(made, Reply)
        assert made.status == 201, made.content


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_tells_in_one_answer_what_the_plain_one_tells_in_many(
    server: ApiServer, version: str
):
    """Both forms of discovery list the same resources with the same verbs."""
    for root in ("api", "apis"):
        whole = await _get(server, f"/{root}", AGGREGATED.format(version))
        assert whole.header("Content-Type").endswith(f"v={version};as=APIGroupDiscoveryList")
        for group in whole.json()["items"]:
            for entry in group["versions"]:
                where = (
                    f"/api/{entry['version']}"
                    if root == "api"
                    else f"/apis/{group['metadata']['name']}/{entry['version']}"
                )
                plain = (await _get(server, where)).json()["resources"]

                listed = {one["resource"]: one["verbs"] for one in entry["resources"]}
                assert listed == {one["name"]: one["verbs"] for one in plain if "/" not in one["name"]}


async def test_an_unchanged_document_is_not_sent_twice(server: ApiServer):
    for path, accept in (
        ("/apis", AGGREGATED.format("v2")),
        ("/openapi/v3", "application/json"),
        ("/openapi/v2", V2_PROTOBUF),
    ):
        first = await _get(server, path, accept)
        again = await _get(server, path, accept, ("If-None-Match", first.header("ETag")))

        assert (first.status, again.status, again.content) == (200, 304, b"")


async def test_a_new_definition_changes_every_document(server: ApiServer):
    """Discovery, both OpenAPI forms and the index follow a CustomResourceDefinition at once."""
    before = [(await _get(server, path)).content for path in ("/apis", "/openapi/v3", "/openapi/v2")]
    await _install(server)
    after = [(await _get(server, path)).content for path in ("/apis", "/openapi/v3", "/openapi/v2")]

    assert all(old != new for old, new in zip(before, after, strict=True))
    resources = (await _get(server, "/apis/tgp.io/v1")).json()["resources"]
    pools = next(entry for entry in resources if entry["name"] == "gpunodepools")
    assert (pools["shortNames"], pools["categories"], pools["kind"]) == (["gnp"], ["tgp"], "GPUNodePool")


async def test_every_document_of_the_index_is_whole(server: ApiServer):
    """Each address in the index leads to a document whose references all lead somewhere in it."""
    await _install(server)
    for entry in (await _get(server, "/openapi/v3")).json()["paths"].values():
        path, _, tag = entry["serverRelativeURL"].partition("?hash=")
        reply = await server.handle(Call("GET", path, query=(("hash", tag),)))
        assert isinstance(reply, Reply)
        assert "immutable" in reply.header("Cache-Control")
        document = reply.json()
        known = document["components"]["schemas"]

        assert [target for target in references(document) if target not in known] == []


async def test_every_patch_tells_that_it_validates_fields(server: ApiServer):
    """Otherwise kubectl would validate on its own side, or not at all. Custom kinds take no strategic merge."""
    await _install(server)
    for place in ("api/v1", "apis/apps/v1", "apis/tgp.io/v1"):
        for path, item in (await _get(server, f"/openapi/v3/{place}")).json()["paths"].items():
            patch = item.get("patch")
            if patch is None:
                continue
            names = {parameter["name"] for parameter in patch["parameters"]}
            strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]

            assert {"fieldValidation", "fieldManager", "dryRun", "force"} <= names, path
            assert strategic == ("tgp.io" not in place), path


async def test_openapi_v2_keeps_our_words(server: ApiServer):
    await _install(server)
    document = (await _get(server, "/openapi/v2")).json()

    assert document["swagger"] == "2.0"
    assert "#/components" not in str(document)
    pool = document["definitions"]["io.tgp.v1.GPUNodePool"]
    assert pool["properties"]["metadata"]["$ref"].startswith("#/definitions/")
    assert (await _get(server, "/openapi/v2", V2_PROTOBUF)).content[:1] == b"\x0a"


def test_versions_are_preferred_as_clients_do():
    names = ["v1alpha1", "v10", "v1beta2", "beta", "v2", "v1", "v1beta1", "alpha"]

    assert by_preference(names) == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "alpha", "beta"]


@pytest.mark.parametrize(
    "text",
    [
        "package a = io.a (a/v1)\n\nThing\n  other Missing",
        "package a = io.a (a/v1)\n\nThing\n  alone",
        "package a = io.a (a/v1)\n\nThing\n  name string loud",
        "package a = io.a (a/v1)\n\nThing\n  name absent.Type",
    ],
)
def test_a_description_with_a_mistake_is_refused(text: str):
    library = Library()
    with pytest.raises(BadDescription):
        library.read(text)
        library.check()


async def test_a_table_watch_counts_ages_from_the_moment_of_each_row(server: ApiServer, clock: Wristwatch):
    """A watch outlives the moment it began; its columns come with the first row only."""
    call = Call("GET", "/api/v1/namespaces/default/pods", query=(("watch", "true"),), headers=(("Accept", TABLE),))
    answer = await server.handle(call)
    assert isinstance(answer, Streaming)
    pieces = aiter(answer.pieces)
    rows: list[dict[str, Any]] = []
    for name in ("one", "two"):
        following = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        clock.time += timedelta(hours=1)
        spec = {"containers": [{"name": "c", "image": "i"}]}
        server.local_api.create(POD, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        async with asyncio.timeout(PATIENCE):
            rows.append(msgspec.json.decode(await following)["object"])
    await answer.pieces.aclose()

    assert [row["rows"][0]["cells"][4] for row in rows] == ["0s", "0s"]
    assert [bool(row["columnDefinitions"]) for row in rows] == [True, False]


PROTOBUF: Pairs = (("Content-Type", protobuf.MEDIA_TYPE), ("Accept", f"{protobuf.MEDIA_TYPE},application/json"))


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        protobuf.MAGIC,
        protobuf.MAGIC + b"\x0a\x0e\x0a\x02v1\x12\x08Nonsense\x12\x00",
        protobuf.MAGIC + b"\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x05\x0a\x7f",
        protobuf.MAGIC + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
async def test_bytes_that_are_no_object_are_refused_in_words(server: ApiServer, body: bytes):
    reply = await server.handle(Call("POST", "/api/v1/namespaces", headers=PROTOBUF, body=body))
    assert isinstance(reply, Reply)

    assert (reply.status, reply.json()["reason"]) == (400, "BadRequest")


async def test_an_object_sent_as_protobuf_is_stored_like_any_other(server: ApiServer):
    """Typed Go clients, kubectl's among them, send nothing else."""
    meta = b"\x0a\x03net" + b"\x5a\x05\x0a\x01a\x12\x00"
    raw = b"\x0a" + bytes([len(meta)]) + meta
    kind = b"\x0a\x02v1\x12\x09Namespace"
    body = protobuf.MAGIC + b"\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(raw)]) + raw
    reply = await server.handle(Call("POST", "/api/v1/namespaces", headers=PROTOBUF, body=body))
    assert isinstance(reply, Reply)

    assert reply.status == 201, reply.content
    assert reply.json()["metadata"]["labels"] == {"a": "", "kubernetes.io/metadata.name": "net"}
