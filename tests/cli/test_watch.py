"""`tgp watch`: one machine from plan to ready to gone, in lines, on a terminal, and through a cluster that hiccups."""

import asyncio
import json
import threading
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tests.cli.program import BOUND_S, Terminal, started, tgp
from tests.cli.sample_requests import (
    FAILED,
    FINISHED,
    GOING,
    JOINING,
    NEW,
    READY,
    START,
    WAITING,
    FakeServices,
    a_request,
    after,
    attempt,
    become,
    condition,
    document,
    drawn,
    furnish,
    send,
)
from tests.contracts.kube_client.scripted import ScriptedHttp, in_virtual_time, json_reply
from tests.contracts.kubectl.mounted import Mounted
from tests.documents import compare
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.connect import Connection
from tgp.api.values import rfc3339
from tgp.core.model.event import Event
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.request_timeline import StepMark, timeline_of
from tgp.interfaces.cli.request_name import read_name
from tgp.interfaces.cli.watch import watch
from tgp.interfaces.cli.watch_view import WatchPrinter, render
from tgp.ports.http import HttpError, NeverLeft
from tgp.services.request_answers import Look
from tgp.services.requests import RequestService

LIFE = (
    Look(NEW, after(0)),
    Look(WAITING, after(1)),
    Look(JOINING, after(60)),
    Look(READY, after(200)),
    Look(GOING, after(5400)),
    Look(FINISHED, after(5600)),
)


def watched(*looks: Look, options: tuple[str, ...] = (), stays: bool = False):
    return CliRunner().invoke(watch, ["ml/train", *options], obj=FakeServices(*looks, stays=stays))


def marks(request, now=START) -> dict[str, StepMark]:
    return {step.name: step.mark for step in timeline_of(request, now).steps}


def test_a_pipe_gets_one_line_for_each_change_with_its_own_time():
    """Also for what came and went between two looks: the conditions carry the time."""
    lines = watched(*LIFE).output.splitlines()

    assert lines[0] == "2026-11-16T14:02:10Z asked"
    assert "2026-11-16T14:02:12Z planned after 2s: 1x L40S at $1.20/h from vultr in us-east" in lines
    assert "2026-11-16T14:02:20Z rented after 8s: instance i-7" in lines
    assert "2026-11-16T14:04:20Z joined after 2m: node gpu-train" in lines
    assert "2026-11-16T14:04:50Z ready after 0s" in lines
    assert any(line.startswith("2026-11-16T15:32:10Z terminating") and "Idle" in line for line in lines)
    assert any("= Finished (Idle)" in line and "$1.83 in total" in line for line in lines)
    assert lines[-1] == "next: tgp why ml/train"


def test_what_stays_as_it_is_is_told_once():
    printer, look = WatchPrinter(), Look(WAITING, after(1))

    assert len(printer.lines(timeline_of(WAITING, look.now), look)) == 2
    assert printer.lines(timeline_of(WAITING, look.now), look) == []


def test_a_wait_that_changes_only_its_numbers_is_told_once():
    other = a_request(
        phase="Pending", conditions=(condition("Launched", "False", "NoOfferFits", "none of 12 offers fits"),)
    )
    printer = WatchPrinter()
    printer.lines(timeline_of(WAITING, after(1)), Look(WAITING, after(1)))

    assert printer.lines(timeline_of(other, after(2)), Look(other, after(2))) == []


@pytest.mark.parametrize(
    ("looks", "options", "code"),
    [
        (LIFE, (), 0),
        ((Look(FAILED, after(90)),), (), 1),
        (LIFE[:4], ("--until", "ready"), 0),
        ((Look(GOING, after(5400)),), ("--until", "ready"), 1),  # it will not be ready again
        ((Look(FAILED, after(90)),), ("--until", "ready"), 1),
        ((Look(FAILED, after(90)),), ("--until", "gone"), 0),  # gone is gone
        ((Look(READY, after(200)), Look(None, after(300))), ("--until", "gone"), 0),
        ((Look(JOINING, after(60)), Look(None, after(90))), ("--until", "ready"), 1),
        ((), (), 1),
    ],
)
def test_the_exit_code_says_whether_it_got_there(looks, options, code):
    assert watched(*looks, options=options).exit_code == code


def test_a_machine_that_is_replaced_may_still_become_ready():
    """A machine that never joined is terminated, and another attempt follows."""
    back = condition("Terminating", reason="NeverJoined", message="No Node registered by 14:27:20Z", at=1500)
    replaced = a_request(phase="Terminating", attempts=[attempt(outcome="Launched")], conditions=(back,))

    assert watched(Look(replaced, after(1501)), Look(READY, after(2000)), options=("--until", "ready")).exit_code == 0


