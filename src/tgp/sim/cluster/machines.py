"""Machines and their Node objects: they boot, register, become ready, report sparsely, and may vanish in silence."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from tgp.api.resource import LEASE, NODE
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.cluster.bootstrap import Bootstraps
from tgp.sim.cluster.component_api import HEARTBEAT, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit

LEASES = "kube-node-lease"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
HEARTBEAT_EVERY = 300.0  # seconds: a kubelet reports an unchanged status this often (nodeStatusReportFrequency)
LEASE_EVERY = 600.0  # seconds: real kubelets say 10, and 40 below; here every renewal costs a write
LEASE_SECONDS = 700
VERSION = "v1.36.0"
TALOS = "v1.13.0"


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware with a kubelet on it."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    disk: str = "200Gi"
    pods: int = 110
    devices: Mapping[str, int] = field(default_factory=dict)  # nvidia.com/gpu: 8
    needs_plugin: bool = False  # its devices count only once a pod that provides them runs there
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    provider_id: str = ""
    address: str = ""  # of its Node; empty: one of the local network
    bootstrap_token: str = field(default="", repr=False)  # its kubelet asks with it; empty: it is let in already
    kept_on: str = ""  # the disk with its certificate: a machine switched on with it again need not request another
    registers_after: float = 15.0  # seconds from power on
    ready_after: float = 10.0  # seconds from its registration


@dataclass(slots=True)
class Powered:
    machine: Hardware
    address: str
    ready_at: float
    registered: bool = False
    certified: bool = False  # it may speak for its Node
    uid: str = ""


class Machines(ClusterController):
    """Keys are machine names. The kubelets ask here whether a machine is up."""

    name = "kubelet"
    watched = (NODE,)

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, luck: Random, bootstraps: Bootstraps) -> None:
        super().__init__(core, loop)
        self._luck = luck
        self._bootstraps = bootstraps
        # called with a machine whose kubelet got its certificate
        self.let_in: Callable[[Hardware], None] = _no_listener
        self._up: dict[str, Powered] = {}
        self._number = 0
        self._provided: dict[str, dict[str, None]] = {}

    # What the world does.

    def power_on(self, machine: Hardware) -> None:
        assert machine.name not in self._up, f"{machine.name} is on"
        self._number += 1
        address = f"10.{self._number >> 16 & 255}.{self._number >> 8 & 255}.{self._number & 255}"
        self._up[machine.name] = Powered(machine, machine.address or address, 0.0)
        self.look_at(ObjectKey("", machine.name), machine.registers_after)

    def power_off(self, name: str) -> None:
        """It is gone without a notice to the cluster; its Node stays until a controller notices."""
        self._up.pop(name, None)
        self._provided.pop(name, None)
        self._bootstraps.give_up(name)
        self.call_off(ObjectKey("", name))  # were it switched on again, it would register too early

    def is_up(self, name: str) -> bool:
        found = self._up.get(name)
        return found is not None and found.registered

    def address(self, name: str) -> str:
        return self._up[name].address

    def names(self) -> list[str]:
        return list(self._up)

    def provide(self, name: str, resource: str) -> None:
        """A device plugin runs there and reports the machine's devices of this kind."""
        provided = self._provided.setdefault(name, {})
        if resource not in provided:
            provided[resource] = None
            self.look_at(ObjectKey("", name))

    def withdraw(self, name: str, resource: str) -> None:
        if self._provided.get(name, {}).pop(resource, 0) is None:
            self.look_at(ObjectKey("", name))

    # What its kubelet does.

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        before = commit.before
        if before is not None and commit.after is None:
            name = before["metadata"]["name"]
            found = self._up.get(name)
            if found is not None and found.uid == before["metadata"]["uid"]:
                found.registered = False  # a kubelet registers when it starts, and not again
        return ()

    def reconcile(self, key: ObjectKey) -> float | None:
        found = self._up.get(key.name)
        if found is None:
            return None
        node = self.api.get(NODE, "", key.name)
        if not found.uid:
            return self._register(found, node) if self._is_certified(found) else None
        if node is None or node["metadata"]["uid"] != found.uid:
            return None
        if not self._beat(found, node):
            self._report(found)
        self._renew_lease(found)
        remaining = found.ready_at - self._loop.time()
        return remaining if remaining > 0 else HEARTBEAT_EVERY

    def _is_certified(self, found: Powered) -> bool:
        """False: it has asked, and goes on once it is let in."""
        machine = found.machine

        def let_in() -> None:
            if self._up.get(machine.name) is found:
                found.certified = True
                self.look_at(ObjectKey("", machine.name))
                self.let_in(machine)

        if not found.certified and machine.bootstrap_token:
            self._bootstraps.begin(machine.name, machine.bootstrap_token, machine.kept_on or machine.name, let_in)
            return False
        return True

    def _register(self, found: Powered, node: Json | None) -> float:
        machine = found.machine
        if node is None:
            node = self.api.create(NODE, _manifest(machine))
        found.uid = node["metadata"]["uid"]
        found.registered = True
        found.ready_at = self._loop.time() + machine.ready_after
        self._report(found)
        return machine.ready_after

    def _report(self, found: Powered) -> None:
        """Status, and the not-ready taint that goes with it."""
        name = found.machine.name
        ready = self._loop.time() >= found.ready_at
        now = self.api.now_text()
        provided = self._provided.get(name, {})
        self.api.edit_status(NODE, "", name, lambda status: _fill(status, found, provided, ready=ready, now=now))
        if ready:
            self.api.edit(NODE, "", name, _untaint)

    def _beat(self, found: Powered, node: Json) -> bool:
        """Say "still the same" cheaply; False: it is not the same."""
        expected = copied(node["status"])
        now = self.api.now_text()
        ready = self._loop.time() >= found.ready_at
        _fill(expected, found, self._provided.get(found.machine.name, {}), ready=ready, now=now)
        if not ready or _without_beats(expected) != _without_beats(node["status"]) or _is_marked(node):
            return False
        self.api.beat(NODE, node, status=expected)
        return True

    def _renew_lease(self, found: Powered) -> None:
        name, now = found.machine.name, self.api.now()
        text = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = self.api.get(LEASE, LEASES, name)
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": text}
        if lease is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": found.uid}
            meta = {"name": name, "namespace": LEASES, "ownerReferences": [owner]}
            self.api.create(LEASE, {"metadata": meta, "spec": spec})
            return
        renewed = lease["spec"].get("renewTime", "")
        due = (now.timestamp() - _stamp(renewed)) >= LEASE_EVERY if renewed else True
        if due:
            self.api.beat(LEASE, lease, spec={**lease["spec"], **spec})


