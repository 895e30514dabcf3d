"""What a watch tells: from when, in which order, through which selector, until when, and when it gives up."""

import base64
from typing import Any

import msgspec

from tests.contracts.apiserver.api import Api, Events, Json
from tests.contracts.apiserver.kinds import WIDGET, config_map, pod, widget
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, POD

END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"


async def _told(events: Events, count: int) -> list[tuple[str, str]]:
    return [(event.type, event.name) for event in await events.take(count)]


async def _settled(api: Api, *names: str, **query: Any) -> None:
    """Wait until the server's own cache has seen the last write: what any version may show is then one thing."""

    async def shown(quiet: Api) -> bool:
        return (await quiet.list(CONFIG_MAP, resourceVersion="0", **query)).names == list(names)

    await api.eventually(shown)


@case(Area.WATCH)
async def a_watch_from_a_version_tells_only_what_came_later(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("before"))
    start = await api.create(CONFIG_MAP, config_map("start"))
    await api.create(CONFIG_MAP, config_map("missed"))
    async with api.watch(CONFIG_MAP, resourceVersion=start.rv) as events:
        assert await _told(events, 1) == [("ADDED", "missed")]
        await api.create(CONFIG_MAP, config_map("live"))
        await api.patch(CONFIG_MAP, "before", {"data": {"k": "x"}})
        await api.delete(CONFIG_MAP, "start")
        assert await _told(events, 3) == [("ADDED", "live"), ("MODIFIED", "before"), ("DELETED", "start")]


@case(Area.WATCH)
async def a_watch_of_a_custom_kind_tells_whole_objects(api: Api) -> None:
    start = await api.create(WIDGET, widget("one"))
    async with api.watch(WIDGET, resourceVersion=start.rv) as events:
        await api.patch(WIDGET, "one", {"spec": {"size": 2}})
        await api.patch(WIDGET, "one", {"status": {"phase": "Ready"}}, "status")
        await api.delete(WIDGET, "one")
        assert [event.type for event in await events.take(3)] == ["MODIFIED", "MODIFIED", "DELETED"]


@case(Area.WATCH)
async def a_watch_from_version_zero_begins_with_what_is_there(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("a"))
    await api.quiet.create(CONFIG_MAP, config_map("b"))
    await _settled(api, "a", "b")
    async with api.watch(CONFIG_MAP, resourceVersion="0") as events:
        assert await _told(events, 2) == [("ADDED", "a"), ("ADDED", "b")]
        await api.create(CONFIG_MAP, config_map("c"))
        assert await _told(events, 1) == [("ADDED", "c")]


