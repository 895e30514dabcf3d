"""An ask as the search shows it: every field that the documentation lists."""

from datetime import datetime, timedelta
from typing import Any

from tgp.core.model.offer import Trust
from tgp.sim.clouds.fleet import Stand

MONTH_HOURS = 720


def storage_hourly(stand: Stand, gigabytes: float) -> float:
    """Dollars."""
    return float(stand.product.detail["storage_cost"]) * gigabytes / MONTH_HOURS


def verification(trust: Trust) -> str:
    return "unverified" if trust is Trust.ANY else "verified"


def row(stand: Stand, kind: str, storage: float, now: datetime) -> dict[str, Any]:
    product, detail = stand.product, stand.product.detail
    on_demand = stand.hourly_microusd / 1_000_000
    lowest_bid = (stand.spot_microusd or stand.hourly_microusd) / 1_000_000
    base = lowest_bid if kind == "bid" else on_demand
    disk = storage_hourly(stand, storage)
    total = base + disk
    seconds = timedelta(days=detail["days_left"]).total_seconds()
    return {
        "id": int(product.sku),
        "ask_contract_id": int(product.sku),
        "bundle_id": int(product.sku) * 7 % 1_000_003,
        "bundled_results": None,
        "machine_id": int(product.host),
        "host_id": detail["host_id"],
        "hosting_type": 1 if product.trust is Trust.DATACENTER else 0,
        "hostname": None,
        "num_gpus": product.gpu_count,
        "gpu_name": detail["gpu_name"],
        "gpu_ram": detail["gpu_ram"],
        "gpu_total_ram": detail["gpu_ram"] * product.gpu_count,
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
        "cpu_arch": product.arch,
        "has_avx": 1,
        "mobo_name": "H12SSL-i",
        "os_version": "22.04",
        "pci_gen": 4.0,
        "pcie_bw": 24.6,
        "disk_space": float(product.disk_gib),
        "disk_bw": 3100.0,
        "disk_name": "nvme",
        "inet_up": detail["inet_up"],
        "inet_down": detail["inet_down"],
        "inet_up_cost": 0.002,
        "inet_down_cost": 0.002,
        "direct_port_count": detail["ports"],
        "public_ipaddr": "203.0.113.7",
        "static_ip": product.trust is Trust.DATACENTER,
        "geolocation": product.place,
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
        "verification": verification(product.trust),
        "vericode": 0 if product.trust is Trust.ANY else 1,
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
        **_seldom_read(stand, base, disk, seconds),
    }


def _seldom_read(stand: Stand, base: float, disk: float, seconds: float) -> dict[str, Any]:
    """Documented, and of use to few: discounts that are zero, volumes that are not offered, the sums once more."""
    detail, total = stand.product.detail, base + disk
    hourly = {
        "gpuCostPerHour": base,
        "diskHour": disk,
        "totalHour": total,
        "discountTotalHour": 0.0,
        "discountedTotalPerHour": total,
    }
    return {
        "gpu_ids": list(range(stand.product.gpu_count)),
        "driver_vers": numbered(detail["driver_version"]),
        "geolocode": 0,
        "internet_up_cost_per_tb": 2.0,
        "internet_down_cost_per_tb": 2.0,
        "dph_total_adj": total,
        "discounted_hourly": 0.0,
        "credit_discount_max": 0.0,
        "vram_costperhour": base / (detail["gpu_ram"] * stand.product.gpu_count),
        "platform_fee": 0.0,
        "reliability_mult": 1.0,
        "expected_reliability": detail["reliability"],
        "time_remaining": str(int(seconds)),
        "time_remaining_isbid": "",
        "avail_vol_ask_id": None,
        "avail_vol_dph": None,
        "avail_vol_size": None,
        "nw_disk_min_bw": None,
        "nw_disk_max_bw": None,
        "nw_disk_avg_bw": None,
        "rn": 1,
        "search": hourly,
        "instance": hourly,
    }


def numbered(version: str) -> int:
    """`550.127.05` as drivers are compared by: three digits for each part."""
    return int("".join(part.zfill(3) for part in version.split(".")))


def ends_at(stand: Stand) -> datetime:
    """When the host takes the machine back: fixed when the world begins."""
    ends: datetime = stand.product.detail["ends_at"]
    return ends
