"""What `tgp down` shows: what will go, what would buy again, how far it is, and the last bill."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.core.model.survey import Inspection, Survey
from tgp.core.rules.buyers import Buyer, written_again
from tgp.core.rules.holdings import Holding, holdings, hourly_total, lives
from tgp.surfaces.cli.holdings_view import buyer_item, buyers_lines, costing, machine_item, machines_table
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import document, dollars, usd, wrapped

PROVEN = 0
NOT_PROVEN = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended."""

    title: str  # of the cluster
    survey: Survey  # the last look
    proven: bool  # nothing of ours is in the complete lists of everybody, twice
    bill: tuple[Holding, ...] = ()  # each machine there was, with what it cost by our reckoning
    gave_up: str = ""  # why nobody waits on
    again: tuple[Buyer, ...] = ()  # who buys once the hold is released

    @property
    def left(self) -> tuple[Holding, ...]:
        return holdings(self.survey)


def plan(title: str, survey: Survey, width: int) -> Group:
    """Before anything is done."""
    held = holdings(survey)
    lines = wrapped(f"Everything of cluster {title} ({survey.cluster}) will be given back.", width, style="bold")
    lines += wrapped(costing(held), width)
    lines += machines_table(held, width) if held else []
    count = sum(map(lives, survey.requests))
    requests = "1 GPURequest" if count == 1 else f"{count} GPURequests"
    lost = " What is on the machines is lost." if held else ""
    lines += wrapped(
        f"{requests} will be deleted.{lost}" if count else f"No GPURequest is left to delete.{lost}", width
    )
    if again := written_again(survey):
        lines += [Text(), *wrapped("These would buy again once the hold is released:", width, style="yellow")]
        lines += buyers_lines(again, width)
    for one in blind(survey):
        lines += wrapped(f"{one.name} cannot be asked: {one.why}. What is there stays unknown.", width, style="yellow")
    return Group(*lines)


def blind(survey: Survey) -> tuple[Inspection, ...]:
    """Whose silence keeps the proof from being one: not a machine of one's own that nothing here switched on."""
    needed = {holding.till for holding in holdings(survey)}
    return tuple(one for one in survey.unasked if not one.owned or one.till.name in needed)


def remaining(survey: Survey) -> str:
    """One line while it lasts."""
    held = holdings(survey)
    silent = ", ".join(one.name for one in blind(survey))
    rest = f"; no answer from {silent}" if silent else ""
    if not held:
        return f"nothing is listed any more{rest}; asking again, to be sure"
    machines = "1 machine" if len(held) == 1 else f"{len(held)} machines"
    return f"{machines} left, ${dollars(hourly_total(held))} an hour{rest}"


def exit_code(outcome: Outcome) -> int:
    return PROVEN if outcome.proven else NOT_PROVEN


def verdict(outcome: Outcome) -> str:
    if outcome.proven and not outcome.survey.inspections:
        return "There is nothing to give back: no class, no key and no request names a provider."
    if outcome.proven:
        return "Everything is given back: every provider was asked, twice, and lists nothing of this cluster."
    left = outcome.left
    silent = blind(outcome.survey)
    parts = [f"Not proven: {outcome.gave_up or 'not everybody could be asked'}."]
    if left:
        names = ", ".join(f"{one.name} at {one.provider}" for one in left)
        parts.append(f"Left: {names}: ${dollars(hourly_total(left))} an hour.")
    if silent:
        parts.append(f"Unknown: {', '.join(one.name for one in silent)}. Unknown is not none.")
    return " ".join(parts)


def render(outcome: Outcome, width: int) -> Group:
    survey = outcome.survey
    lines = wrapped(verdict(outcome), width, style="bold" if outcome.proven else "bold red")
    lines += _bill(outcome.bill, width)
    stuck = [str(record.key) for record in survey.requests if lives(record)]
    if stuck and outcome.proven:
        words = f"Still written down, until the operator lets go of them: {', '.join(stuck)}. They cost nothing."
        lines += wrapped(words, width)
    if survey.hold is not None:
        lines += wrapped("The hold stays, so nothing is bought again: tgp release takes it off.", width)
    if outcome.again:
        lines += [*wrapped("Released, these would buy again:", width), *buyers_lines(outcome.again, width)]
    lines += next_lines("tgp cost" if outcome.proven else "tgp doctor")
    return Group(*lines)


def _bill(bill: Sequence[Holding], width: int) -> list[Text]:
    if not bill:
        return []
    total = sum(holding.spent_microusd for holding in bill)
    lines = [Text(), *machines_table(bill, width, gone=True)]
    return [*lines, *wrapped(f"In all ${dollars(total)}, by price and time; the provider's invoice decides.", width)]


def as_document(outcome: Outcome) -> dict[str, Any]:
    return document(
        "DownReport",
        cluster=outcome.survey.cluster,
        context=outcome.title,
        proven=outcome.proven,
        message=verdict(outcome),
        left=[machine_item(one) for one in outcome.left],
        leftUsdPerHour=usd(hourly_total(outcome.left)),
        unasked=[{"provider": one.name, "message": one.why} for one in blind(outcome.survey)],
        bill=[machine_item(one) for one in outcome.bill],
        billUsd=usd(sum(one.spent_microusd for one in outcome.bill)),
        requests=[str(record.key) for record in outcome.survey.requests if lives(record)],
        held=outcome.survey.hold is not None,
        wouldBuyAgain=[buyer_item(buyer) for buyer in outcome.again],
        exitCode=exit_code(outcome),
    )
