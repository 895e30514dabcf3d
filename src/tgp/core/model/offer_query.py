"""An offer query: which machine is wanted, within what bounds; and the reasons for which an offer is rejected."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.offer import BootMode, Trust

OFFER_USABLE_FOR = timedelta(minutes=30)  # fifteen missed polls at the usual interval: prices and stock have changed
TALOS_BOOTS = (BootMode.NATIVE, BootMode.TAKEOVER, BootMode.POWER)


class RejectReason(StrEnum):
    """Why an offer is rejected, from the farthest miss to the nearest. An offer has the first one that applies."""

    NOT_IN_CLASS = "provider not in the class"
    DISABLED = "provider disabled"
    OTHER_PROVIDER = "of other providers"
    ANOTHER_OFFER = "not the pinned offer"
    WRONG_GPU = "different GPU model"
    WRONG_COUNT = "different GPU count"
    LITTLE_GPU_MEMORY = "too little GPU memory"
    WRONG_ARCH = "different CPU architecture"
    FEW_VCPUS = "too few virtual CPUs"
    LITTLE_MEMORY = "too little memory"
    SPOT_NOT_ALLOWED = "spot is not allowed"
    NOT_SPOT = "not a spot offer"
    WRONG_REGION = "different region"
    CANNOT_BOOT = "cannot boot Talos"
    FOR_PODS = "container, for pods only"
    NO_DRIVER = "GPU without a driver on Talos"
    LOW_TRUST = "trust too low"
    ENDS_TOO_SOON = "ends too soon"
    STALE = "not seen for too long"
    SOLD_OUT = "sold out"
    COOLING_DOWN = "cooling down"
    PRICE_EXCEEDED = "too expensive"
    OVER_LIMIT = "over the class limit"


class Kinds(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    EITHER = "either"


class Selection(StrEnum):
    PRICE = "Price"  # the cheapest; a provider's priority breaks ties
    PRIORITY = "Priority"  # strictly by the provider's priority, then by price


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """How a class uses one source."""

    priority: int = 100  # lower is preferred
    regions: tuple[str, ...] = ()  # only these regions; empty: any
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class OfferQuery:
    """Empty or None: no such rule. A value that an offer does not have (0 virtual CPUs) is below every minimum."""

    models: tuple[str, ...] = ()  # models, spellings or families
    gpu_count: int | None = None  # exactly
    min_gpu_memory_gib: int = 0  # of one GPU
    min_vcpus: int = 0
    min_memory_gib: int = 0
    arch: str = ""
    regions: tuple[str, ...] = ()  # any of these
    class_regions: tuple[str, ...] = ()  # and any of these
    kinds: Kinds = Kinds.ON_DEMAND
    provider: str = ""  # only this one
    instance_type: str = ""  # only this one
    max_hourly_microusd: int | None = None
    headroom_microusd: int | None = None  # what is left of the class's limit
    policies: Mapping[str, SourcePolicy] | None = None  # by source; None: every source, all alike
    boots: tuple[BootMode, ...] = TALOS_BOOTS
    as_node: bool = True  # a Talos node with working GPUs is wanted; False: prices are only shown, nothing is bought
    min_trust: Trust = Trust.VERIFIED
    lasting: timedelta = timedelta(0)  # the planned lifetime: an offer that ends earlier is rejected
    stale_after: timedelta = OFFER_USABLE_FOR
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    selection: Selection = Selection.PRICE
