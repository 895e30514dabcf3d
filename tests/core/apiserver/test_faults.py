"""Every fault can be switched on by name, shows what the real server shows, and ends when it is switched off."""

import asyncio

import pytest

from tests.core.apiserver.api_client import MAPS, ApiClient, a_map, in_virtual_time
from tgp.ports.http import Call, Reply
from tgp.sim.apiserver.faults import NAMES, ApiFaults, Hit
from tgp.sim.apiserver.routes import Route
from tgp.sim.entropy import SeededEntropy


@in_virtual_time
async def test_a_conflict_leaves_the_object_as_it_was():
    client = ApiClient()
    await client.ask("POST", MAPS, a_map("one"))
    client.server.faults.on("conflict")
    refused = await client.merge(f"{MAPS}/one", {"data": {"k": "w"}})

    assert refused.status == 409
    assert refused.json()["reason"] == "Conflict"
    assert "the object has been modified" in refused.json()["message"]
    client.server.faults.off("conflict")
    assert (await client.ask("GET", f"{MAPS}/one")).json()["data"] == {"k": "v"}


@in_virtual_time
async def test_load_shedding_asks_to_come_back_later():
    client = ApiClient()
    client.server.faults.on("too-many-requests", seconds=7, times=1)
    refused = await client.ask("POST", MAPS, a_map("one"))

    assert refused.status == 429
    assert refused.header("Retry-After") == "7"
    assert (await client.ask("POST", MAPS, a_map("one"))).status == 201, "one time means one time"


@pytest.mark.parametrize(
    ("fault", "status", "happened"),
    [("error-before", 500, False), ("error-after", 500, True), ("timeout-after", 504, True)],
)
def test_an_error_tells_nothing_about_what_happened(fault, status, happened):
    """The caller of a write that ended in 5xx must look before asking again."""

    async def script():
        client = ApiClient()
        client.server.faults.on(fault, times=1)
        assert (await client.ask("POST", MAPS, a_map("one"))).status == status
        found = await client.ask("GET", f"{MAPS}/one")
        assert (found.status == 200) is happened

    in_virtual_time(script)()


@in_virtual_time
async def test_an_expired_token_is_refused_before_anything_else():
    client = ApiClient()
    client.server.faults.on("unauthorized", where=lambda hit: hit.agent.startswith("client"))
    refused = await client.ask("GET", MAPS)

    assert refused.status == 401
    assert refused.json()["reason"] == "Unauthorized"


@in_virtual_time
async def test_an_unreachable_webhook_is_named():
    client = ApiClient()
    client.server.faults.on("webhook-unreachable", webhook="w.example.org", url="https://w.example.org/x")
    refused = await client.ask("POST", MAPS, a_map("one"))

    assert refused.status == 500
    assert refused.json()["reason"] == "InternalError"
    assert (
        'failed calling webhook "w.example.org": failed to call webhook: Post "https://w' in refused.json()["message"]
    )
    assert (await client.ask("GET", MAPS)).status == 200, "reads pass no webhook"


@in_virtual_time
async def test_a_terminating_namespace_takes_nothing_new():
    client = ApiClient()
    client.server.faults.on("namespace-terminating")
    refused = await client.ask("POST", MAPS, a_map("one"))

    assert refused.status == 403
    assert refused.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"


@in_virtual_time
async def test_a_lagging_watch_shows_changes_late_and_in_order():
    client = ApiClient()
    client.server.faults.on("watch-lag", seconds=30.0)
    events = await client.watch(MAPS, resourceVersion=client.server.store.revision)
    started = asyncio.get_running_loop().time()
    await client.ask("POST", MAPS, a_map("one"))
    await client.ask("POST", MAPS, a_map("two"))

    assert (await events.next(within=100))["object"]["metadata"]["name"] == "one"
    assert asyncio.get_running_loop().time() - started == pytest.approx(30, abs=1)
    assert (await events.next())["object"]["metadata"]["name"] == "two"


