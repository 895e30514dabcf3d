"""The Nodes with GPUs: rented machines, machines you own, and others, each with what it costs and who uses it."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import nodes, pods
from tgp.api.request import GPURequest
from tgp.core.budgets.weights import model_of
from tgp.core.market.sources import machines_of
from tgp.core.model.attempts import attempts_of, boot_of, open_attempt, provider_of
from tgp.core.model.costs import hourly_of
from tgp.core.model.gpus import GPU_RESOURCES
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.requests.own_node import is_own_node, reserved_node_name
from tgp.ports.cluster import Forbidden
from tgp.services.cluster_reads import ClusterReads

RENTED, OWNED, OTHER = "rented", "owned", "other"
ADDRESSES = ("ExternalIP", "InternalIP")  # the first that there is


class MachineNode(msgspec.Struct, frozen=True):
    name: str
    kind: str  # RENTED, OWNED or OTHER
    node: Node | None  # None: a machine you own that never joined
    provider: str = ""  # of the request's machine
    gpu: str = ""  # model; empty: unknown
    gpus: int = 0
    used: int | None = None  # GPUs that pods hold; None: pods may not be listed
    hourly_microusd: int | None = None  # None: no request pays for it
    request: ObjectKey | None = None
    boot: timedelta | None = None  # from its order until it was Ready; None: not measured


class NodesReport(msgspec.Struct, frozen=True):
    now: datetime
    nodes: tuple[MachineNode, ...]  # rented ones first, then owned, each by name
    requests_known: bool = True  # False: the user may not list requests


async def gpu_nodes(reads: ClusterReads) -> NodesReport:
    """Raises ClusterError."""
    listed = {node.name: node for node in await reads.listed(ListTarget(nodes()))}
    requests = await reads.requests()
    by_node = {name: record for record in requests or () if (name := _node_of(record, listed))}
    owned = {
        name: machine.gpu_count
        for record in await reads.classes()
        if record.value is not None
        for name, machine in machines_of(record.value).items()
    }
    used = await _used(reads)
    found = [
        _machine(name, listed.get(name), by_node.get(name), owned.get(name), used)
        for name in {*listed, *owned}
        if name in by_node or name in owned or _gpus(listed[name])
    ]
    order = (RENTED, OWNED, OTHER)
    found.sort(key=lambda each: (order.index(each.kind), each.name))
    return NodesReport(reads.now(), tuple(found), requests is not None)


def _machine(
    name: str,
    node: Node | None,
    request: KubeObject[GPURequest] | None,
    owned: int | None,
    used: Mapping[str, int] | None,
) -> MachineNode:
    attempt = open_attempt(attempts_of(request)) if request is not None else None
    booted = boot_of(request) if request is not None else None
    return MachineNode(
        name,
        OWNED if owned is not None else RENTED if request is not None else OTHER,
        node,
        provider_of(attempt) if attempt is not None else "",
        model_of(node),
        (_gpus(node) if node is not None else 0) or owned or 0,
        None if used is None else used.get(name, 0),
        hourly_of(attempt) if attempt is not None else None,
        request.key if request is not None else None,
        timedelta(seconds=booted[1]) if booted is not None else None,
    )


def _node_of(record: KubeObject[GPURequest], listed: Mapping[str, Node]) -> str:
    """Its own; empty: it has none."""
    name = reserved_node_name(record)
    return name if is_own_node(record, listed.get(name)) else ""


async def _used(reads: ClusterReads) -> Mapping[str, int] | None:
    try:
        listed = await reads.listed(ListTarget(pods()))
    except Forbidden:
        return None
    found: dict[str, int] = {}
    for pod in listed:
        if pod.node and not pod.finished:
            found[pod.node] = found.get(pod.node, 0) + _asked(pod)
    return found


def _gpus(node: Node) -> int:
    """As its kubelet reports them; of a machine that is off, what it had."""
    return sum(node.capacity.of(resource) for resource in GPU_RESOURCES)


def _asked(pod: Pod) -> int:
    return sum(pod.requests.of(resource) for resource in GPU_RESOURCES)


def address_of(node: Node) -> str:
    """Where it is reached; empty: it has reported none."""
    told = dict(node.addresses)
    return next((told[kind] for kind in ADDRESSES if kind in told), "")


def state_of(row: MachineNode) -> str:
    """A machine you own whose Node does not report and that nothing uses is off."""
    if row.node is not None and row.node.ready:
        return "Cordoned" if row.node.cordoned else "Ready"
    return "Off" if row.kind == "owned" and row.request is None else "NotReady"
