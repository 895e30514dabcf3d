"""What a plan is made from, and what it answers.

Everything here is a plain value: equal worlds give equal plans.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.core.model.cooldowns import Cooldown, Cooldowns
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.pod import Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.resources import NOTHING, Resources
from tgp.core.model.storage import Claim, StorageClass, Volume
from tgp.core.model.taints import Taint
from tgp.core.model.workload import DaemonSet
from tgp.core.pools.planner.classes import Namespaces
from tgp.core.requests.purchase import SourceObservation

PRICE_MARGIN = 20  # a twentieth: what a price may rise between the plan and the order
SpotKind: TypeAlias = tuple[str, str]  # provider and GPU of spot machines
ASSUMED_SPOT_LOSS = 0.05  # an hour: the chance that a spot machine is lost, where none was seen


@dataclass(frozen=True, slots=True)
class LimitRoom:
    """What is left of one limit of a class or a pool."""

    name: str  # as a message names it: "GPUNodeClass cheap: limits.maxHourlyCost is $4/h"
    resource: str  # USD (micro-dollars per hour), NODES, or a resource of Kubernetes (CPU in milli)
    left: int
    pools: frozenset[ObjectKey]  # whose machines count


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """A pool, and everything outside the price book that decides what it may buy."""

    key: ObjectKey
    pool: GPUNodePool
    class_name: str
    node_class: GPUNodeClass
    stopped: str = ""  # why it buys nothing now: "NodeClassSuspended: GPUNodeClass cheap is suspended"; empty: it buys
    namespaces: frozenset[str] = frozenset()  # whose pods the class allows
    untrusted_namespaces: frozenset[str] = frozenset()  # of these, those whose pods may run on marketplace hosts
    sources: Mapping[str, SourceObservation] = field(default_factory=dict)  # of the class, by name
    cooldowns: Mapping[str, Cooldown] = field(default_factory=dict)  # by provider: whose machines failed in this pool
    left_out: Mapping[str, Cooldown] = field(default_factory=dict)  # by offer key: that this pool alone could not buy


@dataclass(frozen=True, slots=True)
class Capacity:
    """A machine that is there, or that is on its way: what it has room for costs nothing more."""

    name: str  # of the Node; of a machine on its way: of its GPURequest, with the namespace
    free: Resources = NOTHING  # what no pod has taken, "pods" included; of one on its way: what it promises
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    pods: tuple[Pod, ...] = ()  # that run there, or that the machine was bought for
    coming: ObjectKey | None = None  # the GPURequest of a machine on its way; None: the Node is Ready
    refused: frozenset[str] = frozenset()  # uids of pods that the scheduler refuses there, whatever the count says
    drains: bool = False  # it leaves because no pod uses it, and stays if a pod that waits is planned there


@dataclass(frozen=True, slots=True)
class Shape:
    """What machines of a type had when they had joined."""

    allocatable: Resources
    boot_seconds: int = 0  # 0: unknown


@dataclass(frozen=True, slots=True)
class PlanInput:
    now: datetime
    pods: tuple[Pod, ...]  # the demand: pods that may be planned for
    pools: tuple[PlannedPool, ...]
    book: PriceBook
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    capacity: tuple[Capacity, ...] = ()
    limits: tuple[LimitRoom, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    device_plugin_required: bool = True
    default_backend: str = ""  # the operator's own mesh
    namespaces: Namespaces = field(default_factory=dict)
    claims: Mapping[ObjectKey, Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)  # by name
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)  # by name
    shapes: Mapping[str, Shape] = field(default_factory=dict)  # by offer key
    owned_nodes: Mapping[str, Node] = field(
        default_factory=dict
    )  # by offer key: Nodes of machines you own, also while off
    successes: Mapping[str, int] = field(default_factory=dict)  # by offer key: launches in a row that succeeded
    taken: Mapping[str, int] = field(default_factory=dict)  # by offer key: machines that others have ordered
    spot_loss: Mapping[SpotKind, float] = field(default_factory=dict)  # an hour; a kind that is missing: as assumed
    not_for: Mapping[str, frozenset[str]] = field(default_factory=dict)  # pod uid → offer keys not bought for it again
    refused: Mapping[str, str] = field(default_factory=dict)  # pod uid → why nothing is bought for it now
    # By gang: uids of its pods that need no machine, wherever they are.
    gang_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # By gang: the name of one of its pods that waits, and that no plan can serve. It is not among `pods`.
    held_gangs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """One machine to buy."""

    pool: ObjectKey
    offer: Offer
    source: str  # of the price book
    hourly_microusd: int  # as listed; of a spot machine on a marketplace the bid
    pods: tuple[Pod, ...]  # the oldest first
    compared: str = ""  # the next cheaper machine, and why it does not serve these pods
    spot_loss: float = 0.0  # the chance that it is lost within an hour; 0: it is no spot machine
    most_microusd: int | None = None  # an hour: with a higher price it is not wanted any more; None: no such price


@dataclass(frozen=True, slots=True)
class PoolReason:
    """Why a pool does not serve a pod."""

    pool: ObjectKey
    reason: str  # CamelCase, for metrics: "NoOfferFits"
    message: str
    limit: str = ""  # the one that keeps the pool from buying; empty: none does


@dataclass(frozen=True, slots=True)
class Unserved:
    pod: Pod
    reasons: tuple[PoolReason, ...]  # one per pool; of a pod that no pool can serve, for one reason: one with no pool

    @property
    def message(self) -> str:
        """What several pools have in common is said once."""
        groups: dict[str, list[ObjectKey]] = {}
        for each in self.reasons:
            groups.setdefault(each.message, []).append(each.pool)
        other = "other " if len(groups) > 1 else ""
        return "; ".join(
            f"{len(pools)} {other}pools: {message}"
            if len(pools) > 1
            else f"{pools[0]}: {message}"
            if pools[0].name
            else message
            for message, pools in groups.items()
        )


@dataclass(frozen=True, slots=True)
class Plan:
    orders: tuple[Order, ...] = ()
    placed: Mapping[str, str] = field(default_factory=dict)  # pod uid → name of the capacity that has room for it
    unserved: tuple[Unserved, ...] = ()
    cost: int = 0  # micro-dollars per hour, of the orders
    # No plan that serves as many pods costs less, what the loss of spot machines is expected to cost counted in both;
    # 0: not proven.
    bound: int = 0
    gap: float | None = None  # how far above the bound the cost is, as a share of it; None: the bound is not proven
    bound_without: tuple[str, ...] = ()  # what the bound leaves out: "zone topology", "pool weights"
    columns: int = 0  # patterns that were made for it


NO_POOL = ObjectKey("", "")  # of a reason that is no pool's
