"""`tgp offers --group-by gpu`: one row for each model, with its cheapest offers."""

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from tgp.core.model.money import amount
from tgp.interfaces.cli.offers_view import STOCK_STYLES, footer
from tgp.interfaces.cli.output import Cell, TableColumn, table
from tgp.services.market_answers import STOCK, GpuModelRow, OfferItem, OfferNotes

NONE: Cell = ("-", "dim")


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


def _memory(model: GpuModelRow) -> Cell:
    return (f"{model.gpu_memory_gib}G", "") if model.gpu_memory_gib else NONE


def _price(row: OfferItem | None, style: str = "") -> Cell:
    return NONE if row is None else (amount(row.per_gpu_microusd), style)


def _provider(row: OfferItem | None) -> Cell:
    return NONE if row is None else (row.provider, "dim")
