"""`python -m tools.day`: writes docs/media/day.txt, a day of `make run` in virtual time: figures, and some screens.

And docs/media/evening.txt: what happened to machines of pools in its afternoon and evening, and to machines you own.

The same run every time, so the text changes only when what it shows does. It takes some minutes.
"""

import io
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from tgp.adapters.kube.events import CORE_EVENT as EVENT
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, NODE, POD
from tgp.core.model.costs import read_amount
from tgp.core.model.money import total
from tgp.interfaces.terminal.screen import TerminalScreen
from tgp.interfaces.terminal.snapshot import Snapshot
from tgp.sim.scaled import FACTOR
from tools.demo_simulation import DemoSimulation

RECORDING = Path(__file__).parents[1] / "docs" / "media" / "day.txt"
EVENING = RECORDING.with_name("evening.txt")
EVENING_FROM, EVENING_UNTIL = 3 * 60, 14 * 60  # minutes into the world
TOLD = ("DisruptionLaunching", "DisruptionTerminating", "DisruptionBlocked", "Unconsolidatable", "Terminating", "Lost")
WIDTH, HEIGHT = 100, 32
HOURS = 24
STEP = 5  # minutes between two looks
LOOK = 0.25  # of them with the view, which reads everything again
ROW_EVERY = 30  # minutes
IDLE = timedelta(minutes=10)  # consolidateAfter of the demo's pools
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
    booted: Mapping[str, timedelta]  # by uid of a request of a pool: how long its machine took from order to Ready

    @property
    def alone_microusd(self) -> int:
        return self.snapshot.plan.alone_microusd if self.snapshot.plan is not None else 0

    def cells(self) -> tuple[str, ...]:
        shown, plan = self.snapshot, self.snapshot.plan
        gap = f", within {plan.gap} of the best" if plan is not None and plan.gap and plan.orders else ""
        gap += f" without {plan.gap_without}" if gap and plan is not None and plan.gap_without else ""
        return (
            _time_of(shown),
            str(len(shown.waiting)),
            str(sum(each.gpus_used for each in shown.machines)),
            str(self.machines),
            total(self.hourly_microusd),
            total(self.alone_microusd),
            f"{plan.at:%H:%M} ordered {plan.orders}{gap}" if plan is not None else "",
        )


def _time_of(snapshot: Snapshot) -> str:
    return f"{snapshot.now + timedelta(seconds=1):%H:%M}"  # of a sum of parts of a minute


def looks(simulation: DemoSimulation, hours: float) -> Iterator[tuple[int, Look]]:
    for minutes in range(STEP, int(hours * 60) + 1, STEP):
        simulation.run(minutes=STEP - LOOK, with_view=False)
        simulation.run(minutes=LOOK)
        pools = list(simulation.world.server.local_api.objects(GPU_NODE_POOL))
        requests = simulation.world.server.local_api.objects(GPU_REQUEST)
        yield minutes, _look(_snapshot(simulation), [pool.get("status", {}) for pool in pools], _booted(requests))


def _snapshot(simulation: DemoSimulation) -> Snapshot:
    return simulation.snapshot(
        "tgp demo  http://127.0.0.1:8001", "kubectl --kubeconfig .tgp/kubeconfig", f"{FACTOR:g}x"
    )


def _booted(requests: Iterable[Mapping[str, Any]]) -> dict[str, timedelta]:
    found = {}
    for each in requests:
        meta, status = each["metadata"], each.get("status", {})
        if "readyAt" in status and "provisionedAt" in status and meta.get("ownerReferences"):
            ordered, ready = (datetime.fromisoformat(status[name]) for name in ("provisionedAt", "readyAt"))
            found[meta["uid"]] = max(ready - ordered, timedelta(0))
    return found


def _look(snapshot: Snapshot, statuses: Iterable[Mapping[str, object]], booted: Mapping[str, timedelta]) -> Look:
    held = list(statuses)
    costs = [cost for each in held if isinstance(cost := each.get("wouldHaveCost"), dict)]
    return Look(
        snapshot,
        sum(int(str(each.get("nodeCount", 0))) for each in held),
        sum(read_amount(str(each.get("hourlyCost", ""))) or 0 for each in held),
        sum(read_amount(str(each["totalCost"])) or 0 for each in costs),
        booted,
    )


