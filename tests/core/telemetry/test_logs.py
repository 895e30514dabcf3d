"""Log lines: JSON that machines parse, text that people read, and the reconcile on each line written in one."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.contracts.reflector.served import ServedPods, in_virtual_time
from tests.core.queue.test_runtime import Rig, running
from tgp.adapters.kube.reconcile_context import bound
from tgp.adapters.telemetry import logs
from tgp.adapters.telemetry.journal import LiveJournal
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.resource import GPU_NODE_POOL
from tgp.core.model.facts import ConditionChanged, FactSubject
from tgp.core.model.object_key import ObjectKey


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(stream: io.StringIO, style: str = "auto", level: str = "info") -> Iterator[None]:
    """As the program sets it up, put back at the end."""
    root, ours = logging.getLogger(), logging.getLogger(logs.ROOT)
    before = [(log, log.handlers[:], log.level, log.propagate) for log in (root, ours)]
    try:
        logs.set_up(style, level, stream, bound=bound)
        yield
    finally:
        for log, handlers, number, propagates in before:
            log.handlers[:] = handlers
            log.setLevel(number)
            log.propagate = propagates


class Silent:
    def emit(self, *_what: object, **_how: object) -> None:
        pass


def turned(key: ObjectKey) -> ConditionChanged:
    subject = FactSubject(GPU_NODE_POOL, key, "uid")
    return ConditionChanged(subject, "Ready", "False", "NodeClassNotFound", 'there is no "x"\nfor it', good=False)


def reconciled(step: Callable[[ObjectKey], object]) -> None:
    """One pod, one controller, a few reconciles."""

    async def scenario() -> None:
        async def take(key: ObjectKey):
            return step(key)

        served = ServedPods()
        served.create("a")
        rig = Rig(served, take)
        async with running(rig):
            await asyncio.sleep(1)

    in_virtual_time(scenario())


def test_every_line_is_a_json_object_that_carries_its_reconcile_and_key():
    out = io.StringIO()
    journal = LiveJournal(Silent(), Metrics())
    with logging_to(out):
        reconciled(lambda key: journal.note(turned(key)))

    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert line["msg"] == "ConditionChanged"
    assert line["level"] == "warning"
    assert line["ts"].endswith("Z")
    assert (line["reconcile"], line["key"]) == ("pods-1", "team/a")
    assert line["subject"] == "gpunodepool/team/a"
    assert line["text"] == 'there is no "x"\nfor it'


def test_a_failed_reconcile_says_where_and_not_what_the_error_said():
    """An error's words may hold anything, a key among them."""
    out = io.StringIO()
    words = "sk-" + "absent" * 3  # not in one piece below: the source line is part of the log line

    def fails(_key: ObjectKey) -> None:
        raise RuntimeError(words)

    with logging_to(out):
        reconciled(fails)

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    failed = [line for line in lines if line["msg"] == "reconcile failed"]
    assert failed
    assert all((line["key"], line["error"], line["level"]) == ("team/a", "RuntimeError", "error") for line in failed)
    assert "test_logs.py" in failed[0]["where"]
    assert words not in out.getvalue()


def test_outside_of_a_reconcile_there_is_none():
    out = io.StringIO()
    with logging_to(out):
        logging.getLogger("tgp.test").warning("hello", extra={"identity": "me"})

    line = json.loads(out.getvalue())
    assert (line["msg"], line["identity"]) == ("hello", "me")
    assert "reconcile" not in line
    assert "key" not in line


def test_whatever_a_field_holds_the_line_parses():
    out = io.StringIO()
    with logging_to(out):
        logging.getLogger("tgp.test").error(
            "odd", extra={"odd": object(), "key": ObjectKey("a", "b"), "not": float("nan")}
        )
        try:
            int("broken")
        except ValueError:
            logging.getLogger("aiohttp.server").exception("a library's")

    first, second = [json.loads(line) for line in out.getvalue().splitlines()]
    assert first["msg"] == "odd"
    assert "ValueError" in second["traceback"]


def test_on_a_terminal_it_is_one_readable_line_with_warnings_in_colour():
    out = Terminal()
    journal = LiveJournal(Silent(), Metrics())
    with logging_to(out):
        logging.getLogger("tgp.test").info("hello", extra={"identity": "me"})
        reconciled(lambda key: journal.note(turned(key)))

    plain, warning = out.getvalue().splitlines()
    assert plain[8:] == " hello identity=me"
    assert warning.startswith("\x1b[33m")
    assert warning.endswith("\x1b[0m")
    assert "ConditionChanged subject=gpunodepool/team/a" in warning
    assert 'text=there is no "x"\\nfor it' in warning
    assert "reconcile=pods-1" in warning


def test_no_value_steers_a_terminal_through_a_field():
    """Messages quote what a user wrote: it must not clear the screen, nor look like a line of its own."""
    out = Terminal()
    with logging_to(out):
        logging.getLogger("tgp.test").info("x", extra={"why": "a\x1b[2Jb\r\n12:00:00 LeadershipWon\x9b1m"})

    assert out.getvalue().count("\n") == 1
    assert "\x1b" not in out.getvalue()
    assert "\x9b" not in out.getvalue()
    assert "\r" not in out.getvalue()


def test_where_a_reconcile_failed_stands_below_its_line():
    out = Terminal()

    def fails(_key: ObjectKey) -> None:
        raise RuntimeError

    with logging_to(out):
        reconciled(fails)

    first, *below = out.getvalue().splitlines()
    assert "reconcile failed" in first
    assert "error=RuntimeError" in first
    assert below[0].startswith('  File "')


@pytest.mark.parametrize(
    ("style", "stream", "is_json"),
    [("json", Terminal, True), ("text", io.StringIO, False), ("auto", Terminal, False), ("auto", io.StringIO, True)],
)
def test_the_format_is_what_was_asked_for_or_what_the_stream_is(style, stream, is_json):
    out = stream()
    with logging_to(out, style):
        logging.getLogger("tgp.test").info("hello")

    assert out.getvalue().startswith("{") == is_json


def test_the_level_holds_for_us_and_libraries_are_only_heard_when_they_warn():
    out = io.StringIO()
    with logging_to(out, level="debug"):
        logging.getLogger("tgp.test").debug("ours")
        logging.getLogger("asyncio").info("theirs")

    assert [json.loads(line)["msg"] for line in out.getvalue().splitlines()] == ["ours"]
