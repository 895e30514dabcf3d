"""Whatever the API server and the way to it do, the store ends up equal to the cluster, and no reader is misled."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.contracts.reflector.served import (
    Even,
    Noted,
    ServedPods,
    a_bookmark,
    a_refusal,
    a_status,
    in_virtual_time,
)
from tgp.adapters.kube.index import by_node
from tgp.adapters.kube.interning import FEW
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import pods
from tgp.adapters.kube.reflector import AWAITED, REWIND_AFTER, Reflector, State
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.watch import WatchTimes
from tgp.api.resource import POD
from tgp.core.model.pod import Pod
from tgp.ports.http import NeverLeft, NoAnswer


class Rig:
    def __init__(self, served: ServedPods, **options) -> None:
        self.served = served
        self.noted = Noted()
        self.store: Store[Pod] = Store(POD, {"node": by_node})
        self.projection = pods()
        self.reflector = Reflector(served, ListTarget(self.projection), self.store, Even(), self.noted, **options)
        self.heard: list[tuple[str, str]] = []
        self.store.subscribe(self._hear)

    def _hear(self, old: Pod | None, new: Pod | None) -> None:
        verb = "came" if old is None else "went" if new is None else "changed"
        self.heard.append((verb, (old if new is None else new).key.name))

    def names(self) -> list[str]:
        return sorted(record.key.name for record in self.store.values())


@asynccontextmanager
async def reflecting(served: ServedPods, **options) -> AsyncIterator[Rig]:
    rig = Rig(served, **options)
    task = asyncio.create_task(rig.reflector.run())
    try:
        yield rig
        assert not task.done(), "a reflector never ends by itself"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - it is the time that is measured
        await asyncio.sleep(0.1)


def test_lists_by_stream_then_hears_every_change():
    async def scenario():
        served = ServedPods()
        first = served.create("a")
        async with reflecting(served) as rig:
            assert not rig.store.synced
            await rig.store.wait_synced()
            second = served.create("b")
            served.move(first, "node-1")
            served.delete(second)
            await asyncio.sleep(0.1)

            assert rig.heard == [("came", "a"), ("came", "b"), ("changed", "a"), ("went", "b")]
            assert [pod.key.name for pod in rig.store.by_index("node", "node-1")] == ["a"]
            assert rig.store.by_index("node", "") == []
            assert served.lists() == 1
            assert rig.reflector.state == State.WATCHING

    in_virtual_time(scenario())


@pytest.mark.parametrize("server", ["refused", "ignored", "early bookmark"])
def test_falls_back_to_pages_where_streaming_lists_are_not_to_be_had(server):
    """1.28 refuses the parameter; older ones and some proxies ignore it and never send the end mark.

    An ordinary bookmark is no end mark: taking it for one would believe half a list.
    """

    async def scenario():
        served = ServedPods()
        served.streaming = server
        for number in range(1201):
            served.create(f"pod-{number}")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.create("later")
            await asyncio.sleep(0.1)

            assert len(rig.store) == 1202
            limits = [call.parameter("limit") for _, call in served.calls if call.parameter("limit")]
            assert limits == ["500", "500", "500"]

            await rig.reflector.refreshed()
            streams = [call for _, call in served.calls if call.parameter("sendInitialEvents")]
            assert len(streams) == 1, "once it is known, it is not asked again"

    in_virtual_time(scenario())


def test_a_server_that_is_only_slow_to_begin_is_asked_for_a_stream_again():
    """Pages will do meanwhile; a whole stream that stays silent proves nothing about the next one."""

    async def scenario():
        served = ServedPods()
        served.streaming = "ignored"  # and there is nothing to send
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.streaming = "yes"
            await rig.reflector.refreshed()
            streams = [call for _, call in served.calls if call.parameter("sendInitialEvents")]

            assert len(streams) == 2
            assert sum(1 for _, call in served.calls if call.parameter("limit")) == 1

    in_virtual_time(scenario())


def test_a_streaming_list_that_keeps_breaking_off_is_tried_by_pages():
    async def scenario():
        served = ServedPods()
        served.create("a")
        served.streaming = "ignored"
        served.lasts = 0.5
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            asked = ["stream" if call.parameter("sendInitialEvents") else "pages" for _, call in served.calls[:3]]

            assert asked == ["stream", "stream", "pages"]

    in_virtual_time(scenario())


def test_a_streaming_list_that_keeps_being_refused_as_expired_is_tried_by_pages():
    """A watch cache that cannot serve it says 410; etcd, behind a page, can."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        served.refusals.extend([a_refusal(410, "Expired")] * 2)
        async with reflecting(served) as rig:
            await asyncio.wait_for(rig.store.wait_synced(), 5)

            assert rig.names() == ["a"]
            kinds = ["stream" if call.parameter("sendInitialEvents") else "pages" for _, call in served.calls[:3]]
            assert kinds == ["stream", "stream", "pages"]

    in_virtual_time(scenario())


