"""Machines and their cost, and the objects that would buy more: tables that several commands share."""

from collections.abc import Sequence

from rich.text import Text

from tgp.core.model.money import amount, to_the_cent
from tgp.core.reports.machine_costs import MachineCost
from tgp.core.reports.pending_purchases import PendingPurchase
from tgp.interfaces.cli.output import Cell, TableColumn, table, wrapped

LONGEST_NAME = 60
UNKNOWN: Cell = ("?", "yellow")
BUYERS_SHOWN = 20


def machines_table(held: Sequence[MachineCost], width: int, *, gone: bool = False) -> list[Text]:
    """`gone`: a bill, not a list of what runs. The state is shown only if a provider was asked."""
    stateless = gone or all(one.instance is None for one in held)
    columns = (
        TableColumn("REQUEST", tuple(_name(one) for one in held), longest=LONGEST_NAME),
        TableColumn("PROVIDER", tuple((one.provider, "") for one in held)),
        TableColumn("MACHINE", tuple((one.what, "") for one in held), longest=40),
        *(() if stateless else (TableColumn("STATE", tuple(_state(one) for one in held), longest=24),)),
        TableColumn("$/HOUR", tuple(_price(one) for one in held), right=True),
        TableColumn("SPENT $", tuple((to_the_cent(one.spent_microusd), "") for one in held), right=True),
    )
    return table(columns, width)


def purchase_lines(found: Sequence[PendingPurchase], width: int) -> list[Text]:
    lines = []
    for buyer in found[:BUYERS_SHOWN]:
        kept = f" After a deletion, {buyer.keeper} would create it again." if buyer.keeper else ""
        lines += wrapped(f"{buyer.about}: {buyer.why}.{kept}", width, first="  ", rest="    ")
    if len(found) > BUYERS_SHOWN:
        lines.append(Text(f"  … and {len(found) - BUYERS_SHOWN} more", "dim"))
    return lines


def _name(one: MachineCost) -> Cell:
    return (str(one.request), "") if one.request is not None else (f"none ({one.token})", "yellow")


def _state(one: MachineCost) -> Cell:
    return (str(one.instance.state), "") if one.instance is not None else ("by status", "dim")


def _price(one: MachineCost) -> Cell:
    return UNKNOWN if one.hourly_microusd is None else (amount(one.hourly_microusd), "")
