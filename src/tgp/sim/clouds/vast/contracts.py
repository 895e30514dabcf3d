"""Machines as Vast lists them: rows, filters over them, and pages by key."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from datetime import datetime
from typing import Any

import msgspec

from tgp.ports.http import NO_JSON, Call
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.vast.answers import VastError
from tgp.sim.clouds.vast.asks import verification
from tgp.sim.clouds.vast.search import COMPARISONS

MOST_ROWS, FEWEST_ROWS = 25, 5
STORED = frozenset(  # contract columns; the others are computed, and cannot be filtered by
    [
        "id",
        "label",
        "actual_status",
        "intended_status",
        "cur_state",
        "next_state",
        "gpu_name",
        "verification",
        "machine_id",
        "host_id",
    ]
)
PROVISIONING_SECONDS = 5.0


def row(machine: SimulatedMachine, now: datetime) -> dict[str, Any]:
    product, detail = machine.product, machine.product.detail
    actual, intended, current, following = _states(machine, now)
    reachable = machine.phase is Phase.RUNNING and not machine.addressless
    started, ends = machine.created_at.timestamp(), machine.ends_at or detail["ends_at"]
    return {
        "id": int(machine.id),
        "label": machine.name or None,
        "actual_status": actual,
        "intended_status": intended,
        "cur_state": current,
        "next_state": following,
        "status_msg": _message(machine, actual),
        "machine_id": int(product.host),
        "host_id": detail["host_id"],
        "bundle_id": int(product.sku) * 7 % 1_000_003,
        "num_gpus": product.gpu_count,
        "gpu_name": detail["gpu_name"],
        "gpu_ram": detail["gpu_ram"],
        "gpu_totalram": detail["gpu_ram"] * product.gpu_count,
        "gpu_util": 0.0 if reachable else None,
        "gpu_temp": 41.0 if reachable else None,
        "gpu_arch": "nvidia",
        "gpu_frac": detail["gpu_frac"],
        "cuda_max_good": 12.8,
        "driver_version": detail["driver_version"],
        "compute_cap": detail["compute_cap"],
        "cpu_name": "EPYC 7763",
        "cpu_cores": detail["cpu_cores"],
        "cpu_cores_effective": detail["cpu_cores_effective"],
        "cpu_ram": detail["cpu_ram"],
        "cpu_util": 0.0,
        "cpu_arch": product.arch,
        "disk_space": machine.detail.get("disk", 0.0),
        "disk_usage": 1.5 if reachable else -1.0,
        "disk_util": -1.0,
        "mem_limit": None,
        "mem_usage": None,
        "inet_up": detail["inet_up"],
        "inet_down": detail["inet_down"],
        "ssh_host": "ssh7.vast.ai" if reachable else None,
        "ssh_port": 10_000 + int(machine.id) % 50_000,
        "ssh_idx": "7",
        "public_ipaddr": f"{machine.public_ip}\n" if reachable else None,  # Vast really sends the line's end
        "local_ipaddrs": f"{machine.private_ip} 172.17.0.2\n" if reachable else None,
        "ports": {"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": "40022"}]} if reachable else {},  # noqa: S104 - docker's
        "direct_port_start": -1,
        "direct_port_end": -1,
        "geolocation": product.place,
        "image_uuid": machine.detail.get("image", ""),
        "image_args": list(machine.detail.get("args", ())),
        "image_runtype": machine.detail.get("runtype", "ssh"),
        "extra_env": [list(pair) for pair in machine.detail.get("env", ())],
        "onstart": machine.user_data.decode() or None,
        "is_bid": machine.spot,
        "min_bid": None,
        "dph_base": (machine.rate_microusd - machine.idle_rate_microusd) / 1_000_000,
        "dph_total": machine.rate_microusd / 1_000_000,
        "storage_cost": detail["storage_cost"],
        "storage_total_cost": machine.idle_rate_microusd / 1_000_000,
        "start_date": started,
        "end_date": ends.timestamp(),
        "duration": (ends - now).total_seconds(),
        "uptime_mins": (now - machine.running_at).total_seconds() / 60 if machine.running_at else None,
        "reliability2": detail["reliability"],
        "verification": verification(product.trust),
        "template_id": None,
        "template_hash_id": None,
        "template_name": None,
        "jupyter_token": None,
        "volume_info": [],
        "static_ip": False,
        "external": None,
        "vms_enabled": detail["vms_enabled"],
    }


def _states(machine: SimulatedMachine, now: datetime) -> tuple[str | None, str, str, str]:
    """Container, what the renter wants, contract, what the contract turns into."""
    match machine.phase:
        case Phase.STARTING:
            young = (now - machine.created_at).total_seconds() < PROVISIONING_SECONDS
            return (None if young else "loading"), "running", "running", "running"
        case Phase.RUNNING:
            return "running", "running", "running", "running"
        case Phase.STOPPED:
            return "stopped", "stopped", "stopped", "stopped"
        case Phase.LOST:
            return "offline", "running", "running", "running"
        case _:
            return "exited", "stopped", "unloaded", "unloaded"


def _message(machine: SimulatedMachine, actual: str | None) -> str | None:
    image = machine.detail.get("image", "")
    match actual:
        case "running":
            return f"success, running {image}\n"
        case "loading":
            return f"{machine.id[-6:]}: Pulling from {image}\n"
        case "offline":
            return f"success, running {image}\n"
        case "stopped":
            return machine.why or None
    return None


# -- the list ----------------------------------------------------------------------------------------------------------


def listing(call: Call, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of `rows`, as the query asks."""
    columns = _parameter(call, "select_cols", list)
    if not all(isinstance(name, str) for name in columns):
        raise VastError(400, "invalid_args", "select_cols is a list of names")
    matching = _filtered(rows, _parameter(call, "select_filters", dict))
    ordered = _ordered(matching, _parameter(call, "order_by", list))
    beyond = _after(ordered, call.parameter("after_token"))
    size = _size(call.parameter("limit"))
    page = beyond[:size]
    return {
        "success": True,
        "instances_found": len(page),
        "total_instances": len(matching),
        "label_counts": _counts(matching),
        "next_token": token_after(page[-1]) if len(beyond) > size else None,
        "instances": [_columns(each, columns) for each in page],
    }