def test_an_outage_does_not_make_it_give_up_streaming():
    async def scenario():
        served = ServedPods()
        served.refusals.extend([NeverLeft("down"), NeverLeft("down"), a_refusal(503), a_refusal(503)])
        async with reflecting(served) as rig:
            await rig.store.wait_synced()

            assert all(call.parameter("sendInitialEvents") for _, call in served.calls[:5])

    in_virtual_time(scenario())


def test_a_list_that_expires_between_pages_starts_again():
    async def scenario():
        served = ServedPods()
        served.expire_pages = 2
        for number in range(700):
            served.create(f"pod-{number}")
        async with reflecting(served, streaming=False) as rig:
            await rig.store.wait_synced()

            assert len(rig.store) == 700
            assert served.lists() == 3
            assert asyncio.get_running_loop().time() < 0.1, "it is the way of pages, not a trouble to wait out"

    in_virtual_time(scenario())


def test_pages_that_are_too_large_are_asked_for_smaller():
    async def scenario():
        served = ServedPods()
        served.largest_page = 100
        for number in range(130):
            served.create(f"pod-{number}")
        async with reflecting(served, streaming=False) as rig:
            await rig.store.wait_synced()

            assert len(rig.store) == 130

    in_virtual_time(scenario())


@pytest.mark.parametrize("inside", [False, True], ids=["as a status", "as an event in a 200 stream"])
def test_an_expired_version_lists_again_and_announces_only_the_difference(inside):
    """A deletion that was missed is heard exactly once; what did not change is not heard of again."""

    async def scenario():
        served = ServedPods()
        served.expired_inside = inside
        kept, gone, changed = served.create("kept"), served.create("gone"), served.create("changed")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            before = rig.store.get(kept)
            rig.heard.clear()
            served.go_deaf()
            served.delete(gone)
            served.modify(changed, phase="Running")
            served.create("new")
            served.compact()
            await asyncio.sleep(120)

            assert sorted(rig.heard) == [("came", "new"), ("changed", "changed"), ("went", "gone")]
            assert rig.store.get(kept) is before
            assert rig.names() == ["changed", "kept", "new"]
            assert served.lists() == 2

    in_virtual_time(scenario())


def test_an_object_replaced_unseen_is_reported_as_deleted_and_created():
    async def scenario():
        served = ServedPods()
        key = served.create("twin")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.go_deaf()
            served.delete(key)
            served.create("twin")
            served.compact()
            rig.heard.clear()
            await asyncio.sleep(120)

            assert rig.heard == [("went", "twin"), ("came", "twin")]

    in_virtual_time(scenario())


def test_a_half_open_connection_is_noticed_within_a_minute():
    """Deaf, healthy and silent is the worst way for a watch to fail."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(7)
            served.go_deaf()
            went_deaf_at = asyncio.get_running_loop().time()
            served.create("b")
            await until(lambda: len(rig.store) == 2)

            assert asyncio.get_running_loop().time() - went_deaf_at <= 60

    in_virtual_time(scenario())


def test_a_quiet_kind_costs_little():
    """No list, and about one small request every 35 seconds."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(3600)

            assert served.lists() == 1
            assert len(served.calls) <= 3600 / 30 + 2
            assert rig.noted.facts == []
            assert rig.reflector.silent_for() <= 60

    in_virtual_time(scenario())


def test_in_a_long_watch_a_bookmark_confirms_the_store_and_an_event_does_not():
    """After an outage events come late, one by one: the first of them does not say that all have come."""

    async def scenario():
        served = ServedPods()
        times = WatchTimes(600, 700, timedelta(seconds=800))
        async with reflecting(served, times=times) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(100)
            served.create("a")
            await asyncio.sleep(1)
            assert rig.names() == ["a"]
            assert rig.reflector.silent_for() > 100
            served.garble(a_bookmark(served.version))
            await asyncio.sleep(1)
            assert rig.reflector.silent_for() <= 1

    in_virtual_time(scenario())


