"""What the plan service is asked, and what it returns: a plan for pods, and why a pod, a Node or a pool is as it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.disruption.exchange import MachineExchange
from tgp.core.model.event import Event
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.pools.planner.world import LimitRoom, Order, PoolReason, Unserved
from tgp.services.request_answers import PriceSource


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Which pods to plan for."""

    namespace: str = ""  # only pods of this namespace; empty: of all that the user may list
    pods: tuple[Pod, ...] | None = None  # of a manifest, as if they waited; None: those that wait now
    with_waiting: bool = False  # beside the pods of a manifest also those that wait now


@dataclass(frozen=True, slots=True)
class PoolNote:
    """One pool that takes part in the plan, or the reason why it does not."""

    key: ObjectKey
    class_name: str
    observes: bool = False  # it reports what it would buy, and buys nothing
    stopped: str = ""  # why it buys nothing now; empty: it buys
    missing_replicas: int = 0  # machines of spec.replicas that it has no request for: bought before those for pods
    replicas_problem: str = ""  # why some of them cannot be bought now; empty: all can


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that needs no new machine."""

    pod: Pod
    where: str  # a Node; or a GPURequest with its namespace, if the machine is on its way
    coming: bool = False
    replica: bool = False  # of a machine that spec.replicas buys: `where` names the pool


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """A pod that no machine is bought for, whatever is on sale."""

    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """What is left of one limit before and after the machines of the plan."""

    name: str  # "GPUNodeClass cheap: limits.maxHourlyCost is $4/h"
    resource: str  # "usd" (micro-dollars per hour), "nodes", or a resource of Kubernetes (CPU in milli)
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PreferenceCost:
    """The same plan with every preference of the pods as a requirement."""

    pods: int  # that have a preference
    hourly_microusd: int  # of all machines then
    unserved: int  # pods that would not be served then


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What would be bought now for pods. Nothing is bought or written."""

    now: datetime  # by the API server's clock
    pods: int = 0  # that wait, with those that no plan can serve
    pools: tuple[PoolNote, ...] = ()  # empty: there is no GPUNodePool
    orders: tuple[Order, ...] = ()
    placed: tuple[PlacedPod, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    not_planned: tuple[NotPlanned, ...] = ()
    cost_microusd: int = 0  # an hour, of all orders
    bound_microusd: int = 0  # no plan that serves as many pods costs less; 0: not proven
    gap: float | None = None  # the cost above the bound, as a share of it; None: not proven
    limits: tuple[LimitEffect, ...] = ()
    preference: PreferenceCost | None = None  # None: no pod has one
    hold: str = ""  # why all purchases are paused; empty: they are not
    price_sources: Mapping[str, tuple[PriceSource, ...]] | None = None  # by class
    unseen: tuple[str, ...] = ()  # what this user could not see, and what is assumed instead
    ignored: tuple[str, ...] = ()  # annotations of pods that cannot be read
    replicas: tuple[Order, ...] = ()  # machines of spec.replicas that are missing: bought first, not in `orders`
    bound_without: tuple[str, ...] = ()  # what the bound leaves out: "zone topology", "pool weights"
    namespace: str = ""  # only its pods were planned for; empty: those of all

    @property
    def observed(self) -> tuple[Order, ...]:
        """Of the orders, those of pools that only observe: they are not bought."""
        observing = {each.key for each in self.pools if each.observes}
        return tuple(each for each in self.orders if each.pool in observing)

    @property
    def all_served(self) -> bool:
        return not self.unserved and not self.not_planned


@dataclass(frozen=True, slots=True)
class PodEnquiry:
    """Everything that `tgp why pod/x` evaluates."""

    pod: Pod
    now: datetime  # by the API server's clock
    reason: str  # CamelCase: "Scheduled", "BudgetGate", … "Waits" if machines may be bought for it
    message: str
    machine: KubeObject[GPURequest] | None = None  # under the Node where it runs; None: no request's, or not seen
    bought: tuple[KubeObject[GPURequest], ...] = ()  # requests that a pool wrote for it, and that have not ended
    plan: PodPlan | None = None  # what would be bought now for all pods that wait; None: this one does not
    own_price_microusd: int | None = None  # per GPU and hour; None: it names none, or its patience is over
    own_price_until: datetime | None = None  # None: without end
    gang: str = ""
    events: tuple[Event, ...] = ()  # of purchases for it, the oldest first
    ignored: tuple[str, ...] = ()  # annotations that cannot be read, and so count as absent

    @property
    def order(self) -> Order | None:
        """What would be bought for it now."""
        orders = self.plan.orders if self.plan is not None else ()
        return next((order for order in orders if any(pod.uid == self.pod.uid for pod in order.pods)), None)

    @property
    def placed(self) -> PlacedPod | None:
        found = self.plan.placed if self.plan is not None else ()
        return next((each for each in found if each.pod.uid == self.pod.uid), None)

    @property
    def unserved(self) -> Unserved | None:
        found = self.plan.unserved if self.plan is not None else ()
        return next((each for each in found if each.pod.uid == self.pod.uid), None)


@dataclass(frozen=True, slots=True)
class NodeEnquiry:
    """Everything that `tgp why node/y` evaluates."""

    node: Node
    now: datetime
    request: KubeObject[GPURequest] | None = None  # None: no request's machine, or the user may not list requests
    pool: ObjectKey | None = None  # that bought it; None: a user did
    users: tuple[Pod, ...] = ()  # pods that use its GPUs
    others: int = 0  # other pods, without those of DaemonSets
    ends: str = ""  # why it is being terminated; empty: it is not
    kept: tuple[str, ...] = ()  # why it is not terminated
    idle_since: datetime | None = None  # None: a pod uses it, or that is not known
    deleted_at: datetime | None = None  # when its pool deletes it, if it stays empty
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolEnquiry:
    """Everything that `tgp why pool/z` evaluates."""

    pool: KubeObject[GPUNodePool]
    now: datetime
    note: PoolNote
    plan: PodPlan  # of all pools
    machines: tuple[KubeObject[GPURequest], ...] = ()  # its requests that have not ended
    limits: tuple[LimitRoom, ...] = ()  # that count for it

    @property
    def orders(self) -> tuple[Order, ...]:
        return tuple(each for each in self.plan.orders if each.pool == self.pool.key)

    @property
    def unserved(self) -> tuple[tuple[Pod, PoolReason], ...]:
        """Pods that wait, each with the reason why this pool does not serve it."""
        found = ((each.pod, one) for each in self.plan.unserved for one in each.reasons)
        return tuple((pod, reason) for pod, reason in found if reason.pool == self.pool.key)


@dataclass(frozen=True, slots=True)
class PlannedExchange:
    """Machines of pools of one class that would be exchanged, and what they wait for."""

    pools: tuple[ObjectKey, ...]  # whose machines leave
    leaving: tuple[tuple[str, int], ...]  # Nodes, each with what it costs an hour
    exchange: MachineExchange
    waits_for: str = ""  # empty: nothing


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    now: datetime
    pools: tuple[ObjectKey, ...]  # those that move pods together
    exchanges: tuple[PlannedExchange, ...]
    left: Mapping[str, str]  # Node → why it is left alone
    too_little: Mapping[str, str]  # Node → what its best exchange would save
    limited: Mapping[str, str]  # Node → the limit that keeps it
    unseen: tuple[str, ...] = ()

    @property
    def saving_microusd(self) -> int:
        return sum(each.exchange.savings.net for each in self.exchanges)
