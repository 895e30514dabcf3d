"""Rented machines become Nodes: the kubelets of everything that runs at the simulated providers.

A machine finds a Talos machine config in what it was ordered with (user data, script or environment), joins the tailnet
it names, and its kubelet asks to be let in with its bootstrap token. Or it gets no more than its Node's name and
provider id (`{"node": …, "providerID": …}`): then its kubelet registers that Node by itself. Once it stops running the
kubelet falls silent and the Node stays, as in life. An owned machine is the Node of its name.

Fleets have no tasks: timers here bring them up to date when something is due with one of their machines, so machines
boot, and are lost, without being asked. A market without machines triggers nothing.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from tgp.api.common import OWNED_PROVIDER
from tgp.api.resource import NODE
from tgp.ports.clock import Clock
from tgp.sim.clouds.fleet import Fleet
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.cluster import machines as hardware
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.entropy import stream
from tgp.sim.mesh.tailnet import JoinRefused, Tailnet
from tgp.sim.talos_guest import TalosGuest, guest_in

GPU = "nvidia.com/gpu"
PODS = 110
TEN_YEARS = 3e8  # seconds: never, for a timer
LATE_BY = (600.0, 1500.0)  # seconds: past most deadlines, before the last
AILS_AFTER = (120.0, 1800.0)  # seconds from the registration to what befalls a running kubelet
LOOKS_AGAIN = 15.0  # seconds: a driver that waits for its kubelet
MESH_FIRST = 0.5  # of the time from running to a Node: then Talos has booted, and joins its mesh
ROOM_FOR_PODS = 0.9  # of a machine's memory: the rest is the system's
_PLATE = re.compile(r'\{[^{}]*"node"[^{}]*\}')


class NodeFault(StrEnum):
    """What goes wrong between a machine that runs and a Node that serves."""

    NEVER_REGISTERS = "never-registers"
    REGISTERS_LATE = "registers-late"
    WRONG_NAME = "wrong-name"  # under the name the vendor gave it
    WRONG_PROVIDER_ID = "wrong-provider-id"
    NO_GPUS = "no-gpus"  # a Node, ready, without what it was rented for
    NEVER_READY = "never-ready"
    FALLS_SILENT = "falls-silent"  # after a while: the machine runs on, its Node is NotReady
    NODE_DELETED = "node-deleted"  # after a while, by a user
    NEVER_MESHED = "never-meshed"  # of machines that join a tailnet: its client does not get through
    WRONG_ADDRESS = "wrong-address"  # its kubelet takes the address of another network card
    MESH_LOST = "mesh-lost"  # after a while: an administrator removes its device


@dataclass(frozen=True, slots=True)
class KubeletTimes:
    """How long machines take, in seconds, drawn evenly per machine."""

    registers: tuple[float, float] = (10.0, 60.0)  # from running
    ready: tuple[float, float] = (3.0, 15.0)  # from the registration
    gpus: tuple[float, float] = (5.0, 30.0)  # from ready: the driver, the device plugin
    # True: GPUs count once a pod that provides them runs there, and no other component reports them
    plugin: bool = False


@dataclass(slots=True)
class NodeFaults:
    """What befalls the next kubelets. Those of a name first, then aimed ones, each in their order; then by luck."""

    chances: dict[NodeFault, float] = field(default_factory=dict)  # per machine that comes to run
    aimed: list[NodeFault | None] = field(default_factory=list)  # None: this one is well
    named: dict[str, list[NodeFault]] = field(default_factory=dict)  # by how the Node's name begins
    seen: dict[NodeFault, int] = field(default_factory=dict)

    def aim(self, *node_faults: NodeFault | None) -> None:
        self.aimed.extend(node_faults)

    def calm(self) -> None:
        self.aimed.clear()
        self.named.clear()
        self.chances.clear()

    def draw(self, luck: Random, node: str = "") -> NodeFault | None:
        meant = next((waiting for name, waiting in self.named.items() if waiting and node.startswith(name)), self.aimed)
        found = meant.pop(0) if meant else self._by_luck(luck)
        if found is not None:
            self.seen[found] = self.seen.get(found, 0) + 1
        return found

    def _by_luck(self, luck: Random) -> NodeFault | None:
        for node_fault in NodeFault:
            chance = self.chances.get(node_fault, 0.0)
            if chance and luck.random() < chance:
                return node_fault
        return None


@dataclass(frozen=True, slots=True)
class BootIdentity:
    """The Node that a machine was configured to become."""

    node: str
    provider_id: str = ""
    guest: TalosGuest | None = None  # None: it has no Talos config


class NodeBootstrap:
    """All providers of one world, and the cluster that their machines join."""

    def __init__(
        self,
        cluster: ControlPlane,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        seed: int | str,
        *,
        kubelets: KubeletTimes = KubeletTimes(),  # noqa: B008 - frozen
        tailnets: Mapping[str, Tailnet] | None = None,  # by the login server of their clients; "": Tailscale's own
        owned: Mapping[str, hardware.Hardware] | None = None,  # machines that are Nodes already, by name
    ) -> None:
        self.kubelets = kubelets
        self.owned = dict(owned or {})
        self.tailnets = dict(tailnets or {})
        self.node_faults = NodeFaults()
        self.simulators: dict[str, Simulator] = {}
        self._cluster = cluster
        self._loop = loop
        self._clock = clock
        self._seed = seed
        self._drivers: list[_Driver] = []
        self._on: dict[str, tuple[str, str]] = {}  # by Node name: the (provider, machine) whose kubelet has it
        self._nodes: dict[tuple[str, str], str] = {}  # and the other way round
        self._devices: dict[tuple[str, str], tuple[Tailnet, str]] = {}  # what each machine is in its tailnet

    def adopt(self, simulator: Simulator) -> Simulator:
        """From now on what runs there has a kubelet."""
        provider = simulator.provider
        assert provider not in self.simulators, f"{provider} is here already"
        self.simulators[provider] = simulator
        simulator.fleet.listen(lambda machine, before: self._told(provider, machine, before))
        self._drivers.append(_Driver(simulator.fleet, self._loop, self._clock))
        return simulator

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()

    def node_of(self, provider: str, machine_id: str) -> str:
        """The Node whose kubelet runs on this machine; empty: none does."""
        return self._nodes.get((provider, machine_id), "")

    def fall_silent(self, node: str) -> None:
        """Its kubelet stops; the machine below runs on and costs on."""
        self._cluster.power_off(node)

    # -- changes of the fleets
    # ------------------------------------------------------------------------------------------

    def _told(self, provider: str, machine: SimulatedMachine, before: Phase) -> None:
        if machine.phase is Phase.RUNNING:
            self._start(provider, machine)
        elif before is Phase.RUNNING:
            self._stop(provider, machine)

    def _start(self, provider: str, machine: SimulatedMachine) -> None:
        plate = boot_identity_of(provider, machine)
        if plate is None:
            return  # another tenant's, or its image cannot join
        luck = stream(self._seed, f"kubelet/{provider}/{machine.id}/{machine.running_at}")
        node_fault = self.node_faults.draw(luck, plate.node)
        if node_fault is NodeFault.NEVER_REGISTERS:
            return
        plate = _misread(plate, machine, node_fault)
        if plate.node in self._on:
            return  # a second machine of that name: the first has the Node
        self._on[plate.node] = (provider, machine.id)
        self._nodes[provider, machine.id] = plate.node
        self._power_on(machine, plate, luck, node_fault)

    def _power_on(
        self, machine: SimulatedMachine, plate: BootIdentity, luck: Random, node_fault: NodeFault | None
    ) -> None:
        times = self.kubelets
        registers, ready, gpus = (luck.uniform(*span) for span in (times.registers, times.ready, times.gpus))
        ails_after = luck.uniform(*AILS_AFTER)
        if node_fault is NodeFault.REGISTERS_LATE:
            registers += luck.uniform(*LATE_BY)
        if node_fault is NodeFault.NEVER_READY:
            ready = TEN_YEARS
        place = self._on[plate.node]
        if plate.node in self.owned:
            self._cluster.power_on(self.owned[plate.node])
        elif plate.guest is None:
            self._cluster.power_on(_hardware(machine, plate, registers, ready))
        else:
            joins = registers * MESH_FIRST
            rest = _hardware(machine, plate, registers - joins, ready)
            self._later(joins, lambda _node: self._join(place, rest, plate, node_fault), plate.node, place)
        if not times.plugin and node_fault not in (NodeFault.NO_GPUS, NodeFault.NEVER_READY):
            self._later(registers + ready + gpus, self._provide, plate.node, place)
        if node_fault is NodeFault.FALLS_SILENT:
            self._later(registers + ails_after, self.fall_silent, plate.node, place)
        if node_fault is NodeFault.MESH_LOST:
            self._later(registers + ails_after, lambda _node: self._lose(place), plate.node, place)
        if node_fault is NodeFault.NODE_DELETED:
            self._later(registers + ails_after, self._delete_node, plate.node, place)

    def _join(
        self, place: tuple[str, str], machine: hardware.Hardware, plate: BootIdentity, node_fault: NodeFault | None
    ) -> None:
        """Talos has booted: first the tailnet, then the kubelet, which waits for an address there."""
        guest = plate.guest
        assert guest is not None, "a machine that boots Talos has a config"
        address = guest.address
        if guest.auth_key:
            tailnet = self.tailnets.get(guest.login_server)
            if tailnet is None or node_fault is NodeFault.NEVER_MESHED:
                return
            try:
                device = tailnet.join(guest.auth_key, guest.hostname)
            except JoinRefused:
                return
            self._devices[place] = tailnet, device.id
            address = device.addresses[0]
        if node_fault is NodeFault.WRONG_ADDRESS:
            address = ""
        self._cluster.power_on(replace(machine, address=address))

    def _stop(self, provider: str, machine: SimulatedMachine) -> None:
        tailnet, device = self._devices.pop((provider, machine.id), (None, ""))
        if tailnet is not None:
            tailnet.go_offline(device)  # an interrupted machine does not log out
        node = self._nodes.pop((provider, machine.id), None)
        if node is not None:
            del self._on[node]
            self._cluster.power_off(node)
            self._let_twin_have(provider, node)

    def _let_twin_have(self, provider: str, node: str) -> None:
        """Where a provider made two machines for one order, the second joins once the first is out of the way."""
        for machine in self.simulators[provider].fleet.living():
            plate = boot_identity_of(provider, machine) if machine.phase is Phase.RUNNING else None
            if plate is not None and plate.node == node:
                self._start(provider, machine)

    # -- later, if it is still the same machine ------------------------------------------------------------------------

    def _later(self, seconds: float, deed: Callable[[str], None], node: str, place: tuple[str, str]) -> None:
        def act() -> None:
            if self._on.get(node) == place:
                deed(node)

        self._loop.call_later(seconds, act, context=Context())

    def _provide(self, node: str) -> None:
        if self._cluster.machines.is_up(node):
            self._cluster.machines.provide(node, GPU)
        elif self._waits_to_be_let_in(node):
            self._later(LOOKS_AGAIN, self._provide, node, self._on[node])

    def _waits_to_be_let_in(self, node: str) -> bool:
        return node in self._cluster.machines.names()

    def _lose(self, place: tuple[str, str]) -> None:
        tailnet, device = self._devices.get(place, (None, ""))
        if tailnet is not None:
            tailnet.remove(device)
            self.fall_silent(self._nodes[place])  # its way to the API server was through the tailnet

    def _delete_node(self, node: str) -> None:
        api = self._cluster.machines.api
        found = api.get(NODE, "", node)
        if found is not None:
            api.delete(NODE, found)


class _Driver:
    """Wakes a fleet when something is due with one of its machines."""

    def __init__(self, fleet: Fleet, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._fleet = fleet
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        fleet.listen(lambda _machine, _before: self._soon())
        self._soon()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _soon(self) -> None:
        """After the current change of the fleet has finished."""
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._set, context=Context())

    def _set(self) -> None:
        self._looking = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._fleet.next_of_machines()
        if due is not None:
            wait = max((due - self._clock.now()).total_seconds(), 0.0)
            self._timer = self._loop.call_later(wait, self._ring, context=Context())

    def _ring(self) -> None:
        self._timer = None
        self._fleet.advance()
        self._soon()


def boot_identity_of(provider: str, machine: SimulatedMachine) -> BootIdentity | None:
    """None: it has no config that would make it a Node."""
    if machine.foreign:
        return None
    if provider == OWNED_PROVIDER:
        return BootIdentity(machine.product.sku)
    for text in (machine.user_data.decode(errors="replace"), *_texts(machine.detail)):
        for found in _PLATE.finditer(text):
            try:
                raw = msgspec.json.decode(found[0])
            except msgspec.DecodeError:
                continue
            return BootIdentity(str(raw["node"]), str(raw.get("providerID", "")))
    for blob in (machine.user_data, *(text.encode() for text in _texts(machine.detail))):
        guest = guest_in(blob)
        if guest is not None:
            return BootIdentity(guest.node, guest.provider_id, guest)
    return None


def _texts(value: Any) -> Iterator[str]:
    """Every text in what a provider keeps of an order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _misread(plate: BootIdentity, machine: SimulatedMachine, node_fault: NodeFault | None) -> BootIdentity:
    match node_fault:
        case NodeFault.WRONG_NAME:
            name = f"ip-{machine.private_ip.replace('.', '-')}-{machine.id[-6:].lower()}"
            return BootIdentity(name, plate.provider_id, plate.guest)
        case NodeFault.WRONG_PROVIDER_ID:
            return BootIdentity(plate.node, f"vendor://{machine.id}", plate.guest)
        case _:
            return plate


def _hardware(machine: SimulatedMachine, plate: BootIdentity, registers: float, ready: float) -> hardware.Hardware:
    product, guest = machine.product, plate.guest
    return hardware.Hardware(
        plate.node,
        cpu=str(product.vcpus),
        memory=f"{int(product.memory_gib * ROOM_FOR_PODS * 1024)}Mi",
        disk=f"{product.disk_gib}Gi",
        pods=PODS,
        devices={GPU: product.gpu_count},
        needs_plugin=True,
        provider_id=plate.provider_id,
        labels=guest.labels if guest is not None else {},
        taints=guest.taints if guest is not None else (),
        bootstrap_token=guest.token if guest is not None else "",
        kept_on=machine.id,
        registers_after=registers,
        ready_after=ready,
    )
