"""The owned machines: what each is, its power draw, its boot time; and the class that names them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tgp.api.common import SecretKeyRef
from tgp.api.nodeclass import ProviderSettings
from tgp.api.owned_machine import PowerMachine
from tgp.sim.clouds.stock import Product

PLACE = "cellar"
CENTS_PER_KWH = 30  # about what a household pays in Germany in 2026
HEADERS_REF = SecretKeyRef(name="cellar-power", key="headers")
SIGNING_REF = SecretKeyRef(name="cellar-power", key="signing")


@dataclass(frozen=True, slots=True)
class Build:
    """One hardware configuration."""

    gpu: str
    gpu_memory_gib: int
    gpu_count: int
    vcpus: int
    memory_gib: int
    watts: int  # at work, measured at the plug
    boot_seconds: float  # firmware, disks, Talos, kubelet


BUILDS = (
    Build("RTX4090", 24, 2, 32, 128, 650, 95),
    Build("RTX3090", 24, 4, 32, 256, 1100, 130),
    Build("RTX3080", 10, 1, 12, 64, 380, 70),
    Build("A100-80GB-PCIE", 80, 2, 64, 512, 900, 240),
)
MACHINES = 24


def build_of(number: int) -> Build:
    return BUILDS[number % len(BUILDS)]


def name_of(number: int) -> str:
    return f"cellar-{number + 1}"


def products() -> list[Product]:
    """Each machine is an offer with a stock of one."""
    return [_product(name_of(number), build_of(number)) for number in range(MACHINES)]


def _product(name: str, build: Build) -> Product:
    return Product(
        sku=name,
        place=PLACE,
        gpu=build.gpu,
        gpu_count=build.gpu_count,
        gpu_memory_gib=build.gpu_memory_gib,
        vcpus=build.vcpus,
        memory_gib=build.memory_gib,
        disk_gib=1000,
        hourly_microusd=build.watts * CENTS_PER_KWH * 10,
        stock=1,
        country="DE",
        boot_seconds=build.boot_seconds,
        host=name,
    )


def settings_at(url: str, numbers: Sequence[int] = range(MACHINES), *, guarded: bool = False) -> ProviderSettings:
    """The settings for a receiver at `url`; guarded: with headers and a signature."""
    return ProviderSettings(
        machines=tuple(_machine(url, number, guarded=guarded) for number in numbers),
        electricity_price_per_kwh=f"0.{CENTS_PER_KWH}",
    )


def _machine(url: str, number: int, *, guarded: bool) -> PowerMachine:
    name, build = name_of(number), build_of(number)
    return PowerMachine(
        name=name,
        gpu_count=build.gpu_count,
        gpu_type=build.gpu,
        cpu=build.vcpus,
        memory=f"{build.memory_gib}Gi",
        watts=build.watts,
        scale_up_endpoint=f"{url}/{name}/on",
        scale_down_endpoint=f"{url}/{name}/off",
        status_endpoint=f"{url}/{name}/status",
        headers_secret_ref=HEADERS_REF if guarded else None,
        signing_secret_ref=SIGNING_REF if guarded else None,
    )
