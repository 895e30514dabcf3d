"""Definitions of kinds over their life: how they are refused, changed and applied twice."""

from typing import Any

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION as DEFINITION

GROUP = "defined.tgp.io"


def _definition(plural: str, properties: Json, **spec: Any) -> Json:
    schema: Json = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    version: Json = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [version],
            **spec,
        },
    }


def _path(api: Api, plural: str, name: str = "") -> str:
    return f"/apis/{GROUP}/v1/namespaces/{api.namespace}/{plural}" + (f"/{name}" if name else "")


async def _served(api: Api, plural: str) -> None:
    async def answers(quiet: Api) -> bool:
        return (await quiet.call("GET", _path(api, plural))).status == 200

    await api.eventually(answers)


def _object(plural: str, name: str, spec: Json) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": name}, "spec": spec}


@case(Area.SCHEMA)
async def a_changed_schema_is_obeyed_from_then_on(api: Api) -> None:
    """An old object stays as it was stored; it is read with the new defaults and pruned when next written."""
    plural = "changers"
    await api.quiet.create(DEFINITION, _definition(plural, {"a": {"type": "string"}, "b": {"type": "string"}}))
    await _served(api, plural)
    await api.call("POST", _path(api, plural), _object(plural, "one", {"a": "1", "b": "2"}))
    changed = _definition(plural, {"a": {"type": "string", "maxLength": 3}, "c": {"type": "integer", "default": 7}})
    stored = await api.quiet.get(DEFINITION, f"{plural}.{GROUP}")
    changed["metadata"]["resourceVersion"] = stored.rv
    assert (await api.quiet.update(DEFINITION, changed)).status == 200

    async def obeyed(quiet: Api) -> bool:
        shown = await quiet.call("GET", _path(api, plural, "one"))
        return bool(shown["spec.c"] == 7)

    await api.eventually(obeyed)
    shown = await api.call("GET", _path(api, plural, "one"))
    api.note("read", shown["spec"])
    long = await api.call("POST", _path(api, plural), _object(plural, "two", {"a": "long"}))
    assert long.status == 422
    await api.quiet.delete(DEFINITION, f"{plural}.{GROUP}")


@case(Area.SCHEMA)
async def a_malformed_definition_is_refused(api: Api) -> None:
    nothing_stored = _definition("bads", {})
    nothing_stored["spec"]["versions"][0]["storage"] = False
    schemaless = _definition("bads", {})
    del schemaless["spec"]["versions"][0]["schema"]
    for body in (
        nothing_stored,
        schemaless,
        _definition("bads", {}, scope="Everywhere"),
        _definition("bads", {"x": {"properties": {}}}),
        _definition("bads", {"x": {"type": "integer", "default": "seven"}}),
        _definition("bads", {}, names={"plural": "others", "kind": "Bad"}),
    ):
        answer = await api.quiet.create(DEFINITION, body)
        api.note("refusal", [answer.status, answer.reason, sorted({cause["field"] for cause in answer.causes})])
        assert answer.status == 422, body


@case(Area.SCHEMA)
async def a_definition_can_be_applied_twice(api: Api) -> None:
    body = _definition("appliers", {"a": {"type": "string"}})
    first = await api.quiet.apply(DEFINITION, body, "tgp")
    assert first.status == 201
    await _served(api, "appliers")
    generation = (await api.quiet.get(DEFINITION, f"appliers.{GROUP}")).meta["generation"]
    again = await api.quiet.apply(DEFINITION, body, "tgp")
    api.note("again", [again.status, again.meta["generation"] == generation])
    assert again.status == 200
    await api.quiet.delete(DEFINITION, f"appliers.{GROUP}")


@case(Area.SCHEMA)
async def the_scope_and_names_of_a_definition_stay(api: Api) -> None:
    plural = "stayers"
    await api.quiet.create(DEFINITION, _definition(plural, {}))
    await _served(api, plural)
    scope = await api.quiet.patch(DEFINITION, f"{plural}.{GROUP}", {"spec": {"scope": "Cluster"}})
    group = await api.quiet.patch(DEFINITION, f"{plural}.{GROUP}", {"spec": {"group": "else.tgp.io"}})
    for answer in (scope, group):
        api.note("refusal", [answer.status, sorted({cause["field"] for cause in answer.causes})])
        assert answer.status == 422
    await api.quiet.delete(DEFINITION, f"{plural}.{GROUP}")


@case(Area.SCHEMA)
async def a_name_two_definitions_want_goes_to_the_first(api: Api) -> None:
    first = _definition("firsts", {}, names={"plural": "firsts", "kind": "First", "shortNames": ["fst"]})
    second = _definition("seconds", {}, names={"plural": "seconds", "kind": "Second", "shortNames": ["fst"]})
    await api.quiet.create(DEFINITION, first)
    await _served(api, "firsts")
    await api.quiet.create(DEFINITION, second)

    async def judged(quiet: Api) -> bool:
        found = await quiet.get(DEFINITION, f"seconds.{GROUP}")
        return any(one["type"] == "NamesAccepted" for one in found["status.conditions"] or ())

    await api.eventually(judged)
    found = await api.quiet.get(DEFINITION, f"seconds.{GROUP}")
    conditions = {one["type"]: [one["status"], one["reason"]] for one in found["status.conditions"]}
    api.note("conditions", conditions)
    assert conditions["NamesAccepted"][0] == "False"
    for plural in ("firsts", "seconds"):
        await api.quiet.delete(DEFINITION, f"{plural}.{GROUP}")
