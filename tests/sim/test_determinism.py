"""Equal seeds, equal traces: in one process, in two, and under different hash seeds."""

import asyncio
import gc
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.sim import scenario
from tgp.ports.http import Call, Reply
from tgp.sim.trace import RunTrace, first_difference
from tgp.sim.world import World


@pytest.fixture(autouse=True)
def seldom_bookmarks():
    """As often as in the processes that tests start: their worlds are compared with ours."""


def _in_another_process(what, hash_seed):
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join(["src", "."])}
    command = [sys.executable, "-m", "tests.sim.scenario", what]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


@cache
def _ran(seed: int) -> World:
    """Run once for all tests that only look at it."""
    return scenario.run(seed)


@pytest.mark.parametrize("seed", range(2))
def test_equal_seeds_give_equal_traces(seed):
    one, other = _ran(seed).trace, scenario.run(seed).trace

    assert first_difference(one, other) == ""
    assert one.length == other.length > 400


def test_different_seeds_give_different_traces():
    assert len({_ran(seed).trace.digest() for seed in range(2)}) == 2


def test_the_trace_of_an_hour_with_faults_shows_its_faults_and_its_crashes():
    trace = _ran(7).trace

    assert trace.by_index("client", "fault")
    assert trace.by_index("client", "crashes")
    assert trace.by_index("api", "commits", "pods")


def test_what_came_and_went_is_counted_by_name():
    """The differential oracle: a run with faults may differ from one without by nothing but what it says."""
    stormy, fair = _ran(7).history, scenario.run(7, faults=scenario.Faults()).history
    workloads = {name: count for name, count in fair.items() if name.startswith("created deployments")}

    assert workloads == {"created deployments.apps default/web": 1}
    assert {name: stormy[name] for name in workloads} == workloads


def test_hash_seeds_change_nothing():
    assert _in_another_process("client", 1) == _in_another_process("client", 2) == _ran(7).trace.digest()


def test_a_process_that_depends_on_hash_order_is_caught_by_its_trace():
    assert _in_another_process("careless", 1) != _in_another_process("careless", 2)


def test_a_process_that_rolls_its_own_dice_is_caught_by_its_trace():
    async def gambler(host):
        while True:
            await asyncio.sleep(1 + int.from_bytes(os.urandom(2)) / 65536)
            await host.http("kubernetes").send(scenario.Call("GET", "/api/v1/pods"))

    one, other = (scenario.run(1, gambler, scenario.Faults()).trace for _ in range(2))

    assert first_difference(one, other)


async def _answer(_call):
    return Reply(200)


def test_the_moment_of_garbage_collection_changes_nothing(monkeypatch):
    """What dies in a cycle dies at the same turn, however full the interpreter was before."""
    monkeypatch.setattr("tgp.sim.world.COLLECT_EVERY", 500)

    async def litterer(host):
        async def numbers():
            try:
                yield 1
            finally:
                await host.http("server").send(Call("GET", "/"))

        while True:
            left_open = [numbers()]
            left_open.append(left_open)  # only the collector can end this
            await anext(left_open[0])
            await asyncio.sleep(0.1)

    def digest():
        with World(1) as world:
            world.mount("server", _answer)
            world.process("litterer", litterer)
            world.run(minutes=1)
            assert world.trace.by_index("litterer", "GET")
            return world.trace.digest()

    gc.collect()
    one = digest()
    ballast = [[number] for number in range(50_000)]
    other = digest()

    assert one == other
    assert ballast


def test_a_difference_is_shown_where_it_begins():
    now = [0.0]
    one, other = RunTrace(lambda: now[0]), RunTrace(lambda: now[0])
    for trace in (one, other):
        trace.note("a", "starts")
    one.note("a", "buys", "x")
    other.note("a", "buys", "y")

    assert first_difference(one, other) == "- 0.000000 a buys x\n+ 0.000000 a buys y"
