"""A gang that cannot be served whole gives up the machines that it has, once the others had time to come."""

from datetime import timedelta

import pytest

from tests.core.pools.builders import NOW, a_pod, a_request, ago, an_attempt, on_node, written
from tgp.core.model.pod import OwnerRef
from tgp.core.pools.gangs import GangMachine, given_up, need_no_machine
from tgp.core.pools.planner.classes import gang_name

GANG = "default/train"
MAY_TAKE = timedelta(minutes=15)


def a_machine(name="train-1", *, gangs=(GANG,), minutes=20.0, launched=True):
    attempt = an_attempt(launchedAt=written(ago(minutes=minutes)))
    record = a_request(name, attempts=[attempt] if launched else [])
    return GangMachine(record, frozenset(gangs), MAY_TAKE)


def names(found):
    return sorted(key.name for key in found.requests)


def test_after_the_time_that_a_machine_may_take_all_of_a_gang_are_given_up():
    machines = [a_machine("train-1"), a_machine("train-2", minutes=1), a_machine("train-3", launched=False)]
    found = given_up(machines, {GANG}, NOW)

    assert names(found) == ["train-1", "train-2", "train-3"]
    assert set(found.requests.values()) == {"gang default/train could not be served whole within 15m"}
    assert [each.request for each in found.machines] == ["train-1", "train-2"], "the third cost nothing"
    assert {each.offer for each in found.machines} == {""}, "their offers may be bought again"


def test_before_that_they_are_kept_and_the_moment_is_told():
    found = given_up([a_machine(minutes=5)], {GANG}, NOW)

    assert found.requests == {}
    assert found.until == ago(minutes=5) + MAY_TAKE


def test_a_gang_that_is_served_keeps_its_machines():
    assert given_up([a_machine()], set(), NOW).requests == {}
    assert given_up([a_machine()], {"default/other"}, NOW).requests == {}


def test_a_machine_that_other_pods_wait_for_is_kept():
    assert names(given_up([a_machine("both", gangs=(GANG, "")), a_machine("own")], {GANG}, NOW)) == ["own"]


def test_what_was_never_launched_is_kept_while_nothing_is_paid():
    assert given_up([a_machine(launched=False)], {GANG}, NOW).requests == {}


def test_a_gang_is_named_by_annotation_or_label():
    assert gang_name(a_pod(annotations={"tgp.io/gang": "train"})) == GANG
    assert gang_name(a_pod(labels={"scheduling.x-k8s.io/pod-group": "train"})) == GANG
    assert gang_name(a_pod()) == ""
    assert gang_name(a_pod(labels={"leaderworkerset.sigs.k8s.io/group-key": "train"})) == GANG


def test_an_empty_annotation_takes_a_pod_out_of_the_gang_that_its_labels_name():
    """So can a LeaderWorkerSet whose workers are created only once their leader is ready."""
    labels = {"leaderworkerset.sigs.k8s.io/group-key": "k1", "scheduling.x-k8s.io/pod-group": "k2"}
    assert gang_name(a_pod(labels=labels, annotations={"tgp.io/gang": ""})) == ""


JOB = OwnerRef("Job", "train", "job-uid", controller=True)


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (on_node(), True),
        (a_pod(gpus=0), True),
        (a_pod(), False),
        (on_node(deletion_requested_at=NOW), False),
        (on_node(phase="Failed"), False),
        (on_node(phase="Succeeded"), False),
        (on_node(phase="Succeeded", owners=(JOB,)), True),
        (on_node(phase="Succeeded", owners=(OwnerRef("Job", "train", "earlier", controller=True),)), False),
    ],
)
def test_pods_of_a_gang_that_need_no_machine_are_not_missing(pod, counts):
    assert need_no_machine([pod], {"job-uid"}) == ({"uid-pod"} if counts else set())
