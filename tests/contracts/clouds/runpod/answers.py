"""Answers of RunPod, written down by the schema, and the orders they answer."""

from typing import Any

import msgspec

from tgp.core.model.offer import BootMode, Offer
from tgp.ports.cloud import Container, LaunchOrder
from tgp.ports.http import Reply

TOKEN = "tgp-c0ffee0123-0000000000000000000000000000002a-1"
CARD = "NVIDIA GeForce RTX 4090"


def reply(status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    return Reply(status, msgspec.json.encode(value), headers)


def problem(status: int, detail: str, **more: Any) -> Reply:
    return reply(status, {"title": "A problem", "status": status, "detail": detail, **more})


def an_offer(**changes: Any) -> Offer:
    fields = {
        "provider": "runpod",
        "sku": f"{CARD}:2:SECURE",
        "place": "EU-RO-1",
        "gpu": "RTX4090",
        "gpu_count": 2,
        "gpu_memory_gib": 24,
        "vcpus": 0,
        "memory_gib": 0,
        "disk_gib": 0,
        "hourly_microusd": 1_380_000,
        "boot": BootMode.CONTAINER,
    }
    return Offer(**{**fields, **changes})


def an_order(**changes: Any) -> LaunchOrder:
    fields = {
        "offer": an_offer(),
        "token": TOKEN,
        "max_hourly_microusd": 2_000_000,
        "container": Container("docker.io/library/ubuntu:24.04"),
    }
    return LaunchOrder(**{**fields, **changes})


def a_pod(**changes: Any) -> dict[str, Any]:
    pod = {
        "id": "7h9k2m4n6p",
        "name": TOKEN,
        "status": "RUNNING",
        "env": {"TGP_TOKEN": TOKEN},
        "gpu": {"id": CARD, "count": 2, "vcpuCount": 12, "memory": 82},
        "cloud": "SECURE",
        "dataCenterId": "EU-RO-1",
        "cost": 1.38,
        "runtime": {"uptime": 5, "ports": [{"private": 22, "public": 34446, "type": "tcp", "ip": "203.0.113.9"}]},
        "createdAt": "2026-06-01T12:00:00Z",
        "globalNetworking": {"enabled": True, "ip": "10.65.1.42"},
    }
    return {**pod, **changes}


def a_card(**changes: Any) -> dict[str, Any]:
    card = {
        "id": CARD,
        "name": "RTX 4090",
        "pool": "ADA_24",
        "manufacturer": "NVIDIA",
        "memory": 24,
        "secure": True,
        "community": True,
        "price": {"secure": 0.69, "community": 0.34},
        "maxCount": {"secure": 4, "community": 2},
        "availability": "HIGH",
        "dataCenters": [{"id": "EU-RO-1", "name": "Europe Romania 1", "availability": "HIGH"}],
    }
    return {**card, **changes}
