"""Whatever is sent, the answer is an answer: a refusal is a Status, never an exception."""

import os
import string

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.apiserver.desk import Desk, a_pod
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
from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver import schemas
from tgp.sim.apiserver.bootstrap import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, PRIORITY_CLASS
from tgp.sim.loop import run

EXAMPLES = int(os.environ.get("TGP_GARBAGE_EXAMPLES", "10"))  # per kind; a few hundred by hand after a change
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
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(-1, 1)
    | st.sampled_from(["", "a", "-", "1", "x/y", "$patch", "é"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "name", "key", "$patch"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _like(schema, depth):
    """Values of about the right shape, with something wrong in one place out of five."""
    if schema is None or depth == 0:
        return ANYTHING
    kind = schema.get("type")
    if kind == "object" and schema.get("properties"):
        names = sorted(schema["properties"])
        parts = {name: _like(schema["properties"][name], depth - 1) for name in names[:60]}
        right = st.lists(st.sampled_from(names[:60]), max_size=4, unique=True).flatmap(
            lambda chosen: st.fixed_dictionaries({name: parts[name] for name in chosen})
        )
    elif kind == "array":
        right = st.lists(_like(schema.get("items"), depth - 1), max_size=2)
    elif kind == "object":
        extra = schema.get("additionalProperties")
        right = st.dictionaries(
            st.sampled_from(["a", "x.io/y", "nvidia.com/gpu"]),
            _like(extra if isinstance(extra, dict) else None, 1),
            max_size=2,
        )
    elif kind == "string":
        right = st.sampled_from(["", "a", "Always", "2026-01-05T09:00:00Z", "10%", "aGk=", "Exists"])
    elif kind in {"integer", "number"}:
        right = st.integers(-1, 3)
    elif kind == "boolean":
        right = st.booleans()
    else:
        right = ANYTHING
    return st.one_of(right, right, right, right, ANYTHING)


def _schema(resource):
    described = schemas.schema_for(resource.group, resource.version, resource.kind)
    if described is not None:
        return described
    crd = next(one for one in crds() if one["spec"]["names"]["kind"] == resource.kind)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {**schema, "properties": {**schema["properties"], "metadata": schemas.object_meta()}}


BODIES = {resource: _like(_schema(resource), 5) for resource in KINDS}


async def _prepared() -> Desk:
    desk = Desk()
    for definition in crds():
        await desk.ask("POST", CUSTOM_RESOURCE_DEFINITION.path(), definition)
    await desk.ask("POST", POD.path("default"), a_pod("one"))
    return desk


def _send(calls):
    async def script():
        desk = await _prepared()
        for call in calls:
            answer = await desk.server.handle(call)
            if isinstance(answer, Streaming):
                continue
            assert isinstance(answer, Reply)
            assert 200 <= answer.status < 600
            if not answer.ok and answer.content.startswith(b"{"):
                assert answer.json()["kind"] == "Status"
        await desk.ask("GET", "/api/v1/pods")
        listed = await desk.ask(
            "GET", "/api/v1/pods", headers=[("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]
        )
        assert listed.status == 200

    run(script())


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)
@given(data=st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_strange_object_is_stored_or_refused(resource, data):
    body = data.draw(BODIES[resource])
    if isinstance(body, dict) and data.draw(st.booleans()):
        body["apiVersion"], body["kind"] = resource.api_version, resource.kind
    if isinstance(body, dict) and isinstance(body.get("metadata", {}), dict) and data.draw(st.booleans()):
        body.setdefault("metadata", {})["name"] = "one"
    patch = data.draw(BODIES[resource])
    kind = data.draw(st.sampled_from(PATCHES))
    collection = resource.path("default" if resource.namespaced else "")
    manager = (("fieldManager", "f"),)
    _send(
        [
            Call("POST", collection, (), (("Content-Type", "application/json"),), msgspec.json.encode(body)),
            Call("PATCH", f"{collection}/one", manager, (("Content-Type", kind),), msgspec.json.encode(patch)),
            Call("PATCH", f"{collection}/one/status", manager, (("Content-Type", kind),), msgspec.json.encode(patch)),
            Call("PUT", f"{collection}/one", (), (("Content-Type", "application/json"),), msgspec.json.encode(body)),
            Call("DELETE", f"{collection}/one"),
        ]
    )


WORDS = st.text(string.ascii_letters + string.digits + " ,=!()/.-_%<>\\\"'", max_size=12)


@given(
    path=st.lists(
        st.sampled_from(
            ["api", "apis", "v1", "pods", "namespaces", "default", "one", "status", "watch", "tgp.io", "x"]
        ),
        max_size=6,
    ),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    query=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "labelSelector",
                    "fieldSelector",
                    "limit",
                    "continue",
                    "resourceVersion",
                    "watch",
                    "timeoutSeconds",
                    "dryRun",
                ]
            ),
            WORDS,
        ),
        max_size=3,
    ),
    body=st.binary(max_size=20) | ANYTHING.map(msgspec.json.encode),
)
@settings(max_examples=150, deadline=None)
def test_a_strange_request_is_answered(path, method, query, body):
    _send([Call(method, "/" + "/".join(path), tuple(query), (("Content-Type", "application/json"),), body)])


@given(body=ANYTHING, door=st.sampled_from(["eviction", "binding"]))
@settings(max_examples=60, deadline=None)
def test_a_strange_eviction_or_binding_is_answered(body, door):
    path = f"/api/v1/namespaces/default/pods/one/{door}"
    sent = {"metadata": {"name": "one"}, "target": body, "deleteOptions": body}
    calls = [Call("POST", path, (), (), msgspec.json.encode(value)) for value in (body, sent)]
    _send(calls)
