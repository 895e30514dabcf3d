"""Time by the API server's word: no jump of our own wall clock is felt, and no single server is believed at once."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.kube_client.scripted import ScriptedHttp, in_virtual_time
from tgp.adapters.kube.server_clock import BELIEVED_AFTER, NEAR, ServerClock, TimedHttp
from tgp.ports.http import Call, Reply

START = datetime(2026, 11, 16, 12, 0, 0, 250_000, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STEP = 2.0  # seconds between two replies: how often a Lease is renewed


class HandClock:
    """A machine whose two clocks are set by hand."""

    def __init__(self, wall: datetime = START, boot: float = 5000.0) -> None:
        self.wall = wall
        self.boot = boot

    def now(self) -> datetime:
        return self.wall

    def boottime(self) -> float:
        return self.boot

    def pass_by(self, seconds: float, *, frozen: bool = False) -> None:
        self.boot += seconds
        self.wall += timedelta(0 if frozen else seconds / 86_400)


class ClockSetup:
    """A machine and servers whose true time is counted from START."""

    def __init__(self, wall_off: timedelta = timedelta()) -> None:
        self.host = HandClock(START + wall_off)
        self.clock = ServerClock(self.host)
        self._began = self.host.boot

    @property
    def truth(self) -> datetime:
        return START + timedelta(seconds=self.host.boot - self._began)

    def hear(self, off: timedelta = timedelta(), took: float = 0.01) -> None:
        sent = self.host.boot
        self.host.pass_by(took)
        self.clock.heard(date_of(self.truth + off), sent)

    def for_a_while(self, seconds: float, offs: Iterable[timedelta] = (timedelta(),), *, frozen: bool = False) -> None:
        turns = list(offs)
        for number in range(int(seconds / STEP)):
            self.host.pass_by(STEP, frozen=frozen)
            self.hear(turns[number % len(turns)])

    @property
    def error(self) -> timedelta:
        return abs(self.clock.now() - self.truth)


def date_of(moment: datetime) -> str:
    return format_datetime(moment.replace(microsecond=0), usegmt=True)


def test_before_the_first_reply_the_machines_own_clock_counts():
    setup = ClockSetup(HOUR)

    assert setup.clock.now() == setup.host.now()
    assert setup.clock.skew == timedelta()


def test_a_machines_clock_that_agrees_is_kept_to_the_microsecond():
    setup = ClockSetup()
    setup.hear()

    assert setup.clock.now() == setup.host.now()


@pytest.mark.parametrize("wrong", [HOUR, -HOUR, DAY, -DAY, timedelta(seconds=3)])
def test_at_the_start_the_servers_word_is_taken(wrong):
    setup = ClockSetup(wrong)
    setup.hear()

    assert setup.error <= timedelta(seconds=1)
    assert abs(setup.clock.skew - wrong) <= timedelta(seconds=1)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, DAY, -DAY])
def test_a_jump_of_the_wall_clock_changes_nothing(jump):
    setup = ClockSetup()
    setup.hear()
    before = setup.clock.now()
    setup.host.wall += jump

    assert setup.clock.now() == before
    assert setup.clock.skew == jump
    setup.for_a_while(3600)
    assert setup.error < timedelta(seconds=1)
    assert not setup.clock.disputed


def test_a_wall_clock_that_stands_still_does_not_stop_time():
    setup = ClockSetup()
    setup.hear()
    setup.for_a_while(3600, frozen=True)

    assert setup.error < timedelta(seconds=1)
    assert setup.clock.skew < -timedelta(minutes=59)


@pytest.mark.parametrize("wrong", [HOUR, -DAY])
def test_of_two_servers_the_wrong_one_moves_nothing_however_long_they_take_turns(wrong):
    setup = ClockSetup()
    setup.hear()
    setup.for_a_while(4 * BELIEVED_AFTER, [timedelta(), wrong, wrong])

    assert setup.error < timedelta(seconds=1)


def test_two_servers_that_are_wrong_in_different_ways_are_not_believed_together():
    setup = ClockSetup()
    setup.hear()
    setup.for_a_while(4 * BELIEVED_AFTER, [HOUR, -HOUR])

    assert setup.error < timedelta(seconds=1)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_what_every_reply_of_ten_minutes_says_is_believed(wrong):
    setup = ClockSetup()
    setup.hear()
    setup.for_a_while(BELIEVED_AFTER - 10, [wrong])
    assert setup.error < timedelta(seconds=1), "not yet"
    assert setup.clock.disputed

    setup.for_a_while(30, [wrong])
    assert abs(setup.clock.now() - setup.truth - wrong) <= timedelta(seconds=1)
    assert not setup.clock.disputed


def test_two_replies_on_both_sides_of_a_long_silence_prove_nothing():
    setup = ClockSetup()
    setup.hear()
    setup.hear(HOUR)
    setup.host.pass_by(2 * BELIEVED_AFTER)
    setup.hear(HOUR)

    assert setup.error < timedelta(seconds=1)


def test_a_slow_reply_is_no_other_time():
    """The second in it was the truth at some unknown time between call and reply."""
    setup = ClockSetup()
    setup.hear()
    for _ in range(20):
        setup.hear(-timedelta(seconds=20), took=25)

    assert not setup.clock.disputed
    assert setup.error < timedelta(seconds=1)


def test_without_a_date_there_is_nothing_to_follow():
    setup = ClockSetup(HOUR)
    for text in ("", "yesterday", "2026-11-16T12:00:00Z", "Mon, 99 Nov 2026 99:00:00 GMT", "\x00"):
        setup.clock.heard(text, setup.host.boot)

    assert setup.clock.now() == setup.host.now()


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 5), st.floats(-1.9, 1.9)), max_size=60))
def test_small_differences_are_followed_and_time_never_runs_backwards(replies):
    setup = ClockSetup()
    setup.hear()
    for pause, took, off in replies:
        before = setup.clock.now()
        setup.host.pass_by(pause)
        setup.hear(timedelta(seconds=off), took)
        assert setup.clock.now() >= before
    assert setup.error <= 2 * NEAR


def test_a_slow_drift_is_followed():
    """A boot clock that is too fast by 200 parts in a million is off by 17 seconds a day."""
    setup = ClockSetup()
    setup.hear()
    for number in range(8640):
        setup.host.pass_by(10)
        setup.hear(-timedelta(seconds=number * 10 * 200e-6))

    assert abs(setup.clock.now() - setup.truth + timedelta(seconds=86_400 * 200e-6)) <= timedelta(seconds=1.1)


def test_every_reply_and_the_head_of_every_stream_tells_the_time_but_not_what_a_proxy_says():
    told = (("date", date_of(START)),)
    for status, heard in ((200, True), (404, True), (409, True), (502, False), (503, False)):
        for streams in (False, True):
            host = HandClock(START + DAY)
            clock = ServerClock(host)
            http = TimedHttp(ScriptedHttp(Reply(status, b"", told)), clock)
            in_virtual_time(_ask(http, streams=streams))

            assert (clock.skew > HOUR) == heard, (status, streams)


async def _ask(http, *, streams):
    call = Call("GET", "/api")
    if not streams:
        await http.send(call)
        return
    async with http.stream(call, idle=timedelta(seconds=5)) as stream:
        assert stream.status
