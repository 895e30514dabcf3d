"""What a list shows, in which order, through which selector and page, and as of when."""

from typing import Any

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, pod, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, POD, Resource

FAR_AHEAD = "9000000000000"


async def _three(api: Api) -> None:
    """Three config maps with labels, created out of order."""
    for name, labels in (("b", {"tier": "web"}), ("c", {"tier": "db", "hot": "yes"}), ("a", {})):
        await api.quiet.create(CONFIG_MAP, config_map(name, labels=labels))


@case(Area.WATCH)
async def a_list_is_in_the_order_of_names_and_carries_a_version(api: Api) -> None:
    await _three(api)
    answer = await api.list(CONFIG_MAP)

    assert answer.status == 200
    assert answer.names == ["a", "b", "c"]
    assert answer.rv.isdigit()


@case(Area.WATCH)
async def items_of_a_custom_kind_name_their_kind_and_built_in_ones_do_not(api: Api) -> None:
    await api.create(WIDGET, widget("one"))
    await api.create(CONFIG_MAP, config_map("one"))
    custom = await api.list(WIDGET)
    built_in = await api.list(CONFIG_MAP)

    assert custom.items[0]["kind"] == "Widget"
    assert "kind" not in built_in.items[0]


@case(Area.WATCH)
async def an_empty_or_unknown_namespace_lists_as_empty(api: Api) -> None:
    assert (await api.list(CONFIG_MAP)).items == []
    assert (await api.list(WIDGET)).items == []
    nowhere = await api.call("GET", CONFIG_MAP.path("case-never-made"))
    assert nowhere.status == 200
    assert nowhere.items == []


@case(Area.WATCH)
async def label_selectors_choose_by_equality_set_and_presence(api: Api) -> None:
    await _three(api)
    wanted = {
        "tier=web": ["b"],
        "tier==web": ["b"],
        "tier!=web": ["a", "c"],
        "tier in (web,db)": ["b", "c"],
        "tier notin (web)": ["a", "c"],
        "hot": ["c"],
        "!hot": ["a", "b"],
        "tier,!hot": ["b"],
        "tier=db,hot=yes": ["c"],
        "": ["a", "b", "c"],
    }
    for selector, names in wanted.items():
        assert (await api.list(CONFIG_MAP, labelSelector=selector)).names == names, selector


@case(Area.WATCH)
async def numbers_in_label_selectors_compare_as_numbers(api: Api) -> None:
    for name, size in (("small", "5"), ("large", "10"), ("odd", "ten")):
        await api.quiet.create(CONFIG_MAP, config_map(name, labels={"size": size}))
    assert (await api.list(CONFIG_MAP, labelSelector="size>7")).names == ["large"]
    assert (await api.list(CONFIG_MAP, labelSelector="size<7")).names == ["small"]


@case(Area.WATCH)
async def a_malformed_label_selector_is_refused(api: Api) -> None:
    for selector in ("a=b=c", "tier in web", "-x=1"):
        assert (await api.list(CONFIG_MAP, labelSelector=selector)).status == 400, selector


@case(Area.WATCH)
async def field_selectors_choose_by_name_and_namespace(api: Api) -> None:
    await _three(api)
    assert (await api.list(CONFIG_MAP, fieldSelector="metadata.name=b")).names == ["b"]
    assert (await api.list(CONFIG_MAP, fieldSelector="metadata.name!=b")).names == ["a", "c"]
    here = f"metadata.namespace={api.namespace}"
    assert (await api.list(CONFIG_MAP, everywhere=True, fieldSelector=here)).names == ["a", "b", "c"]


@case(Area.WATCH)
async def field_selectors_choose_pods_by_node_and_phase(api: Api) -> None:
    await api.quiet.create(POD, pod("bound", {"nodeName": "n1"}))
    await api.quiet.create(POD, pod("loose"))
    await api.quiet.patch(POD, "bound", {"status": {"phase": "Running"}}, "status")
    chosen = {
        "spec.nodeName=n1": ["bound"],
        "spec.nodeName=": ["loose"],
        "status.phase=Pending": ["loose"],
        "status.phase!=Pending,spec.nodeName=n1": ["bound"],
        "spec.restartPolicy=Always": ["bound", "loose"],
    }
    for selector, names in chosen.items():
        listed = await api.quiet.list(POD, fieldSelector=selector)
        assert listed.names == names, selector


@case(Area.WATCH)
async def a_field_that_is_no_index_is_refused_as_a_selector(api: Api) -> None:
    assert (await api.list(CONFIG_MAP, fieldSelector="data.k=v")).status == 400
    assert (await api.list(POD, fieldSelector="spec.hostname=x")).status == 400
    assert (await api.list(WIDGET, fieldSelector="spec.size=1")).status == 400
    assert (await api.list(WIDGET, fieldSelector="nonsense")).status == 400


