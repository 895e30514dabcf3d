"""The machines of the demo world: a small Talos cluster with two GPU machines."""

from dataclasses import replace

from tgp.sim.cluster.machines import Hardware

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
HOME = {"topology.kubernetes.io/region": "home"}
GPU = "nvidia.com/gpu"


def _gpu_machine(name: str, product: str, count: int) -> Hardware:
    return Hardware(
        name,
        cpu="32",
        memory="128Gi",
        devices={GPU: count},
        needs_plugin=True,  # GPUs count once the device plugin runs there, as on a real machine
        labels={**HOME, "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product},
    )


_HARDWARE = (
    Hardware(
        "cp-1",
        cpu="4",
        memory="8Gi",
        labels={**HOME, CONTROL_PLANE: ""},
        taints=({"key": CONTROL_PLANE, "effect": "NoSchedule"},),
    ),
    Hardware("worker-1", cpu="16", memory="64Gi", labels=HOME),
    Hardware("worker-2", cpu="16", memory="64Gi", labels=HOME),
    _gpu_machine("cellar-1", "RTX4090", 2),
    _gpu_machine("cellar-2", "RTX3090", 4),
)
OWNED_MACHINES = ("cellar-1", "cellar-2")  # switched by the power API of the demo
# They are on from the start; after a power cut, firmware, Talos and the kubelet need time (seconds).
MACHINES = tuple(replace(machine, registers_after=0.0, ready_after=0.5) for machine in _HARDWARE)
REBOOTED = {machine.name: replace(machine, registers_after=40.0, ready_after=20.0) for machine in _HARDWARE}
