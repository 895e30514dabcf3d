"""`POST /api/v0/bundles/`: filters, order and limit over the asks, as the documentation describes them."""

import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.core.model.offer import Trust
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.vast.answers import Refused

KINDS = ("on-demand", "ondemand", "bid", "reserved")
CONTROLS = ("type", "order", "limit", "allocated_storage", "disable_bundling", "georegion", "target_reliability")
DEFAULT_LIMIT = 64
DEFAULT_STORAGE = 8.0  # GB
MONTH_HOURS = 720
FILTERS = frozenset(
    [
        "bw_nvlink",
        "compute_cap",
        "cpu_arch",
        "cpu_cores",
        "cpu_cores_effective",
        "cpu_ghz",
        "cpu_ram",
        "cuda_max_good",
        "datacenter",
        "direct_port_count",
        "driver_version",
        "disk_bw",
        "disk_space",
        "dlperf",
        "dlperf_per_dphtotal",
        "dph_total",
        "duration",
        "external",
        "flops_per_dphtotal",
        "gpu_arch",
        "gpu_display_active",
        "gpu_frac",
        "gpu_mem_bw",
        "gpu_name",
        "gpu_ram",
        "gpu_total_ram",
        "gpu_max_power",
        "gpu_max_temp",
        "has_avx",
        "host_id",
        "id",
        "inet_down",
        "inet_down_cost",
        "inet_up",
        "inet_up_cost",
        "machine_id",
        "min_bid",
        "mobo_name",
        "num_gpus",
        "pci_gen",
        "pcie_bw",
        "reliability",
        "rentable",
        "rented",
        "storage_cost",
        "static_ip",
        "total_flops",
        "ubuntu_version",
        "os_version",
        "verification",
        "verified",
        "vms_enabled",
        "geolocation",
        "cluster_id",
    ]
)
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "in": lambda value, several: value in several,
    "notin": lambda value, several: value not in several,
}
NOT_A_FILTER = "rented"  # taken and dropped; whoever asks filters for himself


def search(body: dict[str, Any], stands: list[Stand], now: datetime, most_rows: int) -> dict[str, Any]:
    """The whole answer."""
    kind = body.get("type", "ondemand")
    if kind not in KINDS:
        raise Refused(400, "invalid_args", f"type is one of {', '.join(KINDS)}")
    storage = _number(body.get("allocated_storage", DEFAULT_STORAGE), "allocated_storage")
    rows = [_row(stand, kind, storage, now) for stand in stands if stand.stock > 0]
    for name, conditions in body.items():
        if name not in CONTROLS:
            rows = _filtered(rows, name, conditions)
    rows = _ordered(rows, body.get("order", [["score", "desc"]]))
    limit = int(_number(body.get("limit", DEFAULT_LIMIT), "limit"))
    cut = rows[: max(min(limit, most_rows), 0)]
    found: dict[str, Any] = {"offers": cut}
    if len(cut) < min(limit, len(rows)):
        found["truncated"] = True
    return found


# -- filters -----------------------------------------------------------------------------------------------------------


def _filtered(rows: list[dict[str, Any]], name: str, conditions: Any) -> list[dict[str, Any]]:
    if name not in FILTERS:
        raise Refused(400, "bad_request", f"unknown filter {name}")
    if not isinstance(conditions, dict) or not set(conditions) <= set(COMPARISONS):
        raise Refused(400, "bad_request", f"{name} wants an object of operators: {', '.join(COMPARISONS)}")
    if name == NOT_A_FILTER:
        return rows
    for comparison, wanted in conditions.items():
        rows = [row for row in rows if _holds(_value(row, name), comparison, wanted, name)]
    return rows


def _value(row: dict[str, Any], name: str) -> Any:
    match name:
        case "verified":
            return row["verification"] == "verified"
        case "datacenter":
            return row["hosting_type"] == 1
        case "geolocation":
            return row["geolocation"].rpartition(",")[2].strip()
        case "external":
            return bool(row["external"])
        case "ubuntu_version":
            return row["os_version"]
    return row.get(name)


def _holds(value: Any, comparison: str, wanted: Any, name: str) -> bool:
    if comparison in ("in", "notin"):
        if not isinstance(wanted, list):
            raise Refused(400, "bad_request", f"{name}: {comparison} wants a list")
        return COMPARISONS[comparison](value, [_like(value, each, name) for each in wanted])
    if value is None:
        return False
    return COMPARISONS[comparison](value, _like(value, wanted, name))


def _like(value: Any, wanted: Any, name: str) -> Any:
    """What was asked in the type of what is there: clients send numbers as text, and blanks as underscores."""
    if isinstance(value, bool):
        return wanted if isinstance(wanted, bool) else str(wanted).lower() in ("true", "1")
    if isinstance(value, int | float):
        return _number(wanted, name)
    return wanted.replace("_", " ") if isinstance(wanted, str) and name == "gpu_name" else wanted


def _number(told: Any, name: str) -> float:
    try:
        return float(told)
    except (TypeError, ValueError):
        raise Refused(400, "bad_request", f"{name} is no number") from None


