"""Custom kinds: what their schema fills in, cuts off and refuses, and how they are shown."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import GROUP, WIDGET, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def _refused(api: Api, spec: Json, *fields: str) -> None:
    answer = await api.create(WIDGET, widget("one", spec))
    assert answer.status == 422, answer.body
    assert answer.reason == "Invalid"
    assert {cause["field"] for cause in answer.causes} >= set(fields), answer.causes


@case(Area.SCHEMA)
async def defaults_are_filled_in(api: Api) -> None:
    made = await api.create(WIDGET, widget("one", {"size": 1, "parts": [{"name": "x"}], "window": {"from": "9:00"}}))
    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "limits": {"max": 5},
        "parts": [{"name": "x", "count": 1}],
        "window": {"from": "9:00", "for": "1h"},
    }


@case(Area.SCHEMA)
async def a_default_inside_what_is_absent_is_not_filled_in(api: Api) -> None:
    made = await api.create(WIDGET, widget("one"))
    assert made["spec"] == {"size": 1, "color": "red", "limits": {"max": 5}}


@case(Area.SCHEMA)
async def a_default_removed_by_null_comes_back(api: Api) -> None:
    await api.create(WIDGET, widget("one", {"size": 1, "color": "blue", "limits": {"max": 9, "burst": 2}}))
    after = await api.patch(WIDGET, "one", {"spec": {"color": None, "limits": None}})
    assert after["spec.color"] == "red"
    assert after["spec.limits"] == {"max": 5}


@case(Area.SCHEMA)
async def nulls_are_defaulted_kept_or_refused_by_what_the_field_says(api: Api) -> None:
    nullable = await api.create(WIDGET, widget("one", {"size": 1, "mode": None, "color": None}))
    assert nullable.status == 201
    assert nullable["spec"]["mode"] is None
    assert nullable["spec.color"] == "red"
    await api.create(WIDGET, widget("two", {"size": None}))
    await api.create(WIDGET, widget("three", {"size": 1, "tags": None, "low": None}))


@case(Area.SCHEMA)
async def unknown_fields_are_cut_off_except_where_they_are_welcome(api: Api) -> None:
    spec: Json = {"size": 1, "colour": "x", "limits": {"max": 1, "odd": 2}, "free": {"any": {"thing": [1, None]}}}
    spec["labels"] = {"anything": "goes"}
    made = await api.create(WIDGET, {**widget("one", spec), "extra": 1}, fieldValidation="Ignore")
    assert made["spec.limits"] == {"max": 1}
    assert made["spec.free"] == {"any": {"thing": [1, None]}}
    assert "extra" not in made.body


@case(Area.SCHEMA)
async def what_is_required_is_asked_for(api: Api) -> None:
    await _refused(api, {}, "spec.size")
    await _refused(api, {"size": 1, "window": {}}, "spec.window.from")
    answer = await api.create(WIDGET, {"metadata": {"name": "one"}})
    assert answer.status == 422


@case(Area.SCHEMA)
async def wrong_types_are_refused_by_name(api: Api) -> None:
    await _refused(api, {"size": "one"}, "spec.size")
    await _refused(api, {"size": 1.5}, "spec.size")
    await _refused(api, {"size": 1, "tags": "aa"}, "spec.tags")
    await _refused(api, {"size": 1, "limits": []}, "spec.limits")
    await _refused(api, {"size": 1, "on": "true"}, "spec.on")
    await _refused(api, {"size": 1, "labels": {"a": 1}}, "spec.labels.a")


@case(Area.SCHEMA)
async def numbers_out_of_range_are_refused(api: Api) -> None:
    await _refused(api, {"size": 0}, "spec.size")
    await _refused(api, {"size": 101}, "spec.size")
    made = await api.create(WIDGET, widget("one", {"size": 100, "ratio": 0.5}))
    assert made.status == 201


@case(Area.SCHEMA)
async def words_out_of_form_are_refused(api: Api) -> None:
    await _refused(api, {"size": 1, "color": "pink"}, "spec.color")
    await _refused(api, {"size": 1, "mode": "UPPER"}, "spec.mode")
    await _refused(api, {"size": 1, "mode": "x" * 11}, "spec.mode")
    await _refused(api, {"size": 1, "window": {"from": ""}}, "spec.window.from")


@case(Area.SCHEMA)
async def lists_and_maps_out_of_bounds_are_refused(api: Api) -> None:
    await _refused(api, {"size": 1, "steps": ["a", "b", "c", "d"]}, "spec.steps")
    await _refused(api, {"size": 1, "labels": {"a": "1", "b": "2", "c": "3", "d": "4"}}, "spec.labels")
    await _refused(api, {"size": 1, "tags": ["aa", "aa"]}, "spec.tags[1]")
    await _refused(api, {"size": 1, "parts": [{"name": "x"}, {"name": "x"}]}, "spec.parts[1]")


@case(Area.SCHEMA)
async def several_mistakes_are_all_told(api: Api) -> None:
    await _refused(api, {"size": 0, "color": "pink", "mode": "UPPER"}, "spec.size", "spec.color", "spec.mode")


@case(Area.SCHEMA)
async def a_port_is_a_number_or_a_word(api: Api) -> None:
    assert (await api.create(WIDGET, widget("a", {"size": 1, "port": 80})))["spec.port"] == 80
    assert (await api.create(WIDGET, widget("b", {"size": 1, "port": "http"})))["spec.port"] == "http"
    await _refused(api, {"size": 1, "port": 1.5}, "spec.port")
    await _refused(api, {"size": 1, "port": True}, "spec.port")


@case(Area.SCHEMA)
async def a_rule_refuses_with_its_message_at_its_field(api: Api) -> None:
    answer = await api.create(WIDGET, widget("one", {"size": 1, "low": 5, "high": 2}))
    assert answer.status == 422
    assert [cause["field"] for cause in answer.causes] == ["spec.low"]
    assert "low must not exceed high" in answer.message
    await _refused(api, {"size": 1, "tags": ["aa", "b"]}, "spec")
    assert (await api.create(WIDGET, widget("one", {"size": 1, "low": 2, "high": 2}))).status == 201


@case(Area.SCHEMA)
async def a_rule_of_change_compares_with_what_was(api: Api) -> None:
    await api.create(WIDGET, widget("one", {"size": 1, "frozen": "ice"}))
    assert (await api.patch(WIDGET, "one", {"spec": {"size": 2}})).status == 200
    changed = await api.patch(WIDGET, "one", {"spec": {"frozen": "water"}})
    assert changed.status == 422
    assert "frozen may not change" in changed.message
    removed = await api.patch(WIDGET, "one", {"spec": {"frozen": None}})
    assert removed.status == 422
    assert removed.causes[0]["reason"] == "FieldValueForbidden"
    await api.create(WIDGET, widget("two"))
    assert (await api.patch(WIDGET, "two", {"spec": {"frozen": "ice"}})).status == 422


@case(Area.SCHEMA)
async def a_rule_may_speak_of_the_name(api: Api) -> None:
    assert (await api.create(WIDGET, widget("n" * 40))).status == 201
    refused = await api.create(WIDGET, widget("n" * 41))
    assert refused.status == 422
    assert "at most 40 characters" in refused.message


@case(Area.SCHEMA)
async def status_is_validated_as_well(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    assert (await api.patch(WIDGET, "one", {"status": {"ready": -1}}, "status")).status == 422
    assert (await api.patch(WIDGET, "one", {"status": {"ready": "x"}}, "status")).status == 422
    bad: Json = {"status": {"conditions": [{"type": "Ready", "status": "Perhaps"}]}}
    assert (await api.patch(WIDGET, "one", bad, "status")).status == 422
    odd = await api.patch(WIDGET, "one", {"status": {"ready": 1, "odd": 2}}, "status", fieldValidation="Ignore")
    assert odd["status"] == {"ready": 1}


@case(Area.SCHEMA)
async def a_table_shows_the_printer_columns(api: Api) -> None:
    await api.create(WIDGET, widget("b", {"size": 2, "color": "blue"}))
    await api.create(WIDGET, widget("a"))
    status: Json = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}
    await api.patch(WIDGET, "b", {"status": status}, "status")
    table = await api.quiet.call("GET", api.path(WIDGET), accept=TABLE)
    columns = [(one["name"], one["type"], one["priority"]) for one in table.body["columnDefinitions"]]
    cells = [row["cells"][:4] for row in table.body["rows"]]
    api.note("the table", {"kind": table.body["kind"], "columnDefinitions": table.body["columnDefinitions"]})
    api.note("its rows", cells)
    assert [name for name, _, _ in columns] == ["Name", "Size", "Color", "Ready", "Age"]
    assert cells == [["a", 1, "red", None], ["b", 2, "blue", "True"]]


@case(Area.SCHEMA)
async def rows_of_a_table_carry_as_much_of_the_object_as_asked(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    for wanted in ("None", "Metadata", "Object"):
        table = await api.quiet.call("GET", api.path(WIDGET, "one"), accept=TABLE, includeObject=wanted)
        (row,) = table.body["rows"]
        carried = row.get("object")
        api.note(wanted, carried and {"kind": carried["kind"], "has": sorted(carried)})
    refused = await api.call("GET", api.path(WIDGET, "one"), accept=TABLE, includeObject="Everything")
    assert refused.status == 400


@case(Area.SCHEMA)
async def a_custom_kind_is_found_by_its_names(api: Api) -> None:
    path = f"/apis/{GROUP}/v1"

    async def told(quiet: Api) -> bool:
        answer = await quiet.call("GET", path)
        return answer.status == 200 and len(answer.body["resources"]) == 3

    await api.eventually(told)  # both definitions were put up a moment ago
    answer = await api.call("GET", path)
    shown = {one["name"]: one for one in answer.body["resources"]}
    assert set(shown) == {"widgets", "widgets/status", "plains"}
    assert shown["widgets"]["shortNames"] == ["wd"]
    assert shown["widgets"]["categories"] == ["contract"]
    assert shown["widgets"]["namespaced"] is True


@case(Area.SCHEMA)
async def a_definition_is_established_once_it_is_served(api: Api) -> None:
    definition = await api.quiet.get(CUSTOM_RESOURCE_DEFINITION, f"widgets.{GROUP}")
    conditions = {one["type"]: one["status"] for one in definition["status.conditions"]}
    api.note("status", [conditions, definition["status.acceptedNames"], definition["status.storedVersions"]])
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"


@case(Area.SCHEMA)
async def a_definition_must_be_named_after_its_kind(api: Api) -> None:
    schema: Json = {"openAPIV3Schema": {"type": "object"}}
    body: Json = {
        "metadata": {"name": f"wrong.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "rights", "kind": "Right"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    refused = await api.create(CUSTOM_RESOURCE_DEFINITION, body)
    assert refused.status == 422
    assert {cause["field"] for cause in refused.causes} >= {"metadata.name"}


@case(Area.SCHEMA)
async def a_definition_that_goes_takes_its_kind_along(api: Api) -> None:
    name = f"passings.{GROUP.replace('contract', 'passing')}"
    group = GROUP.replace("contract", "passing")
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/passings"
    schema: Json = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body: Json = {
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "passings", "kind": "Passing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    assert (await api.quiet.create(CUSTOM_RESOURCE_DEFINITION, body)).status == 201

    async def answers(quiet: Api, status: int) -> bool:
        return (await quiet.call("GET", path)).status == status

    await api.eventually(lambda quiet: answers(quiet, 200))
    made = await api.call(
        "POST", path, {"apiVersion": f"{group}/v1", "kind": "Passing", "metadata": {"name": "one"}, "anything": [1]}
    )
    assert made.status == 201
    await api.quiet.delete(CUSTOM_RESOURCE_DEFINITION, name)
    await api.eventually(lambda quiet: answers(quiet, 404))
    gone = await api.quiet.get(CUSTOM_RESOURCE_DEFINITION, name)
    api.note("afterwards", gone.status)
