"""An offer: one machine that could be rented right now, in our words, whoever sells it."""

from datetime import datetime
from enum import IntEnum, StrEnum

import msgspec

UNKNOWN_REGION = "unknown"
CONTAINER_ONLY = "the provider starts a container, and Talos cannot boot in a container"


class BootMode(StrEnum):
    """How a machine of this offer could become a node of a Talos cluster."""

    NATIVE = "native"  # the provider boots a Talos image with our user data
    TAKEOVER = "takeover"  # the vendor's Linux writes Talos over its own disk
    CONTAINER = "container"  # the vendor starts a container image: Talos cannot run there
    POWER = "power"  # already a member of the cluster; only switched on and off


class Stock(IntEnum):
    """How sure it is that the machine can be had: never "available" from a catalogue."""

    CONFIRMED = 0  # the provider named this very machine, or said that there are some, in this listing
    LIKELY = 1  # the provider hints at it
    UNKNOWN = 2  # nobody tells
    NONE = 3  # sold out, as the provider says itself: listed so that people see its price


class Trust(IntEnum):
    """How well known the owner of the machine is. Whoever owns it can read what runs on it."""

    ANY = 0
    VERIFIED = 1  # the provider has checked the host
    DATACENTER = 2  # the provider's own, or a certified data centre


class Offer(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one machine is, where it stands, and what an hour costs. Bare values: 50,000 of them are in memory."""

    provider: str
    sku: str  # what to order, in the provider's words: a type, a plan, the number of one ask
    place: str  # where, in the provider's words; ordered by it
    region: str = UNKNOWN_REGION  # where, in ours
    country: str = ""  # ISO 3166, two letters, capitals; empty: not told
    gpu: str  # our name of the model
    gpu_count: int
    gpu_memory_gib: int  # of one GPU
    vcpus: int  # whole ones, rounded down; 0: not told
    memory_gib: int  # that the renter gets, rounded down; 0: not told
    sized_by_order: bool = False  # vCPUs and memory are not told, and an order names the least of each that it takes
    disk_gib: int  # 0: chosen when ordering
    arch: str = "amd64"
    spot: bool = False
    hourly_microusd: int  # of the whole machine; of a spot offer: the lowest bid that would win now
    priced_on: str = ""  # the day of the table that the price is from; empty: the provider told it with the listing
    on_demand_microusd: int | None = None  # of a spot offer: the same machine without the risk; None: not told
    stock: Stock = Stock.UNKNOWN
    left: int | None = None  # how many; None: not told
    trust: Trust = Trust.DATACENTER
    boot: BootMode
    no_driver: str = ""  # why the driver of a Talos node cannot drive its GPUs; empty: nothing speaks against it
    host: str = ""  # of marketplaces: the machine itself, which several offers may share; benched as one
    until: datetime | None = None  # the owner takes the machine back then; None: no such moment
    open_ports: int = 0  # of marketplaces: that the host lets in; 0: none, or not told
    cuda: str = ""  # the newest release that the host's driver runs: 12.8; empty: not told
    download_mbps: int = 0  # 0: not told
    type_name: str = ""  # for people and for the instance-type label; empty: the sku

    @property
    def key(self) -> str:
        """Names this offer among all offers, today and in the next listing."""
        kind = "spot" if self.spot else "on-demand"
        return f"{self.provider}/{self.sku}/{self.place}/{kind}"

    @property
    def no_node(self) -> str:
        """Why no machine of it can be a node with working GPUs, whatever a class allows; empty: one can."""
        return CONTAINER_ONLY if self.boot is BootMode.CONTAINER else self.no_driver

    @property
    def instance_type(self) -> str:
        return self.type_name or self.sku

    @property
    def per_gpu_microusd(self) -> int:
        return -(-self.hourly_microusd // self.gpu_count)
