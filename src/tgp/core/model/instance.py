"""A machine at a provider, as it is listed there. Listed means: it may cost money."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class InstanceState(StrEnum):
    STARTING = "starting"  # made, on its way to running
    RUNNING = "running"
    STOPPED = "stopped"  # not running, **still ours and still costing**: stop is not terminate
    ENDING = "ending"  # on its way out; gone only when it is no longer listed
    BROKEN = "broken"  # will not run again by itself: lost host, failed start
    UNKNOWN = "unknown"  # listed, with an unknown state


@dataclass(frozen=True, slots=True)
class Instance:
    id: str
    token: str  # the name, label or tag it was ordered under; empty: it has none, so it is not ours
    state: InstanceState
    said: str = ""  # the provider's own text for its state, shortened: for users
    sku: str = ""
    place: str = ""
    hourly_microusd: int | None = None  # what the provider bills now; None: it does not say
    vcpus: int = 0  # 0: unknown
    memory_gib: int = 0  # 0: unknown
    spot: bool = False
    interrupted: bool = False  # stopped or broken because a spot machine was interrupted
    created_at: datetime | None = None  # None: the provider does not list it
    ends_at: datetime | None = None  # when its provider or host takes it back; None: no end is announced
    public_ip: str = ""
    private_ip: str = ""
    progress: str = ""  # changes while a start goes on, such as the provider's status text
    tags: Mapping[str, str] = field(default_factory=dict)
