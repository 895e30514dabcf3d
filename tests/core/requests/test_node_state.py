"""What a Node shows of the machine behind it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint
from tgp.core.model.token import token_for
from tgp.core.requests.node_state import (
    idle,
    initialized,
    provider_id_of,
    read_provider_id,
    registered,
)

UID = "0a1b2c3d-0000-4000-8000-00000000000f"
TOKEN = token_for("0123456789", UID, 2)
OURS = provider_id_of("simulated", TOKEN)
GPU = "nvidia.com/gpu"


def a_node(gpus: int = 0, **rest) -> Node:
    values = {
        "key": ObjectKey("", "gpu-1"),
        "provider_id": OURS,
        "ready": True,
        "allocatable": Resources(8000, 1 << 36, ((GPU, gpus),) if gpus else ()),
        **rest,
    }
    return Node(**values)


def a_pod(*others: tuple[str, int], **rest) -> Pod:
    values = {
        "key": ObjectKey("ml", "train"),
        "node": "gpu-1",
        "phase": "Running",
        "requests": Resources(0, 0, others),
        **rest,
    }
    return Pod(**values)


@pytest.mark.parametrize(
    ("node", "ours", "said"),
    [
        (None, False, "Node gpu-1 does not exist yet"),
        (a_node(key=ObjectKey("", "gpu-2")), False, "Node gpu-1 does not exist yet"),
        (a_node(), True, "has joined"),
        (a_node(provider_id=""), True, "has joined"),
        (a_node(provider_id="aws:///eu-west-1a/i-0"), False, "another machine"),
        (a_node(provider_id=provider_id_of("simulated", token_for("0123456789", UID, 1))), False, "an earlier attempt"),
        (a_node(provider_id=provider_id_of("vast", TOKEN)), False, "an earlier attempt"),
        (a_node(provider_id="", unreadable="it is malformed"), False, "cannot be read"),
    ],
)
def test_a_node_is_ours_by_its_name_and_its_provider_id(node, ours, said):
    answer = registered(node, "gpu-1", OURS)

    assert bool(answer) == ours
    assert said in answer.words


@pytest.mark.parametrize(("ready", "up"), [(True, True), (False, False), (None, False)])
def test_an_owned_machine_keeps_its_identity_and_is_there_when_it_is_awake(ready, up):
    assert bool(registered(a_node(provider_id="talos://box", ready=ready), "gpu-1", "")) == up


@pytest.mark.parametrize(
    ("node", "done", "said"),
    [
        (a_node(2), True, "2 of 2 nvidia.com/gpu allocatable"),
        (a_node(3), True, "3 of 2"),
        (a_node(1), False, "1 of 2 nvidia.com/gpu allocatable"),
        (a_node(0), False, "0 of 2"),
        (a_node(2, ready=None), False, "no report yet"),
        (a_node(2, ready=False, ready_reason="KubeletNotReady"), False, "KubeletNotReady"),
        (a_node(2, taints=(Taint("cni", "NoExecute", "other"),)), False, "cni:NoExecute"),
        (a_node(2, taints=(Taint("cni", "NoSchedule"),)), True, "2 of 2"),
        (a_node(2, taints=(Taint("tgp.io/ephemeral", "NoSchedule"),)), True, "2 of 2"),
        (
            a_node(2, taints=(Taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", "true"),)),
            False,
            "uninitialized:NoSchedule",
        ),
        (a_node(2, unreadable="it is malformed"), False, "cannot be read"),
    ],
)
def test_a_node_is_complete_with_its_gpus_and_without_its_start_up_taints(node, done, said):
    answer = initialized(node, GPU, 2, (Taint("cni", "NoExecute"),))

    assert bool(answer) == done
    assert said in answer.words


@pytest.mark.parametrize(
    ("pods", "unused"),
    [
        ((), True),
        ((a_pod(),), True),
        ((a_pod(("example.com/nic", 1)),), True),
        ((a_pod((GPU, 1)),), False),
        ((a_pod((GPU, 0)),), True),
        ((a_pod((GPU, 1), phase="Pending"),), False),
        ((a_pod((GPU, 1), phase="Unknown"),), False),
        ((a_pod((GPU, 1), phase="Succeeded"),), True),
        ((a_pod((GPU, 1), phase="Failed"),), True),
        ((a_pod(("nvidia.com/mig-1g.10gb", 1)),), False),
        ((a_pod(("nvidia.com/gpu.shared", 1)),), False),
        ((a_pod(claims_devices=True),), False),  # what it claims cannot be seen from here
        ((a_pod(unreadable="it is malformed"),), False),
        ((a_pod(), a_pod((GPU, 2))), False),
    ],
)
def test_a_node_is_idle_when_no_pod_requests_its_gpus(pods, unused):
    assert idle(pods, GPU) == unused


def test_the_gpus_of_another_maker_are_not_this_nodes():
    assert idle([a_pod((GPU, 1))], "amd.com/gpu")


@given(st.sampled_from(["vast", "simulated"]), st.uuids().map(str), st.integers(1, 9999))
def test_a_provider_id_is_read_back(provider, uid, number):
    token = token_for("0123456789", uid, number)
    found = read_provider_id(provider_id_of(provider, token))

    assert found is not None
    assert (found[0], str(found[1])) == (provider, token)


@pytest.mark.parametrize(
    "text", ["", "tgp://", "tgp://vast", f"tgp:///{TOKEN}", f"gce://vast/{TOKEN}", f"vast/{TOKEN}"]
)
def test_other_provider_ids_are_not_ours(text):
    assert read_provider_id(text) is None
