"""What every command needs first: the arguments, and streams that accept every character. Imports nothing slow."""

import codecs
import sys
from io import TextIOWrapper

RAN = "tgp.ran"  # in click's meta of the root: the arguments as typed
SUBSTITUTES = {"…": "...", "✓": "+", "✗": "x", "·": "-", "\u2013": "-", "\xd7": "x", "→": "->"}
UNKNOWN = "?"


def readable() -> None:
    """A terminal or pipe that cannot show a character gets the nearest one that it can, never a traceback."""
    codecs.register_error("tgp.nearest", _nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="tgp.nearest")


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SUBSTITUTES.get(sign, UNKNOWN) for sign in missing), error.end