@case(Area.WATCH)
async def a_selectable_field_of_a_custom_kind_selects(api: Api) -> None:
    await api.create(WIDGET, widget("green", {"size": 1, "color": "green"}))
    await api.create(WIDGET, widget("red", {"size": 1}))
    assert (await api.list(WIDGET, fieldSelector="spec.color=green")).names == ["green"]
    assert (await api.list(WIDGET, fieldSelector="spec.color!=green")).names == ["red"]


@case(Area.WATCH)
async def a_list_over_all_namespaces_finds_what_a_selector_names(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("everywhere", labels={"case": "over-all-namespaces"}))
    answer = await api.list(CONFIG_MAP, everywhere=True, labelSelector="case=over-all-namespaces")
    assert answer.names == ["everywhere"]


async def _pages(api: Api, resource: Resource, size: int, **query: Any) -> list[list[str]]:
    """All pages' names, read one after the other."""
    pages: list[list[str]] = []
    token = ""
    while True:
        more = {"continue": token} if token else query
        answer = await api.list(resource, limit=size, **more)
        assert answer.status == 200, answer.body
        pages.append(answer.names)
        token = answer.meta.get("continue", "")
        if not token:
            return pages


@case(Area.WATCH)
async def pages_tell_how_many_remain_and_the_last_one_ends(api: Api) -> None:
    for number in range(5):
        await api.quiet.create(CONFIG_MAP, config_map(f"m{number}"))
    assert await _pages(api, CONFIG_MAP, 2) == [["m0", "m1"], ["m2", "m3"], ["m4"]]


@case(Area.WATCH)
async def a_page_as_large_as_the_list_has_no_continuation(api: Api) -> None:
    for number in range(2):
        await api.quiet.create(WIDGET, widget(f"m{number}"))
    assert await _pages(api, WIDGET, 2) == [["m0", "m1"]]
    assert await _pages(api, WIDGET, 0) == [["m0", "m1"]]


@case(Area.WATCH)
async def later_pages_show_the_world_of_the_first(api: Api) -> None:
    """A write between two pages is not seen by the second one, and all pages have one version."""
    for number in range(4):
        await api.quiet.create(CONFIG_MAP, config_map(f"m{number}"))
    first = await api.list(CONFIG_MAP, limit=2)
    await api.delete(CONFIG_MAP, "m2")
    await api.create(CONFIG_MAP, config_map("m25"))
    await api.patch(CONFIG_MAP, "m3", {"data": {"k": "changed"}})
    second = await api.list(CONFIG_MAP, limit=2, **{"continue": first.meta["continue"]})

    assert second.names == ["m2", "m3"]
    assert second.items[1]["data"] == {"k": "v"}
    assert second.rv == first.rv


@case(Area.WATCH)
async def a_page_of_a_selection_does_not_count_the_rest(api: Api) -> None:
    for number in range(5):
        await api.quiet.create(CONFIG_MAP, config_map(f"m{number}", labels={"odd": str(number % 2)}))
    first = await api.list(CONFIG_MAP, limit=2, labelSelector="odd=0")
    assert first.names == ["m0", "m2"]
    assert "remainingItemCount" not in first.meta
    last = await api.list(CONFIG_MAP, limit=2, labelSelector="odd=0", **{"continue": first.meta["continue"]})
    assert last.names == ["m4"]


@case(Area.WATCH)
async def a_continue_token_that_is_none_is_refused(api: Api) -> None:
    assert (await api.list(CONFIG_MAP, limit=1, **{"continue": "rubbish"})).status == 400


@case(Area.WATCH)
async def a_continuation_takes_no_version_of_its_own(api: Api) -> None:
    for number in range(2):
        await api.quiet.create(CONFIG_MAP, config_map(f"m{number}"))
    first = await api.list(CONFIG_MAP, limit=1)
    again: Json = {"continue": first.meta["continue"]}
    assert (await api.list(CONFIG_MAP, limit=1, resourceVersion=first.rv, **again)).status == 400
    assert (await api.list(CONFIG_MAP, limit=1, resourceVersion="0", **again)).status == 200
    matched = await api.list(CONFIG_MAP, limit=1, resourceVersionMatch="NotOlderThan", **again)
    assert matched.status == 422


@case(Area.WATCH)
async def any_version_will_do_for_version_zero(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))

    async def shown(quiet: Api) -> bool:
        return (await quiet.list(CONFIG_MAP, resourceVersion="0")).names == ["one"]

    await api.eventually(shown)  # a cache may lag
    assert (await api.list(CONFIG_MAP, resourceVersion="0")).names == ["one"]
    assert (await api.list(CONFIG_MAP, resourceVersion="0", resourceVersionMatch="NotOlderThan")).status == 200
    assert (await api.get(CONFIG_MAP, "one", resourceVersion="0")).status == 200


