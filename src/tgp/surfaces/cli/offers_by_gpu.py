"""`tgp offers --group-by gpu`: one row for each model, with the cheapest that can be had now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.core.model.offer import Stock
from tgp.surfaces.cli.offers_view import STOCK, STOCK_STYLES, Notes, OfferRow, footer
from tgp.surfaces.cli.output import Cell, Column, document, dollars, table, usd

NONE: Cell = ("-", "dim")


@dataclass(frozen=True, slots=True)
class Model:
    gpu: str
    gpu_memory_gib: int  # of one; 0: not told
    on_demand: OfferRow | None  # the cheapest GPU-hour; None: nobody sells it so
    spot: OfferRow | None
    stock: Stock  # the surest of its offers
    offers: int
    providers: tuple[str, ...]

    @property
    def best(self) -> int:
        """Micro-dollars of the cheapest GPU-hour of either kind."""
        return min(row.per_gpu_microusd for row in (self.on_demand, self.spot) if row is not None)


def models_of(rows: Sequence[OfferRow]) -> list[Model]:
    """The cheapest first."""
    found: dict[str, list[OfferRow]] = {}
    for row in rows:
        found.setdefault(row.gpu, []).append(row)
    models = [_model(gpu, each) for gpu, each in found.items()]
    return sorted(models, key=lambda model: (model.best, model.gpu))


def _model(gpu: str, rows: Sequence[OfferRow]) -> Model:
    kinds = {spot: [row for row in rows if row.spot is spot] for spot in (False, True)}
    cheapest = {
        spot: min(each, key=lambda row: (row.per_gpu_microusd, row.name)) for spot, each in kinds.items() if each
    }
    return Model(
        gpu,
        max(row.gpu_memory_gib for row in rows),
        cheapest.get(False),
        cheapest.get(True),
        max((row.stock for row in rows), key=SUREST.index),
        len(rows),
        tuple(sorted({row.provider for row in rows})),
    )


SUREST = (Stock.NONE, Stock.UNKNOWN, Stock.LIKELY, Stock.CONFIRMED)


def render_models(models: Sequence[Model], notes: Notes, width: int) -> Group:
    columns = (
        Column("GPU", tuple((model.gpu, "") for model in models)),
        Column(
            "VRAM",
            tuple(_memory(model) for model in models),
            right=True,
        ),
        Column("$/GPU-H", tuple(_price(model.on_demand, "bold") for model in models), right=True),
        Column("FROM", tuple(_seller(model.on_demand) for model in models)),
        Column("SPOT", tuple(_price(model.spot) for model in models), right=True),
        Column("FROM", tuple(_seller(model.spot) for model in models)),
        Column("STOCK", tuple((STOCK[model.stock], STOCK_STYLES[STOCK[model.stock]]) for model in models)),
        Column("OFFERS", tuple((f"{model.offers:,}", "dim") for model in models), right=True),
    )
    lines = table(columns, width) if models else [Text("Nothing on sale fits.", style="bold")]
    return Group(*lines, Text(), *footer((), 0, notes, width))


def models_document(models: Sequence[Model]) -> dict[str, Any]:
    return document(
        "GpuPriceList",
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


def _memory(model: Model) -> Cell:
    return (f"{model.gpu_memory_gib}G", "") if model.gpu_memory_gib else NONE


def _price(row: OfferRow | None, style: str = "") -> Cell:
    return NONE if row is None else (dollars(row.per_gpu_microusd), style)


def _seller(row: OfferRow | None) -> Cell:
    return NONE if row is None else (row.provider, "dim")


def _usd(row: OfferRow | None) -> float | None:
    return None if row is None else usd(row.per_gpu_microusd)
