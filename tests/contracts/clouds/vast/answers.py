"""Answers of Vast.ai as its documentation shows them, and the orders they answer."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from tgp.core.model.offer import BootMode, Offer
from tgp.ports.cloud import Container, LaunchOrder
from tgp.ports.http import Reply

TOKEN = "tgp-c0ffee0123-0000000000000000000000000000002a-1"
NOW = datetime(2026, 11, 15, 12, 0, 30, tzinfo=UTC)


def reply(value: Any, status: int = 200, *headers: tuple[str, str]) -> Reply:
    return Reply(status, msgspec.json.encode(value), headers)


def refused(status: int, error: str, msg: str = "", **more: Any) -> Reply:
    return reply({"success": False, "error": error, "msg": msg, **more}, status)


def an_ask(**changes: Any) -> dict[str, Any]:
    ask = {
        "id": 12345678,
        "machine_id": 88888,
        "num_gpus": 2,
        "gpu_name": "RTX 4090",
        "gpu_ram": 24564,
        "cpu_cores": 64,
        "cpu_cores_effective": 32.0,
        "cpu_ram": 257_698,
        "disk_space": 512.5,
        "dph_base": 0.60,
        "dph_total": 0.66,
        "min_bid": 0.30,
        "storage_cost": 0.675,  # 64 GB of it for an hour are $0.06
        "reliability": 0.9931,
        "verification": "verified",
        "hosting_type": 0,
        "geolocation": "Oregon, US",
        "rentable": True,
        "rented": False,
        "vms_enabled": False,
        "direct_port_count": 124,
        "cuda_max_good": 12.8,
        "inet_down": 2400.5,
        "end_date": 1_800_000_000.5,
        "duration": 1234567.89,
    }
    return {**ask, **changes}


def an_offer(**changes: Any) -> Offer:
    fields = {
        "provider": "vast",
        "sku": "12345678",
        "place": "Oregon, US",
        "gpu": "RTX4090",
        "gpu_count": 2,
        "gpu_memory_gib": 24,
        "vcpus": 32,
        "memory_gib": 125,
        "disk_gib": 64,
        "hourly_microusd": 660_000,
        "boot": BootMode.CONTAINER,
    }
    return Offer(**{**fields, **changes})


def an_order(**changes: Any) -> LaunchOrder:
    fields = {
        "offer": an_offer(),
        "token": TOKEN,
        "max_hourly_microusd": 2_000_000,
        "container": Container("docker.io/library/ubuntu:24.04", (("MODE", "work"),), ("sleep", "infinity")),
    }
    return LaunchOrder(**{**fields, **changes})


def a_machine(**changes: Any) -> dict[str, Any]:
    machine = {
        "id": 312,
        "label": TOKEN,
        "actual_status": "running",
        "intended_status": "running",
        "cur_state": "running",
        "next_state": "running",
        "status_msg": "success, running nvidia/cuda",
        "public_ipaddr": "192.0.2.45 \n",
        "local_ipaddrs": "10.0.0.5 172.17.0.2",
        "start_date": 1_790_000_000.25,
        "dph_total": 0.66,
        "is_bid": False,
        "geolocation": "Oregon, US",
    }
    return {**machine, **changes}
