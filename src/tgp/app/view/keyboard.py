"""Single keys from a terminal, while a live screen is up. What the terminal was like before comes back."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tgp.surfaces.terminal.keys import keys_in

CHUNK = 1024  # bytes; a person types fewer at a time


@contextmanager
def keys_from_terminal(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Each key as it is pressed, for as long as the block lasts. False, and nothing touched: no terminal to read."""
    file = _terminal()
    if file is None:
        yield False
        return
    loop, before = asyncio.get_running_loop(), termios.tcgetattr(file)

    def read() -> None:
        try:
            text = os.read(file, CHUNK).decode(errors="ignore")
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone; SIGHUP says so, too
            text = ""
        if not text:
            loop.remove_reader(file)
        for key in keys_in(text):
            pressed(key)

    tty.setcbreak(file, termios.TCSADRAIN)  # Ctrl-C and Ctrl-Z go on as signals
    try:
        loop.add_reader(file, read)
        yield True
    finally:
        loop.remove_reader(file)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(file, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """Only one that this process may read: in the background a look at its settings would stop the process."""
    try:
        file = sys.stdin.fileno()
        return file if os.isatty(file) and os.tcgetpgrp(file) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):  # stdin is closed, or something else
        return None
