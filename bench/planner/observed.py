"""An operator's caches with many machines and waiting pods, and what gathers a plan's world from them."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from bench.karpenter.ours import NOW
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.deps import FeatureSettings, Stores
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import StorageViews, WorldObserver
from tgp.controllers.requests.build import views_of
from tgp.controllers.requests.ledger import Ledger
from tgp.controllers.requests.purchase_gatherer import owning_pool
from tgp.core.model.hold import Hold
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import UNSCHEDULABLE, OwnerRef, Pod
from tgp.core.model.resources import Resources
from tgp.core.model.workload import Namespace
from tgp.core.pools.planner.world import PlanInput
from tgp.core.requests.observation import OwningPool
from tgp.core.requests.purchase import SourceObservation, every_source

NAMESPACE, POOL_UID = "default", "pool-uid"
PODS_PER_MACHINE = 4  # of DaemonSets, and one that uses its GPU
COMING_SHARE = 10  # one machine of so many is still on its way
ROOM = Resources(8000, 64 << 30, (("nvidia.com/gpu", 1), ("pods", 110)))
USED = Resources(1000, 1 << 30, (("nvidia.com/gpu", 1),))
SMALL = Resources(100, 1 << 28)
OFFER = {
    "provider": "simulated",
    "instanceType": "t4.1",
    "place": "us-west-1",
    "gpuType": "T4",
    "gpuCount": 1,
    "vcpus": 8,
    "memoryGiB": 64,
    "hourlyPrice": "0.40",
}


class _Purchases:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def hold(self) -> Hold | None:
        return None

    def sources(self, node_class: GPUNodeClass) -> Mapping[str, SourceObservation]:
        return every_source(node_class)

    def pool_of(self, record: KubeObject[GPURequest]) -> OwningPool | None:
        return owning_pool(record, self._stores.pools)


def an_observer(stores: Stores) -> WorldObserver:
    ledger = Ledger(now=lambda: NOW)
    stores.requests.subscribe(ledger.notice)
    return WorldObserver(
        views_of(stores),
        FeatureSettings(namespace="", identity="", lease_duration=timedelta()),
        purchases=_Purchases(stores),
        market=stores.market,
        ledger=ledger,
        memory=PoolMemory(),
        storage=StorageViews(stores.claims, stores.volumes, stores.storage_classes),
        budgets=stores.budgets,
    )


def fill(stores: Stores, world: PlanInput, machines: int) -> None:
    """The pods, the pool and the offers of the world, and so many machines."""
    (planned,) = world.pools
    ready = msgspec.json.encode({"conditions": [_condition("Ready")]})
    key = ObjectKey("", planned.class_name)
    stores.classes.put(KubeObject(key=key, uid="class", value=planned.node_class, status_document=ready))
    stores.pools.put(KubeObject(key=planned.key, uid=POOL_UID, value=planned.pool))
    stores.namespaces.put(Namespace(key=ObjectKey("", NAMESPACE)))
    stores.market.book = world.book
    for pod in world.pods:
        stores.pods.put(msgspec.structs.replace(pod, unplaced_reason=UNSCHEDULABLE))
    for number in range(machines):
        _put_machine(stores, number, coming=number % COMING_SHARE == 0)


def _put_machine(stores: Stores, number: int, *, coming: bool) -> None:
    name = f"machine-{number}"
    held = () if coming else ("Launched", "Registered", "Initialized", "Ready")
    status = {
        "phase": "Joining" if coming else "Ready",
        "nodeName": name,
        "attempts": [{"number": 1, "token": f"token-{number}", "offer": OFFER, "launchedAt": _written(NOW)}],
        "conditions": [_condition(kind) for kind in held],
    }
    spec = {"nodeClassRef": {"name": "c"}, "offer": {"provider": "simulated", "instanceType": "t4.1"}}
    stores.requests.put(
        KubeObject(
            key=ObjectKey(NAMESPACE, name),
            uid=f"request-{number}",
            created_at=NOW,
            owners=(OwnerRef("GPUNodePool", "p", POOL_UID, "tgp.io/v1", controller=True),),
            value=msgspec.convert({"spec": spec, "status": status}, GPURequest),
        )
    )
    if coming:
        return
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "simulated-us-west-1"}
    stores.nodes.put(Node(key=ObjectKey("", name), ready=True, allocatable=ROOM, labels=labels))
    for at in range(PODS_PER_MACHINE):
        stores.pods.put(
            Pod(
                key=ObjectKey(NAMESPACE, f"{name}-{at}"),
                uid=f"{name}-{at}",
                resource_version=1,
                node=name,
                phase="Running",
                requests=SMALL if at else USED,
                created_at=NOW,
            )
        )


def _condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "So", "message": "", "lastTransitionTime": _written(NOW)}


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
