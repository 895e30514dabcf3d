"""A show ends when it is asked to, or with the first part that ends before its time. It never hangs."""

import asyncio
from datetime import timedelta

import click
import pytest

from tests.core.terminal.snapshots import a_snapshot
from tgp.app.view.live_view import EndedEarly, Length, LineView, Work, end_after, play

BOUND = 5.0  # seconds: far more than any of these takes


class Acting:
    """Records what happens to it, in one list for all."""

    def __init__(self, log: list[str], *, fails: bool = False, returns: bool = False) -> None:
        self._log = log
        self._fails = fails
        self._returns = returns
        self._asked = asyncio.Event()

    async def work(self) -> None:
        if self._fails:
            raise ZeroDivisionError("a defect")
        if self._returns:
            return
        await self._asked.wait()
        self._log.append("worked to the end")

    def stop(self) -> None:
        self._log.append("asked to stop")
        self._asked.set()

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._log.append("view gone")

    async def background(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._log.append("background gone")


async def test_the_view_goes_first_and_the_work_may_leave_in_good_order():
    log: list[str] = []
    acting, ended = Acting(log), asyncio.Event()
    async with asyncio.timeout(BOUND):
        await play(
            ended,
            Work(acting.work, acting.stop),
            acting,
            acting.background(),
            end_after(timedelta(milliseconds=20), ended, asyncio.sleep),
        )

    assert log == ["view gone", "asked to stop", "worked to the end", "background gone"]


async def test_a_crash_of_the_operator_ends_the_show_with_its_error():
    log: list[str] = []
    acting = Acting(log, fails=True)
    async with asyncio.timeout(BOUND):
        with pytest.raises(ZeroDivisionError, match="a defect"):
            await play(asyncio.Event(), Work(acting.work, acting.stop), acting, acting.background())

    assert "view gone" in log
    assert "background gone" in log


async def test_an_operator_that_just_returns_ends_the_show_as_a_failure():
    acting = Acting([], returns=True)
    async with asyncio.timeout(BOUND):
        with pytest.raises(EndedEarly, match="the operator ended unexpectedly"):
            await play(asyncio.Event(), Work(acting.work, acting.stop), acting)


async def test_a_view_that_cannot_be_drawn_ends_the_show_with_its_error():
    def broken():
        raise LookupError("no snapshot")

    acting = Acting([])
    view = LineView(broken, asyncio.sleep, lambda _line: None)
    async with asyncio.timeout(BOUND):
        with pytest.raises(LookupError):
            await play(asyncio.Event(), Work(acting.work, acting.stop), view)


async def test_lines_tell_the_scene_while_the_show_is_on():
    said: list[str] = []
    acting, ended = Acting([]), asyncio.Event()
    view = LineView(a_snapshot, asyncio.sleep, said.append)
    async with asyncio.timeout(BOUND):
        await play(
            ended,
            Work(acting.work, acting.stop),
            view,
            end_after(timedelta(milliseconds=20), ended, asyncio.sleep),
        )

    assert said[-1] == "09:30:00Z = pool ml/training: Ready (Valid): because"


def test_lengths_are_read_as_people_write_them():
    assert Length().convert("1m30s", None, None) == timedelta(seconds=90)


@pytest.mark.parametrize("text", ["", "30", "0s", "-5s", "soon"])
def test_a_length_that_is_none_is_refused_by_name(text):
    with pytest.raises(click.BadParameter, match=repr(text)):
        Length().convert(text, None, None)