def test_bookmarks_keep_a_quiet_kind_from_falling_behind():
    """Other kinds move the version on; without bookmarks every reconnection would be a list."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.version += 1000
            await asyncio.sleep(100)
            served.compact()
            await asyncio.sleep(100)

            assert rig.store.version == served.version
            assert served.lists() == 1

    in_virtual_time(scenario())


def test_what_gone_pods_shared_is_let_go_also_when_nothing_else_happens():
    async def scenario():
        served = ServedPods()
        keys = [served.create(f"pod-{n}", metadata={"labels": {"only": str(n)}}) for n in range(1000)]
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            for key in keys:
                served.delete(key)
            await asyncio.sleep(300)

            assert max(len(pool) for pool in rig.projection._pools) <= FEW

    in_virtual_time(scenario())


def test_retry_after_is_respected():
    async def scenario():
        served = ServedPods()
        served.refusals.append(a_refusal(429, "TooManyRequests", headers=(("Retry-After", "7"),)))
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            first, second = [at for at, _ in served.calls[:2]]

            assert second - first >= 7

    in_virtual_time(scenario())


def test_a_server_that_is_down_for_long_is_not_hammered_and_is_found_again():
    async def scenario():
        served = ServedPods()
        served.create("a")
        served.refusals.extend([NoAnswer("down")] * 40)
        async with reflecting(served) as rig:
            await rig.store.wait_synced()

            assert rig.noted.names() == ["WatchFailing", "WatchRecovered"]
            gaps = [later - sooner for (sooner, _), (later, _) in zip(served.calls, served.calls[1:], strict=False)]
            assert max(gaps) <= 31
            assert sum(gaps[:5]) >= 3, "five tries are not over in a moment"

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("code", "message", "state"),
    [
        (401, "Unauthorized", State.UNAUTHENTICATED),
        (403, 'pods is forbidden: User "tgp" cannot list resource "pods"', State.FORBIDDEN),
        (404, "the server could not find the requested resource", State.NOT_SERVED),
    ],
)
def test_a_closed_door_is_a_state_and_no_hot_loop(code, message, state):
    async def scenario():
        served = ServedPods()
        served.create("a")
        served.refusals.extend([a_refusal(code, message=message)] * 1000)
        async with reflecting(served) as rig:
            await asyncio.sleep(3600)

            assert state == rig.reflector.state
            assert rig.reflector.why
            assert rig.noted.names() == ["WatchFailing"], "said once, not every minute"
            assert 30 <= len(served.calls) <= 150
            assert not rig.store.synced
            served.refusals.clear()
            await asyncio.sleep(61)
            assert rig.store.synced
            assert not rig.reflector.why

    in_virtual_time(scenario())


def test_an_optional_kind_that_is_not_installed_is_empty_and_no_trouble():
    """And once it is installed it is found within five minutes; until then it is asked for in passing."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        missing = a_refusal(404, message="the server could not find the requested resource")
        served.refusals.extend([missing] * 1000)
        async with reflecting(served, optional=True) as rig:
            await rig.reflector.refreshed()
            assert rig.store.synced
            assert len(rig.store) == 0
            await asyncio.sleep(3600)
            assert rig.reflector.state == State.NOT_THERE
            assert rig.reflector.silent_for() <= 60
            asked = len(served.calls)
            await asyncio.sleep(3600)
            assert 12 <= len(served.calls) - asked <= 24
            served.refusals.clear()
            await asyncio.sleep(301)
            assert len(rig.store) == 1
            assert rig.noted.names() == []

    in_virtual_time(scenario())


def test_an_optional_kind_that_is_taken_away_is_empty_again():
    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served, optional=True) as rig:
            await rig.store.wait_synced()
            served.refusals.extend([a_refusal(404, message="the server could not find the requested resource")] * 1000)
            await asyncio.sleep(1200)  # the watch under way ends by itself
            assert len(rig.store) == 0
            assert (rig.reflector.why, rig.noted.names()) == ("", [])

    in_virtual_time(scenario())


def test_a_watch_that_is_refused_after_the_list_is_noticed_too():
    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.refusals.extend([a_refusal(403, "Forbidden", 'User "tgp" cannot watch resource "pods"')] * 1000)
            served.cut()
            await asyncio.sleep(600)

            assert rig.reflector.state == State.FORBIDDEN
            assert rig.store.synced, "what was seen stays readable"
            assert rig.reflector.silent_for() > 500

    in_virtual_time(scenario())


