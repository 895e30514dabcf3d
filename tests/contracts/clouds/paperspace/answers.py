"""Answers of Paperspace, and the orders they answer."""

from typing import Any

import msgspec

from tgp.core.model.offer import BootMode, Offer
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Reply

REQUEST = "0000000000000000000000000000002a"
TOKEN = f"tgp-c0ffee0123-{REQUEST}-2"
PLACE = "East Coast (NY2)"


def reply(status: int, value: Any) -> Reply:
    return Reply(status, msgspec.json.encode(value))


def refusal(status: int, code: str, message: str, **more: Any) -> Reply:
    return reply(status, {"code": code, "message": message, **more})


def an_order(**changes: Any) -> LaunchOrder:
    offer = Offer(
        provider="paperspace",
        sku="A4000",
        place=PLACE,
        gpu="A4000",
        gpu_count=1,
        gpu_memory_gib=16,
        vcpus=8,
        memory_gib=45,
        disk_gib=0,
        hourly_microusd=760_000,
        boot=BootMode.TAKEOVER,
    )
    return LaunchOrder(**{"offer": offer, "token": TOKEN, "max_hourly_microusd": 1_000_000, **changes})


def a_machine(**changes: Any) -> dict[str, Any]:
    machine = {
        "id": "ps3kd81ma",
        "name": TOKEN,
        "state": "ready",
        "machineType": "A4000",
        "region": PLACE,
        "publicIp": "203.0.113.9",
        "privateIp": "10.19.0.4",
        "usageRate": 0.76,
        "storageRate": 7.0,
        "dtCreated": "2026-06-01T12:00:00.000Z",
        "dtDeleted": None,
    }
    return {**machine, **changes}
