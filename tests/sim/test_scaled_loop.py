"""The embedded world's time: faster than ours until it has caught up, and never ahead of it."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.adapters.clock import SystemClock
from tgp.sim.scaled import ScaledClock, ScaledLoop, WorldSpeed

SECONDS = st.floats(0, 1e6)
PLAIN_PACES = st.builds(WorldSpeed, factor=st.floats(1.5, 1000), behind=st.floats(0, 1e6))
SLOWED_PACES = st.builds(
    lambda pace, first, gap, lengths: pace.slowed(first, lengths[0]).slowed(first + gap, lengths[1]),
    PLAIN_PACES,
    st.floats(0, 1e5),
    st.floats(0, 1e4),
    st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)),
)
PACES = PLAIN_PACES | SLOWED_PACES


@given(pace=PACES, real=SECONDS)
def test_a_world_second_belongs_to_one_real_second(pace, real):
    assert pace.real(pace.world(real)) == pytest.approx(real, abs=1e-6, rel=1e-9)


@given(pace=PACES, real=SECONDS, later=st.floats(0, 1e5))
def test_world_time_only_grows(pace, real, later):
    assert pace.world(real + later) >= pace.world(real)


@given(pace=PACES, real=SECONDS)
def test_the_world_is_never_ahead_of_the_present(pace, real):
    """It began `behind` seconds ago, so at the real moment `real` it may have lived that much longer, and no more."""
    assert pace.world(real) <= (real + pace.behind) * (1 + 1e-9) + 1e-6


@given(pace=PACES, now=SECONDS, seconds=st.floats(1, 1e4))
def test_slowing_down_moves_nothing_and_lasts_as_long_as_said(pace, now, seconds):
    now += pace.slow_until  # of the past a pace knows its last stretch only
    slowed = pace.slowed(now, seconds)

    assert slowed.world(now) == pytest.approx(pace.world(now), rel=1e-12)
    assert slowed.world(now + seconds) - slowed.world(now) == pytest.approx(seconds, rel=1e-6, abs=1e-4)
    assert slowed.real_until_caught_up >= pace.real_until_caught_up * (1 - 1e-12)


def test_two_changes_make_one_stretch_that_ends_after_the_second():
    pace = WorldSpeed(60, 86_400).slowed(10, 300).slowed(110, 300)

    assert [pace.world(real) for real in (10, 410, 411)] == [600, 1000, 1060]
    assert [pace.real(world) for world in (600, 1000, 1060)] == [10, 410, 411]


def test_a_day_at_sixty_takes_24_minutes():
    assert WorldSpeed(60, 86_400).real_until_caught_up == pytest.approx(24.4 * 60, rel=0.01)


def _run(main, **options):
    loop = ScaledLoop(SystemClock(), **options)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.close()


def test_waits_are_shorter_than_they_look_until_the_world_has_caught_up():
    """Sixty world seconds at a thousandfold pass in a blink; timers fire at their world time, not before it."""
    real = SystemClock()

    async def main(loop):
        began, world = real.boottime(), loop.time()
        await asyncio.sleep(60)
        return real.boottime() - began, loop.time() - world

    took, passed = _run(main, factor=1000, began_ago=timedelta(hours=24))

    assert took < 5
    assert passed >= 60


class SetByHand:
    """A real clock that the test winds."""

    def __init__(self):
        self.seconds = 1000.0

    def now(self):
        return datetime(2026, 6, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def boottime(self):
        return self.seconds


def test_it_starts_yesterday_catches_up_and_then_keeps_our_time():
    """Never a timestamp in the future, never a step back, and after the catching up a second is a second."""
    real = SetByHand()
    loop = ScaledLoop(real, factor=60, began_ago=timedelta(hours=24))
    clock = ScaledClock(loop, real)
    try:
        assert real.now() - clock.now() == timedelta(hours=24)
        seen = []
        for _ in range(2000):
            real.seconds += 1
            assert clock.now() <= real.now()
            seen.append(clock.now())
        assert seen == sorted(seen)
        assert seen[1] - seen[0] == timedelta(minutes=1)
        assert seen[-1] - seen[-2] == timedelta(seconds=1)
        assert loop.wait_for_own_write
        assert clock.now() == real.now()
    finally:
        loop.close()


def test_it_slows_down_to_our_time_and_then_goes_on():
    real = SetByHand()
    loop = ScaledLoop(real, factor=60, began_ago=timedelta(hours=24))
    clock = ScaledClock(loop, real)
    try:
        real.seconds += 60
        before = clock.now()
        loop.slow_down(300)
        real.seconds += 300
        assert clock.now() - before == timedelta(seconds=300)
        assert loop.real_wait(60) == pytest.approx(1)
        real.seconds += 1
        assert clock.now() - before == timedelta(seconds=360)
        for _ in range(3000):
            real.seconds += 1
            assert clock.now() <= real.now()
        assert loop.wait_for_own_write
        loop.slow_down(300)
        assert loop.wait_for_own_write
        assert clock.now() == real.now()
    finally:
        loop.close()


def test_real_sockets_work_on_it():
    async def main(_loop):
        async def echo(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answer

    assert _run(main) == b"hello\n"


def test_a_silent_socket_does_not_stop_the_timers():
    ours, theirs = socket.socketpair()

    async def main(_loop):
        reader, writer = await asyncio.open_connection(sock=ours)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await reader.readline()
        writer.close()
        await writer.wait_closed()

    with theirs:
        _run(main, factor=1000, began_ago=timedelta(hours=1))
