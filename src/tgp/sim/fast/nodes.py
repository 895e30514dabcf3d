"""The Nodes of machines that are switched on: they register, become ready, provide GPUs, fall silent. No heartbeats."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass

from tgp.api.resource import NODE, Resource
from tgp.api.values import rfc3339
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.machines import LIFECYCLE_TAINTS, NOT_READY, Hardware
from tgp.sim.fast.objects import Objects

UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
NOTICED_AFTER = 50.0  # seconds: the node lifecycle controller's grace for a silent kubelet


@dataclass(slots=True)
class _Powered:
    machine: Hardware
    uid: str = ""  # of its Node; empty: it has not registered yet
    ready: bool = False
    provides: bool = False


class Nodes:
    """What NodeBootstrap needs of a control plane; `machines` and `api` are this object."""

    def __init__(self, objects: Objects, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._objects = objects
        self._loop = loop
        self._clock = clock
        self._up: dict[str, _Powered] = {}
        self.machines = self
        self.api = self

    def power_on(self, machine: Hardware) -> None:
        powered = self._up[machine.name] = _Powered(machine)
        self._later(machine.registers_after, powered, self._register)

    def power_off(self, name: str) -> None:
        """It is gone without a notice to the cluster; its Node stays until a controller notices."""
        powered = self._up.pop(name, None)
        if powered is not None and powered.uid:
            self._loop.call_later(NOTICED_AFTER, self._notice, name, powered.uid, context=Context())

    def is_up(self, name: str) -> bool:
        found = self._up.get(name)
        return found is not None and self._node(found) is not None

    def names(self) -> list[str]:
        return list(self._up)

    def provide(self, name: str, resource: str) -> None:  # noqa: ARG002 - GPUs, of which all machines here are made
        found = self._up[name]
        found.provides = True
        self._report(found)

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._objects.get(resource, ObjectKey(namespace, name))

    def delete(self, resource: Resource, obj: Json) -> None:
        self._objects.delete(resource, ObjectKey("", obj["metadata"]["name"]))

    # -- a kubelet's life ----------------------------------------------------------------------------------------------

    def _later(self, seconds: float, powered: _Powered, deed: Callable[[_Powered], None]) -> None:
        def act() -> None:
            if self._up.get(powered.machine.name) is powered:
                deed(powered)

        self._loop.call_later(seconds, act, context=Context())

    def _register(self, powered: _Powered) -> None:
        machine = powered.machine
        node = self.get(NODE, "", machine.name)
        if node is None:
            spec: Json = {"taints": [dict(NOT_READY)]}
            if machine.provider_id:
                spec["providerID"] = machine.provider_id
            labels = {"kubernetes.io/hostname": machine.name, "kubernetes.io/os": "linux"}
            manifest = {"metadata": {"name": machine.name, "labels": labels}, "spec": spec}
            manifest["status"] = self._status(powered, manifest)
            node = self._objects.create(NODE, manifest)
        powered.uid = node["metadata"]["uid"]
        self._report(powered)
        self._later(machine.ready_after, powered, self._become_ready)

    def _become_ready(self, powered: _Powered) -> None:
        powered.ready = True
        self._report(powered)

    def _node(self, powered: _Powered) -> Json | None:
        """None: not registered yet, or deleted since: a kubelet registers when it starts, and not again."""
        node = self.get(NODE, "", powered.machine.name)
        return node if node is not None and node["metadata"]["uid"] == powered.uid else None

    def _report(self, powered: _Powered) -> None:
        node = self._node(powered)
        if node is None:
            return
        self._write(node, self._status(powered, node), [NOT_READY] if not powered.ready else [])

    def _status(self, powered: _Powered, node: Json) -> Json:
        machine = powered.machine
        devices = {name: str(count) for name, count in machine.devices.items() if powered.provides}
        amounts = {"cpu": machine.cpu, "memory": machine.memory, "pods": str(machine.pods), **devices}
        words = ("True", "KubeletReady") if powered.ready else ("False", "KubeletNotReady")
        return {"capacity": amounts, "allocatable": amounts, "conditions": [self._condition(node, *words)]}

    def _notice(self, name: str, uid: str) -> None:
        node = self.get(NODE, "", name)
        up = self._up.get(name)
        if node is not None and node["metadata"]["uid"] == uid and (up is None or up.uid != uid):
            unknown = self._condition(node, "Unknown", "NodeStatusUnknown")
            self._write(node, {"conditions": [unknown]}, [UNREACHABLE])

    def _write(self, node: Json, status: Json, marks: list[dict[str, str]]) -> None:
        others = [taint for taint in node["spec"].get("taints", ()) if taint["key"] not in LIFECYCLE_TAINTS]
        change = {"status": status, "spec": {"taints": [*marks, *others] or None}}
        self._objects.replace(NODE, ObjectKey("", node["metadata"]["name"]), change)

    def _condition(self, node: Json, status: str, reason: str) -> Json:
        held: Json = next(iter((node.get("status") or {}).get("conditions", ())), {})
        since = held.get("lastTransitionTime") if held.get("status") == status else None
        now = rfc3339(self._clock.now().replace(microsecond=0))
        return {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": since or now}
