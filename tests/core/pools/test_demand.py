"""Machines are bought for pods that wait for GPUs, if one would help; the others get a reason, or nothing."""

import msgspec
import pytest

from tests.core.pools.builders import GPU, NOW, a_pod
from tgp.core.model.pod import GATED, OwnerRef, Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Toleration
from tgp.core.pools.demand import asks_for_gpus, asks_the_same, demand_of, demand_of_pod, read_annotations
from tgp.core.pools.planner.classes import GANG, GANG_SIZE, MAX_PRICE, MAX_WAIT
from tgp.core.pools.planner.rows import own_price_until
from tgp.core.pools.planner.world import Capacity

SCHEDULERS = frozenset({"default-scheduler"})


def room_of(gpus: int, **rest) -> dict[str, Capacity]:
    return {"n1": Capacity("n1", Resources(8000, 1 << 40, ((GPU, gpus), ("pods", 110))), **rest)}


def demanded(*pods: Pod, room=None, schedulers=SCHEDULERS, used_up=None):
    asked = (demand_of_pod(pod, schedulers) for pod in sorted(pods, key=lambda each: each.key))
    return demand_of((each for each in asked if each is not None), room or {}, used_up or {})


def test_a_pod_that_asks_for_a_gpu_and_finds_no_node_is_demand():
    assert [pod.key.name for pod in demanded(a_pod("b"), a_pod("a", resource="amd.com/gpu")).pods] == ["a", "b"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(gpus=0),
        a_pod(node="n1"),
        a_pod(unplaced_reason=""),
        a_pod(unplaced_reason=GATED, gates=("tgp.io/budget",)),
        a_pod(gates=("tgp.io/budget",)),
        a_pod(deletion_requested_at=NOW),
        a_pod(phase="Failed"),
        a_pod(owners=(OwnerRef("DaemonSet", "plugin", "x", controller=True),)),
    ],
    ids=["no GPU", "bound", "not looked at", "gated", "gate", "deleting", "finished", "DaemonSet"],
)
def test_what_no_machine_would_help_is_neither_demand_nor_refused(pod):
    found = demanded(pod)

    assert (found.pods, found.refused) == ((), ())


def test_a_pod_whose_budget_would_stop_it_is_refused_in_the_words_of_the_budget():
    held, free = a_pod("held"), a_pod("free")
    found = demanded(held, free, used_up={uid_text(held.uid): "budget ml/a is used up"})
    assert [pod.key.name for pod in found.pods] == ["free"]
    (refused,) = found.refused
    assert [(each.reason, each.message) for each in refused.reasons] == [("BudgetUsedUp", "budget ml/a is used up")]


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (a_pod(scheduler="volcano"), "AnotherScheduler"),
        (a_pod(gpus=0, claims_devices=True), "ResourceClaims"),
        (a_pod(resource="nvidia.com/mig-1g.10gb"), "UnknownResource"),
        (a_pod(resource="nvidia.com/gpu.shared"), "UnknownResource"),
    ],
)
def test_what_no_plan_can_serve_is_refused_with_a_reason(pod, reason):
    found = demanded(pod)

    assert found.pods == ()
    (refused,) = found.refused
    assert [each.reason for each in refused.reasons] == [reason]
    assert refused.message


def test_a_scheduler_that_the_settings_name_is_served():
    assert demanded(a_pod(scheduler="volcano"), schedulers=frozenset({"volcano"})).pods


def test_a_pod_that_gets_room_on_the_node_it_is_nominated_to_needs_no_machine():
    pod = a_pod(nominated_node="n1")

    assert demanded(pod, room=room_of(1)).nominated == (pod,)
    assert demanded(pod, room=room_of(1)).pods == ()
    assert demanded(pod, room=room_of(0)).pods
    assert demanded(pod, room=room_of(1, refused=frozenset({"uid-pod"}))).pods  # the scheduler refuses it there
    assert demanded(pod).pods  # the Node is gone


def test_of_pods_nominated_to_one_node_those_beyond_its_room_are_demand():
    found = demanded(*(a_pod(name, nominated_node="n1") for name in "abc"), room=room_of(2))

    assert [pod.key.name for pod in found.nominated] == ["a", "b"]
    assert [pod.key.name for pod in found.pods] == ["c"]


def test_a_nominated_pod_still_says_its_gang():
    """Of a gang in part nominated the others are planned for as a gang that is complete."""
    pod = a_pod(nominated_node="n1", labels={"scheduling.x-k8s.io/pod-group": "g"})

    assert demanded(pod, room=room_of(1)).nominated[0].annotations[GANG] == "g"