@case(Area.WATCH)
async def a_watch_without_a_version_begins_with_what_is_there(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("a"))
    await api.quiet.create(CONFIG_MAP, config_map("b"))
    async with api.watch(CONFIG_MAP) as events:
        assert sorted(await _told(events, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.delete(CONFIG_MAP, "a")
        assert await _told(events, 1) == [("DELETED", "a")]


@case(Area.WATCH)
async def events_come_in_the_order_of_their_versions(api: Api) -> None:
    start = await api.create(CONFIG_MAP, config_map("start"))
    async with api.watch(CONFIG_MAP, resourceVersion=start.rv) as events:
        for number in range(5):
            await api.create(CONFIG_MAP, config_map(f"m{number}"))
            await api.patch(CONFIG_MAP, "start", {"data": {"n": str(number)}})
        versions = [event.rv for event in await events.take(10)]
    assert versions == sorted(set(versions))


@case(Area.WATCH)
async def a_deleted_object_is_told_as_it_last_was_with_the_version_of_its_end(api: Api) -> None:
    await api.create(CONFIG_MAP, config_map("one"))
    last = await api.patch(CONFIG_MAP, "one", {"data": {"k": "last"}})
    async with api.watch(CONFIG_MAP, resourceVersion=last.rv) as events:
        await api.delete(CONFIG_MAP, "one")
        (event,) = await events.take(1)
    assert event.type == "DELETED"
    assert event.object["data"] == {"k": "last"}
    assert event.rv > int(last.rv)


@case(Area.WATCH)
async def an_object_enters_and_leaves_a_label_selection(api: Api) -> None:
    """Entering is told as ADDED and leaving as DELETED, though the object lives on."""
    start = await api.create(CONFIG_MAP, config_map("one"))
    async with api.watch(CONFIG_MAP, resourceVersion=start.rv, labelSelector="on=yes") as events:
        await api.patch(CONFIG_MAP, "one", {"metadata": {"labels": {"on": "yes"}}})
        await api.patch(CONFIG_MAP, "one", {"data": {"k": "x"}})
        await api.patch(CONFIG_MAP, "one", {"metadata": {"labels": {"on": "no"}}, "data": {"k": "y"}})
        await api.patch(CONFIG_MAP, "one", {"data": {"k": "unseen"}})
        await api.patch(CONFIG_MAP, "one", {"metadata": {"labels": {"on": "yes"}}})
        await api.delete(CONFIG_MAP, "one")
        told = await events.take(5)
    assert [event.type for event in told] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


@case(Area.WATCH)
async def an_object_outside_the_selection_is_never_told(api: Api) -> None:
    start = await api.create(CONFIG_MAP, config_map("out", labels={"on": "no"}))
    async with api.watch(CONFIG_MAP, resourceVersion=start.rv, labelSelector="on=yes") as events:
        await api.patch(CONFIG_MAP, "out", {"data": {"k": "x"}})
        await api.delete(CONFIG_MAP, "out")
        await api.create(CONFIG_MAP, config_map("in", labels={"on": "yes"}))
        assert await _told(events, 1) == [("ADDED", "in")]
        await events.are_silent()


@case(Area.WATCH)
async def a_pod_enters_and_leaves_a_field_selection(api: Api) -> None:
    start = await api.quiet.create(POD, pod("p", {"nodeName": "n1"}))
    query: Json = {"fieldSelector": "status.phase=Running,spec.nodeName=n1", "resourceVersion": start.rv}
    async with api.watch(POD, **query) as events:
        for phase in ("Running", "Succeeded"):
            await api.quiet.patch(POD, "p", {"status": {"phase": phase}}, "status")
        told = await events.take(2)
    assert [(event.type, event.object["status"]["phase"]) for event in told] == [
        ("ADDED", "Running"),
        ("DELETED", "Running"),
    ]


@case(Area.WATCH)
async def a_watch_can_follow_one_name(api: Api) -> None:
    start = await api.create(WIDGET, widget("mine"))
    async with api.watch(WIDGET, resourceVersion=start.rv, fieldSelector="metadata.name=mine") as events:
        await api.create(WIDGET, widget("other"))
        await api.patch(WIDGET, "mine", {"spec": {"size": 3}})
        assert await _told(events, 1) == [("MODIFIED", "mine")]
    async with api.watch(WIDGET, resourceVersion=start.rv, fieldSelector="spec.color=green") as events:
        await api.patch(WIDGET, "other", {"spec": {"color": "green"}})
        assert await _told(events, 1) == [("ADDED", "other")]


@case(Area.WATCH)
async def a_watch_over_all_namespaces_follows_a_selection(api: Api) -> None:
    start = await api.create(CONFIG_MAP, config_map("seed"))
    query: Json = {"labelSelector": "case=watch-over-all", "resourceVersion": start.rv}
    async with api.watch(CONFIG_MAP, everywhere=True, **query) as events:
        await api.create(CONFIG_MAP, config_map("one", labels={"case": "watch-over-all"}))
        assert await _told(events, 1) == [("ADDED", "one")]


@case(Area.WATCH)
async def a_streaming_list_ends_its_initial_events_with_a_bookmark(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("a"))
    last = await api.create(CONFIG_MAP, config_map("b"))
    query: Json = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(CONFIG_MAP, **query) as events:
        assert await _told(events, 2) == [("ADDED", "a"), ("ADDED", "b")]
        (bookmark,) = await events.take(1)
        assert bookmark.type == "BOOKMARK"
        assert bookmark.object["metadata"]["annotations"] == {END_OF_INITIAL_EVENTS: "true"}
        assert bookmark.rv >= int(last.rv)
        await api.create(CONFIG_MAP, config_map("c"))
        assert await _told(events, 1) == [("ADDED", "c")]


@case(Area.WATCH)
async def a_streaming_list_may_ask_for_at_least_a_version(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("a"))
    last = await api.create(CONFIG_MAP, config_map("b"))
    query: Json = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(CONFIG_MAP, resourceVersion=last.rv, **query) as events:
        told = await events.take(3)
    assert [event.type for event in told] == ["ADDED", "ADDED", "BOOKMARK"]


@case(Area.WATCH)
async def a_streaming_list_without_bookmarks_does_not_say_where_it_ends(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("a"))
    query: Json = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAP, **query) as events:
        assert await _told(events, 1) == [("ADDED", "a")]
        await events.are_silent()


@case(Area.WATCH)
async def a_streaming_list_of_nothing_is_a_bookmark(api: Api) -> None:
    query: Json = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(WIDGET, **query) as events:
        (bookmark,) = await events.take(1)
    assert bookmark.type == "BOOKMARK"
    assert bookmark.object["kind"] == "Widget"


@case(Area.WATCH)
async def a_streaming_list_shows_a_selection(api: Api) -> None:
    for name, labels in (("in", {"on": "yes"}), ("out", {"on": "no"})):
        await api.quiet.create(WIDGET, widget(name, labels=labels))
    query: Json = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(WIDGET, labelSelector="on=yes", **query) as events:
        told = await events.take(2)
    assert [event.type for event in told] == ["ADDED", "BOOKMARK"]


@case(Area.WATCH)
async def a_streaming_list_needs_its_rule_of_match(api: Api) -> None:
    assert (await api.refused_watch(CONFIG_MAP, sendInitialEvents="true")).status == 422
    exact = {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"}
    assert (await api.refused_watch(CONFIG_MAP, **exact)).status == 422
    assert (await api.refused_watch(CONFIG_MAP, resourceVersionMatch="NotOlderThan")).status == 422
    listed = await api.list(CONFIG_MAP, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    assert listed.status == 422


@case(Area.WATCH)
async def a_watch_that_declines_initial_events_begins_with_now(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("old"))
    await _settled(api, "old")
    query: Json = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(CONFIG_MAP, **query) as events:
        await events.are_silent()
        await api.create(CONFIG_MAP, config_map("new"))
        assert await _told(events, 1) == [("ADDED", "new")]


@case(Area.WATCH)
async def a_bookmark_comes_before_the_watch_times_out(api: Api) -> None:
    """It carries a kind and a version no older than the last event, and nothing else."""
    await api.create(CONFIG_MAP, config_map("one"))
    last = await api.patch(CONFIG_MAP, "one", {"data": {"k": "x"}})
    query: Json = {"allowWatchBookmarks": "true", "timeoutSeconds": "5", "resourceVersion": last.rv}
    async with api.watch(CONFIG_MAP, **query) as events:
        event = await events.next()
    assert event is not None
    assert event.type == "BOOKMARK"
    assert event.rv >= int(last.rv)
    assert "data" not in event.object


@case(Area.WATCH)
async def bookmarks_come_only_when_asked_for_and_a_timeout_is_a_clean_end(api: Api) -> None:
    start = await api.create(WIDGET, widget("one"))
    async with api.watch(WIDGET, timeoutSeconds="3", resourceVersion=start.rv) as events:
        assert await events.to_the_end() == []


@case(Area.WATCH)
async def a_watch_ends_with_its_timeout_after_what_it_told(api: Api) -> None:
    start = await api.create(CONFIG_MAP, config_map("one"))
    async with api.watch(CONFIG_MAP, timeoutSeconds="3", resourceVersion=start.rv) as events:
        await api.create(CONFIG_MAP, config_map("two"))
        assert [event.type for event in await events.to_the_end()] == ["ADDED"]


@case(Area.WATCH)
async def a_watch_from_a_forgotten_version_is_told_so_inside_the_stream(api: Api) -> None:
    """The answer is 200; its first event is an ERROR that carries a 410, and then the stream ends."""
    await api.create(WIDGET, widget("one"))
    async with api.watch(WIDGET, resourceVersion="1") as events:
        assert events.status == 200
        (error,) = await events.to_the_end()
    assert error.type == "ERROR"
    assert error.object["code"] == 410
    assert error.object["reason"] == "Expired"


@case(Area.WATCH)
async def a_watch_with_a_malformed_selector_is_refused(api: Api) -> None:
    assert (await api.refused_watch(CONFIG_MAP, labelSelector="a=b=c")).status == 400
    assert (await api.refused_watch(CONFIG_MAP, fieldSelector="data.k=v")).status == 400


@case(Area.WATCH)
async def a_watch_can_be_of_metadata_alone(api: Api) -> None:
    start = await api.create(WIDGET, widget("one"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with api.watch(WIDGET, accept=accept, resourceVersion=start.rv) as events:
        await api.patch(WIDGET, "one", {"metadata": {"labels": {"a": "b"}}})
        (event,) = await events.take(1)
    assert event.object["kind"] == "PartialObjectMetadata"
    assert "spec" not in event.object


@case(Area.WATCH)
async def a_watch_can_be_of_table_rows(api: Api) -> None:
    start = await api.create(WIDGET, widget("one"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with api.watch(WIDGET, accept=accept, resourceVersion=start.rv) as events:
        await api.patch(WIDGET, "one", {"spec": {"size": 7}})
        await api.patch(WIDGET, "one", {"spec": {"size": 8}})
        first, second = await events.take(2)
    assert first.object["rows"][0]["cells"][:2] == ["one", 7]
    assert second.object["rows"][0]["cells"][:2] == ["one", 8]


@case(Area.WATCH)
async def a_write_that_changes_nothing_is_not_told(api: Api) -> None:
    start = await api.create(CONFIG_MAP, config_map("one"))
    async with api.watch(CONFIG_MAP, resourceVersion=start.rv) as events:
        await api.patch(CONFIG_MAP, "one", {"data": {"k": "v"}})
        await api.update(CONFIG_MAP, config_map("one"))
        await events.are_silent()


@case(Area.WATCH, alone=True)
async def a_page_of_forgotten_history_is_gone_and_shows_a_way_on(api: Api) -> None:
    """The 410 of an old continuation carries a token that goes on from the same place in the world as it is now.

    History is hard to make old on the real server, whose watch cache keeps some minutes of it beside etcd. So the
    token is rewritten to name a version that was compacted away.
    """
    for number in range(3):
        await api.quiet.create(CONFIG_MAP, config_map(f"m{number}"))
    first = await api.list(CONFIG_MAP, limit=1)
    await api.server.compact()
    await api.create(CONFIG_MAP, config_map("m05"))
    old: Json = {"continue": _of_version_one(first.meta["continue"])}
    gone = await api.list(CONFIG_MAP, limit=1, **old)
    assert gone.status == 410
    assert gone.reason == "Expired"
    rest = await api.list(CONFIG_MAP, limit=5, **{"continue": gone.meta["continue"]})
    assert rest.names == ["m05", "m1", "m2"]


def _of_version_one(token: str) -> str:
    position = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(msgspec.json.encode({**position, "rv": 1})).decode().rstrip("=")


@case(Area.WATCH, alone=True)
async def forgotten_history_is_told_as_gone(api: Api) -> None:
    """After a compaction an exact list of an old version is refused with the status 410."""
    await api.create(CONFIG_MAP, config_map("one"))
    await api.server.compact()
    answer = await api.list(CONFIG_MAP, resourceVersion="1", resourceVersionMatch="Exact")
    assert answer.status == 410
    assert answer.reason == "Expired"
