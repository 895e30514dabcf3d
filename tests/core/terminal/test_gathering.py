"""Pod counts, the Events that are shown, log lines as events, and the HTTP guards."""

import logging
from datetime import timedelta

import pytest

from tests.core.terminal.snapshots import NOW
from tgp.adapters.telemetry.journal import LiveJournal
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET
from tgp.app.view.gatherer import newest, node_note
from tgp.app.view.http_guards import CountingHttp, ReadOnlyHttp
from tgp.app.view.log_capture import LogCapture
from tgp.app.view.pod_counts import WAITING_FOR_GPU, PodCounts
from tgp.core.model.event import Event
from tgp.core.model.facts import (
    AlertRaised,
    AnnotationIgnored,
    ConditionChanged,
    DisruptionCounted,
    FactSubject,
    JoinApproved,
    LeadershipWon,
    MachineReady,
    PodGateLifted,
)
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import PENDING, RUNNING, SUCCEEDED, UNSCHEDULABLE, Pod
from tgp.core.model.resources import Resources
from tgp.core.requests.node_state import provider_id_of
from tgp.ports.http import Call, NeverLeft, Reply


def a_pod(**rest) -> Pod:
    made = {"key": ObjectKey("ml", "train"), "requests": Resources(others=(("nvidia.com/gpu", 2),)), **rest}
    return Pod(**made)


WAITING = a_pod(phase=PENDING, unplaced_reason=UNSCHEDULABLE)
PLACED = a_pod(phase=PENDING, node="cellar-1")
STARTED = a_pod(phase=RUNNING, node="cellar-1")
OVER = a_pod(phase=SUCCEEDED, node="cellar-1")


def test_a_pod_is_counted_where_it_is_and_nowhere_else():
    pod_counts = PodCounts()
    seen = []
    for old, new in ((None, WAITING), (WAITING, PLACED), (PLACED, STARTED), (STARTED, OVER), (OVER, None)):
        pod_counts.changed(old, new)
        seen.append((dict(pod_counts.states()), pod_counts.pods_on("cellar-1"), pod_counts.gpus_used_on("cellar-1")))

    assert seen == [
        ({WAITING_FOR_GPU: 1}, 0, 0),
        ({"pending": 1}, 1, 2),
        ({"running": 1}, 1, 2),
        ({}, 0, 0),
        ({}, 0, 0),
    ]


def test_a_pod_that_waits_for_something_else_does_not_wait_for_a_gpu():
    pod_counts = PodCounts()
    pod_counts.changed(None, a_pod(requests=Resources(cpu_milli=1), phase=PENDING, unplaced_reason=UNSCHEDULABLE))

    assert pod_counts.states() == {"pending": 1}


def an_event(name: str, minutes: float, **rest) -> Event:
    made = {
        "kind": "Pod",
        "about": ObjectKey("ml", "train"),
        "warning": True,
        "reason": "BackOff",
        "message": "no",
    }
    return Event(key=ObjectKey("ml", name), last_at=NOW + timedelta(minutes=minutes), **{**made, **rest})


def test_a_pod_that_cannot_start_is_one_line_and_its_daily_life_none():
    events = [
        an_event("c", 2, message="restarting failed container. see its log"),
        an_event("a", 1),
        an_event(
            "d", 4, reason="FailedScheduling", message="0/5 nodes are available"
        ),  # it has a line as a waiting pod
        an_event("b", 3, warning=False, reason="Scheduled"),
    ]

    assert [(one.reason, one.message) for one in newest(events)] == [("BackOff", "restarting failed container")]


def test_events_come_oldest_first_and_those_of_our_objects_stay_apart():
    events = [
        an_event("b", 2, kind="GPUNodePool", reason="Valid", warning=False),
        an_event("a", 1, kind="GPUNodePool", reason="NodeClassNotFound"),
    ]

    assert [one.reason for one in newest(events)] == ["NodeClassNotFound", "Valid"]
    assert newest(events)[0].about == "pool ml/train"