def _no_listener(_machine: Hardware) -> None:
    pass


def _without_beats(status: Json) -> Json:
    rows = [{**row, HEARTBEAT: ""} for row in status.get("conditions", ())]
    return {**status, "conditions": rows}


def _is_marked(node: Json) -> bool:
    return any(taint["key"] in LIFECYCLE_TAINTS for taint in node["spec"].get("taints", ()))


def _stamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _manifest(machine: Hardware) -> Json:
    labels = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        **machine.labels,
    }
    spec: Json = {"taints": [dict(NOT_READY), *(dict(taint) for taint in machine.taints)]}
    if machine.provider_id:
        spec["providerID"] = machine.provider_id
    return {"metadata": {"name": machine.name, "labels": labels}, "spec": spec}


def _untaint(node: Json) -> None:
    taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] not in LIFECYCLE_TAINTS]
    if taints:
        node["spec"]["taints"] = taints
    else:
        node["spec"].pop("taints", None)


LIFECYCLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _fill(status: Json, found: Powered, provided: Mapping[str, None], *, ready: bool, now: str) -> None:
    machine = found.machine
    devices = {
        name: str(count if not machine.needs_plugin or name in provided else 0)
        for name, count in machine.devices.items()
        if not machine.needs_plugin or name in provided or name in status.get("capacity", {})
    }
    capacity = {
        "cpu": machine.cpu,
        "memory": machine.memory,
        "ephemeral-storage": machine.disk,
        "pods": str(machine.pods),
        **devices,
    }
    status.update(
        capacity=capacity,
        allocatable=dict(capacity),
        addresses=[
            {"type": "InternalIP", "address": found.address},
            {"type": "Hostname", "address": machine.name},
        ],
        nodeInfo=_node_info(machine.name),
        daemonEndpoints={"kubeletEndpoint": {"Port": 10250}},
    )
    for kind, reason in (
        ("MemoryPressure", "KubeletHasSufficientMemory"),
        ("DiskPressure", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "KubeletHasSufficientPID"),
    ):
        set_condition(
            status, kind, "False", now, reason=reason, message="kubelet has sufficient resources", lastHeartbeatTime=now
        )
    if ready:
        text = "kubelet is posting ready status"
        set_condition(status, "Ready", "True", now, reason="KubeletReady", message=text, lastHeartbeatTime=now)
    else:
        text = "container runtime network not ready: NetworkReady=false"
        set_condition(status, "Ready", "False", now, reason="KubeletNotReady", message=text, lastHeartbeatTime=now)


def _node_info(name: str) -> Json:
    return {
        "architecture": "amd64",
        "bootID": name,
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.12.0-talos",
        "kubeProxyVersion": "",
        "kubeletVersion": VERSION,
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": f"Talos ({TALOS})",
        "systemUUID": name,
    }
