"""Machines you own that a class names and may not use: another class has them, or they carry the control plane."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.market.sources import machines_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node

CONTROL_PLANES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")  # labels of their Nodes
_NO_TIME = datetime.max.replace(tzinfo=UTC)


def refused_machines(
    node_class: GPUNodeClass, classes: Iterable[KubeObject[GPUNodeClass]], nodes: Mapping[str, Node]
) -> dict[str, str]:
    """By name: why it is never switched. Of two classes that name one machine the older has it.

    `classes`: all, with this one; `nodes`: those that exist of these machines.
    """
    named = machines_of(node_class)
    rivals = sorted((each for each in classes if each.value is not None and not each.deleting), key=_age)
    refused: dict[str, str] = {}
    for name in named:
        node = nodes.get(name)
        first = next((each for each in rivals if each.value is not None and name in machines_of(each.value)), None)
        if node is not None and any(label in node.labels for label in CONTROL_PLANES):
            refused[name] = f"Node {name} runs the control plane"
        elif first is not None and first.value is not node_class:
            refused[name] = f"the older GPUNodeClass {first.key.name} names machine {name}, too"
    return refused


def _age(record: KubeObject[GPUNodeClass]) -> tuple[datetime, str]:
    return record.created_at or _NO_TIME, record.key.name