def test_what_a_pod_says_is_kept_as_far_as_it_can_be_read():
    pod = a_pod(annotations={MAX_PRICE: "1.50", MAX_WAIT: "30m", GANG: "g", GANG_SIZE: "4", "tgp.io/other": "x"})

    (found,) = demanded(pod).pods

    assert dict(found.annotations) == {MAX_PRICE: "1.50", MAX_WAIT: "30m", GANG: "g", GANG_SIZE: "4"}
    assert own_price_until(found) == pod.created_at + (NOW - pod.created_at) * 30


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (MAX_PRICE, "cheap"),
        (MAX_PRICE, "-1"),
        (MAX_WAIT, "soon"),
        (GANG_SIZE, "0"),
        (GANG_SIZE, "many"),
        (GANG_SIZE, "٣"),
    ],
)
def test_what_cannot_be_read_counts_as_absent_and_is_said(name, text):
    found = demanded(a_pod(annotations={GANG: "g", name: text}))

    assert dict(found.pods[0].annotations) == {GANG: "g"}
    assert name in found.ignored[0].message


def test_a_gang_with_an_endless_name_is_no_gang():
    found = demanded(a_pod(annotations={GANG: "g" * 254, GANG_SIZE: "3"}))

    assert dict(found.pods[0].annotations) == {}
    assert [len(each.message) < 200 for each in found.ignored] == [True]
    assert "longer than 253 characters" in found.ignored[0].message
    assert read_annotations(a_pod(annotations={GANG: "g" * 253}))[0][GANG] == "g" * 253


def test_gangs_of_other_tools_are_gangs():
    group = a_pod(labels={"scheduling.x-k8s.io/pod-group": "mpi"})
    workers = a_pod(
        labels={"leaderworkerset.sigs.k8s.io/group-key": "k1"},
        annotations={"leaderworkerset.sigs.k8s.io/size": "3"},
    )

    assert dict(read_annotations(group)[0]) == {GANG: "mpi"}
    assert dict(read_annotations(workers)[0]) == {GANG: "k1", GANG_SIZE: "3"}


def test_pods_that_say_the_same_share_one_mapping():
    one, other = (a_pod(name, annotations={MAX_PRICE: "1.50", "tgp.io/x": name}) for name in "ab")

    assert read_annotations(one)[0] is read_annotations(other)[0]


def test_a_size_without_a_gang_means_nothing_and_is_said():
    found = demanded(a_pod(annotations={GANG_SIZE: "4"}))

    assert dict(found.pods[0].annotations) == {}
    why = "Annotation tgp.io/gang-size is ignored: it says how many pods tgp.io/gang has, which is absent"
    assert [each.message for each in found.ignored] == [why]
    assert demanded(a_pod(annotations={GANG: "", GANG_SIZE: "4"})).ignored == ()  # taken out of a gang


def test_asking_is_seen_without_a_plan():
    assert asks_for_gpus(a_pod())
    assert not asks_for_gpus(a_pod(gpus=0))


def test_a_plan_holds_for_a_pod_while_nothing_that_places_it_is_edited():
    pod = a_pod(annotations={MAX_PRICE: "1.50"})
    replaced = msgspec.structs.replace
    assert asks_the_same(pod, replaced(pod, resource_version=7, annotations={MAX_PRICE: "1.50", "tgp.io/x": "y"}))
    edits = (
        {"requests": a_pod(gpus=2).requests},
        {"tolerations": (Toleration(operator="Exists"),)},
        {"labels": {"app": "x"}},
        {"annotations": {}},
        {"node_selector": {"rack": "7"}},
    )
    assert not any(asks_the_same(pod, replaced(pod, **edit)) for edit in edits)


@pytest.mark.parametrize(
    ("change", "used_up"),
    [
        ({"requests": Resources(1000, 1, (("nvidia.com/mig-1g.5gb", 1),))}, {}),
        ({"scheduler": "other"}, {}),
        ({}, {"uid-w2": "spent"}),
    ],
    ids=["MIG", "another scheduler", "its budget is used up"],
)
def test_a_pod_that_is_refused_holds_its_gang(change, used_up):
    group = {"labels": {"scheduling.x-k8s.io/pod-group": "mpi"}}
    pods = [a_pod("w1", **group), a_pod("w2", **group, **change)]
    found = demanded(*pods, used_up=used_up)

    assert [pod.key.name for pod in found.pods] == ["w1"]
    assert found.held_gangs == {"default/mpi": "w2"}


def test_patience_without_a_price_is_told():
    found = demanded(a_pod(annotations={MAX_WAIT: "2h"}))
    (told,) = found.ignored
    assert told.message == f"Annotation {MAX_WAIT} is ignored: it says how long {MAX_PRICE} holds, which is absent"
    assert demanded(a_pod(annotations={MAX_WAIT: "2h", MAX_PRICE: "1"})).ignored == ()
    assert len(demanded(a_pod(annotations={MAX_WAIT: "2h", MAX_PRICE: "cheap"})).ignored) == 1