def test_a_rented_machine_names_its_provider_and_a_machine_you_own_does_not():
    labels = (("tgp.io/gpu-type", "RTX3090"), ("tgp.io/provider", "acme"))
    own = Node(key=ObjectKey("", "cellar-1"), labels=dict(labels))
    rented = Node(
        key=ObjectKey("", "rented"),
        labels=dict(labels),
        provider_id=provider_id_of("acme", f"tgp-{'0a' * 5}-{'0b' * 16}-1"),
    )

    powered = Node(
        key=ObjectKey("", "cellar-2"),
        labels={**dict(labels), "tgp.io/provider": "webhook"},
        provider_id=provider_id_of("webhook", f"tgp-{'0a' * 5}-{'0b' * 16}-1"),
    )

    assert node_note(own) == "RTX3090, your own"
    assert node_note(powered) == "RTX3090, your own"
    assert node_note(rented) == "RTX3090, rented from acme"


def test_counts_for_metrics_are_no_line_on_the_screen():
    log_capture = LogCapture(Fixed(), conditions=False)
    with log_capture.capturing():
        LiveJournal(Silent(), Metrics()).note(DisruptionCounted(ObjectKey("ml", "training"), unhealthy=1))

    assert not log_capture.rows


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
    log_capture = LogCapture(Fixed(), conditions=conditions)
    journal = LiveJournal(Silent(), Metrics())
    subject = FactSubject(GPU_NODE_POOL, ObjectKey("ml", "training"), "uid")
    with log_capture.capturing():
        journal.note(LeadershipWon("me", "term"))
        journal.note(ConditionChanged(subject, "Ready", "False", "NodeClassNotFound", "there is no class", good=False))

    told = [(one.about, one.reason, one.message, one.warning) for one in log_capture.rows]
    assert told[0] == ("operator", "LeadershipWon", "identity me, epoch term", False)
    assert told[1:] == ([("pool ml/training", "NodeClassNotFound", "there is no class", True)] if conditions else [])
    assert capsys.readouterr().err == ""


def test_loggers_are_left_as_they_were_found():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with LogCapture(Fixed(), conditions=True).capturing():
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
    guard = ReadOnlyHttp(inner)

    with pytest.raises(NeverLeft, match="read-only"):
        await guard.send(Call(method, "/api/v1/pods"))
    with pytest.raises(NeverLeft):
        guard.stream(Call(method, "/api/v1/pods"), idle=timedelta(seconds=1))
    await guard.send(Call("GET", "/api/v1/pods"))

    assert inner.seen == ["GET"]
    assert guard.refused == 2


NOTEBOOK = FactSubject(GPU_REQUEST, ObjectKey("ml", "notebook"), "uid")
STUDENTS = FactSubject(GPU_WORKLOAD_BUDGET, ObjectKey("research", "students"), "uid")


@pytest.mark.parametrize(
    "fact",
    [
        MachineReady(NOTEBOOK, "vast", "node-1", timedelta(minutes=3)),
        JoinApproved(NOTEBOOK, "node-1", "node-csr-1"),
        AlertRaised(STUDENTS, "80", "Use has reached 80 % of the quota"),
        PodGateLifted(STUDENTS, "research/students"),
        AnnotationIgnored(NOTEBOOK, "tgp.io/max-price is no price"),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_what_the_cluster_is_told_by_an_event_is_not_told_twice(fact):
    def heard(*, conditions: bool) -> list[str]:
        log_capture = LogCapture(Fixed(), conditions=conditions)
        with log_capture.capturing():
            LiveJournal(Silent(), Metrics()).note(fact)
        return [one.reason for one in log_capture.rows]

    assert heard(conditions=False) == []
    assert heard(conditions=True) == [type(fact).__name__]


def test_a_turn_that_is_taken_again_is_no_news():
    log_capture = LogCapture(Fixed(), conditions=False)
    with log_capture.capturing():
        logging.getLogger("tgp.runtime").info("reconcile deferred", extra={"why": "409 Conflict"})

    assert list(log_capture.rows) == []
