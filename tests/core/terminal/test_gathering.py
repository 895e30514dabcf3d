"""Pods counted as they come and go, Events that are worth a line, log lines as happenings, doors that count."""

import logging
from datetime import timedelta

import pytest

from tests.core.terminal.scenes import NOW
from tgp.adapters.telemetry.journal import LiveJournal
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.app.view.crowd import WAITING_FOR_GPU, Crowd
from tgp.app.view.doors import CountingHttp, ReadOnlyHttp
from tgp.app.view.ears import Ears
from tgp.app.view.scene import newest
from tgp.core.model.amounts import Amounts
from tgp.core.model.event import Event
from tgp.core.model.facts import ConditionChanged, JoinApproved, LeadershipWon, MachineReady, Subject
from tgp.core.model.key import Key
from tgp.core.model.pod import PENDING, RUNNING, SUCCEEDED, UNSCHEDULABLE, Pod
from tgp.ports.http import Call, NeverLeft, Reply


def a_pod(**rest) -> Pod:
    made = {"key": Key("ml", "train"), "requests": Amounts(others=(("nvidia.com/gpu", 2),)), **rest}
    return Pod(**made)


WAITING = a_pod(phase=PENDING, unplaced_reason=UNSCHEDULABLE)
PLACED = a_pod(phase=PENDING, node="cellar-1")
STARTED = a_pod(phase=RUNNING, node="cellar-1")
OVER = a_pod(phase=SUCCEEDED, node="cellar-1")


def test_a_pod_is_counted_where_it_is_and_nowhere_else():
    crowd = Crowd()
    seen = []
    for old, new in ((None, WAITING), (WAITING, PLACED), (PLACED, STARTED), (STARTED, OVER), (OVER, None)):
        crowd.changed(old, new)
        seen.append((dict(crowd.states()), crowd.pods_on("cellar-1"), crowd.gpus_used_on("cellar-1")))

    assert seen == [
        ({WAITING_FOR_GPU: 1}, 0, 0),
        ({"pending": 1}, 1, 2),
        ({"running": 1}, 1, 2),
        ({}, 0, 0),
        ({}, 0, 0),
    ]


def test_a_pod_that_waits_for_something_else_does_not_wait_for_a_gpu():
    crowd = Crowd()
    crowd.changed(None, a_pod(requests=Amounts(cpu_milli=1), phase=PENDING, unplaced_reason=UNSCHEDULABLE))

    assert crowd.states() == {"pending": 1}


def an_event(name: str, minutes: float, **rest) -> Event:
    made = {"kind": "Pod", "about": Key("ml", "train"), "warning": True, "reason": "FailedScheduling", "message": "no"}
    return Event(key=Key("ml", name), last_at=NOW + timedelta(minutes=minutes), **{**made, **rest})


def test_a_pod_that_cannot_start_is_one_line_and_its_daily_life_none():
    events = [
        an_event("c", 2, message="0/5 nodes are available: 4 Insufficient nvidia.com/gpu. no new claims to deallocate"),
        an_event("a", 1),
        an_event("b", 3, warning=False, reason="Scheduled"),
    ]

    assert [(one.reason, one.message) for one in newest(events)] == [
        ("FailedScheduling", "0/5 nodes are available: 4 Insufficient nvidia.com/gpu")
    ]


def test_events_come_oldest_first_and_those_of_our_objects_stay_apart():
    events = [
        an_event("b", 2, kind="GPUNodePool", reason="Valid", warning=False),
        an_event("a", 1, kind="GPUNodePool", reason="NodeClassNotFound"),
    ]

    assert [one.reason for one in newest(events)] == ["NodeClassNotFound", "Valid"]
    assert newest(events)[0].about == "pool ml/train"


class Fixed:
    def now(self):
        return NOW

    def boottime(self):
        return 0.0


class Silent:
    def emit(self, *_what, **_how):
        pass


@pytest.mark.parametrize("conditions", [True, False])
def test_facts_are_heard_while_a_screen_is_up(conditions, capsys):
    """A condition that turned is told by the cluster's own Event, unless nothing is written there."""
    ears = Ears(Fixed(), conditions=conditions)
    journal = LiveJournal(Silent(), Metrics())
    subject = Subject(GPU_NODE_POOL, Key("ml", "training"), "uid")
    with ears.listening():
        journal.note(LeadershipWon("me", "term"))
        journal.note(ConditionChanged(subject, "Ready", "False", "NodeClassNotFound", "there is no class", good=False))

    told = [(one.about, one.reason, one.message, one.warning) for one in ears.heard]
    assert told[0] == ("operator", "LeadershipWon", "identity me, epoch term", False)
    assert told[1:] == ([("pool ml/training", "NodeClassNotFound", "there is no class", True)] if conditions else [])
    assert capsys.readouterr().err == ""


def test_loggers_are_left_as_they_were_found():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with Ears(Fixed(), conditions=True).listening():
        assert root.handlers != before[0]

    assert (root.handlers, root.level) == before


class Answering:
    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.seen: list[str] = []

    async def send(self, call: Call) -> Reply:
        self.seen.append(call.method)
        return Reply(self.status)

    def stream(self, *_what, **_how):
        raise AssertionError("not asked for here")


async def test_writes_are_counted_when_the_server_took_them_and_renewals_apart():
    http = CountingHttp(Answering())
    await http.send(Call("GET", "/api/v1/pods"))
    await http.send(Call("PATCH", "/apis/tgp.io/v1/gpunodeclasses/x/status"))
    await http.send(Call("PUT", "/apis/coordination.k8s.io/v1/namespaces/tgp-system/leases/tgp-operator"))

    refused = CountingHttp(Answering(409))
    await refused.send(Call("PATCH", "/apis/tgp.io/v1/gpunodeclasses/x/status"))

    assert (http.writes, http.renewals) == (1, 1)
    assert refused.writes == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "MKCOL"])
async def test_nothing_that_changes_anything_passes_the_last_door(method):
    inner = Answering()
    door = ReadOnlyHttp(inner)

    with pytest.raises(NeverLeft, match="only looking"):
        await door.send(Call(method, "/api/v1/pods"))
    with pytest.raises(NeverLeft):
        door.stream(Call(method, "/api/v1/pods"), idle=timedelta(seconds=1))
    await door.send(Call("GET", "/api/v1/pods"))

    assert inner.seen == ["GET"]
    assert door.refused == 2


NOTEBOOK = Subject(GPU_REQUEST, Key("ml", "notebook"), "uid")


@pytest.mark.parametrize(
    "fact",
    [MachineReady(NOTEBOOK, "vast", "node-1", timedelta(minutes=3)), JoinApproved(NOTEBOOK, "node-1", "node-csr-1")],
    ids=lambda fact: type(fact).__name__,
)
def test_what_the_cluster_is_told_by_an_event_is_not_told_twice(fact):
    def heard(*, conditions: bool) -> list[str]:
        ears = Ears(Fixed(), conditions=conditions)
        with ears.listening():
            LiveJournal(Silent(), Metrics()).note(fact)
        return [one.reason for one in ears.heard]

    assert heard(conditions=False) == []
    assert heard(conditions=True) == [type(fact).__name__]


def test_a_turn_that_is_taken_again_is_no_news():
    ears = Ears(Fixed(), conditions=False)
    with ears.listening():
        logging.getLogger("tgp.runtime").info("turn put off", extra={"why": "409 Conflict"})

    assert list(ears.heard) == []
