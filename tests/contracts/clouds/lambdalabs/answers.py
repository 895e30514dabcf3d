"""Builders of what Lambda answers, and of an order; each states only what matters."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Reply

NOW = datetime(2026, 11, 15, 12, 30, 5, tzinfo=UTC)
TOKEN = "tgp-c0ffee0123-0000000000000000000000000000beef-2"
ID = "0920582c7ff041399e34823a0be62549"


def reply(status: int, body: Any) -> Reply:
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/json"),))


def refused(status: int, code: str, message: str = "no") -> Reply:
    return reply(status, {"error": {"code": code, "message": message}})


def an_order(**changes: Any) -> LaunchOrder:
    offer = Offer(
        provider="lambdalabs",
        sku="gpu_1x_a10",
        place="us-west-1",
        gpu="A10",
        gpu_count=1,
        gpu_memory_gib=24,
        vcpus=30,
        memory_gib=200,
        disk_gib=1400,
        hourly_microusd=750_000,
        stock=Stock.CONFIRMED,
        boot=BootMode.TAKEOVER,
    )
    fields = {"offer": offer, "token": TOKEN, "max_hourly_microusd": 1_000_000, "user_data": b"#cloud-config\n"}
    return LaunchOrder(**(fields | changes))


def a_type(words: str = "A10 (24 GB PCIe)", **changes: Any) -> dict[str, Any]:
    kind = {
        "name": "gpu_1x_a10",
        "description": f"1x {words}",
        "gpu_description": words,
        "price_cents_per_hour": 75,
        "specs": {"vcpus": 30, "memory_gib": 200, "storage_gib": 1400, "gpus": 1},
    }
    item = {"instance_type": kind, "regions_with_capacity_available": [{"name": "us-west-1", "description": "x"}]}
    return item | {"instance_type": kind | changes}


def a_machine(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "status": "active",
        "name": TOKEN,
        "region": {"name": "us-west-1", "description": "California, USA"},
        "instance_type": a_type()["instance_type"],
        "tags": [{"key": "tgp-token", "value": TOKEN}, {"key": "tgp-created", "value": "2026-11-15T12:30:05+00:00"}],
        "ip": "203.0.113.7",
    } | changes
