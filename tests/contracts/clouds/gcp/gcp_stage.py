"""Builders for the tests of Google Cloud's adapter: an offer, an order, answers, and a stage in memory."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from tests.contracts.clouds.providers.gcp import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.offer import BootMode, Offer
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Pairs, Reply
from tgp.sim.clouds.gcp import GcpSimulator

TOKEN = "tgp-c0ffee0123-00000000000000000000000000000001-1"
ZONE = "us-central1-a"
PROJECT = "my-project"
JSON: Pairs = (("Content-Type", "application/json"),)
T = TypeVar("T")


def an_offer(sku: str = "g2-standard-4", *, spot: bool = False, place: str = ZONE) -> Offer:
    return Offer(
        provider="gcp", sku=sku, place=place, gpu="L4", gpu_count=1, gpu_memory_gib=24, vcpus=4, memory_gib=16,
        disk_gib=0, spot=spot, hourly_microusd=720_534, boot=BootMode.NATIVE,
    )  # fmt: skip


def an_order(sku: str = "g2-standard-4", *, spot: bool = False, **changes: Any) -> LaunchOrder:
    order = LaunchOrder(an_offer(sku, spot=spot), TOKEN, max_hourly_microusd=10_000_000, user_data=b"version: v1alpha1")
    return replace(order, **changes)


def settings(**changes: Any) -> ProviderSettings:
    return ProviderSettings(**({"image": "talos-1-11"} | changes))


def a_reply(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode(), JSON)


def an_error(status: int, reason: str, message: str = "no") -> Reply:
    rows = [{"message": message, "domain": "global", "reason": reason}]
    return a_reply({"error": {"code": status, "message": message, "errors": rows}}, status)


def an_operation(**changes: Any) -> dict[str, Any]:
    operation = {
        "kind": "compute#operation",
        "id": "123",
        "name": "operation-1",
        "operationType": "insert",
        "status": "RUNNING",
        "targetId": "456",
        "targetLink": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/{TOKEN}",
    }
    return operation | changes


def a_failure(code: str, message: str = "no", **changes: Any) -> dict[str, Any]:
    error = {"errors": [{"code": code, "message": message}]}
    return an_operation(**({"status": "DONE", "error": error} | changes))


def played(script: Callable[[Stage, GcpSimulator], Awaitable[T]]) -> T:
    """On a stage in memory, with the simulator by its own type."""

    async def begin(stage: Stage) -> T:
        assert isinstance(stage.simulator, GcpSimulator)
        return await script(stage, stage.simulator)

    return play(PROVIDER, begin)
