"""Each line of docs/accounting.md about what counts, from when and until when."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tgp.core.budgets.spans import (
    MOST_MILLI,
    SILENT_NODE,
    counts,
    hourly_share,
    machine_ended,
    off_time,
    seconds,
    sight,
    sight_gone,
    sight_in_list,
)
from tgp.core.budgets.weights import Weights
from tgp.core.model.node import OFF_SINCE, REQUEST_UID, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED, FAILED, RUNNING, SUCCEEDED, Pod
from tgp.core.model.resources import Resources

RESOURCE = "nvidia.com/gpu"
GPU, CPU = Weights(RESOURCE), Weights("cpu")
T = datetime(2026, 11, 17, 12, 0, 0, tzinfo=UTC)
SEEN = seconds(T)


def a_pod(**changes) -> Pod:
    given = {
        "key": ObjectKey("team", "train"),
        "uid": "u",
        "created_at": T - timedelta(hours=3),
        "node": "node-1",
        "requests": Resources(2000, 0, ((RESOURCE, 4),)),
        "phase": RUNNING,
    }
    return Pod(**{**given, **changes})


def ago(**length: float) -> datetime:
    return T - timedelta(**length)


def test_a_pod_counts_once_it_is_placed_and_if_it_asks_for_the_resource():
    assert counts(a_pod(), GPU)
    assert not counts(a_pod(node=""), GPU)
    assert not counts(a_pod(requests=Resources(2000)), GPU)
    assert counts(a_pod(requests=Resources(2000)), CPU)


def test_the_amount_is_the_effective_request_in_thousandths():
    assert sight(a_pod(), GPU, SEEN).milli == 4000
    assert sight(a_pod(), CPU, SEEN).milli == 2000
    assert sight(a_pod(requests=Resources(10**12)), CPU, SEEN).milli == MOST_MILLI


def test_a_pod_that_pulls_its_image_is_open_without_a_start():
    assert sight(a_pod(phase="Pending"), GPU, SEEN).start is None


def test_it_starts_with_the_first_container_that_asks_for_the_resource():
    starts = (("cpu", ago(seconds=40)), (RESOURCE, ago(seconds=10)))
    pod = a_pod(started_at=ago(seconds=40), starts=starts)
    assert sight(pod, GPU, SEEN).start == SEEN - 10
    assert sight(pod, CPU, SEEN).start == SEEN - 40
    assert sight(a_pod(started_at=ago(seconds=40), starts=(("cpu", ago(seconds=40)),)), GPU, SEEN).start is None


@pytest.mark.parametrize(
    ("stamp", "start"),
    [(5, SEEN - 5), (60, SEEN - 60), (86_400, SEEN), (-86_400, SEEN)],
    ids=["right", "late report", "a day behind", "a day ahead"],
)
def test_a_stamp_is_believed_within_the_bounds_of_what_was_seen(stamp, start):
    assert sight(a_pod(started_at=ago(seconds=stamp)), GPU, SEEN).start == start


@pytest.mark.parametrize("skew", [0, 10, -10, 50, -50, 3600, -3600, 86_400, -86_400])
def test_a_host_whose_clock_is_off_is_billed_the_same(skew):
    """Of a pod that waited for its image until just before it started, and of one that ran for 30 seconds."""
    for lasts in (30, 1800):
        stamp = ago(seconds=2 + skew)
        began = sight(a_pod(started_at=stamp), GPU, SEEN, waited=SEEN - 3).start
        assert began is not None
        ended = a_pod(phase=SUCCEEDED, started_at=stamp, ended_at=T + timedelta(seconds=lasts - 2 - skew))
        seen = sight(ended, GPU, SEEN + lasts, began=began)
        assert seen.start == began
        assert abs(seen.end - began - lasts) <= 2, "the delay of its reports"


@pytest.mark.parametrize("lasts", [30, 59, 61, 600, 86_400])
def test_a_late_report_of_the_end_bills_what_the_pod_ran(lasts):
    began = sight(a_pod(started_at=ago(seconds=1)), GPU, SEEN, waited=SEEN - 5).start
    ended = a_pod(phase=SUCCEEDED, started_at=ago(seconds=1), ended_at=T + timedelta(seconds=lasts - 1))
    seen = sight(ended, GPU, SEEN + lasts + 45, began=began)
    assert seen.end - seen.start == lasts


def test_the_end_of_a_clock_whose_start_was_wrong_counts_from_its_arrival():
    """It is 50 seconds behind: believed, its end would bill 50 seconds less."""
    began = sight(a_pod(started_at=ago(seconds=52)), GPU, SEEN, waited=SEEN - 5).start
    assert began == SEEN
    ended = a_pod(phase=SUCCEEDED, started_at=ago(seconds=52), ended_at=T + timedelta(seconds=300 - 50))
    assert sight(ended, GPU, SEEN + 300, began=began).end == SEEN + 300


def test_no_start_of_before_it_was_last_seen_waiting_is_believed():
    assert sight(a_pod(started_at=ago(seconds=50)), GPU, SEEN, waited=SEEN - 20).start == SEEN
    assert sight(a_pod(started_at=ago(seconds=20)), GPU, SEEN, waited=SEEN - 20).start == SEEN - 20


def test_after_a_silent_view_older_stamps_are_believed():
    assert sight(a_pod(started_at=ago(seconds=500)), GPU, SEEN, silent=600).start == SEEN - 500
    assert sight(a_pod(started_at=ago(days=1)), GPU, SEEN, silent=600).start == SEEN - 600


def test_in_a_list_stamps_hold_from_the_pods_creation_on():
    pod = a_pod(phase=SUCCEEDED, started_at=ago(hours=2), ended_at=ago(hours=1))
    seen = sight_in_list(pod, GPU, SEEN)
    assert (seen.start, seen.end) == (SEEN - 7200, SEEN - 3600)
    assert sight_in_list(a_pod(started_at=ago(days=1)), GPU, SEEN).start == SEEN - 3 * 3600


def test_no_stamp_of_before_it_had_a_node_is_believed():
    pod = a_pod(phase=SUCCEEDED, started_at=ago(hours=2), ended_at=ago(hours=1), placed_at=ago(minutes=30))
    seen = sight_in_list(pod, GPU, SEEN)
    assert (seen.start, seen.end) == (SEEN - 1800, SEEN)


def test_the_end_is_the_last_containers_and_without_one_the_moment_it_was_seen():
    assert sight(a_pod(phase=FAILED, ended_at=ago(seconds=7)), GPU, SEEN).end == SEEN - 7
    assert sight(a_pod(phase=FAILED), GPU, SEEN).end == SEEN


def test_a_pod_that_the_kubelet_refused_has_no_start():
    refused = sight(a_pod(phase=FAILED, ended_at=ago(seconds=7)), GPU, SEEN)
    assert refused.start is None


def test_a_pod_that_is_gone_ended_when_that_was_seen():
    running = a_pod(started_at=ago(seconds=20))
    assert sight_gone(running, GPU, SEEN).end == SEEN
    assert sight_gone(running, GPU, SEEN).sure_until is None
    assert sight_gone(running, GPU, SEEN, SEEN - 15).sure_until == SEEN - 15
    finished = a_pod(phase=SUCCEEDED, started_at=ago(seconds=20), ended_at=ago(seconds=5))
    assert sight_gone(finished, GPU, SEEN).end == SEEN - 5


def test_on_a_silent_node_it_goes_on_and_what_follows_its_last_word_is_unsure():
    silent = Node(key=ObjectKey("", "node-1"), ready=None, ready_since=ago(seconds=100))
    seen = sight(a_pod(started_at=ago(seconds=20)), GPU, SEEN, node=silent)
    assert (seen.end, seen.sure_until) == (None, SEEN - 100 - SILENT_NODE)
    reporting = Node(key=ObjectKey("", "node-1"), ready=True, ready_since=ago(seconds=100))
    assert sight(a_pod(started_at=ago(seconds=20)), GPU, SEEN, node=reporting).sure_until is None


HEARD = ago(seconds=SILENT_NODE)  # of a Node that the control plane calls silent since T
SILENT = Node(key=ObjectKey("", "node-1"), ready_since=T)
MACHINES = {
    "rented, entered": (SILENT, ago(seconds=-90), ago(seconds=-90)),
    "rented, entered when its Node was last heard of": (SILENT, HEARD, HEARD),
    "rented, entered before its Node was heard of": (SILENT, HEARD - timedelta(seconds=1), None),
    "rented, not entered": (SILENT, None, None),
    "entered, and its Node reports": (msgspec.structs.replace(SILENT, ready=True), ago(seconds=-90), None),
    "entered, and its kubelet reports that it is not ready": (
        msgspec.structs.replace(SILENT, ready=False),
        ago(seconds=-90),
        None,
    ),
    "entered, and its Node never reported": (msgspec.structs.replace(SILENT, ready_since=None), T, T),
    "owned, off": (msgspec.structs.replace(SILENT, annotations={OFF_SINCE: "2026-11-17T12:01:30Z"}), None, "off"),
    "owned, off and on again": (
        msgspec.structs.replace(SILENT, annotations={OFF_SINCE: "2026-11-17T09:00:00Z"}),
        None,
        None,
    ),
    "no Node": (None, T, None),
}


@pytest.mark.parametrize("case", MACHINES)
def test_a_machine_ended_when_the_spend_record_says_so_and_its_node_was_not_heard_of_since(case):
    node, entered, expected = MACHINES[case]
    expected = T + timedelta(seconds=90) if expected == "off" else expected
    assert machine_ended(node, entered) == (None if expected is None else seconds(expected))


BACK = Node(key=ObjectKey("", "node-1"), ready=True, ready_since=T, annotations={OFF_SINCE: "2026-11-17T09:00:00Z"})
OFF_AT = seconds(T.replace(hour=9, minute=0))
WORN = msgspec.structs.replace(BACK, annotations={}, labels={REQUEST_UID: "r"})
RETURNS = {
    "owned, and back": (BACK, OFF_AT, (OFF_AT, SEEN)),
    "its record is gone with the next request": (WORN, OFF_AT + 7, (OFF_AT + 7, SEEN)),
    "the same, and its pods are open": (WORN, None, None),
    "rented": (msgspec.structs.replace(WORN, provider_id="tgp://vast/x"), OFF_AT, None),
    "silent": (msgspec.structs.replace(BACK, ready=None), OFF_AT, None),
    "Ready since before it was off": (msgspec.structs.replace(BACK, ready_since=T.replace(hour=8)), OFF_AT, None),
    "its clock is behind": (msgspec.structs.replace(BACK, ready_since=T.replace(hour=10)), OFF_AT, (OFF_AT, SEEN - 60)),
    "its clock is ahead": (msgspec.structs.replace(BACK, ready_since=T.replace(hour=23)), OFF_AT, (OFF_AT, SEEN - 60)),
    "no Node": (None, OFF_AT, None),
}


@pytest.mark.parametrize("case", RETURNS)
def test_a_machine_was_off_from_its_record_until_its_node_was_ready_as_far_as_that_was_seen(case):
    node, ended, expected = RETURNS[case]
    assert off_time(node, SEEN - 60, SEEN, ended) == expected


def test_money_is_the_pods_share_of_its_nodes_price():
    def node(**changes) -> Node:
        given = {"allocatable": Resources(8000, 0, ((RESOURCE, 8),)), "annotations": {"tgp.io/hourly-price": "20.00"}}
        return Node(key=ObjectKey("", "node-1"), **{**given, **changes})

    assert hourly_share(a_pod(), GPU, node()) == 10_000_000
    assert hourly_share(a_pod(), GPU, node(annotations={})) is None
    assert hourly_share(a_pod(), GPU, node(annotations={"tgp.io/hourly-price": "cheap"})) is None
    assert hourly_share(a_pod(), GPU, node(allocatable=Resources())) is None
    assert hourly_share(a_pod(), GPU, None) is None


def test_a_pod_that_only_a_budgets_finalizer_keeps_has_ended():
    held = a_pod(started_at=ago(seconds=30), finalizers=(COUNTED,), deletion_requested_at=T)
    assert sight(held, GPU, SEEN).end is None
    assert sight(msgspec.structs.replace(held, released=True), GPU, SEEN).end == SEEN
    assert sight(msgspec.structs.replace(held, released=True, finalizers=()), GPU, SEEN).end is None