def _ordered(rows: list[dict[str, Any]], order: Any) -> list[dict[str, Any]]:
    if not isinstance(order, list):
        raise Refused(400, "bad_request", "order is a list of [field, direction]")
    for entry in reversed(order):
        if not isinstance(entry, list) or len(entry) != 2 or entry[1] not in ("asc", "desc"):
            raise Refused(400, "bad_request", "order is a list of [field, direction]")
        field = entry[0]
        if rows and field not in rows[0]:
            raise Refused(400, "bad_request", f"order: unknown field {field}")
        rows = sorted(rows, key=lambda row: row[field], reverse=entry[1] == "desc")
    return rows


# -- rows --------------------------------------------------------------------------------------------------------------


def storage_hourly(stand: Stand, gigabytes: float) -> float:
    """Dollars."""
    return float(stand.shelf.detail["storage_cost"]) * gigabytes / MONTH_HOURS


def verification(trust: Trust) -> str:
    return "unverified" if trust is Trust.ANY else "verified"


def _row(stand: Stand, kind: str, storage: float, now: datetime) -> dict[str, Any]:
    shelf, detail = stand.shelf, stand.shelf.detail
    on_demand = stand.hourly_microusd / 1_000_000
    lowest_bid = (stand.spot_microusd or stand.hourly_microusd) / 1_000_000
    base = lowest_bid if kind == "bid" else on_demand
    disk = storage_hourly(stand, storage)
    total = base + disk
    seconds = timedelta(days=detail["days_left"]).total_seconds()
    return {
        "id": int(shelf.sku),
        "ask_contract_id": int(shelf.sku),
        "bundle_id": int(shelf.sku) * 7 % 1_000_003,
        "bundled_results": None,
        "machine_id": int(shelf.host),
        "host_id": detail["host_id"],
        "hosting_type": 1 if shelf.trust is Trust.DATACENTER else 0,
        "hostname": None,
        "num_gpus": shelf.gpu_count,
        "gpu_name": detail["gpu_name"],
        "gpu_ram": detail["gpu_ram"],
        "gpu_total_ram": detail["gpu_ram"] * shelf.gpu_count,
        "gpu_frac": detail["gpu_frac"],
        "gpu_arch": "nvidia",
        "gpu_lanes": 16,
        "gpu_mem_bw": 900.0,
        "gpu_max_power": 450.0,
        "gpu_max_temp": 84.0,
        "gpu_display_active": False,
        "compute_cap": detail["compute_cap"],
        "cuda_max_good": 12.8,
        "driver_version": detail["driver_version"],
        "bw_nvlink": 0.0,
        "cpu_name": "EPYC 7763",
        "cpu_cores": detail["cpu_cores"],
        "cpu_cores_effective": detail["cpu_cores_effective"],
        "cpu_ghz": 2.45,
        "cpu_ram": detail["cpu_ram"],
        "cpu_arch": shelf.arch,
        "has_avx": 1,
        "mobo_name": "H12SSL-i",
        "os_version": "22.04",
        "pci_gen": 4.0,
        "pcie_bw": 24.6,
        "disk_space": float(shelf.disk_gib),
        "disk_bw": 3100.0,
        "disk_name": "nvme",
        "inet_up": detail["inet_up"],
        "inet_down": detail["inet_down"],
        "inet_up_cost": 0.002,
        "inet_down_cost": 0.002,
        "direct_port_count": detail["ports"],
        "public_ipaddr": "203.0.113.7",
        "static_ip": shelf.trust is Trust.DATACENTER,
        "geolocation": shelf.place,
        "dph_base": base,
        "dph_total": total,
        "discounted_dph_total": total,
        "discount_rate": None,
        "min_bid": lowest_bid,
        "is_bid": kind == "bid",
        "storage_cost": detail["storage_cost"],
        "storage_total_cost": disk,
        "dlperf": detail["dlperf"],
        "dlperf_per_dphtotal": detail["dlperf"] / total,
        "total_flops": detail["dlperf"] / 2,
        "flops_per_dphtotal": detail["dlperf"] / 2 / total,
        "score": detail["dlperf"] / total * detail["reliability"],
        "reliability": detail["reliability"],
        "reliability2": detail["reliability"],
        "verification": verification(shelf.trust),
        "vericode": 0 if shelf.trust is Trust.ANY else 1,
        "rentable": True,
        "rented": False,
        "external": None,
        "vms_enabled": detail["vms_enabled"],
        "is_vm_deverified": False,
        "resource_type": "gpu",
        "cluster_id": None,
        "start_date": now.timestamp() - 86_400,
        "end_date": ends_at(stand).timestamp(),
        "duration": min(seconds, (ends_at(stand) - now).total_seconds()),
        "logo": "",
        "webpage": None,
    }


def ends_at(stand: Stand) -> datetime:
    """When the host takes the machine back: fixed when the world begins."""
    ends: datetime = stand.shelf.detail["ends_at"]
    return ends