@case(Area.WATCH)
async def a_page_of_any_version_is_the_whole_list(api: Api) -> None:
    """Version zero is answered from the cache, which heeds no limit; with any other version a page is a page."""
    last = [await api.quiet.create(CONFIG_MAP, config_map(f"m{number}")) for number in range(3)][-1]

    async def shown(quiet: Api) -> bool:
        return len((await quiet.list(CONFIG_MAP, resourceVersion="0")).items) == 3

    await api.eventually(shown)
    assert (await api.list(CONFIG_MAP, resourceVersion="0", limit=2)).names == ["m0", "m1", "m2"]
    first = await api.list(CONFIG_MAP, resourceVersion=last.rv, resourceVersionMatch="NotOlderThan", limit=2)
    assert first.names == ["m0", "m1"]
    assert (await api.list(CONFIG_MAP, limit=2, **{"continue": first.meta["continue"]})).names == ["m2"]


@case(Area.WATCH)
async def pages_of_an_exact_version_show_the_past(api: Api) -> None:
    last = [await api.quiet.create(CONFIG_MAP, config_map(f"m{number}")) for number in range(3)][-1]
    await api.delete(CONFIG_MAP, "m1")
    pages = await _pages(api, CONFIG_MAP, 2, resourceVersion=last.rv, resourceVersionMatch="Exact")
    assert pages == [["m0", "m1"], ["m2"]]


@case(Area.WATCH)
async def a_rule_of_match_needs_a_version(api: Api) -> None:
    assert (await api.list(CONFIG_MAP, resourceVersionMatch="Exact")).status == 422
    assert (await api.list(CONFIG_MAP, resourceVersionMatch="NotOlderThan")).status == 422


@case(Area.WATCH)
async def an_exact_match_of_version_zero_is_refused(api: Api) -> None:
    assert (await api.list(CONFIG_MAP, resourceVersion="0", resourceVersionMatch="Exact")).status == 422


@case(Area.WATCH)
async def an_unknown_rule_of_match_is_refused(api: Api) -> None:
    assert (await api.list(CONFIG_MAP, resourceVersion="1", resourceVersionMatch="Roughly")).status == 422


@case(Area.WATCH)
async def an_exact_match_shows_the_past(api: Api) -> None:
    before = await api.create(CONFIG_MAP, config_map("one"))
    await api.patch(CONFIG_MAP, "one", {"data": {"k": "later"}})
    await api.create(CONFIG_MAP, config_map("two"))
    past = await api.list(CONFIG_MAP, resourceVersion=before.rv, resourceVersionMatch="Exact")

    assert past.names == ["one"]
    assert past.items[0]["data"] == {"k": "v"}
    assert past.rv == before.rv


@case(Area.WATCH)
async def not_older_than_shows_at_least_that_version(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    later = await api.create(CONFIG_MAP, config_map("two"))
    queries: list[Json] = [{}, {"resourceVersionMatch": "NotOlderThan"}]
    for query in queries:
        shown = await api.list(CONFIG_MAP, resourceVersion=later.rv, **query)
        assert shown.names == ["one", "two"]
        assert int(shown.rv) >= int(later.rv)


@case(Area.WATCH)
async def a_version_of_the_future_times_out(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    listed = await api.list(CONFIG_MAP, resourceVersion=FAR_AHEAD, resourceVersionMatch="NotOlderThan")
    assert listed.status == 504
    assert listed.causes[0]["reason"] == "ResourceVersionTooLarge"
    assert (await api.get(CONFIG_MAP, "one", resourceVersion=FAR_AHEAD)).status == 504


@case(Area.WATCH)
async def a_version_that_is_no_number_is_refused(api: Api) -> None:
    assert (await api.list(CONFIG_MAP, resourceVersion="yesterday")).status == 400
    assert (await api.list(WIDGET, resourceVersion="yesterday", resourceVersionMatch="NotOlderThan")).status == 400


@case(Area.WATCH)
async def a_list_can_be_of_metadata_alone(api: Api) -> None:
    await api.create(WIDGET, widget("one", labels={"a": "b"}))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = await api.call("GET", api.path(WIDGET), accept=accept)
    assert listed.body["kind"] == "PartialObjectMetadataList"
    assert "spec" not in listed.items[0]
    single = await api.call(
        "GET", api.path(WIDGET, "one"), accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )
    assert single.body["kind"] == "PartialObjectMetadata"


@case(Area.WATCH)
async def what_is_not_there_is_named_in_its_404(api: Api) -> None:
    assert (await api.get(CONFIG_MAP, "absent")).message == 'configmaps "absent" not found'
    assert (await api.get(WIDGET, "absent")).message == 'widgets.contract.tgp.io "absent" not found'
    unknown = Resource("contract.tgp.io", "v1", "gadgets", "Gadget", namespaced=True)
    assert (await api.list(unknown)).status == 404
    assert (await api.list(Resource("", "v1", "gadgets", "Gadget", namespaced=True))).status == 404


@case(Area.WATCH)
async def a_collection_takes_no_put_and_no_patch(api: Api) -> None:
    assert (await api.call("PUT", api.path(CONFIG_MAP), config_map("one"))).status == 405
    assert (await api.call("PATCH", api.path(CONFIG_MAP), {}, "application/merge-patch+json")).status == 405
    assert (await api.call("POST", api.path(CONFIG_MAP, "one"), config_map("one"))).status == 405
