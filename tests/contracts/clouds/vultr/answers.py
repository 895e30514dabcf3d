"""Builders of what Vultr answers, and of an order; each states only what matters."""

from typing import Any

import msgspec

from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Reply

TOKEN = "tgp-c0ffee0123-0000000000000000000000000000beef-2"
ID = "cb676a46-66fd-4dfb-b839-443f2e6c0b60"
SNAPSHOT = "5a5cbb71-1c8e-4f0a-9d1b-7a1e05000001"


def reply(status: int, body: Any) -> Reply:
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/json"),))


def refused(status: int, text: str = "Bad request.") -> Reply:
    return reply(status, {"error": text, "status": status})


def page(name: str, rows: list[Any], *, total: int | None = None, following: str = "") -> Reply:
    meta = {"total": len(rows) if total is None else total, "links": {"next": following, "prev": ""}}
    return reply(200, {name: rows, "meta": meta})


def an_order(**changes: Any) -> LaunchOrder:
    offer = Offer(
        provider="vultr",
        sku="vcg-a40-24c-120g-48vram",
        place="lax",
        gpu="A40",
        gpu_count=1,
        gpu_memory_gib=48,
        vcpus=24,
        memory_gib=120,
        disk_gib=1400,
        hourly_microusd=1_710_000,
        stock=Stock.LIKELY,
        boot=BootMode.NATIVE,
    )
    fields = {"offer": offer, "token": TOKEN, "max_hourly_microusd": 2_000_000, "user_data": b"machine: {}\n"}
    return LaunchOrder(**(fields | changes))


def a_plan(**changes: Any) -> dict[str, Any]:
    return {
        "id": "vcg-a40-24c-120g-48vram",
        "vcpu_count": 24,
        "ram": 122880,
        "disk": 1400,
        "disk_count": 1,
        "hourly_cost": 1.71,
        "monthly_cost": 1250,
        "type": "vcg",
        "locations": ["lax", "", "blr"],
        "gpu_vram_gb": 48,
        "gpu_type": "NVIDIA_A40",
    } | changes


def a_machine(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "label": TOKEN,
        "tags": ["team:ml", TOKEN],
        "status": "active",
        "power_status": "running",
        "server_status": "ok",
        "main_ip": "203.0.113.7",
        "internal_ip": "",
        "plan": "vcg-a40-24c-120g-48vram",
        "region": "lax",
        "date_created": "2026-11-15T12:30:05+00:00",
    } | changes
