"""What `tgp down` did: the outcome, its exit code and its document."""

from dataclasses import dataclass
from typing import Literal, TypedDict

from tgp.core.model.cluster_inventory import AccountInventory, ClusterInventory
from tgp.core.model.money import dollars
from tgp.core.reports.machine_costs import MachineCost, hourly_total, lives, machine_costs
from tgp.core.reports.pending_purchases import PendingPurchase
from tgp.services.documents import API_VERSION, ApiVersion, usd
from tgp.services.documents.machines import (
    MachineItem,
    PendingPurchaseItem,
    ProviderNotAsked,
    machine_item,
    purchase_item,
)


class DownReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["DownReport"]
    cluster: str
    context: str
    proven: bool
    message: str
    left: list[MachineItem]
    leftUsdPerHour: float
    notAsked: list[ProviderNotAsked]
    bill: list[MachineItem]
    billUsd: float
    requests: list[str]
    purchasesPaused: bool
    freedPods: int
    pendingPurchases: list[PendingPurchaseItem]
    exitCode: int


PROVEN = 0
NOT_PROVEN = 1


@dataclass(frozen=True, slots=True)
class TeardownOutcome:
    """The result of the command."""

    title: str  # of the cluster
    inventory: ClusterInventory  # the last look
    proven: bool  # every provider's complete list showed no machine of ours, twice
    bill: tuple[MachineCost, ...] = ()  # each machine there was, with its estimated cost
    gave_up: str = ""  # why the command stopped waiting
    again: tuple[PendingPurchase, ...] = ()  # what buys once purchases resume
    freed: int = 0  # pods that a budget held until they were counted

    @property
    def left(self) -> tuple[MachineCost, ...]:
        return machine_costs(self.inventory)


def blind(inventory: ClusterInventory) -> tuple[AccountInventory, ...]:
    """Accounts whose silence prevents the proof. An owned machine that was never switched on is not among them."""
    needed = {holding.access for holding in machine_costs(inventory)}
    return tuple(one for one in inventory.unasked if not one.owned or one.access.name in needed)


def exit_code(outcome: TeardownOutcome) -> int:
    return PROVEN if outcome.proven else NOT_PROVEN


def verdict(outcome: TeardownOutcome) -> str:
    if outcome.proven and not outcome.inventory.inspections:
        return "No machine can exist: no class, API key or request names a provider."
    if outcome.proven:
        return "Every machine is terminated: every provider was asked twice and lists no machine of this cluster."
    left = outcome.left
    silent = blind(outcome.inventory)
    parts = [f"Not proven: {outcome.gave_up or 'not every provider could be asked'}."]
    if left:
        names = ", ".join(f"{one.name} at {one.provider}" for one in left)
        parts.append(f"Left: {names}: {dollars(hourly_total(left))} an hour.")
    if silent:
        parts.append(f"Unknown: {', '.join(one.name for one in silent)}. Machines may still run there.")
    return " ".join(parts)


def down_report(outcome: TeardownOutcome) -> DownReport:
    return DownReport(
        apiVersion=API_VERSION,
        kind="DownReport",
        cluster=outcome.inventory.cluster,
        context=outcome.title,
        proven=outcome.proven,
        message=verdict(outcome),
        left=[machine_item(one) for one in outcome.left],
        leftUsdPerHour=usd(hourly_total(outcome.left)),
        notAsked=[{"provider": one.name, "message": one.why} for one in blind(outcome.inventory)],
        bill=[machine_item(one) for one in outcome.bill],
        billUsd=usd(sum(one.spent_microusd for one in outcome.bill)),
        requests=[str(record.key) for record in outcome.inventory.requests if lives(record)],
        purchasesPaused=outcome.inventory.hold is not None,
        freedPods=outcome.freed,
        pendingPurchases=[purchase_item(buyer) for buyer in outcome.again],
        exitCode=exit_code(outcome),
    )