def test_lists_that_always_expire_do_not_run_hot():
    """List, watch, 410, list …: each list may be a hundred thousand objects."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        served.compacted = 10**9
        async with reflecting(served):
            await asyncio.sleep(3600)

            assert served.lists() <= 200

    in_virtual_time(scenario())


def test_a_watch_that_ends_at_once_does_not_run_hot():
    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.lasts = 0.0
            served.end()
            await asyncio.sleep(3600)

            assert len(served.calls) <= 250

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    "line",
    [
        b"<html>502</html>",
        b'{"type":"MODIFIED","object":{"spec":{}}}',
        b'{"type":"SURPRISE","object":{}}',
        b"\xff",
    ],
)
def test_an_unreadable_line_never_silences_a_watch(line):
    """What it said is lost, so the kind is listed again, and the watch goes on."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(0.1)
            served.garble(line)
            served.create("b")
            await asyncio.sleep(5)
            served.create("c")
            await asyncio.sleep(5)

            assert rig.names() == ["a", "b", "c"]
            assert served.lists() == 2

    in_virtual_time(scenario())


def test_an_empty_line_says_nothing():
    """Some proxies keep a connection alive with them."""

    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(0.1)
            served.garble(b"")
            served.create("a")
            await asyncio.sleep(5)

            assert rig.names() == ["a"]
            assert served.lists() == 1

    in_virtual_time(scenario())


def test_a_line_cut_short_by_the_end_of_the_stream_costs_nothing_but_the_line():
    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(0.1)
            served.garble(b'{"type":"ADDED","object":{"metadata":{"na')
            served.end()
            served.create("b")
            await asyncio.sleep(5)

            assert rig.names() == ["a", "b"]
            assert served.lists() == 1

    in_virtual_time(scenario())


def test_an_item_of_a_list_that_cannot_be_told_apart_deletes_nothing():
    """Absence proves nothing while something could not be read."""

    async def scenario():
        served = ServedPods()
        first, second = served.create("a"), served.create("b")
        async with reflecting(served, streaming=False) as rig:
            await rig.store.wait_synced()
            served.pods[second]["metadata"]["name"] = 7
            del served.pods[first]
            served.go_deaf()
            served.create("c")
            served.compact()
            await asyncio.sleep(120)

            assert served.lists() == 2
            assert rig.names() == ["a", "b", "c"]

    in_virtual_time(scenario())


def test_a_malformed_pod_is_kept_by_its_name_plate():
    async def scenario():
        served = ServedPods()
        key = served.create("odd", metadata={"labels": {"team": "x"}}, spec={"nodeName": 5})
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            held = rig.store.get(key)

            assert held is not None
            assert held.labels == {"team": "x"}
            assert "nodeName" in held.unreadable
            served.modify(key, phase="Running")
            await asyncio.sleep(0.1)
            assert rig.noted.names() == ["ObjectUnreadable"], "said once, while it stays so"
            served.move(key, "node-1")
            await asyncio.sleep(0.1)
            assert rig.store.get(key).unreadable == ""

    in_virtual_time(scenario())


def test_a_list_older_than_what_was_seen_is_refused():
    """Taking it would bring back the dead and forget the living."""

    async def scenario():
        served = ServedPods()
        old = served.create("old")
        served.freeze()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.delete(old)
            served.create("new")
            await asyncio.sleep(0.1)
            rig.heard.clear()
            served.go_deaf()
            served.create("newest")
            served.compact()
            await asyncio.sleep(120)

            assert rig.names() == ["new"]
            assert rig.heard == []
            assert "older" in rig.reflector.why
            served.thaw()
            await asyncio.sleep(60)
            assert rig.names() == ["new", "newest"]
            assert rig.reflector.why == ""

    in_virtual_time(scenario())


def test_a_history_that_was_truly_put_back_is_believed_in_the_end():
    """A cluster restored from a backup must not be refused for ever."""

    async def scenario():
        served = ServedPods()
        served.create("before")
        served.freeze()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.create("after")
            await asyncio.sleep(0.1)
            served.pods, served.version, served.history = served.frozen, served.frozen_version, []
            served.thaw()
            served.refusals.append(a_refusal(410, "Expired"))
            served.cut()
            await asyncio.sleep(REWIND_AFTER - 60)
            assert rig.names() == ["after", "before"]
            await asyncio.sleep(120)

            assert rig.names() == ["before"]
            served.create("next")
            await asyncio.sleep(1)
            assert rig.names() == ["before", "next"]

    in_virtual_time(scenario())


def test_refreshed_waits_for_a_list_that_began_after_the_call():
    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.go_deaf()
            served.create("unheard")
            await asyncio.wait_for(rig.reflector.refreshed(), 5)

            assert rig.names() == ["unheard"]
            assert served.lists() == 2

    in_virtual_time(scenario())


