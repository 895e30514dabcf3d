"""Whatever is sent, the answer is an answer: a refusal is a Status, never an exception."""

from random import Random

import msgspec
import pytest

from tests.amounts import amount
from tests.core.apiserver.api_client import ApiClient, a_pod
from tgp.api.crds import crds
from tgp.api.resource import (
    CERTIFICATE_SIGNING_REQUEST,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    GPU_NODE_CLASS,
    GPU_REQUEST,
    JOB,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    SERVICE_ACCOUNT,
)
from tgp.ports.http import Call, Reply
from tgp.sim.apiserver import schemas
from tgp.sim.apiserver.bootstrap import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, PRIORITY_CLASS
from tgp.sim.loop import run

KINDS = (
    POD,
    NODE,
    NAMESPACE,
    SECRET,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    EVENT,
    LEASE,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD_DISRUPTION_BUDGET,
    CERTIFICATE_SIGNING_REQUEST,
    CUSTOM_RESOURCE_DEFINITION,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    PRIORITY_CLASS,
    GPU_NODE_CLASS,
    GPU_REQUEST,
)
BODIES = amount(25, 1000, "TGP_GARBAGE_BODIES")  # per kind; a thousand by hand after a change
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
SCALARS = (None, True, False, 0, -1, 7, 0.5, "", "a", "-", "1", "x/y", "é", "Always", "10%", "aGk=")
STRINGS = ("", "a", "Always", "2026-01-05T09:00:00Z", "2026-01-05T09:00:00.000000Z", "10%", "aGk=", "Exists", "x.io/y")
WRONG_IN = 12  # one part in so many is not even of its type


def _anything(luck, depth=2):
    choice = luck.random()
    if depth == 0 or choice < 0.6:
        return luck.choice(SCALARS)
    if choice < 0.8:
        return [_anything(luck, depth - 1) for _ in range(luck.randrange(3))]
    return {luck.choice(("a", "name", "key", "$patch")): _anything(luck, depth - 1) for _ in range(luck.randrange(3))}


def _like(luck, schema, depth=6):
    """A value of about the right shape, with something wrong here and there."""
    if schema is None or depth == 0 or luck.randrange(WRONG_IN) == 0:
        return _anything(luck)
    match schema.get("type"):
        case "object" if schema.get("properties"):
            names = sorted(schema["properties"])
            required = [name for name in schema.get("required", ()) if luck.random() < 0.9]
            chosen = dict.fromkeys([*required, *luck.sample(names, min(len(names), luck.randrange(6)))])
            return {name: _like(luck, schema["properties"][name], depth - 1) for name in chosen}
        case "object":
            extra = schema.get("additionalProperties")
            inner = extra if isinstance(extra, dict) else None
            keys = luck.sample(("a", "x.io/y", "nvidia.com/gpu", "cpu"), luck.randrange(3))
            return {key: _like(luck, inner, depth - 1) for key in keys}
        case "array":
            return [_like(luck, schema.get("items"), depth - 1) for _ in range(luck.randrange(3))]
        case "string":
            return luck.choice(schema.get("enum") or STRINGS)
        case "integer" | "number":
            return luck.randrange(-1, 4)
        case "boolean":
            return luck.random() < 0.5
        case _:
            return _anything(luck)


def _schema(resource):
    described = schemas.schema_for(resource.group, resource.version, resource.kind)
    if described is not None:
        return described
    crd = next(one for one in crds() if one["spec"]["names"]["kind"] == resource.kind)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {**schema, "properties": {**schema["properties"], "metadata": schemas.object_meta()}}


async def _prepared() -> ApiClient:
    client = ApiClient()
    for definition in crds():
        await client.ask("POST", CUSTOM_RESOURCE_DEFINITION.path(), definition)
    await client.ask("POST", POD.path("default"), a_pod("one"))
    return client


async def _check(client, call):
    try:
        answer = await client.server.handle(call)
    except Exception as error:
        error.add_note(f"{call.method} {call.path} {call.query} {call.header('Content-Type')} {call.body.decode()}")
        raise
    if isinstance(answer, Reply):
        assert 200 <= answer.status < 600
        if not answer.ok and answer.content.startswith(b"{"):
            assert answer.json()["kind"] == "Status"


def _calls(luck, resource, schema):
    body, patch = _like(luck, schema), _like(luck, schema)
    if isinstance(body, dict):
        if luck.random() < 0.8:
            body["apiVersion"], body["kind"] = resource.api_version, resource.kind
        if luck.random() < 0.8 and isinstance(body.get("metadata", {}), dict):
            body.setdefault("metadata", {})["name"] = "one"
            body["metadata"].pop("namespace", None)
            body["metadata"].pop("resourceVersion", None)
    collection = resource.path("default" if resource.namespaced else "")
    kind = luck.choice(PATCHES)
    sent, change = msgspec.json.encode(body), msgspec.json.encode(patch)
    manager, json = (("fieldManager", "f"),), (("Content-Type", "application/json"),)
    yield Call("POST", collection, (), json, sent)
    yield Call("PUT", f"{collection}/one", (), json, sent)
    for subresource in ("", "/status", "/approval", "/finalize", "/scale"):
        yield Call("PATCH", f"{collection}/one{subresource}", manager, (("Content-Type", kind),), change)
    yield Call("PUT", f"{collection}/one/status", (), json, sent)
    yield Call("GET", collection, (), (("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),))
    yield Call("DELETE", f"{collection}/one", (), (), change if luck.random() < 0.3 else b"")


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)
def test_a_strange_object_is_stored_or_refused(resource):
    luck, schema = Random(f"garbage/{resource.kind}"), _schema(resource)

    async def script():
        client = await _prepared()
        for _ in range(BODIES):
            for call in _calls(luck, resource, schema):
                await _check(client, call)

    run(script())


PARTS = ("api", "apis", "v1", "pods", "namespaces", "default", "one", "status", "watch", "tgp.io", "gpurequests", "x")
QUERY = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "watch",
    "timeoutSeconds",
    "dryRun",
    "fieldManager",
    "gracePeriodSeconds",
)
CHARACTERS = "ab10 ,=!()/.-_%<>\\\"'é"


def test_a_strange_request_is_answered():
    luck = Random("requests")

    async def script():
        client = await _prepared()
        for _ in range(25 * BODIES):
            path = "/" + "/".join(luck.choice(PARTS) for _ in range(luck.randrange(7)))
            words = ["".join(luck.choice(CHARACTERS) for _ in range(luck.randrange(8))) for _ in range(3)]
            query = tuple((luck.choice(QUERY), word) for word in words[: luck.randrange(4)])
            method = luck.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
            body = msgspec.json.encode(_anything(luck)) if luck.random() < 0.5 else b""
            await _check(client, Call(method, path, query, (("Content-Type", "application/json"),), body))

    run(script())


@pytest.mark.parametrize("subresource", ["eviction", "binding"])
def test_a_strange_word_at_a_pods_door_is_answered(subresource):
    luck = Random(subresource)

    async def script():
        client = await _prepared()
        for _ in range(5 * BODIES):
            part = _anything(luck)
            sent = {"metadata": {"name": "one"}, "target": part, "deleteOptions": part}
            for body in (part, sent):
                path = f"/api/v1/namespaces/default/pods/one/{subresource}"
                await _check(client, Call("POST", path, (), (), msgspec.json.encode(body)))

    run(script())
