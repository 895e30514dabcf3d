"""`python -m tools.day`: writes docs/media/day.txt, a day of `make run` in virtual time: figures, and some screens.

The same run every time, so the text changes only when what it shows does. It takes some minutes.
"""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from tgp.api.resource import GPU_NODE_POOL
from tgp.core.model.costs import read_amount
from tgp.core.model.money import rounded
from tgp.interfaces.terminal.screen import TerminalScreen
from tgp.interfaces.terminal.snapshot import Snapshot
from tgp.sim.scaled import FACTOR
from tools.demo_simulation import DemoSimulation

RECORDING = Path(__file__).parents[1] / "docs" / "media" / "day.txt"
WIDTH, HEIGHT = 100, 32
HOURS = 24
STEP = 5  # minutes between two looks
LOOK = 0.25  # of them with the view, which reads everything anew
ROW_EVERY = 30  # minutes
SCREENS = {  # minutes into the world, and what is seen there
    135: "the morning: pods came at once, and machines are on their way",
    150: "a quarter of an hour later",
    23 * 60: "the night",
}
HEADS = ("time", "pods waiting", "GPUs used", "machines", "$/h", "one each $/h", "last plan")


@dataclass(frozen=True, slots=True)
class Look:
    """The pools at one moment."""

    snapshot: Snapshot
    machines: int
    hourly_microusd: int  # of all machines of pools, also those that start or are empty
    would_have_cost: int  # micro-dollars so far, of the pool that observes

    @property
    def alone_microusd(self) -> int:
        return self.snapshot.plan.alone_microusd if self.snapshot.plan is not None else 0

    def cells(self) -> tuple[str, ...]:
        shown, plan = self.snapshot, self.snapshot.plan
        gap = f", within {plan.gap} of the best" if plan is not None and plan.gap and plan.orders else ""
        return (
            _time_of(shown),
            str(len(shown.waiting)),
            str(sum(each.gpus_used for each in shown.machines)),
            str(self.machines),
            rounded(self.hourly_microusd),
            rounded(self.alone_microusd),
            f"{plan.at:%H:%M} ordered {plan.orders}{gap}" if plan is not None else "",
        )


def _time_of(snapshot: Snapshot) -> str:
    return f"{snapshot.now + timedelta(seconds=1):%H:%M}"  # of a sum of parts of a minute


def looks(simulation: DemoSimulation, hours: float) -> Iterator[tuple[int, Look]]:
    for minutes in range(STEP, int(hours * 60) + 1, STEP):
        simulation.run(minutes=STEP - LOOK, with_view=False)
        simulation.run(minutes=LOOK)
        pools = list(simulation.world.server.local_api.objects(GPU_NODE_POOL))
        yield minutes, _look(_snapshot(simulation), [pool.get("status", {}) for pool in pools])


def _snapshot(simulation: DemoSimulation) -> Snapshot:
    return simulation.snapshot(
        "tgp demo  http://127.0.0.1:8001", "kubectl --kubeconfig .tgp/kubeconfig", f"{FACTOR:g}x"
    )


def _look(snapshot: Snapshot, statuses: Iterable[Mapping[str, object]]) -> Look:
    held = list(statuses)
    costs = [cost for each in held if isinstance(cost := each.get("wouldHaveCost"), dict)]
    return Look(
        snapshot,
        sum(int(str(each.get("nodeCount", 0))) for each in held),
        sum(read_amount(str(each.get("hourlyCost", ""))) or 0 for each in held),
        sum(read_amount(str(each["totalCost"])) or 0 for each in costs),
    )


def recorded(hours: float = HOURS) -> list[str]:
    rows, screens, paid, alone = [], list[str](), 0, 0
    last = None
    with DemoSimulation() as simulation:
        for minutes, look in looks(simulation, hours):
            last = look
            paid += look.hourly_microusd * STEP // 60
            alone += look.alone_microusd * STEP // 60
            if minutes % ROW_EVERY == 0:
                rows.append(look.cells())
            if minutes in SCREENS:
                screens += ["", f"## {_time_of(look.snapshot)}, {SCREENS[minutes]}", "", *_drawn(look.snapshot)]
    observed = last.would_have_cost if last is not None else 0
    return [
        f"# {hours:g} hours of `make run`, made by `python -m tools.day`: the pools, every {ROW_EVERY} minutes.",
        "# machines and $/h: all that pools have, also those that start or are empty.",
        "# one each: the running pods with one machine each, of the same GPU model, at the prices of that moment.",
        "",
        *_table(rows),
        "",
        f"Machines of pools cost {rounded(paid)}, starting and empty ones included.",
        f"One machine for each pod, for as long as it ran and no longer, would have cost {rounded(alone)}.",
        f"Pool web/what-if, which only observes, would have cost {rounded(observed)} more.",
        *screens,
    ]


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [HEADS, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEADS))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _drawn(snapshot: Snapshot) -> list[str]:
    console = Console(width=WIDTH, height=HEIGHT, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(TerminalScreen(snapshot), height=HEIGHT)
    return [line.rstrip() for line in captured.get().rstrip("\n").split("\n")]


def main() -> int:
    RECORDING.write_text("\n".join(recorded()) + "\n", encoding="utf-8")
    print(f"{RECORDING}: {len(RECORDING.read_text(encoding='utf-8').splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