def test_a_cluster_that_does_not_answer_is_said_once_and_outlasted():
    silent = Look(JOINING, after(61), trouble="no route to host")
    output = watched(LIFE[2], silent, silent, LIFE[3], options=("--until", "ready")).output

    assert output.count("the cluster does not answer: no route to host") == 1
    assert "the cluster answers again" in output
    assert "ready" in output


def test_a_verdict_is_never_reached_on_an_old_look():
    old = Look(READY, after(300), trouble="no route to host")

    assert watched(old, Look(FAILED, after(400)), options=("--until", "ready")).exit_code == 1


def test_ctrl_c_ends_the_watching_and_says_that_nothing_else_ended():
    plain, waited = watched(LIFE[2], stays=True), watched(LIFE[2], options=("--until", "ready"), stays=True)

    assert (plain.exit_code, waited.exit_code) == (130, 130)
    assert "Nothing was changed" in plain.output
    assert "Traceback" not in plain.output


def test_programs_read_one_document_after_the_other():
    lines = [json.loads(line) for line in watched(*LIFE, options=("-o", "json")).output.splitlines()]

    assert [line["phase"] for line in lines] == ["Pending", "Pending", "Joining", "Ready", "Terminating", "Finished"]
    assert lines[3]["ready"] is True
    assert lines[3]["usdPerHour"] == 1.2
    assert lines[-1]["usdSpent"] == 1.83
    assert {step["state"] for step in lines[2]["steps"]} == {"done", "now", "later"}
    for line in lines:
        compare(line)
    parts = list(YAML(typ="safe", pure=True).load_all(watched(*LIFE, options=("-o", "yaml")).output))
    assert parts == lines


def test_the_screen_shows_marks_times_money_and_the_end():
    event = Event(key=ObjectKey("ml", "e1"), reason="NodeBought", message="L40S at $1.20/h", last_at=after(10))
    screen = drawn(render(timeline_of(READY, after(3610)), Look(READY, after(3610), (event,)), 100))

    assert "request ml/train   Ready" in screen
    assert "$1.20/h, $1.20 so far; ends at 18:02:10Z, in 179m; node gpu-train" in screen
    assert "✓ joined       14:04:20Z      2m  node gpu-train" in screen
    assert "NodeBought: L40S at $1.20/h" in screen


def test_a_terminal_without_such_signs_gets_plain_ones():
    screen = drawn(render(timeline_of(JOINING, after(70)), Look(JOINING, after(70)), 80, ascii_only=True))

    assert screen.isascii()
    assert "+ rented" in screen
    assert ". joined                     60s  no Node yet" in screen


def test_what_a_machine_had_reached_stays_told_when_its_conditions_are_gone():
    assert marks(FINISHED) == {
        **dict.fromkeys(("asked", "planned", "rented", "joined", "GPUs seen", "ready", "terminating"), StepMark.DONE),
        "drained": StepMark.NEVER,
        "gone": StepMark.DONE,
    }
    assert marks(FAILED)["rented"] is StepMark.NEVER


def test_a_machine_without_a_node_has_nothing_to_drain():
    back = condition("Terminating", reason="NeverJoined", message="No Node registered", at=1500)
    found = marks(a_request(phase="Terminating", attempts=[attempt(outcome="Launched")], conditions=(back,)))

    assert (found["drained"], found["gone"]) == (StepMark.NEVER, StepMark.NOW)


def test_between_two_attempts_it_plans_again():
    again = a_request(
        phase="Pending",
        attempts=[attempt(outcome="SoldOut", endedAt=rfc3339(after(5)), message="none left")],
        conditions=(condition("Launched", "False", "BackingOff", "attempt 1 failed: none left", at=5),),
    )

    assert marks(again)["planned"] is StepMark.NOW
    assert timeline_of(again, after(6)).hourly_microusd is None


@pytest.mark.parametrize(
    ("text", "namespace", "key"),
    [
        ("train", "", ObjectKey("", "train")),
        ("train", "ml", ObjectKey("ml", "train")),
        ("request/train", "ml", ObjectKey("ml", "train")),
        ("gr/train", "", ObjectKey("", "train")),
        ("ml/train", "", ObjectKey("ml", "train")),
        ("ml/train", "ml", ObjectKey("ml", "train")),
        ("gpurequest/ml/train", "", ObjectKey("ml", "train")),
    ],
)
def test_a_request_goes_by_several_names(text, namespace, key):
    assert read_name(text, namespace) == key


@pytest.mark.parametrize("text", ["", "/", "a/b/c", "request/", "request/a/b/c", "pod/train", "node/x"])
def test_what_is_no_name_of_a_request_is_wrong_use(text):
    answer = CliRunner().invoke(watch, [text], obj=FakeServices())

    assert answer.exit_code == 2
    assert "request/NAME" in answer.output


