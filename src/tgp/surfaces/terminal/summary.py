"""The last words of a run: what ran, for how long, what it did, what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tgp.surfaces.terminal.scene import Scene, age, dollars, plain


@dataclass(frozen=True, slots=True)
class Bill:
    """What one provider charged, by its own count."""

    provider: str
    spent_microusd: int
    rented: int  # machines, from the beginning
    terminated: int  # of them


@dataclass(frozen=True, slots=True)
class Outcome:
    wall: timedelta  # by the clock on the wall
    passed: timedelta  # in the world that was shown
    parting: str  # what is left of it, or not
    following: tuple[tuple[str, str], ...]  # (command, what it is for)
    bills: tuple[Bill, ...] | None = None  # pretend ones, of those who rented something out; None: money is elsewhere


def summary(scene: Scene, outcome: Outcome) -> list[str]:
    world = "" if outcome.passed <= 2 * outcome.wall else f" ({age(outcome.passed)} in that world)"
    lines = [
        f"{scene.title}: ended after {age(outcome.wall)}{world}.",
        f"  {_facts(scene.operator)}",
        f"  objects: {_things(scene)}; nodes: {len(scene.machines) if scene.machines_known else 'could not be read'}",
        *(f"  ! {trouble}" for trouble in scene.troubles),
        *(_bills(outcome.bills) if outcome.bills is not None else ()),
        outcome.parting,
        "Next:",
    ]
    width = max((len(command) for command, _ in outcome.following), default=0)
    lines += [f"  {command:<{width}}  {purpose}" for command, purpose in outcome.following]
    return [line if line.startswith(" ") else plain(line) for line in lines]


def _bills(bills: tuple[Bill, ...]) -> list[str]:
    if not bills:
        return ["  bill: $0.00; no machine was rented"]
    spent, machines = sum(bill.spent_microusd for bill in bills), _machines(bills)
    width = max(len(bill.provider) for bill in bills)
    rows = [f"    {bill.provider:<{width}}  {dollars(bill.spent_microusd)}, {_machines((bill,))}" for bill in bills]
    return [f"  bill: {dollars(spent)} of pretend money, {machines}", *rows]


def _machines(bills: tuple[Bill, ...]) -> str:
    rented, terminated = sum(bill.rented for bill in bills), sum(bill.terminated for bill in bills)
    return f"{rented} {'machine' if rented == 1 else 'machines'} rented, {terminated} terminated"


def _facts(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _things(scene: Scene) -> str:
    return f"{len(scene.things)}, {_wellbeing(scene)}" if scene.things_known else "could not be read"


def _wellbeing(scene: Scene) -> str:
    if not scene.unhappy:
        return "none of them unhappy"
    named = [f"{thing.label} ({thing.reason})" for thing in scene.things if thing.good is False]
    shown = ", ".join(named[:3])
    return f"{scene.unhappy} unhappy: {shown}" + (f" and {len(named) - 3} more" if len(named) > 3 else "")
