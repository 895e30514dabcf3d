"""Documents about requests, machines, Nodes and what they cost."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from tgp.api.values import rfc3339
from tgp.core.inventory.holdings import cost_words
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.text import plain
from tgp.core.reports.machine_costs import MachineCost, hourly_total, machine_costs
from tgp.core.reports.pending_purchases import PendingPurchase, bought_after_release
from tgp.services.documents import API_VERSION, ApiVersion, Moment, usd
from tgp.services.marked_machines import MarkedMachines

# -- requests ----------------------------------------------------------------------------------------------------------


# -- machines ----------------------------------------------------------------------------------------------------------


class MachineItem(TypedDict):
    request: str | None
    provider: str
    token: str
    instanceId: str | None
    machine: str
    state: str | None
    usdPerHour: float | None
    spentUsd: float
    since: Moment | None


class PendingPurchaseItem(TypedDict):
    object: str
    why: str
    atOnce: bool
    writtenAgainBy: str | None


class HoldReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["HoldReport"]
    purchasesPaused: bool
    reason: str | None
    since: Moment | None
    suspendedClasses: list[str]
    message: str
    usdPerHour: float
    machines: list[MachineItem]
    pendingPurchases: list[PendingPurchaseItem]


class ProviderNotAsked(TypedDict):
    provider: str
    message: str


# -- cost --------------------------------------------------------------------------------------------------------------


# -- doctor ------------------------------------------------------------------------------------------------------------


class MarkedMachineItem(TypedDict):
    cluster: str
    provider: str
    instanceId: str
    state: str
    usdPerHour: float | None


class ProviderWithoutKey(TypedDict):
    provider: str
    variable: str


class MarkedMachineList(TypedDict):
    """Machines that tgp bought, for whichever cluster, as the providers list them."""

    apiVersion: ApiVersion
    kind: Literal["MarkedMachineList"]
    machines: list[MarkedMachineItem]
    notAsked: list[ProviderNotAsked]
    withoutKey: list[ProviderWithoutKey]


def costing(held: Sequence[MachineCost]) -> str:
    """One sentence with the total price per hour."""
    if not held:
        return "No machine is rented; the cost is $0.00 an hour."
    return f"{cost_words(tuple(one.hourly_microusd for one in held))}."


def machine_item(one: MachineCost) -> MachineItem:
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


def purchase_item(buyer: PendingPurchase) -> PendingPurchaseItem:
    return {"object": buyer.about, "why": buyer.why, "atOnce": buyer.at_once, "writtenAgainBy": buyer.keeper or None}


def hold_report(inventory: ClusterInventory, said: str) -> HoldReport:
    held = machine_costs(inventory)
    hold = inventory.hold
    return HoldReport(
        apiVersion=API_VERSION,
        kind="HoldReport",
        purchasesPaused=hold is not None,
        reason=hold.reason if hold is not None else None,
        since=rfc3339(hold.since) if hold is not None and hold.since is not None else None,
        suspendedClasses=[each.key.name for each in inventory.classes if each.value and each.value.spec.suspend],
        message=said,
        usdPerHour=usd(hourly_total(held)),
        machines=[machine_item(one) for one in held],
        pendingPurchases=[purchase_item(buyer) for buyer in bought_after_release(inventory)],
    )


def marked_machine_list(found: MarkedMachines) -> MarkedMachineList:
    return {
        "apiVersion": API_VERSION,
        "kind": "MarkedMachineList",
        "machines": [
            {
                "cluster": one.cluster,
                "provider": one.provider,
                "instanceId": one.instance.id,
                "state": str(one.instance.state),
                "usdPerHour": usd(one.instance.hourly_microusd),
            }
            for one in found.machines
        ],
        "notAsked": [{"provider": provider, "message": why} for provider, why in found.failed],
        "withoutKey": [{"provider": provider, "variable": variable} for provider, variable in found.keyless],
    }
