"""`POST /api/v0/bundles/`: filters, order and limit over the asks, as the documentation describes them."""

import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.vast import asks
from tgp.sim.clouds.vast.answers import VastError

KINDS = ("on-demand", "ondemand", "bid", "reserved")
CONTROLS = ("type", "order", "limit", "allocated_storage", "disable_bundling", "georegion", "target_reliability")
DEFAULT_LIMIT = 64
DEFAULT_STORAGE = 8.0  # GB
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
        "hosting_type",
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
        "reliability2",  # as older clients call it
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
NOT_A_FILTER = "rented"  # accepted and ignored; clients filter by themselves


def search(body: dict[str, Any], stands: list[Stand], now: datetime, most_rows: int) -> dict[str, Any]:
    """The whole answer."""
    kind = body.get("type", "ondemand")
    if kind not in KINDS:
        raise VastError(400, "invalid_args", f"type is one of {', '.join(KINDS)}")
    storage = _number(body.get("allocated_storage", DEFAULT_STORAGE), "allocated_storage", least=0.0)
    rows = [asks.row(stand, kind, storage, now) for stand in stands if stand.stock > 0]
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
        raise VastError(400, "bad_request", f"unknown filter {name}")
    if not isinstance(conditions, dict) or not set(conditions) <= set(COMPARISONS):
        raise VastError(400, "bad_request", f"{name} wants an object of operators: {', '.join(COMPARISONS)}")
    if name == NOT_A_FILTER:
        return rows
    for comparison, wanted in conditions.items():
        rows = [row for row in rows if _holds(_value(row, name, wanted), comparison, wanted, name)]
    return rows


def _value(row: dict[str, Any], name: str, wanted: Any) -> Any:
    match name:
        case "driver_version" if isinstance(wanted, int):  # the command line sends its parts as one number
            return row["driver_vers"]
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
            raise VastError(400, "bad_request", f"{name}: {comparison} wants a list")
        return COMPARISONS[comparison](value, [_like(value, each, name) for each in wanted])
    if value is None or wanted is None:
        if comparison not in ("eq", "neq"):
            return _nothing_compares(value, name)
        return COMPARISONS[comparison](value, wanted)
    try:
        return COMPARISONS[comparison](value, _like(value, wanted, name))
    except TypeError:
        raise VastError(400, "bad_request", f"{name} cannot be compared with that") from None


def _nothing_compares(value: Any, name: str) -> bool:
    """What an ask does not have is neither more nor less; a bound above nothing is refused."""
    if value is not None:
        raise VastError(400, "bad_request", f"{name} cannot be compared with null")
    return False


def _like(value: Any, wanted: Any, name: str) -> Any:
    """What was asked in the type of what is there: clients send numbers as text, and blanks as underscores."""
    if isinstance(value, bool):
        return wanted if isinstance(wanted, bool) else str(wanted).lower() in ("true", "1")
    if isinstance(value, int | float):
        return _number(wanted, name)
    return wanted.replace("_", " ") if isinstance(wanted, str) and name == "gpu_name" else wanted


def _number(raw: Any, name: str, *, least: float = -math.inf) -> float:
    """Also from text, as clients send it; `nan` and `inf` are texts that Python reads and no client means."""
    try:
        value = math.nan if isinstance(raw, bool) else float(raw)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or value < least:
        raise VastError(400, "bad_request", f"{name} is no number")
    return value


def _ordered(rows: list[dict[str, Any]], order: Any) -> list[dict[str, Any]]:
    if not isinstance(order, list):
        raise VastError(400, "bad_request", "order is a list of [field, direction]")
    for entry in reversed(order):
        if not isinstance(entry, list) or len(entry) != 2 or entry[1] not in ("asc", "desc"):
            raise VastError(400, "bad_request", "order is a list of [field, direction]")
        field = entry[0]
        if not isinstance(field, str) or (rows and field not in rows[0]):
            raise VastError(400, "bad_request", "order: unknown field")
        try:
            rows = sorted(rows, key=lambda row: (row[field] is not None, row[field] or 0), reverse=entry[1] == "desc")
        except TypeError:
            raise VastError(400, "bad_request", f"order: {field} has no order") from None
    return rows
