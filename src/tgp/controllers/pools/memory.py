"""What this process remembers of its plans: what is created and not seen yet, what did not work, what was said.

A new process begins without it: requests tell whom they were bought for, statuses the last plan, and tables what
machines of a type had and which machines served no pod.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.model.backoff import doubled
from tgp.core.model.conditions import shortened
from tgp.core.model.cooldowns import Cooldown, Cooldowns
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.pools.machine_failures import MachineFailures
from tgp.core.pools.machine_types import MachineTypes
from tgp.core.pools.planner.world import Order
from tgp.core.pools.runaway import UNUSED, Disagreements, Runaways
from tgp.core.pools.spot_risk import SpotUses
from tgp.core.requests import cooldown

EXPECTED_FOR = 60.0  # seconds after which a create without an answer will not happen any more
SAID_AGAIN_AFTER = timedelta(hours=1)  # reasons that come and go
MOST_REPLANNED = 256  # whose reason is remembered
REFUSED = "RequestsRefused"  # the reason of a pool whose GPURequests the API server refuses
FIRST_REFUSED, LONGEST_REFUSED = timedelta(minutes=1), timedelta(minutes=15)  # how long its pool creates none
LONGEST_WHY = 300  # characters of what the API server said
POOL_SAID = "pool/"  # before the uid of a pool, in what was said


@dataclass(frozen=True, slots=True)
class ExpectedRequest:
    """A request that was created, or may have been, and that the view does not show yet."""

    record: KubeObject[GPURequest]
    order: Order
    since: float  # Clock.boottime


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What the last plan means for one pool. Kept as it is while a new plan says nothing new."""

    at: datetime
    gap: float | None = None
    orders: int = 0
    unserved: int = 0
    waiting: int = 0  # pods: for a machine of the pool that is on its way, or unserved
    would_buy: tuple[Order, ...] = ()
    limited: str = ""  # which limit keeps pods waiting; empty: none

    def says_nothing_new(self, before: "PlanReport") -> bool:
        """It orders nothing, and the same pods wait for the same reasons. Orders of the plan before stay on record."""
        told, known = ((each.unserved, each.limited, _kinds(each.would_buy)) for each in (self, before))
        return not self.orders and told == known


def _kinds(orders: Iterable[Order]) -> list[str]:
    return sorted(each.offer.key for each in orders)


@dataclass(slots=True)
class SaidReasons:
    last: str
    at: dict[str, datetime]  # since a machine was ordered last


@dataclass(frozen=True, slots=True)
class WrittenNomination:
    resource_version: int  # of the pod as it was seen before the last write
    refused: bool = False  # repeating does not help


@dataclass(frozen=True, slots=True)
class PoolStop:
    """Why a pool buys nothing until then, whatever is on sale."""

    reason: str
    message: str
    until: datetime


