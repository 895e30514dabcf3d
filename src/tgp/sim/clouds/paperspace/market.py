"""What the simulated Paperspace rents: its machine types, places and templates. List prices, which do not move."""

from dataclasses import dataclass

from tgp.sim.clouds.stock import Product

MICRO = 1_000_000
NY2, CA1, AMS1 = "East Coast (NY2)", "West Coast (CA1)", "Europe (AMS1)"
PLACES = (NY2, CA1, AMS1)
BOOT_SECONDS = 150.0
STOCKS = (3, 1, 6, 2, 0, 9, 4)  # at first, taken in turn


@dataclass(frozen=True, slots=True)
class PaperspaceMachineKind:
    """One machine type."""

    label: str
    model: str  # our name of the GPU
    gpus: int
    memory: int  # GB of one GPU
    cpus: int
    ram: int  # GiB
    dollars: float
    places: tuple[str, ...] = (NY2,)


KINDS = (
    PaperspaceMachineKind("H100", "H100-SXM", 1, 80, 16, 250, 5.95),
    PaperspaceMachineKind("H100x8", "H100-SXM", 8, 80, 128, 1638, 47.60),
    PaperspaceMachineKind("A100", "A100-40GB-PCIE", 1, 40, 12, 90, 3.09),
    PaperspaceMachineKind("A100-80G", "A100-80GB-SXM", 1, 80, 12, 90, 3.18),
    PaperspaceMachineKind("A100-80Gx8", "A100-80GB-SXM", 8, 80, 96, 720, 25.44),
    PaperspaceMachineKind("A6000", "A6000", 1, 48, 8, 45, 1.89),
    PaperspaceMachineKind("A6000x4", "A6000", 4, 48, 32, 180, 7.56),
    PaperspaceMachineKind("A5000", "A5000", 1, 24, 8, 45, 1.38),
    PaperspaceMachineKind("A4000", "A4000", 1, 16, 8, 45, 0.76, PLACES),
    PaperspaceMachineKind("A4000x2", "A4000", 2, 16, 16, 90, 1.52, PLACES),
    PaperspaceMachineKind("V100", "V100-16GB", 1, 16, 8, 30, 2.30),
    PaperspaceMachineKind("V100-32G", "V100-32GB", 1, 32, 8, 30, 2.30),
    PaperspaceMachineKind("V100-32Gx4", "V100-32GB", 4, 32, 32, 120, 9.20),
    PaperspaceMachineKind("RTX5000", "RTX5000", 1, 16, 8, 30, 0.82),
    PaperspaceMachineKind("RTX4000", "RTX4000", 1, 8, 8, 30, 0.56, PLACES),
    PaperspaceMachineKind("P6000", "P6000", 1, 24, 8, 30, 1.10, PLACES),
    PaperspaceMachineKind("P5000", "P5000", 1, 16, 8, 30, 0.78, PLACES),
    PaperspaceMachineKind("P4000", "P4000", 1, 8, 8, 30, 0.51, PLACES),
    PaperspaceMachineKind("GPU+", "M4000", 1, 8, 8, 30, 0.45),
)
NEW_ONLY = ("H100", "H100x8", "A100-80Gx8")  # the old template does not boot these
TEMPLATES = {
    "tkni3aa4": ("Ubuntu 20.04", tuple(kind.label for kind in KINDS if kind.label not in NEW_ONLY)),
    "t0nspur5": ("Ubuntu 22.04", tuple(kind.label for kind in KINDS)),
    "twin2022": ("Windows Server 2022", ("P4000", "P5000", "P6000")),
}


def kind_of(label: str) -> PaperspaceMachineKind | None:
    return next((kind for kind in KINDS if kind.label == label), None)


def products() -> tuple[Product, ...]:
    pairs = [(kind, place) for kind in KINDS for place in kind.places]
    return tuple(
        Product(
            sku=kind.label,
            place=place,
            gpu=kind.model,
            gpu_count=kind.gpus,
            gpu_memory_gib=kind.memory,
            vcpus=kind.cpus,
            memory_gib=kind.ram,
            disk_gib=100,
            hourly_microusd=round(kind.dollars * MICRO),
            stock=STOCKS[number % len(STOCKS)],
            country="NL" if place == AMS1 else "US",
            boot_seconds=BOOT_SECONDS,
        )
        for number, (kind, place) in enumerate(pairs)
    )
