"""Machines that a class names and may not use."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tgp.api.nodeclass import GPUNodeClass, GPUNodeClassSpec, ProviderConfig, ProviderSettings
from tgp.api.owned_machine import PowerMachine
from tgp.core.classes.power_hosts import HostRules
from tgp.core.classes.refused_machines import endpoint_problems, refused_machines
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.resources import Resources


def a_class(name: str, *machines: str, hour: int = 12, **urls: str) -> KubeObject[GPUNodeClass]:
    called = {"scale_up_endpoint": "http://p/on", "scale_down_endpoint": "http://p/off", **urls}
    boxes = tuple(PowerMachine(name=each, gpu_count=1, **called) for each in machines)
    providers = (ProviderConfig(name="webhook", settings=ProviderSettings(machines=boxes)),)
    created = datetime(2026, 11, 16, hour, tzinfo=UTC)
    return KubeObject(
        key=ObjectKey("", name), created_at=created, value=GPUNodeClass(spec=GPUNodeClassSpec(providers=providers))
    )


def test_of_two_classes_the_older_has_the_machine():
    old, new = a_class("z-old", "box-1", "box-2", hour=9), a_class("a-new", "box-2", "box-3")

    assert refused_machines(old.value, (old, new), {}) == {}
    assert refused_machines(new.value, (old, new), {}) == {
        "box-2": "the older GPUNodeClass z-old names machine box-2, too"
    }


def test_of_two_classes_of_one_second_the_first_by_name_has_the_machine():
    one, other = a_class("one", "box-1"), a_class("other", "box-1")

    assert refused_machines(one.value, (other, one), {}) == {}
    assert list(refused_machines(other.value, (other, one), {})) == ["box-1"]


def test_a_control_plane_is_no_machine_of_a_class():
    node_class = a_class("owned", "box-1", "box-2")
    nodes = {
        "box-1": Node(key=ObjectKey("", "box-1"), labels={"node-role.kubernetes.io/control-plane": ""}),
        "box-2": Node(key=ObjectKey("", "box-2"), labels={"node-role.kubernetes.io/worker": ""}),
    }

    assert refused_machines(node_class.value, (node_class,), nodes) == {"box-1": "Node box-1 runs the control plane"}


def a_node(**more: Any) -> Node:
    return Node(key=ObjectKey("", "box-1"), **{"ready": True, **more})


def refused(node: Node, *requested: str) -> dict[str, str]:
    node_class = a_class("owned", "box-1")
    assert node_class.value is not None
    return refused_machines(node_class.value, (node_class,), {"box-1": node}, requested)


@pytest.mark.parametrize("labels", [{}, {"node-role.kubernetes.io/worker": ""}])
def test_a_ready_node_without_gpus_is_no_machine_of_a_class(labels):
    """An ordinary worker that a class names by mistake would be drained and powered off."""
    assert refused(a_node(labels=labels, capacity=Resources(cpu_milli=4000))) == {
        "box-1": "Node box-1 is Ready and has no GPU (nvidia.com/gpu or amd.com/gpu); "
        "name the Node of a machine with GPUs"
    }


@pytest.mark.parametrize(
    "node",
    [
        a_node(ready=False),  # off
        a_node(ready=None),
        a_node(capacity=Resources(others=(("nvidia.com/gpu", 2),))),
        a_node(capacity=Resources(others=(("amd.com/gpu", 0),))),  # its device plugin does not answer
        a_node(labels={"nvidia.com/gpu.present": "true"}),  # its driver does not work
        a_node(labels={"tgp.io/request-uid": "a"}),  # in use
        a_node(annotations={"tgp.io/off-since": "2026-11-16T12:00:00Z"}),  # was in use
    ],
)
def test_a_machine_with_gpus_that_are_off_broken_or_were_used_is_not_refused(node):
    assert refused(node) == {}


def test_a_machine_that_a_request_wakes_is_not_refused_before_its_gpus_are_seen():
    assert refused(a_node(), "box-1") == {}


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ({"scale_up_endpoint": "http://169.254.169.254/latest"}, "scaleUpEndpoint: 169.254.169.254: link-local"),
        ({"scale_down_endpoint": "http://127.0.0.1/off"}, "scaleDownEndpoint: 127.0.0.1: the operator's own host"),
        ({"status_endpoint": "http://metadata/x"}, "statusEndpoint: metadata is a metadata service"),
    ],
)
def test_an_endpoint_that_is_never_called_is_named_with_the_cause(urls, words):
    record = a_class("owned", "box-1", **urls)

    assert refused_machines(record.value, (record,), {}) == {"box-1": words}
    assert [str(each) for each in endpoint_problems(record.value)] == [
        f"spec.providers[0].settings.machines[0].{words.replace(':', ': Forbidden:', 1)}"
    ]


def test_a_host_that_the_operator_may_not_call_is_named():
    record = a_class("owned", "box-1")
    allowed = HostRules(allowed=("p",))

    assert refused_machines(record.value, (record,), {}, hosts=allowed) == {}
    narrowed = refused_machines(record.value, (record,), {}, hosts=HostRules(allowed=("power-api.lab",)))
    assert narrowed == {"box-1": "scaleUpEndpoint: p is not among power.allowedHosts"}
