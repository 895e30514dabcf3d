"""What the market service returns: offers with notes, prices of a model, and the check of an API key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from tgp.core.market.breakeven import Owning, Renting
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.ports.cloud import Right

VIRTUAL = "-VM"  # suffix of the type name of a virtual machine
STOCK = {Stock.CONFIRMED: "confirmed", Stock.LIKELY: "likely", Stock.UNKNOWN: "unknown", Stock.NONE: "sold out"}
JOINS = {
    BootMode.NATIVE: "talos-node (native)",
    BootMode.TAKEOVER: "talos-node (takeover, unproven)",
    BootMode.CONTAINER: "no (container)",
    BootMode.POWER: "owned machine",
}
NO_DRIVER = "no (no GPU driver)"
BY_AVAILABILITY = (Stock.NONE, Stock.UNKNOWN, Stock.LIKELY, Stock.CONFIRMED)


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one GPU for an hour, and where they are from."""

    renting: Renting
    source: str  # for people: `given`, or `14 offers of 3 providers, the oldest seen 40 s ago`


class KeyVerdict(StrEnum):
    VALID = "valid"
    REFUSED = "refused"
    MISSING = "missing"
    UNTRIED = "not tried"  # the provider did not answer: the key is neither valid nor invalid
    UNNEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The same GPU from a provider whose machines can join."""

    title: str
    gpu: str
    per_gpu_microusd: int


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One provider."""

    provider: str
    title: str
    key: KeyVerdict
    variable: str = ""  # where the API key is read from
    why: str = ""  # of a refusal, or of no answer
    account: str = ""
    rights: tuple[Right, ...] = ()
    balance_microusd: int | None = None  # None: unknown
    quota: str = ""
    can_buy: bool = True  # False: the key is valid, but the account cannot pay
    offers: int | None = None  # None: they could not be read
    from_microusd: int | None = None  # the cheapest GPU-hour among them
    boot: tuple[BootMode, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()  # for a provider of containers: providers of nodes
    notes: tuple[str, ...] = ()
    asked_for: bool = False  # by name, so that a missing key is a failure

    @property
    def works(self) -> bool | None:
        """None: there is no API key, and the provider was not named."""
        if self.key is KeyVerdict.MISSING:
            return False if self.asked_for else None
        if self.key in {KeyVerdict.REFUSED, KeyVerdict.UNTRIED} or not self.can_buy or self.offers is None:
            return False
        return all(right.held is not False for right in self.rights)

    @property
    def joins(self) -> bool:
        """Can any of its machines become a node?"""
        return any(mode is not BootMode.CONTAINER for mode in self.boot)


@dataclass(frozen=True, slots=True)
class OfferItem:
    name: str  # unique among all offers: `-o name`
    provider: str
    gpu: str
    count: int
    gpu_memory_gib: int
    vcpus: int  # 0: unknown
    memory_gib: int  # 0: unknown
    region: str
    place: str  # the provider's own name
    spot: bool
    hourly_microusd: int
    per_gpu_microusd: int
    age_seconds: float
    stock: Stock
    boot: BootMode
    failed_seconds_ago: float | None = None  # the last launch of this offer failed; None: not recently
    priced_on: str = ""  # not empty: the price is from a table of that date
    left: int | None = None  # machines left; None: unknown
    no_driver: str = ""  # why the driver of a Talos node cannot use its GPUs; empty: it can
    virtual: bool = False  # a marketplace's virtual machine, beside the container that the same host offers
    open_ports: int = 0  # that the host lets in; 0: none, or unknown
    cuda: str = ""  # the newest release that the host's driver runs; empty: unknown
    download_mbps: int = 0  # 0: unknown

    @property
    def kind(self) -> str:
        return "spot" if self.spot else "on-demand"

    @property
    def joins(self) -> bool:
        """Can a machine of this offer become a node of a Talos cluster?"""
        return self.boot is not BootMode.CONTAINER and not self.no_driver

    @property
    def join(self) -> str:
        return NO_DRIVER if self.no_driver else JOINS[self.boot]

    @property
    def availability(self) -> str:
        """Never "available": only a launch can show that."""
        if self.failed_seconds_ago is not None:
            return f"failed {max(int(self.failed_seconds_ago // 60), 1)} min ago"
        return STOCK[self.stock]

    @property
    def source(self) -> str:
        return f"table of {self.priced_on}" if self.priced_on else "live"


def row_of(
    offer: Offer, *, age_seconds: float, failed_seconds_ago: float | None = None, priced_on: str = ""
) -> OfferItem:
    return OfferItem(
        name=offer.key.replace(" ", "_"),  # one word, for shells
        provider=offer.provider,
        gpu=offer.gpu,
        virtual=offer.type_name.endswith(VIRTUAL),
        count=offer.gpu_count,
        gpu_memory_gib=offer.gpu_memory_gib,
        vcpus=offer.vcpus,
        memory_gib=offer.memory_gib,
        region=offer.region,
        place=offer.place,
        spot=offer.spot,
        hourly_microusd=offer.hourly_microusd,
        per_gpu_microusd=offer.per_gpu_microusd,
        age_seconds=age_seconds,
        stock=offer.stock,
        boot=offer.boot,
        no_driver=offer.no_driver,
        failed_seconds_ago=failed_seconds_ago,
        priced_on=priced_on,
        left=offer.left,
        open_ports=offer.open_ports,
        cuda=offer.cuda,
        download_mbps=offer.download_mbps,
    )


@dataclass(frozen=True, slots=True)
class NoKey:
    """A provider without an API key: not asked, or only for public prices."""

    title: str
    variable: str
    public: bool = False  # its public prices were read


@dataclass(frozen=True, slots=True)
class ProviderTrouble:
    """A provider that did not answer as it should."""

    title: str
    why: str
    stale_seconds: float | None = None  # age of the listing that is still shown; None: none is


@dataclass(frozen=True, slots=True)
class OfferNotes:
    """What is printed below the rows: offers that are not shown, and why."""

    rejected: Mapping[str, int] = field(default_factory=dict)  # reason → number of offers that do not match
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason → number of invalid offers
    no_key: tuple[NoKey, ...] = ()
    troubles: tuple[ProviderTrouble, ...] = ()
    advice: tuple[str, ...] = ()  # about the filters
    folded: Mapping[str, int] = field(
        default_factory=dict
    )  # offers that cannot become a node and are not among the rows
    next_command: str = ""


@dataclass(frozen=True, slots=True)
class OfferQuestion:
    """The filters; empty or None: no filter."""

    gpus: tuple[str, ...] = ()
    count: int | None = None
    max_hourly_microusd: int | None = None
    regions: tuple[str, ...] = ()
    spot: bool | None = None  # None: both kinds
    providers: tuple[str, ...] = ()
    talos: bool = False  # only offers that can become a node of a Talos cluster
    min_vram_gib: int = 0  # of one GPU


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    rows: tuple[OfferItem, ...]  # best first
    notes: OfferNotes


@dataclass(frozen=True, slots=True)
class GpuModelRow:
    gpu: str
    gpu_memory_gib: int  # of one GPU; 0: unknown
    on_demand: OfferItem | None  # the cheapest GPU-hour; None: no such offer
    spot: OfferItem | None
    stock: Stock  # the best availability of its offers
    offers: int
    providers: tuple[str, ...]

    @property
    def best(self) -> int:
        """Micro-dollars of the cheapest GPU-hour of either kind."""
        return min(row.per_gpu_microusd for row in (self.on_demand, self.spot) if row is not None)


def models_of(rows: Sequence[OfferItem]) -> list[GpuModelRow]:
    """The cheapest first."""
    found: dict[str, list[OfferItem]] = {}
    for row in rows:
        found.setdefault(row.gpu, []).append(row)
    models = [_model(gpu, each) for gpu, each in found.items()]
    return sorted(models, key=lambda model: (model.best, model.gpu))


def _model(gpu: str, rows: Sequence[OfferItem]) -> GpuModelRow:
    kinds = {spot: [row for row in rows if row.spot is spot] for spot in (False, True)}
    cheapest = {
        spot: min(each, key=lambda row: (row.per_gpu_microusd, row.name)) for spot, each in kinds.items() if each
    }
    return GpuModelRow(
        gpu,
        max(row.gpu_memory_gib for row in rows),
        cheapest.get(False),
        cheapest.get(True),
        max((row.stock for row in rows), key=BY_AVAILABILITY.index),
        len(rows),
        tuple(sorted({row.provider for row in rows})),
    )


@dataclass(frozen=True, slots=True)
class BreakevenQuestion:
    gpu: str
    owning: Owning
    prices: Prices
    hours_per_day: Fraction
