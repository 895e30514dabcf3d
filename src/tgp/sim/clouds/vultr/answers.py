"""Vultr's envelopes and its rows: `{"<name>": …, "meta": …}`, errors `{"error": "text", "status": n}`."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.vultr.catalogue import BLANK_AMONG, DEDICATED, REGIONS, RESERVED_ONLY

JSON: Pairs = (("Content-Type", "application/json"),)
PER_PAGE = 100
MOST_PER_PAGE = 500
LONGEST_NUMBER = 9  # digits
HOURS_A_MONTH = 672  # Vultr caps a month at 28 days
MB = 1024
WORDS = {  # status, power_status, server_status
    Phase.STARTING: ("pending", "running", "none"),
    Phase.RUNNING: ("active", "running", "ok"),
    Phase.STOPPED: ("active", "stopped", "ok"),
    Phase.LOST: ("failed", "stopped", "none"),
    Phase.ENDING: ("active", "stopped", "locked"),
}


def answer(status: int, body: Any, headers: Pairs = ()) -> Reply:
    return Reply(status, msgspec.json.encode(body), (*JSON, *headers))


def error(status: int, text: str, headers: Pairs = ()) -> Reply:
    return answer(status, {"error": text, "status": status}, headers)


def page(call: Call, name: str, rows: Sequence[Any], *, breaks: bool = False) -> Reply:
    """One page of a list. `breaks`: it ends half-way, with a cursor that leads nowhere."""
    size = _size(call)
    start = _start(call)
    if size is None or start is None or start > len(rows):
        return error(400, "Invalid cursor or per_page.")
    end = start + max(len(rows) // 2, 1) if breaks else start + size
    following = _cursor("broken" if breaks else f"next__{end}") if breaks or end < len(rows) else ""
    previous = _cursor(f"prev__{max(start - size, 0)}") if start else ""
    meta = {"total": len(rows), "links": {"next": following, "prev": previous}}
    return answer(200, {name: rows[start:end], "meta": meta})


def leads_nowhere(call: Call) -> bool:
    return call.parameter("cursor") == _cursor("broken")


def _size(call: Call) -> int | None:
    raw = call.parameter("per_page")
    if not raw:
        return PER_PAGE
    number = _number(raw)
    return number if number is not None and 1 <= number <= MOST_PER_PAGE else None


def _number(raw: str) -> int | None:
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= LONGEST_NUMBER else None


def _cursor(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _start(call: Call) -> int | None:
    cursor = call.parameter("cursor")
    if not cursor:
        return 0
    try:
        way, _, number = base64.b64decode(cursor, validate=True).decode().partition("__")
    except ValueError:  # no base64, no ASCII, no text
        return None
    return _number(number) if way in ("next", "prev") else None


def plans(stands: Iterable[Stand]) -> list[dict[str, Any]]:
    """A row per plan, with the locations that have some left."""
    listed: dict[str, dict[str, Any]] = {}
    for stand in stands:
        row = listed.setdefault(stand.product.sku, _plan(stand))
        if stand.stock > 0 and row["type"] != DEDICATED:
            row["locations"].append(stand.product.place)
    if BLANK_AMONG in listed:
        listed[BLANK_AMONG]["locations"].append("")
    return list(listed.values())


def _plan(stand: Stand) -> dict[str, Any]:
    product, dollars = stand.product, stand.hourly_microusd / 1_000_000
    named = {name: product.detail[name] for name in ("gpu_vram_gb", "gpu_type") if product.detail["type"] != DEDICATED}
    return {
        "id": product.sku,
        "vcpu_count": product.vcpus,
        "ram": product.memory_gib * MB,
        "disk": product.disk_gib,
        "disk_count": 1,
        "bandwidth": 10240,
        "monthly_cost": round(dollars * HOURS_A_MONTH),
        "hourly_cost": dollars,
        "type": product.detail["type"],
        "locations": [],
        **named,
        "deploy_ondemand": product.sku != RESERVED_ONLY,
    }


def region(name: str) -> dict[str, Any]:
    city, country, continent = REGIONS[name]
    return {"id": name, "city": city, "country": country, "continent": continent, "options": ["ddos_protection"]}


def instance(machine: SimulatedMachine) -> dict[str, Any]:
    status, power, server = WORDS[machine.phase]
    if machine.why == "no balance":
        status = "suspended"
    reached = machine.phase is not Phase.STARTING and not machine.addressless
    detail = machine.detail
    return {
        "id": machine.id,
        "os": detail.get("os", ""),
        "ram": machine.product.memory_gib * MB,
        "disk": machine.product.disk_gib,
        "main_ip": machine.public_ip if reached else "0.0.0.0",  # noqa: S104 - what Vultr shows before there is one
        "vcpu_count": machine.product.vcpus,
        "region": machine.product.place,
        "plan": machine.product.sku,
        "vpc_only": bool(detail.get("vpc_only")),
        "date_created": machine.created_at.replace(microsecond=0).isoformat(),
        "status": status,
        "power_status": power,
        "server_status": server,
        "allowed_bandwidth": 10240,
        "netmask_v4": "255.255.254.0" if reached else "",
        "gateway_v4": "203.0.113.254" if reached else "0.0.0.0",  # noqa: S104 - as above
        "v6_network": "",
        "v6_main_ip": "",
        "v6_network_size": 0,
        "label": machine.name,
        "tag": next(iter(machine.tags), ""),
        "tags": list(machine.tags),
        "internal_ip": machine.private_ip if reached and detail.get("enable_vpc") else "",
        "kvm": "",
        "hostname": detail.get("hostname") or "vultr.guest",
        "os_id": detail.get("os_id", 0),
        "app_id": 0,
        "image_id": "",
        "snapshot_id": detail.get("snapshot_id", ""),
        "firewall_group_id": "",
        "features": [],
        "user_scheme": "root",
    }