@in_virtual_time
async def test_coalesced_changes_show_only_where_things_ended():
    client = ApiClient()
    client.server.faults.on("watch-coalesce")
    client.server.faults.on("watch-lag", seconds=5.0)
    events = await client.watch(MAPS, resourceVersion=client.server.store.revision)
    await client.ask("POST", MAPS, a_map("one"))
    await client.merge(f"{MAPS}/one", {"data": {"k": "2"}})
    await client.ask("POST", MAPS, a_map("brief"))
    await client.ask("DELETE", f"{MAPS}/brief")
    await client.merge(f"{MAPS}/one", {"data": {"k": "3"}})
    await asyncio.sleep(10)
    client.server.faults.off("watch-lag")

    event = await events.next()
    assert (event["type"], event["object"]["data"]) == ("ADDED", {"k": "3"})
    with pytest.raises(TimeoutError):
        await events.next()


@in_virtual_time
async def test_a_silent_watch_stays_open_and_says_nothing_ever_again():
    client = ApiClient()
    events = await client.watch(MAPS, resourceVersion=client.server.store.revision, timeoutSeconds=60)
    await client.ask("POST", MAPS, a_map("one"))
    assert await events.next()
    client.server.faults.on("watch-silent")
    waiting = asyncio.ensure_future(events.next(within=10_000))
    await asyncio.sleep(1)
    client.server.faults.off()
    await client.ask("POST", MAPS, a_map("two"))
    await asyncio.sleep(5_000)

    assert not waiting.done()
    waiting.cancel()


@in_virtual_time
async def test_a_forgotten_version_is_told_in_both_forms():
    client = ApiClient()
    client.server.faults.on("watch-gone", times=1)
    outside = await client.server.handle(Call("GET", MAPS, (("watch", "1"), ("resourceVersion", "5"))))
    assert isinstance(outside, Reply)
    assert (outside.status, outside.json()["reason"]) == (410, "Expired")
    client.server.faults.off()
    client.server.faults.on("watch-gone-inside", times=1)
    events = await client.watch(MAPS)
    event = await events.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert await events.next() is None


@in_virtual_time
async def test_a_watch_that_falls_behind_a_compaction_is_told_so():
    client = ApiClient()
    client.server.faults.on("watch-lag", seconds=100.0)
    events = await client.watch(MAPS, resourceVersion=client.server.store.revision)
    waiting = asyncio.ensure_future(events.next(within=1_000))
    await asyncio.sleep(1)
    await client.ask("POST", MAPS, a_map("one"))
    client.server.store.compact()
    event = await waiting

    assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")


@in_virtual_time
async def test_a_stale_list_shows_what_was_and_only_to_those_who_accept_any_version():
    client = ApiClient()
    await client.ask("POST", MAPS, a_map("one"))
    await client.ask("DELETE", f"{MAPS}/one")
    client.server.faults.on("stale-list", behind=1)

    def names(answer):
        return [item["metadata"]["name"] for item in answer.json()["items"]]

    assert names(await client.ask("GET", MAPS, resourceVersion="0")) == ["one"]
    assert names(await client.ask("GET", MAPS)) == []


@in_virtual_time
async def test_a_dropped_watch_ends_after_its_next_piece():
    client = ApiClient()
    client.server.faults.on("watch-drop")
    events = await client.watch(MAPS, resourceVersion=client.server.store.revision)
    await client.ask("POST", MAPS, a_map("one"))

    assert await events.next()
    assert await events.next() is None


def _hit(plural="pods", verb="get"):
    return Hit(Route("/", verb, plural=plural), None, "x/1")


def test_equal_seeds_strike_the_same_requests():
    def struck(seed):
        faults = ApiFaults(SeededEntropy(seed, "faults"))
        faults.on("conflict", probability=0.3)
        return [faults.strikes("conflict", _hit()) is not None for _ in range(200)]

    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
    assert 30 < sum(struck(1)) < 90


def test_a_fault_strikes_only_where_it_was_told_to():
    faults = ApiFaults(SeededEntropy(1, "faults"))
    faults.on("error-before", where=lambda hit: hit.route.plural == "nodes")

    assert faults.strikes("error-before", _hit("pods")) is None
    assert faults.strikes("error-before", _hit("nodes")) is not None
    assert faults.struck == {"error-before": 1}


def test_a_misspelt_fault_is_our_own_mistake():
    with pytest.raises(AssertionError):
        ApiFaults(SeededEntropy(1, "faults")).on("conflicts")
    assert len(set(NAMES)) == len(NAMES)
