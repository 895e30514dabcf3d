"""Our kinds in one list: where each lives, its type, and what `kubectl get` shows of it."""

from dataclasses import dataclass

from tgp.api import resource
from tgp.api.budget import GPUWorkloadBudget, LegacyBudget
from tgp.api.field import ApiStruct
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import Resource

WIDE = 1  # shown by -o wide only


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    name: str
    path: str
    type: str = "string"
    priority: int = 0
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    resource: Resource
    type: type[ApiStruct]
    columns: tuple[PrinterColumn, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("tgp",)
    optional: bool = False  # installed only where the administrator asks for it


def _condition(name: str, part: str, title: str = "", priority: int = 0) -> PrinterColumn:
    return PrinterColumn(title or name, f'.status.conditions[?(@.type=="{name}")].{part}', priority=priority)


AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")

_BUDGET_COLUMNS = (
    PrinterColumn("Consumed", ".status.consumedGpuHours", doc="GPU-hours used in the window"),
    PrinterColumn("Remaining", ".status.remainingGpuHours", doc="GPU-hours left"),
    PrinterColumn("Window", ".spec.quota.windowHours", "integer", doc="Hours the window looks back"),
    PrinterColumn("Action", ".spec.enforcement.action"),
    PrinterColumn("Pods", ".status.trackedPods", "integer"),
)

CLASS = Kind(
    resource.GPU_NODE_CLASS,
    GPUNodeClass,
    (
        _condition("Ready", "status"),
        _condition("Ready", "reason", "Reason"),
        PrinterColumn("Machines", ".status.activeNodes", "integer", doc="Machines running or starting now"),
        PrinterColumn("Hourly", ".status.hourlyCost", doc="Dollars per hour for all of them"),
        PrinterColumn("Suspended", ".spec.suspend", "boolean"),
        AGE,
        PrinterColumn("Spent", ".status.totalCost", priority=WIDE, doc="Dollars spent so far"),
        PrinterColumn("Max-Nodes", ".spec.limits.maxNodes", "integer", WIDE),
        PrinterColumn("Max-Hourly", ".spec.limits.maxHourlyCost", priority=WIDE),
        PrinterColumn("Selection", ".spec.selection", priority=WIDE),
        PrinterColumn("Boot", ".spec.bootPolicy", priority=WIDE),
    ),
    ("gnc",),
)
POOL = Kind(
    resource.GPU_NODE_POOL,
    GPUNodePool,
    (
        _condition("Ready", "status"),
        _condition("Ready", "reason", "Reason"),
        PrinterColumn("Mode", ".spec.mode"),
        PrinterColumn(
            "Waiting", ".status.waitingPods", "integer", doc="Pods that wait for a machine, on its way or not"
        ),
        PrinterColumn("Machines", ".status.nodeCount", "integer", doc="Machines running or starting now"),
        PrinterColumn("Hourly", ".status.hourlyCost", doc="Dollars per hour for all of them"),
        PrinterColumn("Last-Plan", ".status.lastPlan.at", "date", doc="When the plan last changed"),
        AGE,
        PrinterColumn("Class", ".spec.nodeClassRef.name", priority=WIDE),
        PrinterColumn(
            "Unserved",
            ".status.lastPlan.unserved",
            "integer",
            WIDE,
            doc="Pods of the last plan without a machine, of any pool",
        ),
        PrinterColumn("Weight", ".spec.weight", "integer", WIDE),
        PrinterColumn(
            "Max-Price", ".spec.maxHourlyPrice", priority=WIDE, doc="Highest price of one machine, dollars per hour"
        ),
        PrinterColumn("Consolidation", ".spec.disruption.consolidationPolicy", priority=WIDE),
        PrinterColumn("Replicas", ".spec.replicas", "integer", WIDE),
        PrinterColumn(
            "Would-Cost",
            ".status.wouldHaveCost.totalCost",
            priority=WIDE,
            doc="Dollars so far, had a pool that observes bought",
        ),
    ),
    ("gnp",),
)
REQUEST = Kind(
    resource.GPU_REQUEST,
    GPURequest,
    (
        PrinterColumn("Phase", ".status.phase"),
        _condition("Ready", "reason", "Reason"),
        PrinterColumn("GPU", ".spec.gpuType"),
        PrinterColumn("Provider", ".status.selectedProvider"),
        PrinterColumn("Hourly", ".status.hourlyPrice", doc="Dollars per hour"),
        PrinterColumn("Spent", ".status.spent", doc="Dollars spent, an estimate"),
        # Not a date: kubectl shows those as ages, and one that lies ahead as <invalid>.
        PrinterColumn("Expires", ".status.terminationScheduledAt"),
        AGE,
        PrinterColumn("Count", ".spec.gpuCount", "integer", WIDE),
        PrinterColumn("Node", ".status.nodeName", priority=WIDE),
        PrinterColumn("Instance", ".status.instanceId", priority=WIDE),
        PrinterColumn("Region", ".status.offer.region", priority=WIDE),
        PrinterColumn("Spot", ".spec.spot", "boolean", WIDE),
        PrinterColumn("Mesh", ".status.meshAddress", priority=WIDE),
    ),
    ("gr",),
)
BUDGET = Kind(
    resource.GPU_WORKLOAD_BUDGET,
    GPUWorkloadBudget,
    (
        *_BUDGET_COLUMNS,
        PrinterColumn("Exhausted", ".status.exhaustedAt", doc="When the quota will be used up at the current rate"),
        AGE,
        _condition("QuotaExceeded", "status", "Exceeded", WIDE),
        PrinterColumn("Usd", ".status.consumedUsd", priority=WIDE, doc="Dollars used in the window"),
        PrinterColumn("Admission", ".spec.enforcement.admission", priority=WIDE),
        PrinterColumn("Resource", ".spec.gpuResourceName", priority=WIDE),
    ),
    ("gwb", "gwbs"),
)
LEGACY = Kind(resource.LEGACY_BUDGET, LegacyBudget, (*_BUDGET_COLUMNS, AGE), categories=(), optional=True)

KINDS = (CLASS, POOL, REQUEST, BUDGET, LEGACY)
OUR_KINDS = tuple(kind for kind in KINDS if not kind.optional)
