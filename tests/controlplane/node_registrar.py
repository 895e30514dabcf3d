"""Between pretend providers and a real cluster: a machine that runs becomes a Node, one that is gone falls silent.

A machine boots with the Talos config it was ordered with, joins the tailnet it names, and registers the Node it tells.
Owned machines know their own name. KWOK plays the kubelets.
"""

import threading
from types import TracebackType
from typing import Any, Self

from tests.controlplane.simulators import Simulators
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.node_bootstrap import BootIdentity, boot_identity_of
from tools.controlplane.client import AdminClient, Refused
from tools.controlplane.nodes import FAKE, fake_node

POLL_S = 0.25
STOP_BOUND_S = 120
GPU = "nvidia.com/gpu"
SILENT = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "the kubelet is silent"}]


class NodeRegistrar:
    """Looks at the fleets a few times a second while it is open."""

    def __init__(self, simulators: Simulators, admin: AdminClient) -> None:
        self.simulators = simulators
        self._admin = admin
        self._awake: dict[str, BootIdentity] = {}  # by machine id
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="estate", daemon=True)
        self.nameless: list[str] = []  # machines that run and were never told who they are
        self.with_gpus = True  # False: a Node that registers from now on shows no GPU until `show_gpus`

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(STOP_BOUND_S)

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            for provider, machine in self.simulators.machines():
                try:
                    self._attend_to(provider, machine)
                except OSError:
                    continue  # the API server is away: kubelets try again, too
                except Refused as error:
                    if error.status < 500 and error.status != 429:
                        raise

    def _attend_to(self, provider: str, machine: SimulatedMachine) -> None:
        runs = machine.phase is Phase.RUNNING
        if runs and machine.id not in self._awake:
            plate = boot_identity_of(provider, machine)
            if plate is None:
                self.nameless.append(machine.id)
                return
            self._wake(plate, machine)
            self._awake[machine.id] = plate
        elif not runs and machine.id in self._awake:
            self._silence(self._awake[machine.id])
            del self._awake[machine.id]

    def show_gpus(self, machine: SimulatedMachine) -> None:
        """The device plugin has found them."""
        plate, gpus = self._awake[machine.id], {GPU: str(machine.product.gpu_count)}
        change = {"status": {"capacity": gpus, "allocatable": gpus}}
        self._admin.call("PATCH", f"/api/v1/nodes/{plate.node}/status", change)

    def _wake(self, plate: BootIdentity, machine: SimulatedMachine) -> None:
        node = node_of(plate, machine, self.simulators.joins(plate.guest) if plate.guest is not None else "")
        if not self.with_gpus:
            del node["status"]["capacity"][GPU]  # its allocatable is the same table
        try:
            self._admin.call("POST", "/api/v1/nodes", node)
        except Refused as error:
            if error.status != 409:
                raise
            self._admin.call("PATCH", f"/api/v1/nodes/{plate.node}", {"metadata": {"annotations": FAKE}})

    def _silence(self, plate: BootIdentity) -> None:
        """KWOK lets go of it first, or it would be made Ready again at once."""
        path = f"/api/v1/nodes/{plate.node}"
        try:
            self._admin.call("PATCH", path, {"metadata": {"annotations": dict.fromkeys(FAKE)}})
            self._admin.call("PATCH", f"{path}/status", {"status": {"conditions": SILENT}})
        except Refused as error:
            if error.status != 404:  # the operator was faster
                raise


def node_of(plate: BootIdentity, machine: SimulatedMachine, address: str = "") -> dict[str, Any]:
    """As a kubelet registers it: with the taints of its config, its GPUs counted already. Talos sets no label yet."""
    product = machine.product
    capacity = {GPU: str(product.gpu_count), "cpu": str(product.vcpus or 4), "memory": f"{product.memory_gib or 16}Gi"}
    node = fake_node(plate.node, capacity)
    node["spec"] = {"taints": list(plate.guest.taints)} if plate.guest is not None and plate.guest.taints else {}
    if plate.provider_id:
        node["spec"]["providerID"] = plate.provider_id
    if address:
        node["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
    return node
