"""Every document that a command prints in a test is compared with its JSON Schema, strictly: no unknown field."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tgp.api import crds
from tgp.interfaces.cli import output
from tgp.services.documents import API_VERSION
from tgp.services.documents.schemas import DOCUMENTS, schema_of

JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def problems(value: Any, schema: Mapping[str, Any], parts: Mapping[str, Any], at: str = "") -> list[str]:
    """What is wrong with a value, by as much of JSON Schema as our own schemas use."""
    if "$ref" in schema:
        return problems(value, parts[schema["$ref"].rpartition("/")[2]], parts, at)
    if "anyOf" in schema:
        found = [problems(value, each, parts, at) for each in schema["anyOf"]]
        return [] if any(not each for each in found) else min(found, key=len)
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r} is not one of {schema['enum']}"]
    kind = schema.get("type")
    if kind is None:
        return []
    if not isinstance(value, JSON_TYPES[kind]) or (isinstance(value, bool) and kind in {"integer", "number"}):
        return [f"{at}: {value!r} is not a {kind}"]
    if kind == "array":
        return [text for i, one in enumerate(value) for text in problems(one, schema["items"], parts, f"{at}[{i}]")]
    if kind != "object":
        return []
    if "properties" not in schema:
        rest = schema.get("additionalProperties")
        rows = value.items() if isinstance(rest, dict) else ()
        return [text for name, one in rows for text in problems(one, rest, parts, f"{at}.{name}")]
    known = schema["properties"]
    wrong = [f"{at}.{name}: missing" for name in schema.get("required", ()) if name not in value]
    wrong += [f"{at}.{name}: not in the schema" for name in value if name not in known]
    return wrong + [
        text for name in known if name in value for text in problems(value[name], known[name], parts, f"{at}.{name}")
    ]


def compare(value: Any) -> None:
    """Nothing about what is no document of ours: manifests are printed, too."""
    if not isinstance(value, Mapping) or value.get("apiVersion") != API_VERSION:
        return
    kind = value["kind"]
    assert kind in DOCUMENTS, f"{kind} has no schema"
    schema = schema_of(kind)
    plain = json.loads(json.dumps(value))
    assert problems(plain, {"$ref": schema["$ref"]}, schema["$defs"], kind) == []


@pytest.fixture(autouse=True)
def documents_fit_their_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    as_json, as_yaml = output.as_json, crds.as_yaml

    def checked_json(value: Mapping[str, Any]) -> str:
        compare(value)
        return as_json(value)

    def checked_yaml(*values: Mapping[str, Any]) -> str:
        for value in values:
            compare(value)
        return as_yaml(*values)

    monkeypatch.setattr(output, "as_json", checked_json)
    monkeypatch.setattr(crds, "as_yaml", checked_yaml)
