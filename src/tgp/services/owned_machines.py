"""One machine you own as a user at a terminal may see it: its class, its Node, the pods and the request that use it."""

from dataclasses import dataclass
from difflib import get_close_matches

from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import nodes, pods, typed
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.owned_machine import PowerMachine
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS
from tgp.core.classes.refused_machines import refused_machines
from tgp.core.market.sources import machines_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.pools.capacity import ENDED
from tgp.core.power.orders import machine_named_by
from tgp.ports.cluster import Forbidden, KindsMissing, NotFound
from tgp.services.cluster_reads import NO_KINDS, ClusterReads


@dataclass(frozen=True, slots=True)
class OwnedMachineState:
    """What was seen of one machine."""

    machine: PowerMachine
    class_name: str
    node: Node | None  # None: there is none of its name
    pods: tuple[Pod, ...]  # that run there, without those that stay with a Node
    request: ObjectKey | None  # that uses it; None: none does
    refused: str = ""  # why it is never switched; empty: it may be
    stopped: str = ""  # why nothing is switched on for its class now; empty: nothing stops it

    @property
    def on(self) -> bool:
        return self.node is not None and self.node.ready is True


async def owned_machine(reads: ClusterReads, name: str) -> OwnedMachineState:
    """Raises NotFound, which names the machines that there are; ClusterError."""
    classes = await _classes(reads)
    record = class_with(classes, name)
    assert record.value is not None, "only a class that can be read names machines"
    listed = await reads.listed(ListTarget(nodes(), field_selector=f"metadata.name={name}"))
    node = next((each for each in listed if each.name == name), None)
    running = await reads.listed(ListTarget(pods(), field_selector=f"spec.nodeName={name}"))
    requests = await reads.requests()
    if requests is None:
        raise Forbidden(
            "listing GPURequests of every namespace is not allowed: whether one uses the machine is unknown"
        )
    user = next((each.key for each in requests if machine_named_by(each) == name and not _over(each)), None)
    nodes_there = {name: node} if node is not None else {}
    hold = await reads.hold()
    stopped = f"all purchases are paused ({hold}): tgp release" if hold is not None else ""
    if not stopped and record.value.spec.suspend:
        stopped = f"GPUNodeClass {record.key.name} is suspended: tgp release class/{record.key.name}"
    return OwnedMachineState(
        machines_of(record.value)[name],
        record.key.name,
        node,
        tuple(pod for pod in running if not (pod.finished or pod.of_daemon_set or pod.mirror)),
        user,
        refused_machines(record.value, classes, nodes_there, (name,) if user is not None else ()).get(name, ""),
        stopped,
    )


def _over(record: KubeObject[GPURequest]) -> bool:
    """One that is being deleted is not: its machine may still be on."""
    return record.value is not None and record.value.status.phase in ENDED


async def _classes(reads: ClusterReads) -> list[KubeObject[GPUNodeClass]]:
    try:
        return await reads.listed(ListTarget(typed(GPU_NODE_CLASS, GPUNodeClass)))
    except NotFound as error:
        raise KindsMissing(NO_KINDS) from error


def class_with(classes: list[KubeObject[GPUNodeClass]], name: str) -> KubeObject[GPUNodeClass]:
    """The one that may use the machine, if any may. Raises NotFound."""
    owners = [each for each in classes if each.value is not None and name in machines_of(each.value)]
    able = [each for each in owners if each.value is not None and name not in refused_machines(each.value, classes, {})]
    if found := next(iter([*able, *owners]), None):
        return found
    known = sorted({machine for each in classes if each.value is not None for machine in machines_of(each.value)})
    near = get_close_matches(name, known, n=3) or known[:3]
    hint = f"did you mean {', '.join(near)}?" if near else "no GPUNodeClass names any (docs/webhook.md)"
    raise NotFound(f"there is no owned machine {name}: {hint}")
