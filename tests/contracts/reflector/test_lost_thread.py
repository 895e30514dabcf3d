"""When the thread is lost in ways a 410 does not tell: the reflector lists again, and says what is wrong now."""

import asyncio
import json

from tests.contracts.reflector.served import ServedPods, a_refusal, a_status, in_virtual_time
from tests.contracts.reflector.test_reflector import reflecting
from tgp.adapters.kube.reflector import REWIND_AFTER, SILENCE_LIMIT, State
from tgp.ports.http import Reply


def test_two_who_ask_for_a_list_at_nearly_the_same_time_both_get_one():
    """The second asks while the watch is still being put down for the first."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(5)
            waiting = []
            for _ in range(6):  # whatever number of steps it takes to put the watch down
                waiting.append(asyncio.create_task(rig.reflector.refreshed()))
                await asyncio.sleep(0)
            await asyncio.wait_for(asyncio.gather(*waiting), 10)

    in_virtual_time(scenario())


def test_a_version_from_the_servers_future_is_listed_anew():
    """Another API server, or a restored one, is behind what we saw: watching from there would wait for ever."""

    async def scenario():
        served = ServedPods()
        served.create("a")
        ahead = a_status(504, "Timeout", "Too large resource version: 900, current: 100", retryAfterSeconds=1)
        ahead["details"]["causes"] = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            await asyncio.sleep(1)
            lists = served.lists()
            served.refusals.append(Reply(504, json.dumps(ahead).encode()))
            served.end()
            await asyncio.sleep(30)

            assert served.lists() == lists + 1
            assert rig.reflector.state == State.WATCHING

    in_virtual_time(scenario())


def test_a_server_that_never_says_a_word_is_asked_for_a_list_in_the_end():
    """A history that was put back leaves watches open and mute: deaf, healthy and silent for ever."""

    async def scenario():
        served = ServedPods()
        for name in "abc":
            served.create(name)
        async with reflecting(served) as rig:
            await rig.store.wait_synced()
            served.lasts = 35.0  # every watch ends in good order, without so much as a bookmark
            await asyncio.sleep(SILENCE_LIMIT / 2)
            assert served.lists() == 1
            served.pods.clear()
            served.version = 50
            served.history.clear()
            served.create("restored")
            await asyncio.sleep(SILENCE_LIMIT + REWIND_AFTER + 120)

            assert rig.names() == ["restored"]

    in_virtual_time(scenario())


def test_a_word_now_and_then_is_enough():
    async def scenario():
        served = ServedPods()
        served.create("a")
        async with reflecting(served):
            await asyncio.sleep(4 * SILENCE_LIMIT)

            assert served.lists() == 1

    in_virtual_time(scenario())


def test_what_troubles_it_is_what_troubles_it_now():
    """Readiness shows the reason: an old one misleads the reader."""

    async def scenario():
        served = ServedPods()
        forbidden = a_refusal(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource')
        served.refusals.extend([forbidden, *[a_refusal(404, "NotFound", "no such kind")] * 3])
        async with reflecting(served) as rig:
            await asyncio.sleep(1)
            assert "Forbidden" in rig.reflector.why
            await asyncio.sleep(20)
            assert "NotFound" in rig.reflector.why
            assert rig.noted.names().count("WatchFailing") == 1, "noted once, when it begins"
            await asyncio.sleep(300)
            assert rig.reflector.why == ""

    in_virtual_time(scenario())
