"""The resources of the simulated Compute API, in its JSON. 64-bit numbers are texts there."""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from tgp.sim.clouds.gcp import market
from tgp.sim.clouds.gcp.answers import ROOT
from tgp.sim.clouds.machine import Phase, SimulatedMachine

STATUSES = {
    Phase.RUNNING: "RUNNING",
    Phase.STOPPED: "TERMINATED",
    Phase.LOST: "REPAIRING",
    Phase.ENDING: "STOPPING",
}
MADE_AT = "2019-04-01T00:00:00.000-07:00"
STAGED_AFTER = timedelta(seconds=10)
MAINTAINED_FOR = timedelta(hours=4)


def link(project: str, path: str) -> str:
    return f"{ROOT}/projects/{project}/{path}"


def number(words: str) -> str:
    """The numeric id of a thing: the same for the same words."""
    return str(int.from_bytes(blake2b(words.encode(), digest_size=7).digest()) | 1)


def moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def region(project: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#region",
        "id": number(name),
        "creationTimestamp": MADE_AT,
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [link(project, f"zones/{each}") for each in market.ZONES if market.region_of(each) == name],
        "quotas": [
            {"metric": "NVIDIA_T4_GPUS", "limit": 8.0, "usage": 0.0},
            {"metric": "NVIDIA_L4_GPUS", "limit": 8.0, "usage": 0.0},
        ],
        "selfLink": link(project, f"regions/{name}"),
    }


def zone(project: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#zone",
        "id": number(name),
        "creationTimestamp": MADE_AT,
        "name": name,
        "description": name,
        "status": "UP",
        "region": link(project, f"regions/{market.region_of(name)}"),
        "selfLink": link(project, f"zones/{name}"),
    }


def machine_type(project: str, zone: str, kind: market.GcpMachineKind) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": "compute#machineType",
        "id": number(f"{zone}/{kind.name}"),
        "creationTimestamp": MADE_AT,
        "name": kind.name,
        "description": f"{kind.vcpus} vCPUs, {kind.memory_mib / 1024:g} GB RAM",
        "guestCpus": kind.vcpus,
        "memoryMb": kind.memory_mib,
        "imageSpaceGb": 0,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "zone": zone,
        "selfLink": link(project, f"zones/{zone}/machineTypes/{kind.name}"),
        "isSharedCpu": False,
        "architecture": "X86_64",
    }
    if kind.gpu:
        row["accelerators"] = [{"guestAcceleratorType": kind.gpu, "guestAcceleratorCount": kind.count}]
    return row


def accelerator_type(project: str, zone: str, name: str, most: int) -> dict[str, Any]:
    return {
        "kind": "compute#acceleratorType",
        "id": number(f"{zone}/{name}"),
        "creationTimestamp": MADE_AT,
        "name": name,
        "description": name.replace("-", " ").upper(),
        "zone": link(project, f"zones/{zone}"),
        "selfLink": link(project, f"zones/{zone}/acceleratorTypes/{name}"),
        "maximumCardsPerInstance": most,
    }


def status_of(machine: SimulatedMachine, now: datetime) -> str:
    if machine.phase is not Phase.STARTING:
        return STATUSES[machine.phase]
    waiting = machine.stuck or now < machine.created_at + STAGED_AFTER
    return "PROVISIONING" if waiting else "STAGING"


def instance(project: str, machine: SimulatedMachine, now: datetime) -> dict[str, Any]:
    zone, detail = machine.product.place, machine.product.detail
    asked = machine.detail
    row: dict[str, Any] = {
        "kind": "compute#instance",
        "id": number(machine.id),
        "creationTimestamp": moment(machine.created_at),
        "name": machine.name,
        "zone": link(project, f"zones/{zone}"),
        "machineType": link(project, f"zones/{zone}/machineTypes/{detail['machineType']}"),
        "status": status_of(machine, now),
        "canIpForward": False,
        "deletionProtection": False,
        "startRestricted": False,
        "cpuPlatform": "Unknown CPU Platform" if machine.phase is Phase.STARTING else "Intel Skylake",
        "tags": {"fingerprint": "42WmSpB8rSM="},
        "labelFingerprint": "42WmSpB8rSM=",
        "metadata": _metadata(machine),
        "networkInterfaces": [_network(project, machine)],
        "disks": [_disk(project, machine)],
        "scheduling": asked.get("scheduling") or _scheduling(machine),
        "selfLink": link(project, f"zones/{zone}/instances/{machine.name}"),
    }
    if machine.tags:
        row["labels"] = dict(machine.tags)
    if detail["attached"]:
        kind = link(project, f"zones/{zone}/acceleratorTypes/{detail['gpu']}")
        row["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": detail["count"]}]
    if machine.running_at is not None:
        row["lastStartTimestamp"] = moment(machine.running_at)
        row["resourceStatus"] = _resource_status(machine, machine.running_at)
    if machine.why and machine.phase in (Phase.STOPPED, Phase.LOST):
        row["statusMessage"] = machine.why
    return row


def _resource_status(machine: SimulatedMachine, running_at: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"scheduling": {}}
    if machine.max_run is not None:
        row["scheduling"]["terminationTimestamp"] = moment(running_at + machine.max_run)
    if machine.ends_at is not None:
        row["upcomingMaintenance"] = {
            "type": "UNSCHEDULED",
            "maintenanceStatus": "PENDING",
            "canReschedule": False,
            "windowStartTime": moment(machine.ends_at),
            "windowEndTime": moment(machine.ends_at + MAINTAINED_FOR),
        }
    return row


def _metadata(machine: SimulatedMachine) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "compute#metadata", "fingerprint": "42WmSpB8rSM="}
    if machine.user_data:
        row["items"] = [{"key": "user-data", "value": machine.user_data.decode()}]
    return row


def _network(project: str, machine: SimulatedMachine) -> dict[str, Any]:
    outside: dict[str, Any] = {"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": "External NAT"}
    if machine.phase is Phase.RUNNING and not machine.addressless:
        outside["natIP"] = machine.public_ip
    row: dict[str, Any] = {
        "kind": "compute#networkInterface",
        "name": "nic0",
        "network": link(project, "global/networks/default"),
        "accessConfigs": [outside],
    }
    if not machine.addressless:
        row["networkIP"] = machine.private_ip
    return row


def _disk(project: str, machine: SimulatedMachine) -> dict[str, Any]:
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "source": link(project, f"zones/{machine.product.place}/disks/{machine.name}"),
        "deviceName": "persistent-disk-0",
        "index": 0,
        "boot": True,
        "autoDelete": True,
        "diskSizeGb": str(machine.detail.get("disk_gib", 10)),
    }


def _scheduling(machine: SimulatedMachine) -> dict[str, Any]:
    """Of a machine that another tool made."""
    model = "SPOT" if machine.spot else "STANDARD"
    return {"onHostMaintenance": "TERMINATE", "automaticRestart": False, "provisioningModel": model}
