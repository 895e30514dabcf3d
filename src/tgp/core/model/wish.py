"""A wish: what somebody wants to rent, within what bounds; and the reasons for which an offer does not serve it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from tgp.core.model.marks import Marks
from tgp.core.model.offer import BootMode, Trust

STALE_AFTER = timedelta(minutes=30)  # fifteen missed looks at the usual pace: prices and stock have moved on
TALOS_BOOTS = (BootMode.NATIVE, BootMode.TAKEOVER, BootMode.POWER)


class PassedOver(StrEnum):
    """Why an offer is not bought, from the farthest miss to the nearest. An offer has the first one that applies."""

    NOT_IN_CLASS = "provider not in the class"
    DISABLED = "provider switched off"
    ANOTHER_OFFER = "another machine is asked for"
    WRONG_GPU = "another GPU"
    WRONG_COUNT = "another number of GPUs"
    LITTLE_GPU_MEMORY = "too little GPU memory"
    WRONG_ARCH = "another CPU architecture"
    FEW_VCPUS = "too few virtual CPUs"
    LITTLE_MEMORY = "too little memory"
    SPOT_NOT_ALLOWED = "spot is not allowed"
    NOT_SPOT = "only spot is wanted"
    WRONG_REGION = "another region"
    CANNOT_BOOT = "cannot boot Talos"
    FOR_PODS = "container, for pods only"
    NO_DRIVER = "GPU without a driver on Talos"
    LOW_TRUST = "trust too low"
    ENDS_TOO_SOON = "ends too soon"
    STALE = "not seen for too long"
    SOLD_OUT = "sold out"
    BENCHED = "benched"
    TOO_DEAR = "too dear"
    OVER_LIMIT = "over the class limit"


class Kinds(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    EITHER = "either"


class Selection(StrEnum):
    PRICE = "Price"  # the cheapest; a provider's priority breaks ties
    PRIORITY = "Priority"  # strictly by the provider's priority, then by price


@dataclass(frozen=True, slots=True)
class Door:
    """How a class uses one source."""

    priority: int = 100  # lower is preferred
    regions: tuple[str, ...] = ()  # buy only here; empty: anywhere
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Wish:
    """Empty or None: no such rule. What an offer does not tell (0 virtual CPUs) is less than any least."""

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
    doors: Mapping[str, Door] | None = None  # by source; None: every source, all alike
    boots: tuple[BootMode, ...] = TALOS_BOOTS
    as_node: bool = True  # a Talos node with working GPUs is wanted; False: prices are looked at, nothing is bought
    min_trust: Trust = Trust.VERIFIED
    lasting: timedelta = timedelta(0)  # the planned life: an offer that ends earlier is no use
    stale_after: timedelta = STALE_AFTER
    marks: Marks = field(default_factory=Marks)
    selection: Selection = Selection.PRICE