def token_after(last: dict[str, Any]) -> str:
    return urlsafe_b64encode(msgspec.json.encode({"values": {"id": last["id"]}})).decode()


def _after(rows: list[dict[str, Any]], token: str) -> list[dict[str, Any]]:
    if not token:
        return rows
    try:
        last = int(msgspec.json.decode(urlsafe_b64decode(token))["values"]["id"])
    except (NotBase64, *NO_JSON, ValueError, KeyError, TypeError, OverflowError):
        raise VastError(400, "invalid_args", "after_token is none of ours") from None
    for place, each in enumerate(rows):
        if each["id"] == last:
            return rows[place + 1 :]
    return [each for each in rows if each["id"] > last]


def _size(raw: str) -> int:
    if not raw:
        return MOST_ROWS
    try:
        limit = int(raw)
    except ValueError:
        raise VastError(400, "invalid_args", "limit is a number") from None
    return min(limit, MOST_ROWS) if limit > 0 else FEWEST_ROWS


def _parameter(call: Call, name: str, kind: type) -> Any:
    """A query parameter that is JSON in text."""
    raw = call.parameter(name)
    if not raw:
        return kind()
    try:
        value = msgspec.json.decode(raw)
    except NO_JSON:
        raise VastError(400, "invalid_args", f"{name} is no JSON") from None
    if not isinstance(value, kind):
        raise VastError(400, "invalid_args", f"{name} is no {kind.__name__}")
    return value


def _filtered(rows: list[dict[str, Any]], filters: dict[str, Any]) -> list[dict[str, Any]]:
    for column, conditions in filters.items():
        if column not in STORED:
            raise VastError(400, "invalid_args", f"{column} cannot be filtered by")
        if not isinstance(conditions, dict) or not set(conditions) <= set(COMPARISONS):
            raise VastError(400, "invalid_args", f"{column} wants an object of operators")
        for comparison, wanted in conditions.items():
            if comparison in ("in", "notin") and not isinstance(wanted, list):
                raise VastError(400, "invalid_args", f"{column}: {comparison} wants a list")
            try:
                rows = [each for each in rows if COMPARISONS[comparison](each[column], wanted)]
            except TypeError:
                raise VastError(400, "invalid_args", f"{column} cannot be compared with that") from None
    return rows


def _ordered(rows: list[dict[str, Any]], order: list[Any]) -> list[dict[str, Any]]:
    rows = sorted(rows, key=lambda each: each["id"])
    for entry in reversed(order):
        if not isinstance(entry, dict) or not isinstance(entry.get("col"), str):
            raise VastError(400, "invalid_args", "order_by is a list of objects with col and dir")
        column = entry["col"]
        if entry.get("dir", "asc") not in ("asc", "desc") or (rows and column not in rows[0]):
            raise VastError(400, "invalid_args", f"order_by: unknown column {column}, or unknown direction")
        if any(isinstance(each[column], list | dict) for each in rows):
            raise VastError(400, "invalid_args", f"order_by: {column} has no order")
        rows = sorted(
            rows,
            key=lambda each: (each[column] is None, "" if each[column] is None else each[column]),
            reverse=entry.get("dir") == "desc",
        )
    return rows


def _columns(each: dict[str, Any], wanted: list[Any]) -> dict[str, Any]:
    return {name: each[name] for name in wanted if name in each} if wanted and "*" not in wanted else each


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in rows:
        label = each["label"] or ""
        counts[label] = counts.get(label, 0) + 1
    return counts
