"""What the plan service is asked, and what it returns: machines, prices, limits, and the pods that are not served."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.pools.planner.world import Order, Unserved
from tgp.services.request_documents import PriceSource


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


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that needs no new machine."""

    pod: Pod
    where: str  # a Node; or a GPURequest with its namespace, if the machine is on its way
    coming: bool = False


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
    pods: int = 0  # that were planned for
    pools: tuple[PoolNote, ...] = ()  # empty: there is no GPUNodePool
    orders: tuple[Order, ...] = ()
    placed: tuple[PlacedPod, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    not_planned: tuple[NotPlanned, ...] = ()
    cost_microusd: int = 0  # an hour, of all orders
    bound_microusd: int = 0  # no plan costs less; 0: not proven
    gap: float | None = None  # the cost above the bound, as a share of it; None: not proven
    limits: tuple[LimitEffect, ...] = ()
    preference: PreferenceCost | None = None  # None: no pod has one
    hold: str = ""  # why all purchases are paused; empty: they are not
    price_sources: Mapping[str, tuple[PriceSource, ...]] | None = None  # by class
    unseen: tuple[str, ...] = ()  # what this user could not see, and what is assumed instead
    ignored: tuple[str, ...] = ()  # annotations of pods that cannot be read

    @property
    def all_served(self) -> bool:
        return not self.unserved and not self.not_planned