def test_a_caller_that_waits_for_a_list_does_not_wait_out_the_pause_after_many_troubles():
    """A new leader acts once its lists are there, and orphans cost money until then."""

    async def scenario():
        served = ServedPods()
        served.compacted = 10**9  # each watch ends with a 410, so that pauses grow
        async with reflecting(served) as rig:
            for _ in range(10):
                await asyncio.sleep(600.0 + 1.7)
                began = asyncio.get_running_loop().time()
                await rig.reflector.refreshed()

                assert asyncio.get_running_loop().time() - began <= AWAITED

            before = served.lists()
            await asyncio.sleep(3600)
            assert served.lists() - before <= 200, "no caller waited"

    in_virtual_time(scenario())


def test_a_server_that_is_down_is_not_hammered_by_callers_that_wait_for_a_list():
    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.refusals.extend([NoAnswer("down")] * 1000)
            served.cut()
            await asyncio.sleep(600)
            before = len(served.calls)
            asked = asyncio.create_task(rig.reflector.refreshed())
            await asyncio.sleep(600)

            assert 600 / AWAITED <= len(served.calls) - before <= 2 * 600 / AWAITED
            assert not asked.done()
            served.refusals.clear()
            await asyncio.wait_for(asked, 2 * AWAITED)

    in_virtual_time(scenario())


def test_a_server_that_asks_for_time_gets_it_whether_or_not_a_caller_waits():
    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.refusals.append(a_refusal(429, "TooManyRequests", headers=(("Retry-After", "20"),)))
            began = asyncio.get_running_loop().time()
            await rig.reflector.refreshed()

            assert 20 <= asyncio.get_running_loop().time() - began <= 20 + AWAITED

    in_virtual_time(scenario())


def test_an_error_event_with_a_wait_is_respected():
    async def scenario():
        served = ServedPods()
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            calls = len(served.calls)
            status = a_status(429, "TooManyRequests", retryAfterSeconds=9)
            served.garble(json.dumps({"type": "ERROR", "object": status}).encode())
            began = asyncio.get_running_loop().time()
            await until(lambda: len(served.calls) > calls)

            assert asyncio.get_running_loop().time() - began >= 9
            assert served.lists() == 1

    in_virtual_time(scenario())


def test_selectors_and_namespace_are_part_of_every_call():
    async def scenario():
        served = ServedPods()
        subject = ListTarget(pods(), namespace="team", label_selector="a=b", field_selector="spec.nodeName!=")
        store: Store[Pod] = Store(POD)
        task = asyncio.create_task(Reflector(served, subject, store, Even(), Noted()).run())
        await store.wait_synced()
        await asyncio.sleep(100)
        task.cancel()

        assert len(served.calls) >= 3
        for _, call in served.calls:
            assert call.path == "/api/v1/namespaces/team/pods"
            assert call.parameter("labelSelector") == "a=b"
            assert call.parameter("fieldSelector") == "spec.nodeName!="

    in_virtual_time(scenario())


def test_told_that_the_history_went_back_it_lists_from_scratch_at_once():
    """Versions are given out a second time: the same number may be another state of the same object."""

    async def scenario():
        served = ServedPods()
        kept, gone = served.create("kept"), served.create("gone")
        version = served.version
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.modify(kept, phase="Running")
            await asyncio.sleep(0.1)
            rig.heard.clear()
            served.version = version  # restored to before it ran …
            del served.pods[gone]
            served.modify(kept, phase="Failed")  # … and written again, under the version that it had then
            served.history.clear()
            served.cut()
            await asyncio.sleep(60)
            assert rig.store.get(kept).phase == "Running", "nothing tells it so"
            rig.reflector.start_over()
            await asyncio.sleep(1)

            assert rig.names() == ["kept"]
            assert rig.store.get(kept).phase == "Failed"
            assert rig.heard == [("changed", "kept"), ("went", "gone")]
            assert rig.store.version == served.version
            served.create("next")
            await asyncio.sleep(1)
            assert rig.names() == ["kept", "next"]

    in_virtual_time(scenario())


def test_an_older_list_is_reported():
    async def scenario():
        told = []
        served = ServedPods()
        served.create("before")
        served.freeze()
        async with reflecting(served, on_older=lambda: told.append(True)) as rig:
            await rig.store.wait_synced()
            served.create("after")
            await asyncio.sleep(0.1)
            rig.reflector.list_again()
            await asyncio.sleep(5)

            assert told
            assert rig.names() == ["after", "before"]

    in_virtual_time(scenario())
