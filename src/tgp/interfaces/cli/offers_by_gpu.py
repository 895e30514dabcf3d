"""`tgp offers --group-by gpu`: one row for each model, with its cheapest offers."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tgp.core.model.money import amount
from tgp.core.model.offer import Stock
from tgp.interfaces.cli.offers_view import STOCK_STYLES, footer
from tgp.interfaces.cli.output import Cell, TableColumn, table, usd
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.market import GpuPriceList
from tgp.services.market_documents import STOCK, OfferItem, OfferNotes

NONE: Cell = ("-", "dim")


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


BY_AVAILABILITY = (Stock.NONE, Stock.UNKNOWN, Stock.LIKELY, Stock.CONFIRMED)


def render_models(models: Sequence[GpuModelRow], notes: OfferNotes, width: int) -> Group:
    columns = (
        TableColumn("GPU", tuple((model.gpu, "") for model in models)),
        TableColumn(
            "VRAM",
            tuple(_memory(model) for model in models),
            right=True,
        ),
        TableColumn("$/GPU-H", tuple(_price(model.on_demand, "bold") for model in models), right=True),
        TableColumn("FROM", tuple(_provider(model.on_demand) for model in models)),
        TableColumn("SPOT", tuple(_price(model.spot) for model in models), right=True),
        TableColumn("FROM", tuple(_provider(model.spot) for model in models)),
        TableColumn("STOCK", tuple((STOCK[model.stock], STOCK_STYLES[STOCK[model.stock]]) for model in models)),
        TableColumn("OFFERS", tuple((f"{model.offers:,}", "dim") for model in models), right=True),
    )
    lines = table(columns, width) if models else [Text("No offer fits.", style="bold")]
    return Group(*lines, Text(), *footer((), 0, notes, width))


def models_document(models: Sequence[GpuModelRow]) -> GpuPriceList:
    return GpuPriceList(
        apiVersion=API_VERSION,
        kind="GpuPriceList",
        items=[
            {
                "gpu": model.gpu,
                "gpuMemoryGiB": model.gpu_memory_gib or None,
                "usdPerGpuHour": _usd(model.on_demand),
                "spotUsdPerGpuHour": _usd(model.spot),
                "availability": STOCK[model.stock],
                "offers": model.offers,
                "providers": list(model.providers),
            }
            for model in models
        ],
    )


def _memory(model: GpuModelRow) -> Cell:
    return (f"{model.gpu_memory_gib}G", "") if model.gpu_memory_gib else NONE


def _price(row: OfferItem | None, style: str = "") -> Cell:
    return NONE if row is None else (amount(row.per_gpu_microusd), style)


def _provider(row: OfferItem | None) -> Cell:
    return NONE if row is None else (row.provider, "dim")


def _usd(row: OfferItem | None) -> float | None:
    return None if row is None else usd(row.per_gpu_microusd)
