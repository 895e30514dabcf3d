"""Machines of the fleet, their events, templates and scripts as v1 shows them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.paperspace.market import MICRO, TEMPLATES

GIB = 1 << 30
PROVISIONING_SHARE = 0.6  # of the boot; then it starts
STATES = {Phase.RUNNING: "ready", Phase.STOPPED: "off", Phase.LOST: "off", Phase.ENDING: "stopping"}
OUT_OF_CAPACITY = "We are currently out of capacity for the selected VM type."


@dataclass(slots=True)
class ScriptRow:
    id: str
    account: str
    name: str
    text: str
    run_once: bool
    created_at: datetime


def state_of(machine: SimulatedMachine, now: datetime) -> str:
    if machine.phase is not Phase.STARTING:
        return STATES[machine.phase]
    passed = (now - machine.created_at).total_seconds()
    early = machine.stuck or passed < machine.product.boot_seconds * PROVISIONING_SHARE
    return "provisioning" if early else "starting"


def machine_row(machine: SimulatedMachine, now: datetime) -> dict[str, Any]:
    product, up = machine.product, machine.phase is Phase.RUNNING
    public = up and not machine.addressless and machine.detail.get("publicIpType") != "none"
    return {
        "id": machine.id,
        "name": machine.name,
        "state": state_of(machine, now),
        "os": "Ubuntu 22.04",
        "machineType": product.sku,
        "agentType": "LinuxHeadless",
        "cpus": product.vcpus,
        "ram": product.memory_gib * GIB,
        "storageTotal": machine.detail.get("diskSize", 100) * GIB,
        "storageUsed": 8 * GIB,
        "accelerators": [{"name": product.gpu, "memory": product.gpu_memory_gib * GIB, "count": product.gpu_count}],
        "region": product.place,
        "privateIp": machine.private_ip if up else None,
        "networkId": "nz6h1zc2",
        "publicIp": machine.public_ip if public else None,
        "publicIpType": machine.detail.get("publicIpType", "dynamic"),
        "autoShutdownEnabled": machine.detail.get("autoShutdownEnabled", False),
        "autoShutdownTimeout": None,
        "autoShutdownForce": False,
        "autoSnapshotEnabled": False,
        "autoSnapshotFrequency": None,
        "autoSnapshotSaveCount": None,
        "updatesPending": False,
        "restorePointEnabled": False,
        "startupScriptId": machine.detail.get("startupScriptId"),
        "usageRate": machine.rate_microusd / MICRO,
        "storageRate": machine.idle_rate_microusd / MICRO,
        "dtCreated": moment(machine.created_at),
        "dtModified": moment(now),
        "dtDeleted": moment(now) if machine.phase is Phase.ENDING else None,
    }


def create_event(machine: SimulatedMachine) -> dict[str, Any]:
    """How its making went: a host that was not to be had shows here, and nowhere else."""
    lost = machine.phase is Phase.LOST
    state = "error" if lost else "in progress" if machine.phase is Phase.STARTING else "done"
    return {
        "id": f"e{machine.id}",
        "name": "create",
        "state": state,
        "machineId": machine.id,
        "error": OUT_OF_CAPACITY if lost else None,
        "dtCreated": moment(machine.created_at),
        "dtStarted": moment(machine.created_at),
        "dtFinished": None,
    }


def event_row(machine: SimulatedMachine, name: str, now: datetime) -> dict[str, Any]:
    return {
        "id": f"d{machine.id}",
        "name": name,
        "state": "new",
        "machineId": machine.id,
        "error": None,
        "dtCreated": moment(now),
        "dtStarted": None,
        "dtFinished": None,
    }


def template_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": template,
            "name": f"{label} Template",
            "agentType": "WindowsDesktop" if label.startswith("Windows") else "LinuxHeadless",
            "operatingSystemLabel": label,
            "defaultSizeGb": 50,
            "availableMachineTypes": [{"machineTypeLabel": each, "isAvailable": True} for each in fitting],
            "dtCreated": "2024-02-01T00:00:00.000Z",
        }
        for template, (label, fitting) in TEMPLATES.items()
    ]


def script_row(script: ScriptRow, machines: list[str]) -> dict[str, Any]:
    return {
        "id": script.id,
        "name": script.name,
        "description": None,
        "isEnabled": True,
        "isRunOnce": script.run_once,
        "assignedMachineIds": machines,
        "dtCreated": moment(script.created_at),
        "dtDeleted": None,
    }


def moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