def test_a_name_and_an_option_that_disagree_are_wrong_use():
    assert CliRunner().invoke(watch, ["ml/train", "-n", "web"], obj=FakeServices()).exit_code == 2


def followed(http: ScriptedHttp, most: int) -> list[Look]:
    """So many looks through the real requests, in virtual time."""

    async def gather() -> list[Look]:
        clock = LoopClock()
        requests = RequestService(Connection(http, clock, SystemEntropy(), "https://x", "", "tgp-system"), no_market)
        looks = []
        async with aclosing(requests.follow(ObjectKey("ml", "train"))) as following:
            async for look in following:
                looks.append(look)
                if len(looks) == most:
                    break
        return looks

    return in_virtual_time(gather())


class LoopClock:
    def now(self) -> datetime:
        return START

    def boottime(self) -> float:
        return asyncio.get_running_loop().time()


def no_market(_providers: tuple[str, ...]):
    raise AssertionError("watching asks no provider")


def answering(*answers):
    """The request is asked for again and again; of Events there are none."""
    script = iter(answers)

    def answer(call):
        if call.path.endswith("/events"):
            return json_reply(200, {"kind": "EventList", "metadata": {"resourceVersion": "1"}, "items": []})
        said = next(script)
        if isinstance(said, HttpError):
            raise said
        return said

    return ScriptedHttp(answer)


def test_an_api_server_that_hiccups_is_outlasted():
    here, away = json_reply(200, document(phase="Pending")), NeverLeft("no connection")
    looks = followed(answering(here, *[away] * 40, *[here] * 30), 30)

    assert [looks[0].trouble, looks[-1].trouble] == ["", ""]
    assert any("no connection" in look.trouble for look in looks)
    assert all(look.request is not None for look in looks)


def test_another_object_under_its_name_is_not_it():
    """Deleted and created again between two looks: the watched machine is gone."""
    here = json_reply(200, document())
    other = json_reply(200, document(meta={"uid": "99999999-2222-3333-4444-555555555555"}))
    looks = followed(answering(here, other), 2)

    assert [look.request is None for look in looks] == [False, True]


def test_time_is_the_api_servers():
    """A terminal's clock may be wrong by a day; ages follow the API server, which stamped the object."""
    dated = json_reply(200, document(), ("Date", "Tue, 17 Nov 2026 14:02:10 GMT"))

    assert followed(answering(dated, dated), 1)[0].now == after(24 * 3600)


# -- against an API server -------------------------------------------------------------------------------------------


def status(**said) -> str:
    return json.dumps(document(**said)["status"])


def test_it_follows_what_an_operator_writes_until_the_machine_is_ready(tmp_path: Path):
    ready = status(phase="Ready", conditions=(condition("Launched"), condition("Ready", at=5)), hourlyPrice="1.20")
    with Mounted(tmp_path) as server:
        address = furnish(server)
        words = ("watch", "ml/train", "--until", "ready", "--kubeconfig", str(server.kubeconfig))
        with started(tmp_path, *tgp(*words)) as program:
            first = program.stdout.readline()
            become(address, ready)
            rest, _ = program.communicate(timeout=BOUND_S)

    assert "asked" in first
    assert "= Ready" in rest
    assert program.returncode == 0


def test_it_ends_with_the_object(tmp_path: Path):
    """The finalizer goes last: an object that is gone has nothing left to pay for."""
    with Mounted(tmp_path) as server:
        address = furnish(server)
        words = ("watch", "ml/train", "--kubeconfig", str(server.kubeconfig))
        with started(tmp_path, *tgp(*words)) as program:
            program.stdout.readline()
            threading.Timer(0.1, send, (address, "DELETE", {})).start()
            rest, _ = program.communicate(timeout=BOUND_S)

    assert "gone: the request is deleted" in rest
    assert program.returncode == 0


def test_on_a_terminal_it_draws_and_ctrl_c_is_clean(tmp_path: Path):
    with Mounted(tmp_path) as server:
        furnish(server)
        terminal = Terminal(tmp_path, *tgp("watch", "ml/train", "--kubeconfig", str(server.kubeconfig)))
        try:
            terminal.wait_for(b"asked")
            terminal.type(b"\x03")
            code = terminal.wait()
        finally:
            terminal.close()

    assert code == 130
    assert b"Nothing was changed" in terminal.written
    assert b"Traceback" not in terminal.written


def test_a_request_that_is_not_there_is_told_with_the_nearest(tmp_path: Path):
    with Mounted(tmp_path) as server:
        furnish(server)
        with started(tmp_path, *tgp("watch", "ml/trian", "--kubeconfig", str(server.kubeconfig))) as program:
            said, _ = program.communicate(timeout=BOUND_S)

    assert program.returncode == 1
    assert "There is no request ml/trian; did you mean train?" in said
