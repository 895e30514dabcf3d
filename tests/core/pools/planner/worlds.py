"""Builders for worlds to plan: each test states only what matters to it."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.core.market.offers import DOLLAR, AListing, an_offer
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.core.market.sources import sources_of
from tgp.core.model.labels import Selector, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.placement import Affinity, PodTerm, SpreadConstraint
from tgp.core.model.pod import UNSCHEDULABLE, Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Toleration
from tgp.core.model.workload import DaemonSet
from tgp.core.pools.planner.world import Capacity, PlanInput, PlannedPool
from tgp.core.requests.purchase import every_source

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
GIB = 1 << 30
GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TOLERATES = (Toleration(key="tgp.io/ephemeral", operator="Exists"),)
PLUGIN = DaemonSet(
    key=ObjectKey("kube-system", "nvidia-device-plugin"), images=("nvcr.io/nvidia/k8s-device-plugin:v0.17",),
    tolerations=(Toleration(operator="Exists"),),
)  # fmt: skip


def a_class(name: str = "c", **spec: Any) -> GPUNodeClass:
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": name}}
    read = decode(GPUNodeClass, {**manifest, "spec": {"providers": [{"name": "simulated"}], **spec}})
    assert isinstance(read, GPUNodeClass)
    return read


def a_pool(
    name: str = "p",
    requirements: Iterable[dict[str, Any]] = (),
    *,
    node_class: GPUNodeClass | None = None,
    stopped: str = "",
    namespaces: frozenset[str] = frozenset({"team"}),
    untrusted: frozenset[str] = frozenset(),
    template: dict[str, Any] | None = None,
    **spec: Any,
) -> PlannedPool:
    node_class = node_class or a_class()
    written = {"spec": {"requirements": list(requirements)}, **(template or {})}
    spec = {"nodeClassRef": {"name": node_class.metadata.name or "c"}, "template": written, **spec}
    read = decode(
        GPUNodePool, {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "metadata": {"name": name}, "spec": spec}
    )
    assert isinstance(read, GPUNodePool)
    return PlannedPool(
        ObjectKey("team", name), read, node_class.metadata.name or "c", node_class, stopped, namespaces, untrusted,
        every_source(node_class),
    )  # fmt: skip


def on_sale(sku: str, dollars: float, **said: Any) -> Offer:
    fields = {"provider": "simulated", "hourly_microusd": int(dollars * DOLLAR), "left": 100, "place": "west-1"}
    return an_offer(sku, **fields | said)


def a_market(*offers: Offer, seen_at: datetime = NOW) -> PriceBook:
    source = next(iter(sources_of(a_class()).values()))
    return PriceBook().with_listing(source.name, AListing(offers), seen_at)


def a_pod(name: str = "train", gpus: int = 1, *, cpu: int = 1000, memory: int = GIB, **said: Any) -> Pod:
    requests = Resources(cpu, memory, ((GPU, gpus),) if gpus else ())
    fields: dict[str, Any] = {
        "key": ObjectKey("team", name),
        "uid": f"uid-{name}",
        "requests": requests,
        "tolerations": TOLERATES,
        "unplaced_reason": UNSCHEDULABLE,
        "created_at": NOW - timedelta(minutes=5),
    }
    return Pod(**fields | said)


def pods(many: int, prefix: str = "train", **said: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"{prefix}-{number}", **said) for number in range(many))


def apart(key: str, **labels: str) -> Affinity:
    return Affinity(apart=(PodTerm(key, selector(labels)),))


def near(key: str, **labels: str) -> Affinity:
    return Affinity(near=(PodTerm(key, selector(labels)),))


def spread(key: str, skew: int = 1, **labels: str) -> tuple[SpreadConstraint, ...]:
    return (SpreadConstraint(key, selector(labels) if labels else Selector(), skew),)


def a_node(name: str, gpus: int = 1, *, pods: tuple[Pod, ...] = (), **said: Any) -> Capacity:
    free = Resources(8000, 64 * GIB, ((GPU, gpus), ("pods", 100)))
    return Capacity(**{"name": name, "free": free, "labels": {HOSTNAME: name}, "pods": pods} | said)


def a_world(demand: Iterable[Pod], book: PriceBook, *pools: PlannedPool, **said: Any) -> PlanInput:
    fields: dict[str, Any] = {"daemon_sets": (PLUGIN,), "namespaces": {"team": {}}}
    return PlanInput(NOW, tuple(demand), pools or (a_pool(),), book, **fields | said)
