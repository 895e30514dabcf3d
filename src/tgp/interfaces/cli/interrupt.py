"""Ctrl-C ends a command at once, also at a question, and the command reports what it had started by then."""

import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from select import select
from socket import socket, socketpair
from typing import IO, Any, TypeVar

import click

INTERRUPTED = 130  # the shell's exit code for a program that Ctrl-C ended
UNCHANGED = "Nothing was changed."

T = TypeVar("T")


class Interrupted(click.ClickException):
    """The message names what was started and what was not."""

    exit_code = INTERRUPTED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Interrupted. {self.format_message()}".rstrip(), file=file, err=file is None)


@dataclass(slots=True)
class BegunSteps:
    """What a command has started. Written *before* each step is sent, so that it is true whenever Ctrl-C comes."""

    words: str = UNCHANGED


def run(work: Coroutine[Any, Any, T], begun: BegunSteps | None = None) -> T:
    """Like asyncio.run; Ctrl-C closes what is open and raises Interrupted with what was started."""
    import asyncio  # not for `tgp --help`

    try:
        return asyncio.run(_left_at_once(work))
    except (KeyboardInterrupt, click.Abort):
        raise Interrupted((begun or BegunSteps()).words) from None


async def _left_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Threads are not waited for after Ctrl-C: a DNS lookup must not block the terminal."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        return await work
    except (asyncio.CancelledError, click.Abort):
        # asyncio waits for this empty executor instead; `main` ends the process without the old one's threads.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        raise


def answer(question: str, *, hidden: bool = False) -> str:
    """The line that the user types; `hidden`: without showing it.

    Ctrl-C, or the end of the input, raises click.Abort, on a line of its own.

    Not `input`: an event loop swallows the first Ctrl-C meanwhile, and a Ctrl-C between the question and the read is
    noticed only with the next key.
    """
    line = ""
    with suppress(KeyboardInterrupt), _interruptible() as wakeup, _without_echo(wanted=hidden):
        if not _cancelled():
            click.echo(f"{question} ", nl=False, err=True)
            if wakeup is not None:
                select([sys.stdin, wakeup], [], [])
            line = sys.stdin.readline()
    if not line or hidden:
        click.echo(err=True)  # the question's line is not finished
    if not line:
        raise click.Abort
    return line.strip()


@contextmanager
def _interruptible() -> Iterator[socket | None]:
    """Ctrl-C raises KeyboardInterrupt in the block, and makes the socket readable. None: there is no terminal."""
    if not sys.stdin.isatty() or threading.current_thread() is not threading.main_thread():
        yield None
        return
    wakeup, sender = socketpair()
    with wakeup, sender:
        sender.setblocking(False)
        before, wakes = signal.signal(signal.SIGINT, signal.default_int_handler), signal.set_wakeup_fd(sender.fileno())
        try:
            yield wakeup
        finally:
            signal.set_wakeup_fd(wakes)
            signal.signal(signal.SIGINT, before)


@contextmanager
def _without_echo(*, wanted: bool) -> Iterator[None]:
    """What is typed in the block is not shown, if that is wanted and there is a terminal."""
    if not wanted or not sys.stdin.isatty():
        yield
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


def _cancelled() -> bool:
    """Did Ctrl-C come before the question? Then the event loop has it, and waits for this call to return."""
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return False
    return task is not None and task.cancelling() > 0
