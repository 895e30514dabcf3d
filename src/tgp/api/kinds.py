"""Our kinds in one list: where each lives, its type, and what `kubectl get` shows of it."""

from dataclasses import dataclass

from tgp.api import resource
from tgp.api.budget import AncestorBudget, GPUWorkloadBudget
from tgp.api.field import Wire
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import Resource

WIDE = 1  # shown by -o wide only


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    path: str
    type: str = "string"
    priority: int = 0
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    resource: Resource
    type: type[Wire]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("tgp",)
    optional: bool = False  # installed only where somebody asks for it


def _condition(name: str, part: str, title: str = "", priority: int = 0) -> Column:
    return Column(title or name, f'.status.conditions[?(@.type=="{name}")].{part}', priority=priority)


AGE = Column("Age", ".metadata.creationTimestamp", "date")

_BUDGET_COLUMNS = (
    Column("Consumed", ".status.consumedGpuHours", doc="GPU-hours used in the window"),
    Column("Remaining", ".status.remainingGpuHours", doc="GPU-hours left"),
    Column("Window", ".spec.quota.windowHours", "integer", doc="Hours the window looks back"),
    Column("Action", ".spec.enforcement.action"),
    Column("Pods", ".status.trackedPods", "integer"),
)

CLASS = Kind(
    resource.GPU_NODE_CLASS,
    GPUNodeClass,
    (
        _condition("Ready", "status"),
        Column("Nodes", ".status.activeNodes", "integer", doc="Machines that live now"),
        Column("Hourly", ".status.hourlyCost", doc="Dollars per hour for all of them"),
        Column("Suspended", ".spec.suspend", "boolean"),
        AGE,
        _condition("Ready", "reason", "Reason", WIDE),
        Column("Spent", ".status.totalCost", priority=WIDE, doc="Dollars spent so far"),
        Column("Max-Nodes", ".spec.limits.maxNodes", "integer", WIDE),
        Column("Max-Hourly", ".spec.limits.maxHourlyCost", priority=WIDE),
        Column("Selection", ".spec.selection", priority=WIDE),
        Column("Boot", ".spec.bootPolicy", priority=WIDE),
    ),
    ("gnc",),
)
POOL = Kind(
    resource.GPU_NODE_POOL,
    GPUNodePool,
    (
        Column("Class", ".spec.nodeClassRef.name"),
        _condition("Ready", "status"),
        Column("Nodes", ".status.nodeCount", "integer", doc="Machines that live now"),
        Column("Hourly", ".status.hourlyCost", doc="Dollars per hour for all of them"),
        Column("Mode", ".spec.mode"),
        AGE,
        _condition("Ready", "reason", "Reason", WIDE),
        Column("Weight", ".spec.weight", "integer", WIDE),
        Column("Max-Price", ".spec.maxHourlyPrice", priority=WIDE, doc="No single machine dearer than this"),
        Column("Consolidation", ".spec.disruption.consolidationPolicy", priority=WIDE),
        Column("Replicas", ".spec.replicas", "integer", WIDE),
    ),
    ("gnp",),
)
REQUEST = Kind(
    resource.GPU_REQUEST,
    GPURequest,
    (
        Column("Phase", ".status.phase"),
        _condition("Ready", "reason", "Reason"),
        Column("GPU", ".spec.gpuType"),
        Column("Provider", ".status.selectedProvider"),
        Column("Hourly", ".status.hourlyPrice", doc="Dollars per hour"),
        Column("Spent", ".status.spent", doc="Dollars spent, an estimate"),
        # Not a date: kubectl shows those as ages, and one that lies ahead as <invalid>.
        Column("Expires", ".status.terminationScheduledAt"),
        AGE,
        Column("Count", ".spec.gpuCount", "integer", WIDE),
        Column("Node", ".status.nodeName", priority=WIDE),
        Column("Instance", ".status.instanceId", priority=WIDE),
        Column("Region", ".status.offer.region", priority=WIDE),
        Column("Spot", ".spec.spot", "boolean", WIDE),
        Column("Mesh", ".status.meshAddress", priority=WIDE),
    ),
    ("gr",),
)
BUDGET = Kind(
    resource.GPU_WORKLOAD_BUDGET,
    GPUWorkloadBudget,
    (
        *_BUDGET_COLUMNS,
        Column("Exhausted", ".status.exhaustedAt", doc="When the quota will be used up as things stand"),
        AGE,
        _condition("QuotaExceeded", "status", "Exceeded", WIDE),
        Column("Usd", ".status.consumedUsd", priority=WIDE, doc="Dollars used in the window"),
        Column("Admission", ".spec.enforcement.admission", priority=WIDE),
        Column("Resource", ".spec.gpuResourceName", priority=WIDE),
    ),
    ("gwb", "gwbs"),
)
ANCESTOR = Kind(resource.ANCESTOR_BUDGET, AncestorBudget, (*_BUDGET_COLUMNS, AGE), categories=(), optional=True)

KINDS = (CLASS, POOL, REQUEST, BUDGET, ANCESTOR)
OUR_KINDS = tuple(kind for kind in KINDS if not kind.optional)
