"""An offer: one machine that could be launched right now, in the same form for every provider."""

from datetime import datetime
from enum import IntEnum, StrEnum

import msgspec

UNKNOWN_REGION = "unknown"
UNKNOWN_GPU = "unknown"  # of a machine you own whose class does not name the model
USUAL_ARCH = "amd64"
ARCHITECTURES = (USUAL_ARCH, "arm64")  # of CPUs, as Talos and the kubelet name them
CONTAINER_ONLY = "the provider starts a container, and Talos cannot boot in a container"


class BootMode(StrEnum):
    """How a machine of this offer could become a node of a Talos cluster."""

    NATIVE = "native"  # the provider boots a Talos image with our user data
    TAKEOVER = "takeover"  # the vendor's Linux writes Talos over its own disk
    CONTAINER = "container"  # the vendor starts a container image: Talos cannot run there
    POWER = "power"  # already a member of the cluster; only switched on and off


class Stock(IntEnum):
    """How certain it is that the machine can be launched: never "available" from a catalogue."""

    CONFIRMED = 0  # the provider listed this machine, or reported stock, in this listing
    LIKELY = 1  # the provider reports indirect signs of stock
    UNKNOWN = 2  # the provider does not say
    NONE = 3  # sold out, as the provider reports: listed so that users see its price


class Trust(IntEnum):
    """How far the owner of the machine is known. The owner can read what runs on it."""

    ANY = 0
    VERIFIED = 1  # the provider has checked the host
    DATACENTER = 2  # the provider's own, or a certified data centre


class Offer(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one machine is, where it is, and its price per hour. Plain values: 50,000 of them are in memory."""

    provider: str
    sku: str  # what to order, as the provider names it: a type, a plan, the number of one ask
    place: str  # where, as the provider names it; used in the order
    region: str = UNKNOWN_REGION  # where, in tgp's names
    country: str = ""  # ISO 3166, two letters, capitals; empty: unknown
    gpu: str  # our name of the model
    gpu_count: int
    gpu_memory_gib: int  # of one GPU
    vcpus: int  # whole ones, rounded down; 0: unknown
    memory_gib: int  # that the renter gets, rounded down; 0: unknown
    sized_by_order: bool = False  # vCPUs and memory are unknown, and an order names the least of each that it takes
    disk_gib: int  # 0: chosen when ordering
    arch: str = USUAL_ARCH  # one of ARCHITECTURES
    spot: bool = False
    hourly_microusd: int  # of the whole machine; of a spot offer: the lowest bid that would win now
    priced_on: str = ""  # the day of the table that the price is from; empty: the price is from the listing
    on_demand_microusd: int | None = None  # of a spot offer: the same machine without the risk; None: unknown
    stock: Stock = Stock.UNKNOWN
    left: int | None = None  # how many; None: unknown
    trust: Trust = Trust.DATACENTER
    boot: BootMode
    no_driver: str = ""  # why the driver of a Talos node cannot drive its GPUs; empty: no known reason
    host: str = ""  # of marketplaces: the machine itself, which several offers may share; they cool down together
    until: datetime | None = None  # the machine is available only until then; None: no such limit
    open_ports: int = 0  # of marketplaces: that the host lets in; 0: none, or unknown
    cuda: str = ""  # the newest release that the host's driver runs: 12.8; empty: unknown
    download_mbps: int = 0  # 0: unknown
    type_name: str = ""  # for users and for the instance-type label; empty: the sku

    @property
    def key(self) -> str:
        """Identifies this offer among all offers, now and in later listings."""
        kind = "spot" if self.spot else "on-demand"
        return f"{self.provider}/{self.sku}/{self.place}/{kind}"

    @property
    def no_node(self) -> str:
        """Why no machine of it can be a node with working GPUs, under any class; empty: one can."""
        return CONTAINER_ONLY if self.boot is BootMode.CONTAINER else self.no_driver

    @property
    def takes_bids(self) -> bool:
        """The price is what the renter bids: spot machines of marketplaces."""
        return self.spot and bool(self.host)

    @property
    def instance_type(self) -> str:
        return self.type_name or self.sku

    @property
    def per_gpu_microusd(self) -> int:
        return -(-self.hourly_microusd // self.gpu_count)
