"""The loop itself: time that jumps, order that can be shuffled, and no way out."""

import asyncio
import time

import pytest

from tgp.sim.loop import Deadlock, Livelock, NoWayOut, VirtualLoop, run


async def _slept(seconds: float) -> float:
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(seconds)
    return asyncio.get_running_loop().time() - before


def test_a_year_passes_at_once():
    before = time.perf_counter()

    assert pytest.approx(365 * 86_400) == run(_slept(365 * 86_400))
    assert time.perf_counter() - before < 5


def test_timers_come_in_the_order_of_their_times():
    async def main():
        seen = []

        async def at(seconds):
            await asyncio.sleep(seconds)
            seen.append(seconds)

        await asyncio.gather(*(at(seconds) for seconds in (3, 1, 2, 0.5)))
        return seen

    assert run(main()) == [0.5, 1, 2, 3]


def test_tiny_waits_still_end_after_centuries():
    """At large times a float cannot hold nanoseconds; the loop must not spin on a timer it cannot reach."""
    loop = VirtualLoop(start=3e9)
    try:
        loop.run_until_complete(asyncio.wait_for(_slept(1e-9), 1))
    finally:
        loop.close()


def test_a_timeout_fires_at_its_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert pytest.approx(30) == run(main())


def test_many_cancelled_timers_do_not_pile_up():
    async def main():
        loop = asyncio.get_running_loop()
        for _ in range(5_000):
            loop.call_later(1e6, print).cancel()
            await asyncio.sleep(0.001)
        return len(loop._scheduled)

    assert run(main()) < 500


def test_a_deadlock_says_who_waits_where():
    async def wait_for_godot():
        await asyncio.Event().wait()

    async def main():
        await asyncio.create_task(wait_for_godot(), name="vladimir")

    with pytest.raises(Deadlock, match=r"vladimir at .*wait_for_godot .*test_virtual_loop"):
        run(main())


def test_a_livelock_is_noticed():
    async def main():
        loop = asyncio.get_running_loop()

        def again():
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Livelock):
        run(main())


@pytest.mark.parametrize(
    "reach",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.getaddrinfo("localhost", 80),
        lambda loop: loop.create_connection(asyncio.Protocol, "127.0.0.1", 80),
        lambda loop: loop.create_server(asyncio.Protocol, "127.0.0.1", 0),
        lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
        lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
        lambda loop: loop.subprocess_shell(asyncio.SubprocessProtocol, "true"),
    ],
)
def test_there_is_no_way_out(reach):
    async def main():
        await reach(asyncio.get_running_loop())

    with pytest.raises(NoWayOut):
        run(main())


def _finishing_order(seed):
    async def main():
        order = []

        async def one(number):
            for _ in range(3):
                await asyncio.sleep(1)
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(12)))
        return tuple(order)

    return run(main(), seed=seed)


def test_a_seed_decides_the_order_of_tasks_that_are_ready_together():
    """Equal seeds, equal order; different seeds show different interleavings."""
    assert _finishing_order(7) == _finishing_order(7)
    assert len({_finishing_order(seed) for seed in range(20)}) > 15
    assert _finishing_order(None) == _finishing_order(None)


def test_tasks_left_over_are_taken_apart_in_silence(recwarn, caplog):
    """Neither a never-awaited coroutine nor a destroyed task is reported once the run is over."""

    async def stubborn():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)

    async def main():
        left = [asyncio.create_task(stubborn()) for _ in range(3)]
        await asyncio.sleep(1)
        left.append(asyncio.create_task(stubborn()))  # not even started

    run(main())

    assert [*recwarn, *caplog.records] == []
