"""Processes that die as by a power cut, stand still, and come back with nothing remembered."""

import asyncio
import gc
import logging
from datetime import timedelta

import pytest

from tgp.ports.http import Call, NeverLeft, NoAnswer, Reply
from tgp.sim.faults import NONE
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.world import WentWrong, World


class CountingServer:
    """A server that counts what was asked of it."""

    def __init__(self, takes: float = 0.0) -> None:
        self.calls: list[str] = []
        self.at: list[float] = []
        self._takes = takes

    async def __call__(self, call: Call) -> Reply:
        if self._takes:
            await asyncio.sleep(self._takes)
        self.calls.append(f"{call.method} {call.path}")
        self.at.append(asyncio.get_running_loop().time())
        return Reply(200, b"{}")


def a_world(access, **options):
    world = World("processes", **options)
    world.mount("server", access)
    return world


async def _spend_for_ever(host):
    access = host.http("server")
    while True:
        await asyncio.sleep(10)
        await access.send(Call("POST", "/spend"))


def test_a_process_acts_on_the_world():
    with a_world(access := CountingServer()) as world:
        world.process("operator", _spend_for_ever)
        world.run(seconds=95)

    assert len(access.calls) == 9


def test_a_crash_prevents_what_finally_blocks_would_do():
    """A power cut gives no notice: neither an await nor a plain line after it reaches the world."""
    spoken = []

    async def main(host):
        access = host.http("server")
        try:
            await access.send(Call("POST", "/first"))
            await asyncio.sleep(1000)
        finally:
            await access.send(Call("POST", "/goodbye"))
            spoken.append("unreachable")

    with a_world(access := CountingServer()) as world:
        process = world.process("operator", main, restarts=False)
        world.run(seconds=10)
        process.crash()
        world.run(hours=1)

    assert access.calls == ["POST /first"]
    assert spoken == []


def test_tasks_groups_and_generators_of_the_dead_are_silent(recwarn, caplog):
    async def numbers(access):
        try:
            while True:
                yield 1
                await asyncio.sleep(1)
        finally:
            await access.send(Call("POST", "/generator"))

    async def child(access):
        try:
            async for _ in numbers(access):
                await asyncio.sleep(0.5)
        finally:
            asyncio.create_task(access.send(Call("POST", "/task")))  # noqa: RUF006 - lost on purpose
            await access.send(Call("POST", "/child"))

    async def main(host):
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(child(host.http("server")))

    with a_world(access := CountingServer()) as world:
        process = world.process("operator", main, restarts=False)
        world.run(seconds=10.2)
        process.crash()
        world.run(seconds=10)

    assert access.calls == []
    assert [*recwarn, *caplog.records] == []


def test_a_world_that_ends_in_the_middle_of_everything_is_silent(recwarn, caplog):
    """Closing takes every task apart: no warning, no log line, nothing reaches a server any more."""

    async def child(access):
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.create_task(access.send(Call("POST", "/task")))  # noqa: RUF006 - lost on purpose
            await access.send(Call("POST", "/child"))

    async def main(host):
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(child(host.http("server")))

    access = CountingServer()
    with a_world(access) as world:
        process = world.process("operator", main)
        world.process("other", main)
        world.run(seconds=10)
        process.crash()
    gc.collect()

    assert access.calls == []
    assert [*recwarn, *caplog.records] == []


def test_what_left_before_the_crash_still_happens():
    """The bytes were written: the server acts, and the answer is lost."""
    heard = []

    async def main(host):
        await host.http("server").send(Call("POST", "/spend"))
        heard.append("answer")

    with a_world(access := CountingServer(takes=5)) as world:
        process = world.process("operator", main, restarts=False)
        world.run(seconds=1)
        process.crash()
        world.run(seconds=60)

    assert access.calls == ["POST /spend"]
    assert heard == []


def test_a_crashed_process_comes_back_with_empty_memory_after_1_to_40_seconds():
    boot_requests = []

    async def main(host):
        boot_requests.append((host.number, asyncio.get_running_loop().time()))
        await asyncio.Event().wait()

    with a_world(CountingServer()) as world:
        process = world.process("operator", main)
        for _ in range(20):
            world.run(seconds=50)
            process.crash()
        world.run(seconds=50)

    waits = [at - 50 * number for number, (_, at) in enumerate(boot_requests)][1:]
    assert list(range(1, 22)) == [number for number, _ in boot_requests]
    assert all(1 <= wait <= 40 for wait in waits)
    assert max(waits) - min(waits) > 10


def test_each_life_has_luck_of_its_own():
    drawn = []

    async def main(host):
        drawn.append((host.entropy.token(8), host.entropy.jitter()))
        await asyncio.Event().wait()

    with a_world(CountingServer()) as world:
        process = world.process("operator", main)
        world.run(seconds=1)
        process.crash()
        world.run(seconds=60)

    assert len(set(drawn)) == 2


def test_a_paused_process_stands_still_while_its_clocks_go_on():
    ticks = []

    async def main(host):
        while True:
            await asyncio.sleep(1)
            ticks.append((round(asyncio.get_running_loop().time()), host.clock.boottime()))

    with a_world(CountingServer()) as world:
        process = world.process("operator", main)
        world.run(seconds=5.5)
        process.pause(60)
        world.run(seconds=30)
        assert len(ticks) == 5
        world.run(seconds=60)

    assert 66 in {at for at, _ in ticks}
    assert ticks[5][1] - ticks[4][1] > 60


