"""Everything that is served as one OpenAPI v2 (Swagger) document, for clients that read nothing newer."""

from collections.abc import Mapping, Sequence
from typing import Any

from tgp.sim.apiserver.openapi.document import schemas_of, type_name
from tgp.sim.apiserver.openapi.operations import paths_of
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.schemas.language import REF

_REF = "#/definitions/"
_METHODS = ("get", "put", "post", "patch", "delete")
# v2 has no alternatives and no null; a reader of v2 must take such a value as it comes.
_UNKNOWN_TO_V2 = frozenset({"oneOf", "anyOf", "not", "nullable", "allOf"})
_ALTERNATIVES: Mapping[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
}


def document_v2(served: Sequence[Served]) -> dict[str, Any]:
    """Paths and definitions of all resources together."""
    paths: dict[str, Any] = {}
    for one in served:
        paths |= {path: _path_item(item) for path, item in paths_of(one, type_name(one)).items()}
    definitions = {name: _schema(schema) for name, schema in schemas_of(served).items()}
    for name, plain in _ALTERNATIVES.items():
        if name in definitions:
            definitions[name] |= plain
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": dict(sorted(paths.items())),
        "definitions": definitions,
    }


def _path_item(item: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {"parameters": [_parameter(one) for one in item["parameters"]]}
    for method in _METHODS:
        if method in item:
            converted[method] = _operation(item[method])
    return converted


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    converted = {
        key: value for key, value in operation.items() if key not in {"requestBody", "parameters", "responses"}
    }
    converted["parameters"] = [_parameter(one) for one in operation["parameters"]]
    if body := operation.get("requestBody"):
        kinds = list(body["content"])
        converted["consumes"] = kinds
        schema = _schema(body["content"][kinds[0]]["schema"])
        converted["parameters"].insert(0, {"name": "body", "in": "body", "schema": schema})
        if body.get("required"):
            converted["parameters"][0]["required"] = True
    converted["produces"] = ["application/json"]
    converted["responses"] = {code: _response(reply) for code, reply in operation["responses"].items()}
    return converted


def _response(reply: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {"description": reply["description"]}
    for content in (reply.get("content") or {}).values():
        converted["schema"] = _schema(content["schema"])
    return converted


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}


def _schema(schema: Any) -> Any:
    """The same type in v2's words. A reference may carry a description beside it there."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {key: _part(key, value) for key, value in schema.items() if key not in _UNKNOWN_TO_V2}
    merged = schema.get("allOf")
    if isinstance(merged, list) and len(merged) == 1 and "$ref" in merged[0]:
        converted["$ref"] = merged[0]["$ref"]
    if isinstance(converted.get("$ref"), str):
        converted["$ref"] = _REF + converted["$ref"].removeprefix(REF)
    return converted


def _part(key: str, value: Any) -> Any:
    if key == "properties":  # a property may be called anything, `allOf` included
        return {name: _schema(item) for name, item in value.items()}
    return _schema(value) if key in {"items", "additionalProperties"} else value
