"""What `tgp down` prints: what it will terminate, what would buy again, its progress, and the last bill."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tgp.core.model.cluster_inventory import AccountInventory, ClusterInventory
from tgp.core.model.money import dollars, total
from tgp.core.model.pod import COUNTED
from tgp.core.reports.machine_costs import MachineCost, hourly_total, lives, machine_costs
from tgp.core.reports.pending_purchases import PendingPurchase, written_again
from tgp.interfaces.cli.holdings_view import costing, machine_item, machines_table, purchase_item, purchase_lines
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import usd, wrapped
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.machines import DownReport

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


def plan(title: str, inventory: ClusterInventory, width: int) -> Group:
    """Before anything is done."""
    held = machine_costs(inventory)
    lines = wrapped(f"Every machine of cluster {title} ({inventory.cluster}) will be terminated.", width, style="bold")
    lines += wrapped(costing(held), width)
    lines += machines_table(held, width) if held else []
    count = sum(map(lives, inventory.requests))
    requests = "1 GPURequest" if count == 1 else f"{count} GPURequests"
    lost = " Data on the machines is lost." if held else ""
    lines += wrapped(
        f"{requests} will be deleted.{lost}" if count else f"No GPURequest is left to delete.{lost}", width
    )
    if again := written_again(inventory):
        lines += [Text(), *wrapped("These would buy again once purchases resume:", width, style="yellow")]
        lines += purchase_lines(again, width)
    for one in blind(inventory):
        lines += wrapped(
            f"Provider {one.name} cannot be asked: {one.why}. Its machines stay unknown.", width, style="yellow"
        )
    return Group(*lines)


def blind(inventory: ClusterInventory) -> tuple[AccountInventory, ...]:
    """Accounts whose silence prevents the proof. An owned machine that was never switched on is not among them."""
    needed = {holding.access for holding in machine_costs(inventory)}
    return tuple(one for one in inventory.unasked if not one.owned or one.access.name in needed)


def remaining(inventory: ClusterInventory) -> str:
    """The progress in one line."""
    held = machine_costs(inventory)
    silent = ", ".join(one.name for one in blind(inventory))
    rest = f"; no answer from {silent}" if silent else ""
    if not held:
        return f"no machine is listed any more{rest}; asking once more"
    machines = "1 machine" if len(held) == 1 else f"{len(held)} machines"
    return f"{machines} left, {dollars(hourly_total(held))} an hour{rest}"


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


def render(outcome: TeardownOutcome, width: int) -> Group:
    inventory = outcome.inventory
    lines = wrapped(verdict(outcome), width, style="bold" if outcome.proven else "bold red")
    lines += _bill(outcome.bill, width)
    stuck = [str(record.key) for record in inventory.requests if lives(record)]
    if stuck and outcome.proven:
        words = f"Requests that wait for the operator to remove its finalizer: {', '.join(stuck)}. They cost nothing. "
        words += "Uninstall the operator after they are gone: kubectl get gpurequests -A"
        lines += wrapped(words, width)
    if outcome.freed:
        pods = "1 pod was" if outcome.freed == 1 else f"{outcome.freed} pods were"
        lines += wrapped(
            f"{pods} freed from finalizer {COUNTED}, by which budgets that count exactly hold them.", width
        )
    if inventory.hold is not None:
        lines += wrapped("Purchases stay paused, so nothing is bought again: tgp release resumes them.", width)
    if outcome.again:
        lines += [*wrapped("These would buy again after tgp release:", width), *purchase_lines(outcome.again, width)]
    lines += next_lines("tgp cost" if outcome.proven else "tgp doctor")
    return Group(*lines)


def _bill(bill: Sequence[MachineCost], width: int) -> list[Text]:
    if not bill:
        return []
    spent = sum(holding.spent_microusd for holding in bill)
    lines = [Text(), *machines_table(bill, width, gone=True)]
    return [
        *lines,
        *wrapped(f"Total {total(spent)}, estimated from price and time; the provider's invoice decides.", width),
    ]


def as_document(outcome: TeardownOutcome) -> DownReport:
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