@dataclass
class PoolMemory:
    expected: dict[ObjectKey, ExpectedRequest] = field(default_factory=dict)
    offers: dict[ObjectKey, Offer] = field(default_factory=dict)  # of requests that have reserved nothing yet
    placed: Mapping[str, str] = field(default_factory=dict)  # of the last plan: pod uid → name of the capacity
    given_up: Mapping[ObjectKey, str] = field(default_factory=dict)  # requests of gangs that it gave up, and why
    reports: dict[ObjectKey, PlanReport] = field(default_factory=dict)  # by pool
    runaways: Runaways = field(default_factory=Runaways)
    disagreements: Disagreements = field(default_factory=Disagreements)
    types: MachineTypes = field(default_factory=MachineTypes)
    spot: SpotUses = field(default_factory=SpotUses)
    failures: MachineFailures = field(default_factory=MachineFailures)
    failed_offers: Cooldowns = field(default_factory=Cooldowns)  # of requests that could not buy, due to the market
    left_out: dict[ObjectKey, Cooldowns] = field(default_factory=dict)  # by pool: because of something that is its own
    refused: dict[ObjectKey, Cooldown] = field(default_factory=dict)  # pools whose requests the API server refuses
    replanned: dict[ObjectKey, str] = field(default_factory=dict)  # requests that were deleted to plan again, and why
    said: dict[str, SaidReasons] = field(
        default_factory=dict
    )  # uid of a pod or pool → why no machine was ordered, as its Events say
    ignored: set[tuple[str, str]] = field(default_factory=set)  # (pod uid, message about an annotation) that was told
    nominated: dict[tuple[str, str], WrittenNomination] = field(default_factory=dict)  # by (pod uid, Node)
    told_unsupported: set[str] = field(default_factory=set)  # uids of pools that were told that nothing is nominated

    def leave_out(self, offer: Offer, why: str, now: datetime) -> None:
        """Of all plans, for a while: a request for it could not buy, and no other pool's could."""
        self.failed_offers = cooldown.failed(self.failed_offers, offer, why, now)

    def leave_out_for(self, pool: ObjectKey, offer: Offer, why: str, now: datetime) -> None:
        """Of what this pool plans, for a while: a request of it could not buy, and those of other pools may."""
        self.left_out[pool] = cooldown.failed(self.left_out.get(pool, Cooldowns()), offer, why, now)

    def refuse(self, pool: ObjectKey, why: str, now: datetime) -> None:
        """The API server refuses requests of the pool: a quota, a policy, a namespace that ends."""
        before = self.refused.get(pool)
        failures = 1 if before is None else before.failures + (now >= before.until)
        until = now + doubled(FIRST_REFUSED, failures, LONGEST_REFUSED)
        self.refused[pool] = Cooldown(failures, now, until, shortened(why, LONGEST_WHY))

    def stop_of(self, pool: KubeObject[GPUNodePool], now: datetime) -> PoolStop | None:
        """None: it may buy."""
        refused = self.refused.get(pool.key)
        if refused is not None and refused.cools_down(now):
            return PoolStop(REFUSED, f"the API server refuses GPURequests of this pool: {refused.why}", refused.until)
        unused = self.runaways.unused_of(pool.uid_text, pool.generation, now)
        return PoolStop(UNUSED, unused.message, unused.until) if unused is not None else None

    def forget_pools(self, there: Collection[ObjectKey]) -> None:
        self.left_out = {key: each for key, each in self.left_out.items() if key in there}
        self.refused = {key: each for key, each in self.refused.items() if key in there}

    def note_replanned(self, key: ObjectKey, why: str) -> None:
        self.replanned[key] = why
        while len(self.replanned) > MOST_REPLANNED:
            del self.replanned[next(iter(self.replanned))]

    def cooldowns(self, market: Cooldowns) -> Cooldowns:
        """The market's, and those of requests that could not buy."""
        return market.with_later(Cooldowns(self.failed_offers.offers))

    def forget_requests(self, there: Iterable[ObjectKey]) -> None:
        """Of requests that are gone, and are not expected either."""
        kept = {*there, *self.expected}
        self.offers = {key: offer for key, offer in self.offers.items() if key in kept}

    def news(self, uid: str, reasons: str, now: datetime) -> bool:
        """Whether a pod is to be told: the reasons changed. What the market moves all the time (counts) is no news."""
        said = self.said.setdefault(uid, SaidReasons("", {}))
        told_at = said.at.get(reasons)
        if said.last == reasons or (told_at is not None and now < told_at + SAID_AGAIN_AFTER):
            return False
        said.last, said.at[reasons] = reasons, now
        return True

    def ordered_for(self, uid: str) -> None:
        """Whatever keeps the next machine from it is news again."""
        self.said.pop(uid, None)

    def forget_pods(self, waiting: Mapping[str, object]) -> None:
        """Of pods that wait no longer: a machine that had room for one is not kept for it."""
        self.placed = {uid: name for uid, name in self.placed.items() if uid in waiting}
        self.said = {uid: said for uid, said in self.said.items() if uid in waiting or uid.startswith(POOL_SAID)}
        self.ignored = {pair for pair in self.ignored if pair[0] in waiting}
        self.nominated = {pair: written for pair, written in self.nominated.items() if pair[0] in waiting}
