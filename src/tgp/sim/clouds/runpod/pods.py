"""Machines of the fleet as v2 shows pods."""

from datetime import datetime
from typing import Any

from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.runpod import commands

MICRO = 1_000_000
PROVISIONING_SHARE = 0.4  # of the boot; then the container starts
STATUSES = {
    Phase.RUNNING: "RUNNING",
    Phase.STOPPED: "EXITED",
    Phase.LOST: "ERROR",  # no state of its own is documented for a lost host
    Phase.ENDING: "TERMINATED",
}
ACTIONS = {
    "PROVISIONING": ("stop", "terminate"),
    "STARTING": ("stop", "terminate"),
    "RUNNING": ("stop", "restart", "terminate"),
    "EXITED": ("start", "terminate"),
    "ERROR": ("start", "terminate"),
    "TERMINATED": (),
}
NO_MORE_COST = ("EXITED", "TERMINATED")
SSH_PORT = 22


def status_of(machine: SimulatedMachine, now: datetime) -> str:
    if machine.phase is not Phase.STARTING:
        return STATUSES[machine.phase]
    passed = (now - machine.created_at).total_seconds()
    early = machine.stuck or passed < machine.product.boot_seconds * PROVISIONING_SHARE
    return "PROVISIONING" if early else "STARTING"


def shown(machine: SimulatedMachine, now: datetime) -> dict[str, Any]:
    status, detail = status_of(machine, now), machine.detail
    cloud = machine.product.detail["cloud"]
    return {
        "id": machine.id,
        "name": machine.name,
        "status": status,
        "actions": list(ACTIONS[status]),
        "image": detail.get("image", "runpod/base:1.0.2-ubuntu2404"),
        **commands.shown(detail),
        "disk": detail.get("disk", 20),
        "mounts": detail.get("mounts", {}),
        "ports": detail.get("ports", []),
        "env": detail.get("env", {}),
        "registry": detail.get("registry"),
        "gpu": {
            "id": machine.product.detail["card"],
            "count": machine.product.gpu_count,
            "vcpuCount": machine.product.vcpus,
            "memory": machine.product.memory_gib,
        },
        "cloud": cloud,
        "dataCenterId": machine.product.place if cloud == "SECURE" else None,
        "cudaVersion": "12.8",
        "ssh": {"proxy": _proxy(machine), "direct": None},
        "template": None,
        "cost": 0.0 if status in NO_MORE_COST else machine.charged_microusd / MICRO,
        "locked": detail.get("locked", False),
        "runtime": _runtime(machine, now) if status == "RUNNING" and not machine.addressless else None,
        "createdAt": _moment(machine.created_at),
        "startedAt": _moment(machine.running_at) if machine.running_at else None,
        "globalNetworking": {"enabled": detail.get("globalNetworking", False)},
    }


def _proxy(machine: SimulatedMachine) -> dict[str, Any]:
    user = f"{machine.id}-64411eb2"
    return {"host": "ssh.runpod.io", "port": SSH_PORT, "username": user, "command": f"ssh {user}@ssh.runpod.io"}


def _runtime(machine: SimulatedMachine, now: datetime) -> dict[str, Any]:
    since = machine.running_at or machine.created_at
    return {
        "uptime": int((now - since).total_seconds()),
        "gpus": [{"util": 0, "memoryUtil": 0}] * machine.product.gpu_count,
        "cpu": {"util": 3},
        "memory": {"util": 5},
        "ports": [{"private": SSH_PORT, "public": 34446, "type": "tcp", "ip": machine.public_ip}],
    }


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
