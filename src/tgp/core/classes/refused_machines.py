"""Machines you own that a class names and may not use: another class has them, they are no machines with GPUs,
or an endpoint of theirs is never called.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from tgp.api.field_error import FieldError, Reason
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.owned_machine import PowerMachine
from tgp.core.classes import power_hosts
from tgp.core.classes.power_hosts import STRICT, HostRefused, HostRules
from tgp.core.classes.semantic_validation import HOST_RULE
from tgp.core.market.sources import machines_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import OFF_SINCE, REQUEST_UID, Node

CONTROL_PLANES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")  # labels of their Nodes
GPU_VENDORS = ("nvidia.com/", "amd.com/")  # how resources and labels of a Node with GPUs begin
_NO_TIME = datetime.max.replace(tzinfo=UTC)


def refused_machines(
    node_class: GPUNodeClass,
    classes: Iterable[KubeObject[GPUNodeClass]],
    nodes: Mapping[str, Node],
    requested: Collection[str] = (),
    hosts: HostRules = STRICT,
) -> dict[str, str]:
    """By name: why it is never switched. Of two classes that name one machine the older has it.

    `classes`: all, with this one; `nodes`: those that exist of these machines; `requested`: machines that a request
    wakes or uses.
    """
    named = machines_of(node_class)
    rivals = sorted((each for each in classes if each.value is not None and not each.deleting), key=_age)
    refused: dict[str, str] = {}
    for name, machine in named.items():
        node = nodes.get(name)
        first = next((each for each in rivals if each.value is not None and name in machines_of(each.value)), None)
        if node is not None and any(label in node.labels for label in CONTROL_PLANES):
            refused[name] = f"Node {name} runs the control plane"
        elif node is not None and name not in requested and is_ordinary(node):
            refused[name] = (
                f"Node {name} is Ready and has no GPU (nvidia.com/gpu or amd.com/gpu); "
                "name the Node of a machine with GPUs"
            )
        elif first is not None and first.value is not node_class:
            refused[name] = f"the older GPUNodeClass {first.key.name} names machine {name}, too"
        elif bad := next(_never_called(machine, hosts), None):
            refused[name] = ": ".join(bad)
    return refused


def endpoint_problems(node_class: GPUNodeClass, hosts: HostRules = STRICT) -> Iterator[FieldError]:
    """Endpoints that are never called, as far as that is known without DNS."""
    for place, provider in enumerate(node_class.spec.providers):
        for number, machine in enumerate(provider.settings.machines if provider.settings else ()):
            for field, why in _never_called(machine, hosts):
                path = f"spec.providers[{place}].settings.machines[{number}].{field}"
                yield FieldError(path, Reason.FORBIDDEN, why, rule=HOST_RULE)


def _never_called(machine: PowerMachine, hosts: HostRules) -> Iterator[tuple[str, str]]:
    """Fields, and why their URLs are not called."""
    for field, url in (
        ("scaleUpEndpoint", machine.scale_up_endpoint),
        ("scaleDownEndpoint", machine.scale_down_endpoint),
        ("statusEndpoint", machine.status_endpoint),
    ):
        try:
            if url is not None:
                power_hosts.read(url, hosts)
        except HostRefused as error:
            yield field, str(error)


def is_ordinary(node: Node) -> bool:
    """A worker that is on, has no GPUs and never was a machine of ours: it would be drained and powered off.

    A machine whose driver does not work still has a resource of 0 or a label, or marks of an earlier request.
    """
    names = (*node.labels, *(name for name, _ in node.capacity.others))
    marked = REQUEST_UID in node.labels or OFF_SINCE in node.annotations
    return node.ready is True and not marked and not any(name.startswith(GPU_VENDORS) for name in names)


def _age(record: KubeObject[GPUNodeClass]) -> tuple[datetime, str]:
    return record.created_at or _NO_TIME, record.key.name
