"""Log lines: JSON for machines, one readable line for people on a terminal."""

import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

ROOT = "tgp"
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
BELOW = ("where",)  # fields of several lines, which the text format shows below the line
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {ord("\n"): "\\n", ord("\t"): " "}
COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}


def set_up(
    style: str,
    level: str,
    stream: TextIO | None = None,
    *,
    bound: Callable[[], Mapping[str, str]] = dict,
    redact: Callable[[str], str] = str,
) -> None:
    """Send all log lines to `stream` (standard error). `auto` is text on a terminal, JSON elsewhere.

    `bound` gives fields for the lines written now; a line's own fields win. Every line passes
    `redact` last.
    """
    out = stream or sys.stderr
    text = style == "text" or (style == "auto" and out.isatty())
    handler = logging.StreamHandler(out)
    handler.addFilter(_Binding(bound))
    handler.setFormatter(Redacting(TextFormatter(colour=out.isatty()) if text else JsonFormatter(), redact))
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    # Of libraries only warnings pass: users do not need the rest.
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)


class _Binding(logging.Filter):
    def __init__(self, bound: Callable[[], Mapping[str, str]]) -> None:
        super().__init__()
        self._bound = bound

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in self._bound().items():
            vars(record).setdefault(name, value)
        return True


class Redacting(logging.Formatter):
    """Another formatter's line, with secrets removed."""

    def __init__(self, inner: logging.Formatter, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._inner = inner
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._inner.format(record))


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in PLAIN}


class JsonFormatter(logging.Formatter):
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


class TextFormatter(logging.Formatter):
    """`21:04:05 LeadershipWon identity=a epoch=b`, warnings in colour.

    A value is shown on one line and cannot steer the terminal: messages of the API server may quote any user.
    """

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extras = _extras(record)
        fields = "".join(f" {name}={_plain(value)}" for name, value in extras.items() if name not in BELOW)
        below = "".join("\n" + str(extras[name]).rstrip() for name in BELOW if name in extras)
        line = f"{when} {_plain(record.getMessage())}{fields}{below}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        shade = COLOURS.get(record.levelname) if self._colour else None
        return f"{shade}{line}\x1b[0m" if shade else line


def _plain(value: object) -> str:
    return str(value).translate(CONTROLS)
