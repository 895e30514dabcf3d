"""Single keys from a terminal while a live screen is shown. The terminal's settings are restored afterwards."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tgp.interfaces.terminal.keys import keys_in

CHUNK = 1024  # bytes; a user types fewer at a time


@contextmanager
def keys_from_terminal(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Each key as it is pressed, for as long as the block lasts. False: there is no terminal to read."""
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

    tty.setcbreak(file, termios.TCSADRAIN)  # Ctrl-C and Ctrl-Z still send signals
    try:
        loop.add_reader(file, read)
        yield True
    finally:
        loop.remove_reader(file)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(file, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """Only if this process is in the foreground: in the background, reading the settings would stop it."""
    try:
        file = sys.stdin.fileno()
        return file if os.isatty(file) and os.tcgetpgrp(file) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):  # stdin is closed or not a file
        return None
