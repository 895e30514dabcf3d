"""What protects a machine from disruption, and until when."""

from datetime import UTC, datetime, timedelta

import pytest

from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.requests.protection import pod_protection, protection_of, unreadable

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
HELD = {"tgp.io/do-not-disrupt": "true"}


def a_node(**rest) -> Node:
    return Node(key=ObjectKey("", "gpu-1"), created_at=NOW - HOUR, **rest)


def a_pod(name="train", /, **rest) -> Pod:
    values = {"node": "gpu-1", "phase": "Running", "accepted_at": NOW - HOUR, **rest}
    return Pod(key=ObjectKey("ml", name), **values)


def a_request(**rest) -> KubeObject:
    return KubeObject(key=ObjectKey("ml", "r"), created_at=NOW - HOUR, **rest)


def said_of(name, text):
    return a_pod(annotations={name: text})


@pytest.mark.parametrize(
    ("record", "node", "pods", "said", "until"),
    [
        (a_request(), a_node(), [a_pod()], "", None),
        (a_request(), None, [], "", None),
        (a_request(annotations=HELD), None, [], "GPURequest ml/r is annotated tgp.io/do-not-disrupt", None),
        (a_request(annotations={"tgp.io/do-not-disrupt": "false"}), None, [], "", None),
        (a_request(), a_node(annotations=HELD), [], "Node gpu-1 is annotated", None),
        (a_request(), a_node(annotations={"karpenter.sh/do-not-disrupt": "3h"}), [], "Node gpu-1", NOW + 2 * HOUR),
        (a_request(), a_node(), [a_pod(annotations=HELD)], "Pod ml/train is annotated", None),
        (a_request(), a_node(), [a_pod(annotations=HELD, phase="Succeeded")], "", None),
        (a_request(), a_node(), [a_pod(annotations=HELD, deletion_requested_at=NOW)], "", None),
        (a_request(), a_node(), [said_of("tgp.io/do-not-disrupt", "90m")], "Pod ml/train", NOW + HOUR / 2),
        (a_request(), a_node(), [said_of("karpenter.sh/do-not-disrupt", "90m")], "Pod ml/train", NOW + HOUR / 2),
        (a_request(), a_node(), [said_of("tgp.io/do-not-disrupt", "1h")], "", None),
        (a_request(), a_node(), [said_of("tgp.io/do-not-disrupt", "soon")], "", None),
        (a_request(), a_node(), [said_of("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")], "safe-to-", None),
        (a_request(), a_node(), [said_of("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")], "", None),
        (a_request(annotations=HELD), a_node(), [said_of("tgp.io/do-not-disrupt", "90m")], "GPURequest ml/r is", None),
        (a_request(), a_node(annotations={"tgp.io/do-not-disrupt": "999999h"}), [], "Node gpu-1", NOW + 999_998 * HOUR),
    ],
)
def test_what_protects_is_named_with_its_end_the_longest_first(record, node, pods, said, until):
    answer = protection_of(record, node, pods, NOW)

    assert (answer is not None) == bool(said)
    if answer is not None:
        assert said in answer.text
        assert answer.until == until


def test_a_duration_begins_with_the_pod():
    """Bound and not accepted by a kubelet yet: it is protected, and the end is not known."""
    pod = a_pod(annotations={"tgp.io/do-not-disrupt": "1m"}, accepted_at=None)
    answer = pod_protection(pod, NOW)

    assert answer is not None
    assert answer.until is None


@pytest.mark.parametrize("text", ["soon", "", "-1h", "1d", "True"])
def test_what_cannot_be_read_is_told(text):
    told = [*unreadable({"karpenter.sh/do-not-disrupt": text})]

    assert len(told) == 1
    assert "karpenter.sh/do-not-disrupt is ignored" in told[0]


def test_what_can_be_read_is_not_told():
    for text in ("true", "false", "2h30m", "0s"):
        assert not [*unreadable({"tgp.io/do-not-disrupt": text})]
