"""Machines and what they cost, and the objects that would buy more: the tables several commands share."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from tgp.api.values import rfc3339
from tgp.core.rules.buyers import Buyer
from tgp.core.rules.holdings import Holding, hourly_total
from tgp.surfaces.cli.output import Cell, Column, dollars, table, usd, wrapped
from tgp.surfaces.terminal.scene import plain

LONGEST_NAME = 60
UNKNOWN: Cell = ("?", "yellow")
BUYERS_SHOWN = 20


def machines_table(held: Sequence[Holding], width: int, *, gone: bool = False) -> list[Text]:
    """`gone`: a bill, and not a view of what runs. How a machine is, is told where some provider was asked."""
    stateless = gone or all(one.instance is None for one in held)
    columns = (
        Column("REQUEST", tuple(_name(one) for one in held), longest=LONGEST_NAME),
        Column("PROVIDER", tuple((one.provider, "") for one in held)),
        Column("MACHINE", tuple((one.what, "") for one in held), longest=40),
        *(() if stateless else (Column("STATE", tuple(_state(one) for one in held), longest=24),)),
        Column("$/HOUR", tuple(_price(one) for one in held), right=True),
        Column("SPENT $", tuple((dollars(one.spent_microusd), "") for one in held), right=True),
    )
    return table(columns, width)


def costing(held: Sequence[Holding]) -> str:
    """One sentence with the number that matters."""
    if not held:
        return "Nothing is rented, so nothing costs."
    unknown = sum(one.hourly_microusd is None for one in held)
    rest = f", and {unknown} whose price nobody tells" if unknown else ""
    machines = "1 machine costs" if len(held) == 1 else f"{len(held)} machines cost"
    return f"{machines} ${dollars(hourly_total(held))} an hour{rest}."


def buyers_lines(found: Sequence[Buyer], width: int) -> list[Text]:
    lines = []
    for buyer in found[:BUYERS_SHOWN]:
        kept = f" Deleted, {buyer.keeper} would write it again." if buyer.keeper else ""
        lines += wrapped(f"{buyer.about}: {buyer.why}.{kept}", width, first="  ", rest="    ")
    if len(found) > BUYERS_SHOWN:
        lines.append(Text(f"  … and {len(found) - BUYERS_SHOWN} more", "dim"))
    return lines


def machine_item(one: Holding) -> dict[str, Any]:
    return {
        "request": str(one.request) if one.request is not None else None,
        "provider": one.provider,
        "token": one.token,
        "instanceId": one.instance.id if one.instance is not None else None,
        "machine": plain(one.what),
        "state": str(one.instance.state) if one.instance is not None else None,
        "usdPerHour": usd(one.hourly_microusd),
        "spentUsd": usd(one.spent_microusd),
        "since": rfc3339(one.since) if one.since is not None else None,
    }


def buyer_item(buyer: Buyer) -> dict[str, Any]:
    return {"object": buyer.about, "why": buyer.why, "atOnce": buyer.at_once, "writtenAgainBy": buyer.keeper or None}


def _name(one: Holding) -> Cell:
    return (str(one.request), "") if one.request is not None else (f"none ({one.token})", "yellow")


def _state(one: Holding) -> Cell:
    return (str(one.instance.state), "") if one.instance is not None else ("by its status", "dim")


def _price(one: Holding) -> Cell:
    return UNKNOWN if one.hourly_microusd is None else (dollars(one.hourly_microusd), "")