class OneEach:
    """What one machine for each pod would cost: while the pod runs, while the machine boots, and while it is idle.

    It boots as long as machines of pools did on average, and is terminated as they are: once it has been idle.
    """

    def __init__(self) -> None:
        self._running: Mapping[str, int] = {}  # by uid of a pod: its machine's price
        self._booted: dict[str, timedelta] = {}
        self._began = self._idle = self._ran = 0  # micro-dollars: an hour, of all that began; and in all

    def look(self, look: Look) -> None:
        plan = look.snapshot.plan
        now = plan.alone_of if plan is not None else {}
        self._began += sum(price for uid, price in now.items() if uid not in self._running)
        ended = sum(price for uid, price in self._running.items() if uid not in now)
        self._idle += int(ended * (IDLE / timedelta(hours=1)))
        self._ran += sum(now.values()) * STEP // 60
        self._running = now
        self._booted.update(look.booted)

    @property
    def boots(self) -> timedelta:
        return sum(self._booted.values(), timedelta(0)) / max(len(self._booted), 1)

    @property
    def microusd(self) -> int:
        return self._ran + self._idle + int(self._began * (self.boots / timedelta(hours=1)))


class Evening:
    """What Events tell of machines of pools, and when machines you own go on and off."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], str] = {}  # (object, reason, message) → when
        self._on: dict[str, bool] = {}
        self.switched: list[str] = []

    def look(self, simulation: DemoSimulation, minutes: int, now: str) -> None:
        if minutes > EVENING_UNTIL:
            return
        stage = simulation.world.server.local_api
        for event in stage.objects(EVENT):
            about, reason = event["involvedObject"], event["reason"]
            if about["kind"] == GPU_REQUEST.kind and reason in TOLD and minutes >= EVENING_FROM:
                at = str(event.get("lastTimestamp") or event.get("eventTime") or "")[11:16]
                self._told.setdefault((about["name"], reason, event["message"]), at or now)
        owned = {each["name"] for record in stage.objects(GPU_NODE_CLASS) for each in _machines_of(record)}
        for node in stage.objects(NODE):
            name, on = node["metadata"]["name"], _is_ready(node)
            if name in owned and self._on.get(name, False) != on:
                self._on[name] = on
                pods = sorted(pod["metadata"]["name"] for pod in stage.objects(POD) if _asks_there(pod, name))
                work = f", for {', '.join(pods)}" if on and pods else ""
                self.switched.append(f"{now}  {name} is {'on' if on else 'off'}{work}")

    def lines(self) -> list[str]:
        told = sorted((at, name, f"{reason}: {message}") for (name, reason, message), at in self._told.items())
        found = [
            "# The afternoon and evening of `make run`, made by `python -m tools.day`: Events of machines of pools.",
            "",
        ]
        for at, name, text in told:
            found += textwrap.wrap(f"{at}  {name}  {text}", WIDTH, subsequent_indent=" " * 7)
        return [*found, "", "# Machines you own, when their Nodes became Ready and ceased to be.", "", *self.switched]


def _machines_of(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for provider in record["spec"].get("providers", ()):
        yield from (provider.get("settings") or {}).get("machines", ())


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _asks_there(pod: Mapping[str, Any], node: str) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    limits = [each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"]]
    return pod["spec"].get("nodeName") == node and not ended and any("nvidia.com/gpu" in each for each in limits)


def recorded(hours: float = HOURS, evening: Evening | None = None) -> list[str]:
    rows, screens, paid, alone = [], list[str](), 0, OneEach()
    last = None
    with DemoSimulation() as simulation:
        for minutes, look in looks(simulation, hours):
            last = look
            if evening is not None:
                evening.look(simulation, minutes, _time_of(look.snapshot))
            paid += look.hourly_microusd * STEP // 60
            alone.look(look)
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
        f"Machines of pools cost {total(paid)}, starting and empty ones included.",
        f"One machine for each pod would have cost {total(alone.microusd)}: while it boots ({_minutes(alone.boots)},",
        f"as machines of pools took), while its pod runs, and idle for {_minutes(IDLE)} after that.",
        f"Pool web/what-if, which only observes, would have cost {total(observed)} more.",
        *screens,
    ]


def _minutes(length: timedelta) -> str:
    return f"{length / timedelta(minutes=1):.0f} minutes"


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
    evening = Evening()
    for path, lines in ((RECORDING, recorded(evening=evening)), (EVENING, evening.lines())):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
