"""Builders for pools, their requests, pods and offers: they state only what matters to a test."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.pod import UNSCHEDULABLE, OwnerRef, Pod
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.world import Order

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
GIB = 1 << 30
POOL_UID = "00000000-0000-4000-8000-000000000001"


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def a_pod(name: str = "pod", *, gpus: int = 1, resource: str = GPU, **rest: Any) -> Pod:
    """A pod that the scheduler found no node for."""
    others = ((resource, gpus),) if gpus else ()
    usual = {
        "key": ObjectKey("default", name),
        "uid": f"uid-{name}",
        "created_at": ago(minutes=1),
        "requests": Resources(1000, GIB, others),
        "unplaced_reason": UNSCHEDULABLE,
        "unplaced_since": ago(minutes=1),
    }
    return Pod(**{**usual, **rest})


def on_node(name: str = "pod", node: str = "n1", **rest: Any) -> Pod:
    return a_pod(name, **{"node": node, "unplaced_reason": "", "phase": "Running", **rest})


def a_node(name: str = "n1", gpus: int = 4, **rest: Any) -> Node:
    room = Resources(8000, 32 * GIB, ((GPU, gpus), ("pods", 110)))
    return Node(**{"key": ObjectKey("", name), "ready": True, "allocatable": room, **rest})


def an_offer(sku: str = "t4.1", price: int = 400_000, **rest: Any) -> Offer:
    usual = {
        "provider": "simulated",
        "sku": sku,
        "place": "us-west-1",
        "region": "us-west",
        "gpu": "T4",
        "gpu_count": 1,
        "gpu_memory_gib": 16,
        "vcpus": 4,
        "memory_gib": 16,
        "disk_gib": 100,
        "hourly_microusd": price,
        "boot": BootMode.NATIVE,
    }
    return Offer(**{**usual, **rest})


def a_pool(name: str = "train", *, uid: str = POOL_UID, deleting: bool = False, **spec: Any) -> KubeObject[GPUNodePool]:
    value = msgspec.convert({"spec": {"nodeClassRef": {"name": "rented"}, **spec}}, GPUNodePool)
    return KubeObject(
        key=ObjectKey("default", name),
        uid=uid,
        generation=1,
        value=value,
        deletion_requested_at=NOW if deleting else None,
    )


def an_order(*pods: Pod, offer: Offer | None = None, pool: str = "train") -> Order:
    bought = offer or an_offer()
    return Order(ObjectKey("default", pool), bought, "simulated", bought.hourly_microusd, pods)


def a_request(
    name: str = "train-1", *, anchor: str = "uid-pod", spec: dict[str, Any] | None = None, **status: Any
) -> KubeObject[GPURequest]:
    """A request of the pool `train`."""
    offer = {"provider": "simulated", "instanceType": "t4.1"}
    given = {"nodeClassRef": {"name": "rented"}, "offer": offer, **(spec or {})}
    return KubeObject(
        key=ObjectKey("default", name),
        uid=f"request-{name}",
        created_at=ago(minutes=20),
        annotations={"tgp.io/for": anchor},
        owners=(OwnerRef("GPUNodePool", "train", POOL_UID, "tgp.io/v1", controller=True),),
        value=msgspec.convert({"spec": given, "status": status}, GPURequest),
    )


def an_attempt(number: int = 1, **rest: Any) -> dict[str, Any]:
    offer = {
        "provider": "simulated",
        "instanceType": "t4.1",
        "place": "us-west-1",
        "gpuType": "T4",
        "gpuCount": 1,
        "vcpus": 4,
        "memoryGiB": 16,
        "hourlyPrice": "0.40",
    }
    return {"number": number, "token": f"token-{number}", "offer": offer, **rest}


def a_condition(kind: str, status: str = "True", reason: str = "Because", since: datetime = NOW) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "so", "lastTransitionTime": written(since)}
