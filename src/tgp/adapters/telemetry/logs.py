"""Log lines: JSON for machines, one readable line for people on a terminal."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

ROOT = "tgp"
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}


def set_up(style: str, level: str, stream: TextIO | None = None) -> None:
    """Send every line of the house to `stream` (standard error). `auto` is text on a terminal, JSON elsewhere."""
    out = stream or sys.stderr
    text = style == "text" or (style == "auto" and out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(ForPeople(colour=out.isatty()) if text else ForMachines())
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    # Libraries have nothing to say that a user needs: only their warnings pass.
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in PLAIN}


class ForMachines(logging.Formatter):
    """One JSON object a line: ts, level, logger, msg, then the fact's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line |= _extras(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class ForPeople(logging.Formatter):
    """`21:04:05 LeadershipWon identity=a epoch=b`, warnings in colour."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = " ".join(f"{name}={value}" for name, value in _extras(record).items())
        line = f"{when} {record.getMessage()}" + (f" {fields}" if fields else "")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        shade = COLOURS.get(record.levelname) if self._colour else None
        return f"{shade}{line}\x1b[0m" if shade else line