def test_an_answer_waits_for_a_paused_process():
    heard = []

    async def main(host):
        await host.http("server").send(Call("POST", "/spend", timeout=timedelta(seconds=300)))
        heard.append(round(asyncio.get_running_loop().time()))
        await asyncio.Event().wait()

    with a_world(CountingServer(takes=5)) as world:
        process = world.process("operator", main)
        world.run(seconds=1)
        process.pause(100)
        world.run(seconds=200)

    assert heard == [101]


def test_a_fence_holds_when_the_pause_is_aimed_at_the_side_effect():
    """`not_after` is read when the bytes are written, so a process that overslept sends nothing."""
    outcomes = []

    async def main(host):
        fence = host.clock.boottime() + 15
        try:
            await host.http("server").send(Call("POST", "/spend", not_after=fence))
        except NeverLeft:
            outcomes.append("fenced")
        await asyncio.Event().wait()

    with a_world(access := CountingServer(), plan=FaultPlan("operator", 1, Act.PAUSE)) as world:
        world.process("operator", main)
        world.run(minutes=5)

    assert outcomes == ["fenced"]
    assert access.calls == []


def test_a_process_without_a_fence_spends_after_its_pause():
    """The other side of the same coin: the harness shows what a missing fence does."""

    async def main(host):
        await host.http("server").send(Call("POST", "/spend", timeout=timedelta(minutes=2)))
        await asyncio.Event().wait()

    with a_world(access := CountingServer(), plan=FaultPlan("operator", 1, Act.PAUSE)) as world:
        world.process("operator", main)
        world.run(minutes=5)

    assert access.at[0] > 40


def test_exit_is_the_end_of_every_line():
    async def main(host):
        try:
            await host.exit()
        finally:
            await host.http("server").send(Call("POST", "/goodbye"))

    with a_world(access := CountingServer()) as world:
        process = world.process("operator", main)
        world.run(minutes=10)

    assert access.calls == []
    assert process.starts > 10


def test_a_process_that_raises_fails_the_simulation_and_prints_its_seed(capsys):
    async def main(host):
        await asyncio.sleep(3)
        raise KeyError("lost")

    with a_world(CountingServer()) as world:
        world.process("operator", main)
        with pytest.raises(WentWrong, match="lost"):
            world.run(minutes=1)

    assert "SEED=processes" in capsys.readouterr().err


def test_an_error_level_log_line_fails_the_simulation():
    async def main(host):
        await asyncio.sleep(3)
        logging.getLogger("tgp.somewhere").error("all is not well")
        await asyncio.Event().wait()

    with a_world(CountingServer()) as world:
        world.process("operator", main)
        with pytest.raises(WentWrong, match="all is not well"):
            world.run(minutes=1)


def test_a_forgotten_task_that_raises_fails_the_simulation():
    async def child():
        raise ValueError("unexpected")

    async def main(host):
        task = asyncio.create_task(child())
        await asyncio.sleep(3)
        del task
        await asyncio.Event().wait()

    with a_world(CountingServer()) as world:
        world.process("operator", main)
        with pytest.raises(WentWrong, match="unexpected"):
            world.run(minutes=1)


def test_a_checker_looks_at_every_step():
    with a_world(access := CountingServer()) as world:
        world.process("operator", _spend_for_ever)

        def at_most_three(_world):
            assert len(access.calls) <= 3, "spent too often"

        world.watch(at_most_three)
        with pytest.raises(AssertionError, match="spent too often"):
            world.run(hours=1)

        assert len(access.calls) == 4


def test_a_cut_off_process_reaches_nothing_until_it_is_healed():
    outcomes = []

    async def main(host):
        while True:
            try:
                await host.http("server").send(Call("POST", "/spend", timeout=timedelta(seconds=5)))
                outcomes.append("ok")
            except (NeverLeft, NoAnswer) as error:
                outcomes.append(type(error).__name__)
            await asyncio.sleep(1)

    with a_world(CountingServer()) as world:
        world.process("operator", main)
        world.process("other", _spend_for_ever)
        world.run(seconds=3)
        world.network.partition("operator", "server")
        world.run(seconds=20)
        world.network.heal("operator", "server")
        world.run(seconds=5)

    assert [o for o, last in zip(outcomes, [None, *outcomes], strict=False) if o != last] == ["ok", "NeverLeft", "ok"]


def test_a_wall_clock_jumps_and_the_boot_clock_does_not():
    with a_world(CountingServer(), faults=NONE) as world:
        process = world.process("operator", _spend_for_ever)
        wall, boot = process.clock.now(), process.clock.boottime()
        process.clock.jump(timedelta(days=-1))
        world.run(seconds=10)

        assert wall - timedelta(days=1) + timedelta(seconds=10) == process.clock.now()
        assert pytest.approx(boot + 10) == process.clock.boottime()

        process.clock.suspend(3600)
        assert pytest.approx(boot + 3610) == process.clock.boottime()
        process.clock.freeze()
        frozen = process.clock.now()
        world.run(seconds=10)
        assert frozen == process.clock.now()
        process.clock.right()
        assert world.clock.now() == process.clock.now()
