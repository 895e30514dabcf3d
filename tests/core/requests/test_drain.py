"""Which pods leave a Node, in which order, and how long the drain waits for them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.labels import selector
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED, OwnerRef, Pod
from tgp.core.model.taints import Taint, Toleration
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.requests.drain import (
    ASK_AGAIN,
    CORDONED,
    CORDONED_WITHIN,
    DISRUPTED,
    OUTLIVED,
    STUCK,
    UNREACHABLE_FOR,
    cordon,
    drain,
    tier,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
BEGAN = NOW - timedelta(minutes=10)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
CRITICAL = 2_000_000_000
DAEMON = (OwnerRef("DaemonSet", "agent", controller=True),)
EVERYTHING = Toleration(operator="Exists")


def a_node(**rest) -> Node:
    values = {
        "key": ObjectKey("", "gpu-1"),
        "cordoned": True,
        "taints": (DISRUPTED,),
        "ready": True,
        "ready_since": NOW - HOUR,
        **rest,
    }
    return Node(**values)


def a_pod(name: str = "train", **rest) -> Pod:
    values = {"key": ObjectKey("ml", name), "node": "gpu-1", "phase": "Running", "created_at": NOW - HOUR, **rest}
    return Pod(**values)


ORDINARY = a_pod("a-ordinary")
DAEMON_POD = a_pod("b-daemon", owners=DAEMON)
CRITICAL_POD = a_pod("c-critical", priority=CRITICAL)
CRITICAL_DAEMON = a_pod("d-critical-daemon", priority=CRITICAL + 1000, owners=DAEMON)
ALL_TIERS = (CRITICAL_DAEMON, DAEMON_POD, CRITICAL_POD, ORDINARY)


def drained(*pods: Pod, node: Node | None = None, grace: timedelta | None = HOUR, now: datetime = NOW, **rest):
    return drain(node or a_node(), pods, now, BEGAN, grace, **rest)


def test_a_node_that_is_not_there_counts_as_drained():
    answer = drain(None, [a_pod()], NOW, BEGAN, HOUR)

    assert (answer.done, answer.evict, answer.next_look) == (True, (), None)


def test_an_empty_node_is_drained():
    assert drained().done


@pytest.mark.parametrize("gone", range(5))
def test_a_tier_begins_when_all_earlier_ones_are_gone(gone):
    order = (ORDINARY, DAEMON_POD, CRITICAL_POD, CRITICAL_DAEMON)
    left = tuple(pod for pod in ALL_TIERS if pod not in order[:gone])

    answer = drained(*left)

    assert answer.evict == order[gone : gone + 1]
    assert answer.done == (gone == 4)


def test_a_pod_that_is_still_ending_holds_the_next_tier_back():
    answer = drained(a_pod(deletion_requested_at=NOW + 20 * SECOND), DAEMON_POD)

    assert (answer.done, answer.evict) == (False, ())
    assert "terminating, due 12:00:20 UTC" in answer.message
    assert "then 1 pod more" in answer.message


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(annotations={"kubernetes.io/config.mirror": "x"}),
        a_pod(phase="Succeeded"),
        a_pod(phase="Failed", annotations={"tgp.io/do-not-disrupt": "true"}),
        a_pod(node="another"),
        a_pod(tolerations=(Toleration(key="tgp.io/disrupted", operator="Exists"),)),
        a_pod(tolerations=(EVERYTHING,), owners=DAEMON),
        a_pod(tolerations=(EVERYTHING,), created_at=BEGAN + SECOND),  # it came back after it was eviction requested
    ],
)
def test_the_drain_does_not_wait_for_pods_that_ended_belong_to_the_kubelet_or_stay(pod):
    assert drained(pod).done


def test_who_tolerates_everything_is_asked_to_leave_once():
    """A blanket toleration is a usual way onto GPU nodes, not a request to stay until the end."""
    assert drained(a_pod(tolerations=(EVERYTHING,))).evict


def test_a_tolerated_value_or_effect_that_is_not_ours_does_not_count():
    other = Toleration(key="tgp.io/disrupted", operator="Exists", effect="NoExecute")

    assert drained(a_pod(tolerations=(other,))).evict


@pytest.mark.parametrize("annotation", ["tgp.io/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict"])
def test_who_must_not_be_disrupted_is_waited_for_and_not_asked(annotation):
    value = "true" if annotation.startswith("tgp") else "false"
    answer = drained(a_pod(annotations={annotation: value}), a_pod("web"))

    assert [pod.key.name for pod in answer.evict] == ["web"]
    assert "ml/train (do-not-disrupt)" in answer.message
    assert "until 2026-11-16 12:50 UTC" in answer.message


def test_a_pod_is_protected_for_its_duration_and_looked_at_when_that_ends():
    pod = a_pod(annotations={"karpenter.sh/do-not-disrupt": "30m"}, accepted_at=NOW - timedelta(minutes=29, seconds=55))
    answer = drained(pod)

    assert not answer.evict
    assert "ml/train (do-not-disrupt until " in answer.message
    assert answer.next_look == 5 * SECOND
    assert drained(pod, now=NOW + 5 * SECOND).evict == (pod,)


@pytest.mark.parametrize(
    ("left", "called"),
    [(31 * SECOND, False), (30 * SECOND, True), (SECOND, True)],
)
def test_the_last_call_comes_one_pods_grace_before_the_end(left, called):
    """So that a job can write its last checkpoint, whatever it carries, before the power goes."""
    pod = a_pod(annotations={"tgp.io/do-not-disrupt": "true"}, grace_seconds=30)
    answer = drained(pod, DAEMON_POD, now=BEGAN + HOUR - left)

    assert (pod in answer.force) == called
    assert answer.next_look is not None
    assert answer.next_look <= left


def test_a_pod_with_an_endless_grace_of_its_own_does_not_bring_its_last_call_forward():
    pod = a_pod(annotations={"tgp.io/do-not-disrupt": "true"}, grace_seconds=86_400)

    assert drained(pod).force == ()
    assert drained(pod, now=BEGAN + HOUR - 5 * 60 * SECOND).force == (pod,)


def test_when_the_grace_is_over_the_machine_goes_and_the_message_says_whose_pods_were_cut():
    budget = PodDisruptionBudget(key=ObjectKey("ml", "web"), selector=selector({"app": "web"}))
    pods = (a_pod(annotations={"tgp.io/do-not-disrupt": "true"}), a_pod("web", labels={"app": "web"}))
    answer = drained(*pods, now=BEGAN + HOUR, budgets=[budget])

    assert (answer.done, answer.reason, answer.next_look) == (True, "GraceOver", None)
    assert "2 pods are terminated" in answer.message
    assert "ml/train (do-not-disrupt)" in answer.message
    assert "ml/web (blocked by PodDisruptionBudget ml/web)" in answer.message


def test_a_grace_of_zero_waits_for_no_pod():
    assert drained(a_pod(), grace=timedelta(0)).done


def test_without_an_end_of_grace_do_not_disrupt_holds_for_ever():
    pod = a_pod(annotations={"tgp.io/do-not-disrupt": "true"})
    answer = drained(pod, grace=None, now=NOW + timedelta(days=400))

    assert (answer.done, answer.force) == (False, ())
    assert "without a time limit" in answer.message


@pytest.mark.parametrize(
    ("labels", "namespace", "allowed", "said"),
    [
        ({"app": "web"}, "ml", 0, "blocked by PodDisruptionBudget ml/b"),
        ({"app": "web"}, "ml", 1, "eviction requested"),
        ({"app": "other"}, "ml", 0, "eviction requested"),
        ({"app": "web"}, "elsewhere", 0, "eviction requested"),
    ],
)
def test_the_budget_that_holds_a_pod_is_named_and_the_pod_is_asked_all_the_same(labels, namespace, allowed, said):
    budget = PodDisruptionBudget(
        key=ObjectKey(namespace, "b"), selector=selector({"app": "web"}), disruptions_allowed=allowed, current=True
    )
    answer = drained(a_pod(labels=labels), budgets=[budget])

    assert said in answer.message
    assert len(answer.evict) == 1
    assert answer.next_look == ASK_AGAIN


@pytest.mark.parametrize(
    ("ready", "past", "gone"),
    [
        (None, OUTLIVED - SECOND, False),
        (None, OUTLIVED, True),
        (True, OUTLIVED, False),
        (True, STUCK, True),
    ],
)
def test_a_pod_long_past_its_end_is_as_good_as_gone(ready, past, gone):
    node = a_node(ready=ready, ready_since=NOW - SECOND)

    assert drained(a_pod(deletion_requested_at=NOW - past), node=node, grace=None).done == gone


@pytest.mark.parametrize(
    ("ready", "since", "done"),
    [
        (None, NOW - UNREACHABLE_FOR, True),
        (False, NOW - UNREACHABLE_FOR, True),
        (None, NOW - UNREACHABLE_FOR + SECOND, False),
        (None, None, False),  # unknown since when
        (True, NOW - UNREACHABLE_FOR, False),
    ],
)
def test_a_node_that_was_unreachable_for_long_counts_as_drained(ready, since, done):
    answer = drained(a_pod(), node=a_node(ready=ready, ready_since=since), grace=None)

    assert answer.done == done
    assert (answer.reason == "NodeUnreachable") == done


def test_a_node_that_cannot_be_read_is_neither_patched_nor_taken_for_dead():
    bare = Node(key=ObjectKey("", "gpu-1"), created_at=NOW - timedelta(days=1), unreadable="what is this?")
    answer = drained(a_pod(), node=bare)

    assert (answer.done, answer.cordon) == (False, None)


def test_a_cordon_marks_the_node_and_keeps_the_taints_of_others():
    other = Taint("team", "NoSchedule", "ml")

    assert cordon(a_node(cordoned=False, taints=(other,))) == {
        "metadata": {"annotations": {CORDONED: "true"}},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "team", "effect": "NoSchedule", "value": "ml"},
                {"key": "tgp.io/disrupted", "effect": "NoSchedule"},
            ],
        },
    }


def test_a_cordon_that_stands_is_not_sent_again():
    assert cordon(a_node()) is None


def test_a_user_elses_cordon_is_not_claimed():
    """A machine that stays is given free again only by who closed it."""
    assert cordon(a_node(taints=())) == {"spec": {"taints": [{"key": "tgp.io/disrupted", "effect": "NoSchedule"}]}}


def test_an_empty_node_that_still_takes_pods_is_closed_first():
    open_node = a_node(cordoned=False, taints=())
    answer = drain(open_node, (), NOW, NOW, HOUR)

    assert (answer.done, answer.reason, answer.next_look) == (False, "Cordoning", ASK_AGAIN)
    assert drain(open_node, (), NOW + CORDONED_WITHIN, NOW, None).done


def test_many_pods_are_counted_and_a_few_are_named():
    answer = drained(*(a_pod(f"p{number}") for number in range(9)))

    assert "for 9 pods to leave Node gpu-1" in answer.message
    assert answer.message.endswith("and 6 more")
    assert len(answer.waiting) == 9


def test_the_message_does_not_change_while_nothing_happens():
    """A quiet object is not written."""
    pods = (a_pod(annotations={"tgp.io/do-not-disrupt": "true"}), a_pod("web"))

    assert drained(*pods).message == drained(*pods, now=NOW + 40 * SECOND).message


PODS = st.lists(
    st.builds(
        a_pod,
        name=st.sampled_from([f"p{number}" for number in range(12)]),
        priority=st.sampled_from([0, CRITICAL]),
        owners=st.sampled_from([(), DAEMON]),
        tolerations=st.sampled_from([(), (EVERYTHING,)]),
        phase=st.sampled_from(["Running", "Pending", "Succeeded"]),
        annotations=st.sampled_from([{}, {"tgp.io/do-not-disrupt": "true"}, {"kubernetes.io/config.mirror": "x"}]),
        deletion_requested_at=st.sampled_from([None, NOW, NOW + 30 * SECOND, NOW - HOUR]),
        grace_seconds=st.sampled_from([0, 30, 7200]),
    ),
    max_size=8,
    unique_by=lambda pod: pod.key,
)


@given(pods=PODS, minutes=st.integers(0, 90))
def test_no_pod_is_evicted_twice_out_of_order_or_in_vain(pods, minutes):
    answer = drained(*pods, now=BEGAN + timedelta(minutes=minutes))
    asked = answer.evict + answer.force

    assert len({pod.key for pod in asked}) == len(asked)
    assert not any(pod.deleting or pod.finished or pod.mirror for pod in asked)
    assert not any("tgp.io/do-not-disrupt" in pod.annotations for pod in answer.evict)
    assert len({tier(pod) for pod in answer.evict}) <= 1
    assert answer.done == (answer.next_look is None)
    assert not (answer.done and asked)


@given(pods=PODS, grace=st.integers(0, 7200))
def test_every_drain_is_over_when_its_grace_is(pods, grace):
    """No pod and no budget keeps a machine on the bill beyond what its owner granted."""
    length = timedelta(seconds=grace)

    assert drain(a_node(), pods, BEGAN + length, BEGAN, length).done


@given(pods=PODS)
def test_pods_that_leave_when_evicted_end_the_drain(pods):
    """Following the answers, every Node empties within its grace, and well before if no pod blocks it."""
    now, left = BEGAN, [pod for pod in pods if pod.grace_seconds]  # who grants itself no time is cut at the end
    for _ in range(1000):
        answer = drained(*left, now=now)
        if answer.done:
            break
        asked = {pod.key for pod in answer.evict + answer.force}
        ending = [
            msgspec.structs.replace(pod, deletion_requested_at=now + 5 * SECOND) if pod.key in asked else pod
            for pod in left
        ]
        now += answer.next_look
        left = [pod for pod in ending if pod.deletion_requested_at is None or pod.deletion_requested_at > now]
    assert answer.done
    assert answer.reason == "Drained"


def test_a_pod_that_only_the_finalizer_of_a_budget_keeps_is_gone():
    going = {"deletion_requested_at": NOW, "finalizers": (COUNTED,)}
    assert drain(a_node(), [a_pod(**going, phase="Succeeded")], NOW, BEGAN, HOUR).done
    assert drain(a_node(), [a_pod(**going, released=True)], NOW, BEGAN, HOUR).done
    assert not drain(a_node(), [a_pod(**going)], NOW, BEGAN, HOUR).done, "its containers still run"
