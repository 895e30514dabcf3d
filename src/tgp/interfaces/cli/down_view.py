"""What `tgp down` prints: what it will terminate, what would buy again, its progress, and the last bill."""

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from tgp.core.budgets.admission import GATE
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.money import dollars, total
from tgp.core.model.pod import COUNTED
from tgp.core.reports.machine_costs import MachineCost, hourly_total, lives, machine_costs
from tgp.core.reports.pending_purchases import written_again
from tgp.interfaces.cli.holdings_view import machines_table, purchase_lines
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.services.documents.down import TeardownOutcome, blind, verdict
from tgp.services.documents.machines import costing

JOBS_SHOWN = 5
DELETE_BUDGETS = "kubectl delete gpuworkloadbudgets.tgp.io --all --all-namespaces"


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


def remaining(inventory: ClusterInventory) -> str:
    """The progress in one line."""
    held = machine_costs(inventory)
    silent = ", ".join(one.name for one in blind(inventory))
    rest = f"; no answer from {silent}" if silent else ""
    if not held:
        return f"no machine is listed any more{rest}; asking once more"
    machines = "1 machine" if len(held) == 1 else f"{len(held)} machines"
    return f"{machines} left, {dollars(hourly_total(held))} an hour{rest}"


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
            f"{pods} freed from finalizer {COUNTED}, with which budgets of accounting Exact hold pods.", width
        )
    if waits := waiting_for_budgets(inventory):
        lines += wrapped(waits, width, style="yellow")
    if inventory.hold is not None:
        lines += wrapped("Purchases stay paused, so nothing is bought again: tgp release resumes them.", width)
    if outcome.again:
        lines += [*wrapped("These would buy again after tgp release:", width), *purchase_lines(outcome.again, width)]
    lines += next_lines("tgp cost" if outcome.proven else "tgp doctor")
    return Group(*lines)


def waiting_for_budgets(inventory: ClusterInventory) -> str:
    """What only the operator releases, and how that is asked for while it still runs; empty: nothing waits."""
    gated, suspended = len(inventory.gated_pods), [str(key) for key in inventory.suspended_jobs]
    parts = [f"{gated} pod{'' if gated == 1 else 's'} behind the gate {GATE}"] if gated else []
    if suspended:
        more = f" and {len(suspended) - JOBS_SHOWN} more" if len(suspended) > JOBS_SHOWN else ""
        parts.append(f"suspended Jobs: {', '.join(suspended[:JOBS_SHOWN])}{more}")
    if not parts:
        return ""
    return (
        f"Budgets hold {' and '.join(parts)}. The operator releases them when the budgets are gone: before you "
        f"uninstall it, run {DELETE_BUDGETS}"
    )


def _bill(bill: Sequence[MachineCost], width: int) -> list[Text]:
    if not bill:
        return []
    spent = sum(holding.spent_microusd for holding in bill)
    lines = [Text(), *machines_table(bill, width, gone=True)]
    return [
        *lines,
        *wrapped(f"Total {total(spent)}, estimated from price and time; the provider's invoice decides.", width),
    ]
