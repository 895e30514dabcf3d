"""What the request service returns: a plan to rent, all requests, one request over time, and why it waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.classes.nodeclass import Gap
from tgp.core.inventory.limits import Usage
from tgp.core.model.event import Event
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.price_book import OfferRow
from tgp.core.model.taints import Taint
from tgp.core.requests.purchase import Purchase, PurchaseDecision, life_of, price_cap


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Where the prices of one provider come from."""

    provider: str
    live: bool  # asked just now, with an API key of this terminal; else from the class's status
    seen_at: datetime | None  # None: unknown
    why: str = ""  # why the provider could not be asked


@dataclass(frozen=True, slots=True)
class RentPlan:
    """What would be rented now, with everything that `tgp rent` shows."""

    request: GPURequest
    now: datetime
    choice: PurchaseDecision
    class_name: str = ""  # empty: there is no class
    node_class: GPUNodeClass | None = None
    others: tuple[OfferRow, ...] = ()  # other offers that fit, best first
    price_sources: tuple[PriceSource, ...] = ()
    held: Usage | None = None  # what counts against the class's limits; None: you may not list requests
    hold: str = ""  # why all purchases are paused; empty: they are not
    unwilling: str = ""  # why the class would not buy now; empty: it would
    notes: tuple[str, ...] = field(default=())
    cap_is_ours: bool = False  # maxHourlyPrice is derived from the shown price, not typed by the user
    taints: tuple[Taint, ...] = ()  # of the Node it would become
    nearest: str = ""  # the offer that almost fits, with its price and what is wrong; empty: none, or one fits

    @property
    def fits(self) -> bool:
        return isinstance(self.choice, Purchase)

    @property
    def asked_now(self) -> bool:
        """Is the chosen offer from the provider itself? A class's status has less detail."""
        provider = self.choice.offer.provider if isinstance(self.choice, Purchase) else ""
        return any(each.live and canonical_provider(each.provider) == provider for each in self.price_sources)

    @property
    def hourly_microusd(self) -> int | None:
        return self.choice.hourly_microusd if isinstance(self.choice, Purchase) else None

    @property
    def most_microusd(self) -> int | None:
        """The highest possible cost: the maximum price for the whole lifetime. None: unlimited."""
        life, cap = life_of(self.request.spec), price_cap(self.request.spec)
        return None if life is None or cap is None else cap * life // HOUR

    @property
    def expected_microusd(self) -> int | None:
        """At the current price, for the whole lifetime."""
        life = life_of(self.request.spec)
        return None if life is None or self.hourly_microusd is None else self.hourly_microusd * life // HOUR

    @property
    def stopped(self) -> str:
        """Why the offer would not be bought although it fits; empty: it would."""
        if self.hold:
            return f"all purchases are paused ({self.hold}): tgp release"
        return self.unwilling


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster's requests at one moment."""

    now: datetime
    requests: tuple[GPURequest, ...]  # in the order of their names
    pods: Mapping[str, int] | None = None  # Node → its pods without those of DaemonSets; None: you may not list pods
    only: str = ""  # the only namespace that you may read; empty: not limited
    namespace: str = ""  # whose requests these are; empty: of all
    elsewhere: tuple[GPURequest, ...] | None = None  # of other namespaces, if this one has no machine; None: not listed


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment."""

    request: GPURequest | None  # None: deleted
    now: datetime  # by the API server's clock
    events: tuple[Event, ...] = ()  # the oldest first
    trouble: str = ""  # why the cluster did not answer; the rest is from its last answer


@dataclass(frozen=True, slots=True)
class Holder:
    """One request that counts against the class's limits."""

    key: ObjectKey
    phase: str
    hourly_microusd: int


@dataclass(frozen=True, slots=True)
class Enquiry:
    """Everything that `tgp why` evaluates."""

    request: GPURequest
    now: datetime  # by the API server's clock
    class_name: str = ""  # empty: none is named or chosen yet
    node_class: GPUNodeClass | None = None  # None: it does not exist, or you may not read it
    hold: str = ""  # what `tgp hold` wrote; empty: not paused, or you may not read it
    held: bool = False
    holders: tuple[Holder, ...] | None = None  # of the class, including this request; None: you may not list requests
    gaps: tuple[Gap, ...] = ()  # what the class is missing now
    plan: RentPlan | None = None  # what would be bought now; None: the request does not wait for a purchase


HOUR = timedelta(hours=1)
