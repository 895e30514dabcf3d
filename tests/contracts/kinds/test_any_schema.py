"""What our validator says about schemas that are not ours, beside what the real API server says."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contracts.kinds.conftest import replace_definition
from tests.contracts.kinds.real_api_server import RealApiServer
from tgp.api.kinds import Kind
from tgp.api.nodepool import GPUNodePool
from tgp.api.resource import Resource
from tgp.api.validation import default, prune, validate

TOY = Kind(Resource("toys.example.com", "v1", "toys", "Toy", namespaced=False), GPUNodePool, ())
LOOSE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "size": {"type": "integer"},
                "mode": {"type": "string"},
                "rows": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                    "items": {
                        "type": "object",
                        "required": ["key"],
                        "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
                "plain": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}


def stricter() -> dict[str, Any]:
    schema = copy.deepcopy(LOOSE)
    fields = schema["properties"]["spec"]["properties"]
    fields["name"]["maxLength"] = 3
    fields["size"]["maximum"] = 10
    fields["mode"]["enum"] = ["a", "b"]
    fields["rows"]["items"]["properties"]["value"]["pattern"] = "^x*$"
    fields["plain"]["items"]["maxLength"] = 1
    return schema


def definition(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.toys.example.com"},
        "spec": {
            "group": "toys.example.com",
            "names": {"kind": "Toy", "listKind": "ToyList", "plural": "toys", "singular": "toy"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


WRONG = {
    "name": "long name",
    "size": 99,
    "mode": "z",
    "rows": [{"key": "k", "value": "no"}],
    "plain": ["long", "words"],
}


@pytest.fixture(scope="module")
def stored(real_server: RealApiServer) -> Iterator[dict[str, Any]]:
    """An object from before its CRD became stricter."""
    replace_definition(real_server, definition(LOOSE))
    manifest = {"apiVersion": "toys.example.com/v1", "kind": "Toy", "metadata": {"name": "old"}, "spec": WRONG}
    made = real_server.create(TOY, manifest)
    replace_definition(real_server, definition(stricter()))
    for _ in range(100):
        if not real_server.try_create(TOY, {**manifest, "metadata": {"name": "new"}}).accepted:
            break
    yield made
    real_server.call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.toys.example.com")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"size": 5},
        {"size": 98},
        {"name": "other"},
        {"mode": "y"},
        {"rows": [{"key": "new"}, {"key": "k", "value": "no"}]},
        {"rows": [{"key": "k", "value": "nay"}]},
        {"rows": [{"key": "other", "value": "no"}]},
        {"plain": ["long", "words", "x"]},
        {"plain": ["x"]},
        {"rows": [{"key": "a"}, {"key": "a"}]},
    ],
    ids=str,
)
def test_an_update_is_judged_by_what_it_touches(
    real_server: RealApiServer, stored: dict[str, Any], change: dict[str, Any]
):
    if not real_server.newest:
        pytest.skip("older releases judge what has not changed as well")
    made = {**stored, "spec": {**stored["spec"], **change}}
    answer = real_server.try_update(TOY, made)
    schema = stricter()
    ours = validate(schema, default(schema, prune(schema, made)), stored)

    assert answer.accepted is not bool(ours), (answer.message, ours)
    if not answer.accepted:
        theirs = {(path, reason, message) for path, reason, message in answer.causes}
        assert theirs == {(problem.path or "<nil>", problem.reason.value, problem.body) for problem in ours}
