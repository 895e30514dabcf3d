"""The form of a request: what a parameter, a header or a body may look like before its meaning matters."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP


def _config_map(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name)}


@case(Area.WATCH)
async def a_parameter_that_is_no_number_is_refused(api: Api) -> None:
    for query in ({"limit": "many"}, {"timeoutSeconds": "soon"}):
        assert (await api.list(CONFIG_MAP, **query)).status == 400, query
        assert (await api.list(WIDGET, **query)).status == 400, query


@case(Area.WATCH)
async def a_switch_is_on_for_one_and_for_true(api: Api) -> None:
    start = await api.create(CONFIG_MAP, config_map("one"))
    await api.create(CONFIG_MAP, config_map("two"))
    for word in ("1", "true", "True"):
        path = api.path(CONFIG_MAP)
        watched = await api.quiet.call("GET", path, watch=word, timeoutSeconds=1, resourceVersion=start.rv)
        api.note(f"watch={word}", [watched.status, watched.body["type"], watched.body["object"]["metadata"]["name"]])
    for word in ("0", "false"):
        listed = await api.quiet.call("GET", api.path(CONFIG_MAP), watch=word)
        assert listed.body["kind"] == "ConfigMapList", word


@case(Area.WATCH)
async def an_answer_comes_only_in_a_form_the_server_speaks(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    path = api.path(CONFIG_MAP, "one")
    assert (await api.call("GET", path, accept="text/html")).status == 406
    assert (await api.call("GET", path, accept="*/*")).status == 200
    assert (await api.call("GET", path, accept="application/*")).status == 406
    assert (await api.call("GET", path, accept="text/html, application/json;q=0.5")).status == 200


@case(Area.WATCH)
async def a_list_may_be_asked_for_as_a_table_or_else_as_json(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    path = api.path(CONFIG_MAP)
    first_choice = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert (await api.quiet.call("GET", path, accept=first_choice)).body["kind"] == "Table"
    unknown = "application/json;as=Picture;v=v1;g=meta.k8s.io,application/json"
    assert (await api.quiet.call("GET", path, accept=unknown)).body["kind"] == "ConfigMapList"
    refused = await api.call("GET", path, accept="application/json;as=Picture;v=v1;g=meta.k8s.io")
    assert refused.status == 406


@case(Area.PATCH)
async def a_content_type_may_carry_a_charset(api: Api) -> None:
    made = await api.call("POST", api.path(CONFIG_MAP), _config_map("one"), "application/json; charset=utf-8")
    assert made.status == 201
    kind = "application/merge-patch+json; charset=utf-8"
    patched = await api.patch(CONFIG_MAP, "one", {"data": {"k": "w"}}, kind=kind)
    assert patched.status in {200, 415}


@case(Area.PATCH)
async def an_empty_body_is_refused(api: Api) -> None:
    assert (await api.call("POST", api.path(CONFIG_MAP), b"")).status == 400
    assert (await api.call("POST", api.path(WIDGET), b"")).status == 400
    await api.create(CONFIG_MAP, config_map("one"))
    assert (await api.patch(CONFIG_MAP, "one", b"")).status == 400


@case(Area.DELETION)
async def delete_options_come_in_several_wrappings(api: Api) -> None:
    for number, options in enumerate(
        (
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
            {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"},
            {"propagationPolicy": "Background"},
            {},
        )
    ):
        await api.quiet.create(WIDGET, widget(f"w{number}"))
        assert (await api.delete(WIDGET, f"w{number}", options)).status == 200, options
    await api.quiet.create(WIDGET, widget("w"))
    odd = await api.quiet.delete(WIDGET, "w", {"kind": "Pod", "apiVersion": "v1"})
    api.note("another kind", odd.status)  # the real server's words name a file of its source
    assert odd.status == 400


@case(Area.DELETION)
async def delete_options_may_be_parameters(api: Api) -> None:
    await api.quiet.create(WIDGET, widget("one"))
    answer = await api.delete(WIDGET, "one", propagationPolicy="Foreground")
    assert answer.meta["finalizers"] == ["foregroundDeletion"]
    await api.quiet.create(CONFIG_MAP, config_map("one"))
    assert (await api.delete(CONFIG_MAP, "one", gracePeriodSeconds="soon")).status == 400
    assert (await api.delete(CONFIG_MAP, "one", gracePeriodSeconds=0)).status == 200


@case(Area.PATCH)
async def a_field_manager_must_be_printable_and_short(api: Api) -> None:
    assert (await api.create(CONFIG_MAP, config_map("one"), fieldManager="x" * 129)).status == 422
    assert (await api.create(CONFIG_MAP, config_map("one"), fieldManager="a\tb")).status == 422
    assert (await api.create(CONFIG_MAP, config_map("one"), fieldManager="x" * 128)).status == 201
