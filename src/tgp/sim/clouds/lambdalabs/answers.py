"""Lambda's envelopes and its rows: success is `{"data": …}`, failure `{"error": {code, message, suggestion}}`."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tgp.ports.http import Pairs, Reply
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.lambdalabs.catalogue import MICROUSD_A_CENT, REGIONS, WITHOUT_GPU
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.stock import Product

JSON: Pairs = (("Content-Type", "application/json"),)
STATUSES = {
    Phase.STARTING: "booting",
    Phase.RUNNING: "active",
    Phase.STOPPED: "preempted",  # the nearest word it has for a machine that was taken away
    Phase.LOST: "unhealthy",
    Phase.ENDING: "terminating",
    Phase.GONE: "terminated",
}
BLOCKED_BY = {Phase.STARTING: "vm-has-not-launched", Phase.ENDING: "vm-is-terminating", Phase.GONE: "vm-is-terminating"}


def data(payload: Any) -> Reply:
    return Reply(200, msgspec.json.encode({"data": payload}), JSON)


def error(status: int, code: str, message: str, suggestion: str = "", headers: Pairs = ()) -> Reply:
    words = {"code": code, "message": message} | ({"suggestion": suggestion} if suggestion else {})
    return Reply(status, msgspec.json.encode({"error": words}), (*JSON, *headers))


def invalid(message: str) -> Reply:
    return error(400, "global/invalid-parameters", f"Invalid request data. {message}")


def missing(message: str) -> Reply:
    return error(404, "global/object-does-not-exist", message, "Check the name or ID, then try again.")


def types(stands: Iterable[Stand]) -> dict[str, Any]:
    """All types, with the regions that have some left."""
    listed: dict[str, Any] = {}
    for stand in stands:
        product = stand.product
        item = listed.setdefault(product.sku, {"instance_type": kind(product, stand.hourly_microusd)})
        regions = item.setdefault("regions_with_capacity_available", [])
        if stand.stock > 0:
            regions.append(region(product.place))
    listed[str(WITHOUT_GPU["name"])] = {"instance_type": WITHOUT_GPU, "regions_with_capacity_available": []}
    return listed


def kind(product: Product, hourly_microusd: int) -> dict[str, Any]:
    words = str(product.detail["words"])
    return {
        "name": product.sku,
        "description": f"{product.gpu_count}x {words}",
        "gpu_description": words,
        "price_cents_per_hour": -(-hourly_microusd // MICROUSD_A_CENT),
        "specs": {
            "vcpus": product.vcpus,
            "memory_gib": product.memory_gib,
            "storage_gib": product.disk_gib,
            "gpus": product.gpu_count,
        },
    }


def region(name: str) -> dict[str, str]:
    return {"name": name, "description": REGIONS.get(name, name)}


def instance(machine: SimulatedMachine) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": machine.id,
        "status": STATUSES[machine.phase],
        "ssh_key_names": list(machine.detail.get("ssh_key_names", ())),
        "file_system_names": list(machine.detail.get("file_system_names", ())),
        "region": region(machine.product.place),
        "instance_type": kind(machine.product, machine.rate_microusd),
        "actions": actions(machine.phase),
        "firewall_rulesets": [],
    }
    if machine.name:
        row["name"] = machine.name
    if machine.tags:
        row["tags"] = [{"key": key, "value": value} for key, value in machine.tags.items()]
    return row | addresses(machine)


def addresses(machine: SimulatedMachine) -> dict[str, str]:
    """Nothing while it boots; the private one may be missing for ever."""
    if machine.phase is Phase.STARTING or machine.addressless:
        return {}
    dashed = machine.public_ip.replace(".", "-")
    shown = {"ip": machine.public_ip, "hostname": machine.detail.get("hostname") or f"{dashed}.cloud.lambda.ai"}
    return shown if int(machine.id[-1], 16) < 4 else shown | {"private_ip": machine.private_ip}


def actions(phase: Phase) -> dict[str, dict[str, Any]]:
    blocked = BLOCKED_BY.get(phase)
    usual: dict[str, Any] = {"available": True}
    if blocked is not None:
        usual = {"available": False, "reason_code": blocked, "reason_description": f"Blocked: {blocked}."}
    ends = {"available": True} if phase is Phase.STARTING else usual
    return {name: ends if name == "terminate" else usual for name in ACTIONS}


ACTIONS = ("migrate", "rebuild", "restart", "cold_reboot", "terminate")
