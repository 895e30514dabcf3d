"""What a simulated provider sells: one kind of machine in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tgp.core.model.offer import Trust


@dataclass(frozen=True, slots=True)
class Product:
    """A product, as it is when the world begins. Prices and stock move from here."""

    sku: str
    place: str
    gpu: str  # our name of the model; the simulator knows its provider's
    gpu_count: int
    gpu_memory_gib: int
    vcpus: int
    memory_gib: int
    disk_gib: int
    hourly_microusd: int  # of the whole machine; the price wanders around it
    spot_microusd: int | None = None  # None: not sold as spot
    stock: int = 4  # of a marketplace's single machine: 1
    arch: str = "amd64"
    country: str = "US"
    trust: Trust = Trust.DATACENTER
    boot_seconds: float = 120.0
    host: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)  # what only this provider's wire shows

    @property
    def id(self) -> str:
        return f"{self.sku}@{self.place}"
