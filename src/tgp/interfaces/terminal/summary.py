"""The summary at the end of a run: what ran, for how long, its cost, and the next commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tgp.core.model.money import total
from tgp.core.model.text import plain
from tgp.interfaces.terminal.snapshot import Snapshot, age


@dataclass(frozen=True, slots=True)
class ProviderBill:
    """What one provider charged, by its own count."""

    provider: str
    spent_microusd: int
    rented: int  # machines, in total
    terminated: int  # of them


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    wall: timedelta  # real time
    passed: timedelta  # time in the simulated world
    parting: str  # what is left afterwards
    following: tuple[tuple[str, str], ...]  # (command, what it is for)
    bills: tuple[ProviderBill, ...] | None = None  # simulated bills; None: not a simulation


def summary(snapshot: Snapshot, outcome: DemoOutcome) -> list[str]:
    world = "" if outcome.passed <= 2 * outcome.wall else f" ({age(outcome.passed)} in that world)"
    lines = [
        f"{snapshot.title}: ended after {age(outcome.wall)}{world}.",
        f"  {_facts(snapshot.operator)}",
        f"  objects: {_objects(snapshot)}; nodes: {_nodes(snapshot)}",
        *(f"  ! {trouble}" for trouble in snapshot.troubles),
        *(_bills(outcome.bills) if outcome.bills is not None else ()),
        outcome.parting,
        "Next:",
    ]
    width = max((len(command) for command, _ in outcome.following), default=0)
    lines += [f"  {command:<{width}}  {purpose}" for command, purpose in outcome.following]
    return [line if line.startswith(" ") else plain(line) for line in lines]


def _bills(bills: tuple[ProviderBill, ...]) -> list[str]:
    if not bills:
        return ["  bill: $0.00; no machine was rented"]
    spent, machines = sum(bill.spent_microusd for bill in bills), _machines(bills)
    width = max(len(bill.provider) for bill in bills)
    rows = [f"    {bill.provider:<{width}}  {total(bill.spent_microusd)}, {_machines((bill,))}" for bill in bills]
    return [f"  bill: {total(spent)} of simulated money, {machines}", *rows]


def _machines(bills: tuple[ProviderBill, ...]) -> str:
    rented, terminated = sum(bill.rented for bill in bills), sum(bill.terminated for bill in bills)
    return f"{rented} {'machine' if rented == 1 else 'machines'} rented, {terminated} terminated"


def _facts(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _nodes(snapshot: Snapshot) -> str:
    return str(len(snapshot.machines)) if snapshot.machines_known else "could not be read"


def _objects(snapshot: Snapshot) -> str:
    return f"{len(snapshot.objects)}, {_problems(snapshot)}" if snapshot.objects_known else "could not be read"


def _problems(snapshot: Snapshot) -> str:
    if not snapshot.problems:
        return "no problems"
    named = [f"{row.label} ({row.reason})" for row in snapshot.objects if row.good is False]
    shown = ", ".join(named[:3])
    return f"{snapshot.problems} with problems: {shown}" + (f" and {len(named) - 3} more" if len(named) > 3 else "")
