"""The network's faults: each fault, by name, does what it says and nothing else."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from tgp.ports.http import Call, HttpError, NeverLeft, NoAnswer, Reply, Streaming, json_call
from tgp.sim.faults import ALL, NONE, OF_API_CALLS, OF_API_READS, OF_CALLS, OF_PROCESSES, OF_STREAMS, Fault, swarm
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.router import Latency
from tgp.sim.world import KUBERNETES, World

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Ledger:
    def __init__(self):
        self.calls = []

    async def __call__(self, call):
        self.calls.append(call.path)
        return Reply(200, b'{"ok":true}')


def _outcomes(fault, *, rounds=50, rate=1.0, **call):
    """What a process hears, and what the server did, when every call meets this fault."""
    heard = []

    async def main(host):
        http = host.http("server")
        for number in range(rounds):
            try:
                reply = await http.send(Call("POST", f"/{number}", timeout=timedelta(seconds=20), **call))
                heard.append(reply.status)
            except HttpError as error:
                heard.append(type(error))
        await asyncio.Event().wait()

    ledger = Ledger()
    with World(f"router/{fault}", faults=NONE.by_index(**{fault.name.lower(): rate})) as world:
        world.mount("server", ledger)
        world.process("operator", main)
        world.run(hours=2)
    return heard, ledger.calls


EXPECTED = {
    Fault.REFUSED: ({NeverLeft}, 0),
    Fault.LOST: ({NoAnswer}, 0),
    Fault.LOST_ANSWER: ({NoAnswer}, 1),
    Fault.SLOW: ({NoAnswer}, 1),
    Fault.TWICE: ({200}, 2),
    Fault.PROXY: ({502}, 0),
    Fault.PROXY_AFTER: ({502}, 1),
    Fault.BUSY: ({429}, 0),
    Fault.ERROR: ({500}, 0),
    Fault.ERROR_AFTER: ({500}, 1),
}


@pytest.mark.parametrize("fault", [*OF_CALLS, Fault.TWICE], ids=str)
def test_a_fault_tells_the_caller_this_and_happens_so_often(fault):
    told, times = EXPECTED[fault]
    heard, happened = _outcomes(fault)

    assert set(heard) == told
    assert len(happened) == times * len(heard) == times * 50


ROUGH = NONE.by_index(proxy=0.001)


@pytest.mark.parametrize(
    ("method", "faults", "heard"), [("POST", ROUGH, NoAnswer), ("GET", ROUGH, 200), ("POST", NONE, 200)]
)
def test_an_order_is_held_up_while_its_sender_is_hung_up_on(method, faults, heard):
    """Only what changes something, only in faults, and never for longer than was said."""
    told, arrived = [], []

    async def main(host):
        try:
            told.append((await host.http("counter").send(Call(method, "/", timeout=timedelta(seconds=5)))).status)
        except HttpError as error:
            told.append(type(error))
        await asyncio.Event().wait()

    with World("held-up", faults=faults) as world:

        async def counter(_call):
            arrived.append(world.loop.time())
            return Reply(200)

        world.mount("counter", counter, Latency(0.5, 0.5, held_up=1.0, latest=28.0))
        world.process("operator", main)
        world.run(minutes=1)

    assert told == [heard]
    assert len(arrived) == 1
    assert (arrived[0] > 0.6) == (heard is NoAnswer)
    assert arrived[0] < 29


def test_a_rate_is_a_rate():
    heard, _ = _outcomes(Fault.ERROR, rounds=2000, rate=0.1)

    assert 120 < heard.count(500) < 280


def test_a_busy_server_says_when_to_come_back_and_a_proxy_speaks_html():
    replies = []

    async def main(host):
        replies.append(await host.http("server").send(Call("GET", "/")))
        await asyncio.Event().wait()

    for fault in ("busy", "proxy"):
        with World(fault, faults=NONE.by_index(**{fault: 1.0})) as world:
            world.mount("server", Ledger())
            world.process("operator", main)
            world.run(minutes=1)

    assert replies[0].retry_after == timedelta(seconds=1)
    assert replies[1].header("Content-Type") == "text/html"


def _ticking(beat=1.0):
    async def pieces():
        number = 0
        while True:
            await asyncio.sleep(beat)
            yield b"line %d\n" % number
            number += 1

    async def handler(_call):
        return Streaming(200, (), pieces())

    return handler


def _read_stream(fault, seed=1):
    """Lines of one stream, how it ended and when."""
    lines, ends = [], []

    async def main(host):
        try:
            async with host.http("server").stream(Call("GET", "/"), idle=timedelta(seconds=30)) as stream:
                async for batch in stream.batches():
                    lines.extend((asyncio.get_running_loop().time(), line) for line in batch)
            ends.append("end")
        except NoAnswer as error:
            ends.append(str(error))
        await asyncio.Event().wait()

    with World(seed, faults=NONE.by_index(**{fault.name.lower(): 1.0})) as world:
        world.mount("server", _ticking())
        world.process("operator", main)
        world.run(hours=1)
    return lines, ends


def test_a_half_open_stream_is_silent_until_the_reader_gives_up():
    lines, ends = _read_stream(Fault.SILENT)

    assert ends == ["the stream was silent for 30 s"]
    assert lines


def test_a_stream_is_cut_in_the_middle_of_a_line_and_no_reader_sees_the_half():
    lines, ends = _read_stream(Fault.CUT)

    assert ends == ["the stream was cut"]
    assert all(line == b"line %d" % number for number, (_, line) in enumerate(lines))


def test_a_truncated_stream_ends_cleanly_with_half_a_line():
    lines, ends = _read_stream(Fault.TRUNCATED)

    assert ends == ["end"]
    assert lines[-1][1] != b"line %d" % (len(lines) - 1)


def test_a_lagging_stream_is_late_and_complete():
    lines, ends = _read_stream(Fault.LAGGING, seed=2)

    assert ends == []
    assert [line for _, line in lines] == [b"line %d" % number for number in range(len(lines))]
    assert lines[0][0] > 1.5


def test_streams_of_a_process_that_was_cut_off_stay_silent_after_the_healing():
    seen = []

    async def main(host):
        try:
            async with host.http("server").stream(Call("GET", "/"), idle=timedelta(seconds=100)) as stream:
                async for _ in stream.batches():
                    seen.append(asyncio.get_running_loop().time())
        except NoAnswer:
            seen.append("gave up")
        await asyncio.Event().wait()

    with World(1) as world:
        world.mount("server", _ticking())
        world.process("operator", main)
        world.run(seconds=10)
        world.network.partition("operator", "server")
        world.run(seconds=10)
        world.network.heal("operator", "server")
        world.run(seconds=200)

    assert seen[-1] == "gave up"
    assert max(seen[:-1]) < 11


def test_what_an_asymmetric_moment_hides_still_happened():
    """Cut off while a call is at the server: it happened, and the caller hears nothing until its timeout."""
    heard, done = [], []

    async def slow(call):
        await asyncio.sleep(5)
        done.append(call.path)
        return Reply(200)

    async def main(host):
        with pytest.raises(NoAnswer):
            await host.http("server").send(Call("POST", "/spend", timeout=timedelta(seconds=10)))
        heard.append(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    with World(1) as world:
        world.mount("server", slow)
        world.process("operator", main)
        world.run(seconds=1)
        world.network.partition("operator", "server")
        world.run(seconds=60)

    assert done == ["/spend"]
    assert heard == [pytest.approx(10)]


def test_a_slow_reader_makes_the_server_wait():
    """Buffers are bounded: a server cannot run a gigabyte ahead of a client that stands still."""
    sent = []

    async def pieces():
        for _ in range(1000):
            sent.append(1)
            yield b"x" * (1 << 20) + b"\n"

    async def handler(_call):
        return Streaming(200, (), pieces())

    async def main(host):
        async with host.http("server").stream(Call("GET", "/"), idle=timedelta(seconds=100)) as stream:
            async for _ in stream.batches():
                await asyncio.sleep(1000)

    with World(1) as world:
        world.mount("server", handler)
        world.process("operator", main)
        world.run(seconds=100)

    assert len(sent) < 12


def test_a_frozen_process_sees_an_old_world_and_then_all_of_it():
    seen = []

    async def main(host):
        async def watch():
            async with host.http("server").stream(Call("GET", "/"), idle=timedelta(seconds=100)) as stream:
                async for batch in stream.batches():
                    seen.extend((asyncio.get_running_loop().time(), line) for line in batch)

        task = asyncio.create_task(watch())
        await asyncio.sleep(10)
        await host.http("server2").send(Call("POST", "/spend"))
        await task

    with World(1, plan=FaultPlan("operator", 1, Act.FREEZE)) as world:
        world.mount("server", _ticking())
        world.mount("server2", Ledger())
        world.process("operator", main)
        world.run(seconds=100)

    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(seen)]
    assert 45 < max(gaps) < 55
    assert [line for _, line in seen] == [b"line %d" % number for number in range(len(seen))]


def test_swarms_differ_by_seed_and_leave_most_faults_out():
    mixes = [swarm(seed) for seed in range(200)]
    known = (*OF_CALLS, *OF_STREAMS, *OF_PROCESSES, *OF_API_CALLS, *OF_API_READS)

    assert mixes[3] == swarm(3)
    assert len({tuple(sorted(mix.rates)) for mix in mixes}) > 150
    for fault in known:
        assert 60 < sum(fault in mix.rates for mix in mixes) < 140
    assert all(fault in ALL.rates for fault in known)


def test_the_api_server_has_faults_of_its_own_until_they_are_switched_off():
    """Every fault of the API server can be drawn by a run with faults, strikes, and ends with it."""
    drawn = {fault.name.lower(): 0.3 for fault in (*OF_API_CALLS, *OF_API_READS)}
    with World(1, faults=NONE.by_index(**drawn)) as world:
        assert len(world.api.faults.active()) == len(drawn)
        statuses = [
            world.until(world.visitor(KUBERNETES).send(json_call("POST", CONFIG_MAPS, {"metadata": {"name": f"a{n}"}})))
            for n in range(60)
        ]
        assert {429, 500, 504, 201} <= {reply.status for reply in statuses}
        world.calm()

        assert world.api.faults.active() == ()
