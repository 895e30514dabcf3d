"""Rented machines become Nodes: the kubelets of everything that runs at the pretend providers.

A machine finds a Talos machine config in what it was ordered with (user data, script or environment), joins the tailnet
it names, and its kubelet asks to be let in with its bootstrap token. Or it is told no more than its Node's name and
provider id (`{"node": …, "providerID": …}`): then its kubelet registers that Node by itself. Once it stops running the
kubelet falls silent and the Node stays, as in life. A box of one's own is the Node of its name.

Fleets have no tasks: timers here bring them up to date when something is due with one of their machines, so machines
boot, and are lost, without being asked. A market that nobody rents in wakes nobody.
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

from tgp.api.resource import NODE
from tgp.ports.clock import Clock
from tgp.sim.clouds.fleet import Fleet
from tgp.sim.clouds.machine import Machine, Phase
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.cluster import machines as hardware
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.entropy import stream
from tgp.sim.mesh.tailnet import JoinRefused, Tailnet
from tgp.sim.talos_guest import TalosGuest, guest_in

GPU = "nvidia.com/gpu"
POWER = "webhook"  # the provider whose machines are Nodes already
PODS = 110
TEN_YEARS = 3e8  # seconds: never, for a timer
LATE_BY = (600.0, 1500.0)  # seconds: past most deadlines, before the last
AILS_AFTER = (120.0, 1800.0)  # seconds from the registration to what befalls a running kubelet
LOOKS_AGAIN = 15.0  # seconds: a driver that waits for its kubelet
MESH_FIRST = 0.5  # of the time from running to a Node: then Talos has booted, and joins its mesh
ROOM_FOR_PODS = 0.9  # of a machine's memory: the rest is the system's
_PLATE = re.compile(r'\{[^{}]*"node"[^{}]*\}')


class Ailment(StrEnum):
    """What goes wrong between a machine that runs and a Node that serves."""

    NEVER_REGISTERS = "never-registers"
    REGISTERS_LATE = "registers-late"
    WRONG_NAME = "wrong-name"  # under the name the vendor gave it
    WRONG_PROVIDER_ID = "wrong-provider-id"
    NO_GPUS = "no-gpus"  # a Node, ready, without what it was rented for
    NEVER_READY = "never-ready"
    FALLS_SILENT = "falls-silent"  # after a while: the machine runs on, its Node is NotReady
    NODE_DELETED = "node-deleted"  # after a while, by somebody
    NEVER_MESHED = "never-meshed"  # of machines that join a tailnet: its client does not get through
    WRONG_ADDRESS = "wrong-address"  # its kubelet takes the address of another network card
    MESH_LOST = "mesh-lost"  # after a while: somebody removes its device


@dataclass(frozen=True, slots=True)
class Kubelets:
    """How long machines take, in seconds, drawn evenly per machine."""

    registers: tuple[float, float] = (10.0, 60.0)  # from running
    ready: tuple[float, float] = (3.0, 15.0)  # from the registration
    gpus: tuple[float, float] = (5.0, 30.0)  # from ready: the driver, the device plugin
    plugin: bool = False  # True: GPUs count once a pod that provides them runs there, and nobody else reports them


@dataclass(slots=True)
class Ailments:
    """What befalls the next kubelets. Those of a name first, then aimed ones, each in their order; then by luck."""

    chances: dict[Ailment, float] = field(default_factory=dict)  # per machine that comes to run
    aimed: list[Ailment | None] = field(default_factory=list)  # None: this one is well
    named: dict[str, list[Ailment]] = field(default_factory=dict)  # by how the Node's name begins
    seen: dict[Ailment, int] = field(default_factory=dict)

    def aim(self, *ailments: Ailment | None) -> None:
        self.aimed.extend(ailments)

    def calm(self) -> None:
        self.aimed.clear()
        self.named.clear()
        self.chances.clear()

    def draw(self, luck: Random, node: str = "") -> Ailment | None:
        meant = next((waiting for name, waiting in self.named.items() if waiting and node.startswith(name)), self.aimed)
        found = meant.pop(0) if meant else self._by_luck(luck)
        if found is not None:
            self.seen[found] = self.seen.get(found, 0) + 1
        return found

    def _by_luck(self, luck: Random) -> Ailment | None:
        for ailment in Ailment:
            chance = self.chances.get(ailment, 0.0)
            if chance and luck.random() < chance:
                return ailment
        return None


@dataclass(frozen=True, slots=True)
class Plate:
    """What a machine was told to become."""

    node: str
    provider_id: str = ""
    guest: TalosGuest | None = None  # None: it is told no more than that


class Estate:
    """All providers of one world, and the cluster that their machines join."""

    def __init__(
        self,
        cluster: ControlPlane,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        seed: int | str,
        *,
        kubelets: Kubelets = Kubelets(),  # noqa: B008 - frozen
        tailnets: Mapping[str, Tailnet] | None = None,  # by the login server of their clients; "": Tailscale's own
    ) -> None:
        self.kubelets = kubelets
        self.tailnets = dict(tailnets or {})
        self.ailments = Ailments()
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

    # -- what the fleets tell ------------------------------------------------------------------------------------------

    def _told(self, provider: str, machine: Machine, before: Phase) -> None:
        if machine.phase is Phase.RUNNING:
            self._start(provider, machine)
        elif before is Phase.RUNNING:
            self._stop(provider, machine)

    def _start(self, provider: str, machine: Machine) -> None:
        plate = plate_of(provider, machine)
        if plate is None:
            return  # somebody else's, or its image does not know how to join
        luck = stream(self._seed, f"kubelet/{provider}/{machine.id}/{machine.running_at}")
        ailment = self.ailments.draw(luck, plate.node)
        if ailment is Ailment.NEVER_REGISTERS:
            return
        plate = _misread(plate, machine, ailment)
        if plate.node in self._on:
            return  # a second machine of that name: the first has the Node
        self._on[plate.node] = (provider, machine.id)
        self._nodes[provider, machine.id] = plate.node
        self._power_on(machine, plate, luck, ailment)

    def _power_on(self, machine: Machine, plate: Plate, luck: Random, ailment: Ailment | None) -> None:
        times = self.kubelets
        registers, ready, gpus = (luck.uniform(*span) for span in (times.registers, times.ready, times.gpus))
        ails_after = luck.uniform(*AILS_AFTER)
        if ailment is Ailment.REGISTERS_LATE:
            registers += luck.uniform(*LATE_BY)
        if ailment is Ailment.NEVER_READY:
            ready = TEN_YEARS
        place = self._on[plate.node]
        if plate.guest is None:
            self._cluster.power_on(_hardware(machine, plate, registers, ready))
        else:
            joins = registers * MESH_FIRST
            rest = _hardware(machine, plate, registers - joins, ready)
            self._later(joins, lambda _node: self._join(place, rest, plate, ailment), plate.node, place)
        if not times.plugin and ailment not in (Ailment.NO_GPUS, Ailment.NEVER_READY):
            self._later(registers + ready + gpus, self._provide, plate.node, place)
        if ailment is Ailment.FALLS_SILENT:
            self._later(registers + ails_after, self.fall_silent, plate.node, place)
        if ailment is Ailment.MESH_LOST:
            self._later(registers + ails_after, lambda _node: self._lose(place), plate.node, place)
        if ailment is Ailment.NODE_DELETED:
            self._later(registers + ails_after, self._delete_node, plate.node, place)

    def _join(self, place: tuple[str, str], machine: hardware.Machine, plate: Plate, ailment: Ailment | None) -> None:
        """Talos has booted: first the tailnet, then the kubelet, which waits for an address there."""
        guest = plate.guest
        assert guest is not None, "whoever boots Talos has a config"
        address = guest.address
        if guest.auth_key:
            tailnet = self.tailnets.get(guest.login_server)
            if tailnet is None or ailment is Ailment.NEVER_MESHED:
                return
            try:
                device = tailnet.join(guest.auth_key, guest.hostname)
            except JoinRefused:
                return
            self._devices[place] = tailnet, device.id
            address = device.addresses[0]
        if ailment is Ailment.WRONG_ADDRESS:
            address = ""
        self._cluster.power_on(replace(machine, address=address))

    def _stop(self, provider: str, machine: Machine) -> None:
        tailnet, device = self._devices.pop((provider, machine.id), (None, ""))
        if tailnet is not None:
            tailnet.go_offline(device)  # nobody logs out on a machine that is taken away
        node = self._nodes.pop((provider, machine.id), None)
        if node is not None:
            del self._on[node]
            self._cluster.power_off(node)
            self._let_twin_have(provider, node)

    def _let_twin_have(self, provider: str, node: str) -> None:
        """Where a provider made two machines for one order, the second joins once the first is out of the way."""
        for machine in self.simulators[provider].fleet.living():
            plate = plate_of(provider, machine) if machine.phase is Phase.RUNNING else None
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
        desk = self._cluster.machines.desk
        found = desk.get(NODE, "", node)
        if found is not None:
            desk.delete(NODE, found)


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
        """After whoever is just changing the fleet has finished."""
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


def plate_of(provider: str, machine: Machine) -> Plate | None:
    """None: it was told nothing that would make it a Node."""
    if machine.foreign:
        return None
    if provider == POWER:
        return Plate(machine.shelf.sku)
    for text in (machine.user_data.decode(errors="replace"), *_texts(machine.detail)):
        for found in _PLATE.finditer(text):
            try:
                told = msgspec.json.decode(found[0])
            except msgspec.DecodeError:
                continue
            return Plate(str(told["node"]), str(told.get("providerID", "")))
    for blob in (machine.user_data, *(text.encode() for text in _texts(machine.detail))):
        guest = guest_in(blob)
        if guest is not None:
            return Plate(guest.node, guest.provider_id, guest)
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


def _misread(plate: Plate, machine: Machine, ailment: Ailment | None) -> Plate:
    match ailment:
        case Ailment.WRONG_NAME:
            name = f"ip-{machine.private_ip.replace('.', '-')}-{machine.id[-6:].lower()}"
            return Plate(name, plate.provider_id, plate.guest)
        case Ailment.WRONG_PROVIDER_ID:
            return Plate(plate.node, f"vendor://{machine.id}", plate.guest)
        case _:
            return plate


def _hardware(machine: Machine, plate: Plate, registers: float, ready: float) -> hardware.Machine:
    shelf, guest = machine.shelf, plate.guest
    return hardware.Machine(
        plate.node,
        cpu=str(shelf.vcpus),
        memory=f"{int(shelf.memory_gib * ROOM_FOR_PODS * 1024)}Mi",
        disk=f"{shelf.disk_gib}Gi",
        pods=PODS,
        devices={GPU: shelf.gpu_count},
        needs_plugin=True,
        provider_id=plate.provider_id,
        labels=guest.labels if guest is not None else {},
        taints=guest.taints if guest is not None else (),
        bootstrap_token=guest.token if guest is not None else "",
        kept_on=machine.id,
        registers_after=registers,
        ready_after=ready,
    )
